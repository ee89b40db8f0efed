//! A component that knows its number in the volume, so that what lies on it can be told.

use std::rc::Rc;

use seekless_core::device::Place;
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, Zeroes};

/// See the file's header. All that is asked of it besides goes to the component.
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
    fn geometry(&self) -> Geometry {
        self.component.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.component.read(at, into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.component.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.component.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.component.discard(at, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.component.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.component)
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }
}
