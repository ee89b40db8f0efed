//! A command: requests that go to the device as one.

use seekless_core::{Buffer, Class, Extent, Hints, Op, Zeroes};

use crate::scheduler::Slot;
use crate::work::Sharer;

/// A command: requests that go to the device as one.
#[derive(Debug)]
pub struct Command {
    /// Operation.
    pub op: Op,
    /// Sectors, over all requests.
    pub at: Extent,
    /// Whether a write must be on the media before it is answered, or a read must come from there.
    pub fua: bool,
    /// The class in force.
    pub class: Class,
    /// Requests, in order of address.
    pub sharers: Vec<Sharer>,
    /// Number of foreground requests still waiting.
    pub waiting: usize,
    /// Whether one of its requests was queued while the last command was served.
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

/// A request of a command.
#[derive(Debug)]
pub struct Part {
    /// Sectors.
    pub at: Extent,
    /// What a write writes, or where a read puts its data.
    pub buffer: Buffer,
    /// Attributes, with the class in force.
    pub how: Hints,
    /// How zeroes may be written.
    pub zeroes: Zeroes,
}
