//! What a scheduler asks of a drive: where a request begins, and how long the head takes to get there.
//!
//! A simulated drive answers from its own state; in front of a real one a model of it can.

use seekless_core::{Lba, Nanos};

/// Where a request begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Counted from the outer edge.
    pub cylinder: u64,
    /// The surface.
    pub head: u64,
    /// When it comes under the head, in nanoseconds after the index mark.
    pub angle: u64,
}

/// What it takes to get the head to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Before the head may go there, beyond what a request costs that was handled while the one before
    /// was on the media.
    pub handling: Nanos,
    /// Moving the arm or switching heads, and settling.
    pub seek: Nanos,
    /// Waiting for the sector.
    pub rotation: Nanos,
}

impl Reach {
    /// The positioning time.
    pub fn total(&self) -> Nanos {
        self.handling + self.seek + self.rotation
    }
}

/// Knows where sectors are; that does not change.
pub trait Places {
    /// Where a sector is.
    fn place(&self, lba: Lba) -> Place;
}

/// A drive at the time of a decision.
pub trait Positioning {
    /// Where the arm is.
    fn cylinder(&self) -> u64;

    /// What it takes to get to `place` for a read or write, which was `queued` while the command before
    /// was carried out, or came after it.
    fn reach(&self, place: Place, write: bool, queued: bool) -> Reach;

    /// A time that no request takes less than to reach, be it `distance` cylinders away or farther. It
    /// never falls with the distance, though a drive's seek times may.
    fn at_least(&self, distance: u64) -> Nanos;
}
