//! Positioning queries of schedulers: a request's place, and the time to reach it.
//!
//! A simulated drive answers from its own state; for a real drive a model can.

use seekless_core::{Lba, Nanos};

/// The place of a request's first sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, counted from the outer edge.
    pub cylinder: u32,
    /// When it passes under the head, in nanoseconds after the index mark.
    pub angle: u32,
    /// Surface.
    pub head: u16,
}

/// Time to reach a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Delay before the head may move, beyond that of a queued request, which was handled while the one before was on
    /// the media.
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

/// The places of sectors, which do not change.
pub trait Places {
    /// The place of a sector.
    fn place(&self, lba: Lba) -> Place;
}

/// A drive at the time of a decision.
pub trait Positioning {
    /// Position of the arm.
    fn cylinder(&self) -> u32;

    /// Time to reach `place` for a read or write that was `queued` while the last command was served, or arrived after
    /// it.
    fn reach(&self, place: Place, write: bool, queued: bool) -> Reach;

    /// Lower bounds of `reach`.
    fn bounds(&self) -> Bounds<'_>;
}

/// Lower bounds of positioning times, to skip requests cheaply.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// By distance in cylinders: the shortest seek of this distance or more, in nanoseconds. Monotonic, though a
    /// drive's seek times may not be.
    pub seek: &'a [u32],
    /// Angle of the disk when the head is free, in nanoseconds after the index mark.
    pub angle: u32,
    /// The time of a revolution in nanoseconds.
    pub revolution: u32,
}

impl Bounds<'_> {
    /// The shortest seek of `distance` cylinders or more.
    pub fn seek(&self, distance: u32) -> Nanos {
        Nanos(u64::from(self.seek[distance as usize]))
    }

    /// Whether a place at this angle, that takes at least this seek, may be reached `within` a time. Called for many
    /// places and rarely true: written without branches.
    pub fn may_be_reached(&self, angle: u32, seek: Nanos, within: Nanos) -> bool {
        let later = angle.wrapping_sub(self.angle);
        // Less than a revolution: the smaller one, because the other has wrapped around.
        let passes = u64::from(later.min(later.wrapping_add(self.revolution)));
        // A sector that passes before the seek ends passes again a revolution later.
        let window = within.0.wrapping_sub(seek.0);
        within.0 >= u64::from(self.revolution) || passes.wrapping_sub(seek.0) <= window
    }
}
