//! What the devices and volumes of a trace are called. A record has a number; people have names.
//!
//! Invariant: a name has one number in all files of a trace, given in the order in which the names were
//! first read.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use seekless_core::{NameId, Names};

/// How a format tells one volume from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As Linux does: `major << 20 | minor`, which it writes `major,minor`.
    #[default]
    Linux,
    /// By a number of its own.
    Numbered,
    /// By a name, for which we make a number.
    Named,
}

/// More than any fleet that was traced; a bound for hostile input.
pub const MAX_NAMED: u32 = 1 << 16;

/// The volumes of one trace. Clones are the same table.
#[derive(Clone, Default)]
pub struct Volumes {
    naming: Rc<Cell<Naming>>,
    /// Whether a file has said so itself.
    said: Rc<Cell<bool>>,
    names: Rc<RefCell<Names>>,
}

impl Volumes {
    /// None yet, of a format that names them so.
    pub fn new(naming: Naming) -> Volumes {
        Volumes { naming: Rc::new(Cell::new(naming)), said: Rc::default(), names: Rc::default() }
    }

    /// How they are told apart.
    pub fn naming(&self) -> Naming {
        self.naming.get()
    }

    /// A file says itself how it tells them apart, before it names any. The error is what a file before it
    /// said, if that was something else.
    pub fn say(&self, naming: Naming) -> Result<(), Naming> {
        if self.said.replace(true) && self.naming() != naming {
            return Err(self.naming());
        }
        self.naming.set(naming);
        Ok(())
    }

    /// What volume `device` is called.
    pub fn name(&self, device: u32) -> String {
        match self.naming() {
            Naming::Linux => format!("{},{}", device >> 20, device & 0x000f_ffff),
            Naming::Numbered => device.to_string(),
            Naming::Named => {
                // The table's first name is that of the unknown.
                self.names.borrow().get(NameId(device.saturating_add(1))).to_owned()
            }
        }
    }

    /// The number of the volume that is called so; `None` if there are too many.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let shown: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let number = self.names.borrow_mut().intern(&shown).0.saturating_sub(1);
        (number < MAX_NAMED).then_some(number)
    }
}

impl fmt::Debug for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} volumes", self.naming())
    }
}
