//! A command: requests that go to the device as one.

use seekless_core::{Class, Extent, Op};

use crate::scheduler::Slot;
use crate::work::Sharer;

/// A command: requests that go to the device as one.
#[derive(Debug)]
pub struct Command {
    /// What.
    pub op: Op,
    /// Where, all together.
    pub at: Extent,
    /// Whether a write has to be on the media before it is answered, or a read has to come from there.
    pub fua: bool,
    /// The class in force.
    pub class: Class,
    /// Whom it is for, in order of address.
    pub sharers: Vec<Sharer>,
    /// How many foreground requests wait besides.
    pub waiting: usize,
    /// Whether one of its requests was in line while the command before was carried out.
    pub queued: bool,
    pub(super) slots: Vec<Slot>,
}

impl Default for Command {
    fn default() -> Self {
        Command {
            op: Op::Flush,
            at: Extent::default(),
            fua: false,
            class: Class::Foreground,
            sharers: Vec::new(),
            waiting: 0,
            queued: false,
            slots: Vec::new(),
        }
    }
}
