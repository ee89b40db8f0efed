//! Files and sockets by numbers that are the same whenever the same things happen, which the system's are not.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

/// Numbers in the order in which things were first seen.
#[derive(Default)]
pub struct Handles {
    known: BTreeMap<RawFd, u32>,
    seen: u32,
}

impl Handles {
    /// The number of a descriptor.
    pub fn of(&mut self, descriptor: RawFd) -> u32 {
        let known = self.known.get(&descriptor).copied();
        known.unwrap_or_else(|| self.new_of(descriptor))
    }

    /// The number of one that was not there before; the system may have used its number for another.
    pub fn new_of(&mut self, descriptor: RawFd) -> u32 {
        self.seen += 1;
        self.known.insert(descriptor, self.seen);
        self.seen
    }
}
