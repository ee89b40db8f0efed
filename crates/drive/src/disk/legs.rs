//! The head's way, leg by leg: what freeblock scheduling fills.
//!
//! Noted while a command is carried out, and only if somebody wants to know. What the drive did at times that
//! have passed (writing out its buffer) is told too: whoever fills gaps leaves those alone.

use seekless_core::{Extent, Nanos};

use super::mechanics::Head;

/// To sectors of one track, and over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where the head is at `begin`.
    pub from: Head,
    /// From when on it may move.
    pub begin: Nanos,
    /// The track it goes to.
    pub to: Head,
    /// When it is there.
    pub landed: Nanos,
    /// When the first of the sectors passes: until then it waits.
    pub first: Nanos,
    /// When all have passed.
    pub end: Nanos,
    /// The sectors.
    pub at: Extent,
    /// Whether they are written.
    pub write: bool,
    /// Whether the cache keeps what passes while the head waits, so that it has to be there.
    pub kept: bool,
}

impl Leg {
    /// The head goes it so much later.
    pub fn postpone(&mut self, by: Nanos) {
        for time in [&mut self.begin, &mut self.landed, &mut self.first, &mut self.end] {
            *time += by;
        }
    }
}

/// The legs of commands, if they are wanted.
#[derive(Clone, Debug, Default)]
pub struct Legs {
    wanted: bool,
    list: Vec<Leg>,
}

impl Legs {
    /// From now on they are noted.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// One more.
    pub fn add(&mut self, leg: impl FnOnce() -> Leg) {
        if self.wanted {
            self.list.push(leg());
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// All but the first so many were not gone.
    pub fn forget_from(&mut self, number: usize) {
        self.list.truncate(number);
    }

    /// Those since this was asked last go into `legs`, instead of what is there.
    pub fn take(&mut self, legs: &mut Vec<Leg>) {
        legs.clear();
        std::mem::swap(&mut self.list, legs);
    }
}
