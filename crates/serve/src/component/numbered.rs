//! A component that knows its number in the volume, for reports of where data lies.

use std::rc::Rc;

use seekless_core::device::Place;
use seekless_core::{BlockDevice, Extent};

/// See the file's header.
pub struct Numbered {
    number: u32,
    component: Rc<dyn BlockDevice>,
}

impl Numbered {
    /// `component` under this number.
    pub fn new(number: u32, component: Rc<dyn BlockDevice>) -> Numbered {
        Numbered { number, component }
    }
}

impl BlockDevice for Numbered {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.component)
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }
}
