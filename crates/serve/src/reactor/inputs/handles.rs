//! Numbers for files and sockets that are the same in every replay, unlike the system's descriptors.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

/// Numbers in order of first use.
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

    /// The number of a new descriptor; the system may have reused an old one.
    pub fn new_of(&mut self, descriptor: RawFd) -> u32 {
        self.seen += 1;
        self.known.insert(descriptor, self.seen);
        self.seen
    }
}
