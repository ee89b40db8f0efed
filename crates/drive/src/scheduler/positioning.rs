//! What a scheduler asks of a drive: where a request begins, and how long the head takes to get there.
//!
//! A simulated drive answers from its own state; in front of a real one a model of it can.

use seekless_core::{Lba, Nanos};

/// Where a request begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Counted from the outer edge.
    pub cylinder: u32,
    /// When it comes under the head, in nanoseconds after the index mark.
    pub angle: u32,
    /// The surface.
    pub head: u16,
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
    fn cylinder(&self) -> u32;

    /// What it takes to get to `place` for a read or write, which was `queued` while the command before
    /// was carried out, or came after it.
    fn reach(&self, place: Place, write: bool, queued: bool) -> Reach;

    /// What no request can be reached sooner than.
    fn bounds(&self) -> Bounds<'_>;
}

/// Times before which no request is reached, for a scheduler that would rather not look closer.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// By distance in cylinders: the shortest seek so far or farther, in nanoseconds. It never falls with the
    /// distance, though a drive's seek times may.
    pub seek: &'a [u32],
    /// How far the disk will have turned when the head is free, in nanoseconds after the index mark.
    pub angle: u32,
    /// The time of a revolution in nanoseconds.
    pub revolution: u32,
}

impl Bounds<'_> {
    /// Requests so far away or farther take at least this seek.
    pub fn seek(&self, distance: u32) -> Nanos {
        Nanos(u64::from(self.seek[distance as usize]))
    }

    /// Whether a place at this angle, that takes at least this seek, may be reached `within` a time. It is
    /// asked of many and true of few: the comparisons are put so that a processor need not guess.
    pub fn may_be_reached(&self, angle: u32, seek: Nanos, within: Nanos) -> bool {
        let later = angle.wrapping_sub(self.angle);
        // Less than a revolution: the smaller one, because the other has wrapped around.
        let passes = u64::from(later.min(later.wrapping_add(self.revolution)));
        // Who passes before the seek is over passes again a revolution later.
        let window = within.0.wrapping_sub(seek.0);
        within.0 >= u64::from(self.revolution) || passes.wrapping_sub(seek.0) <= window
    }
}
