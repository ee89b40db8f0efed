//! Positioning times: the arm, the rotating disk, the passage under the head.
//!
//! A pure function from (head, time, sectors) to (seek, rotation, transfer, new head). The simulated component obeys
//! it, and schedulers and planners query it. Integer nanoseconds; curves are tabulated when a drive is loaded.

use seekless_core::{Extent, Nanos};

use super::layout::{Layout, Piece};
use super::seek;
use crate::spec::Spec;

/// Position of the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Cylinder.
    pub cylinder: u64,
    /// Surface in use.
    pub head: u64,
}

/// Duration of an access, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Moving the arm or switching heads, and settling.
    pub seek: Nanos,
    /// Waiting for the sector.
    pub rotation: Nanos,
    /// Sectors under the head, or on the bus.
    pub transfer: Nanos,
    /// Command handling.
    pub overhead: Nanos,
    /// Distance of the arm's move to the first sector, in cylinders.
    pub distance: u64,
}

impl Access {
    /// The sum.
    pub fn total(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.overhead
    }

    /// Subtracts `waited`, first from the command handling, then from the bus transfer.
    pub fn without(self, waited: Nanos) -> Access {
        let overhead = self.overhead.since(waited);
        let transfer = self.transfer.since(waited.since(self.overhead));
        Access { transfer, overhead, ..self }
    }
}

/// The moving parts of a drive.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// By distance in cylinders: seek time in nanoseconds.
    seek: Vec<u32>,
    /// Seek times before a write, where they differ.
    write_seek: Option<Vec<u32>>,
    revolution: u64,
    head_switch: u64,
    /// Extra settle time before a write; may be negative.
    write_settle: i64,
}

/// Microseconds in nanoseconds.
pub fn nanos(micros: f64) -> u64 {
    (micros * 1_000.0).round() as u64
}

impl Mechanics {
    /// The mechanics of a description.
    pub fn new(spec: &Spec) -> Mechanics {
        Mechanics {
            seek: seek::tabulate(&spec.seek, spec.cylinders()),
            write_seek: spec.write_seek.as_ref().map(|curve| seek::tabulate(curve, spec.cylinders())),
            revolution: (60e9 / spec.rpm).round() as u64,
            head_switch: nanos(spec.head_switch_us),
            write_settle: (spec.write_settle_us * 1_000.0).round() as i64,
        }
    }

    /// Time of a revolution.
    pub fn revolution(&self) -> Nanos {
        Nanos(self.revolution)
    }

    /// Time to move the arm over `distance` cylinders.
    pub fn seek(&self, distance: u64) -> Nanos {
        Nanos(u64::from(self.seek[distance as usize]))
    }

    /// Time from one track to another: seek and head switch overlap.
    pub fn reach(&self, from: Head, to: &Piece, write: bool) -> u64 {
        self.reach_after(0, from, to, write)
    }

    /// As `reach`, but not before `turn_round` has passed.
    pub fn reach_after(&self, turn_round: u64, from: Head, to: &Piece, write: bool) -> u64 {
        self.move_time(turn_round, from, Head { cylinder: to.cylinder, head: to.head }, write)
    }

    /// As `reach_after`, to a track given as a head position.
    pub fn move_time(&self, turn_round: u64, from: Head, to: Head, write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let switch = if from.head == to.head { 0 } else { self.head_switch };
        let seek = if write { self.write_seek.as_ref().unwrap_or(&self.seek) } else { &self.seek };
        let moving = u64::from(seek[distance as usize]).max(switch);
        let reach = moving.max(turn_round);
        if write && moving > 0 { reach.saturating_add_signed(self.write_settle) } else { reach }
    }

    /// Time from `at` until the disk has rotated to `angle`.
    pub fn wait(&self, angle: u64, at: u64) -> u64 {
        let now = at % self.revolution;
        if angle >= now { angle - now } else { angle + self.revolution - now }
    }

    /// Time that `sectors` of a track take to pass.
    pub fn pass(&self, sectors: u64, per_track: u64) -> u64 {
        sectors * self.revolution / per_track
    }

    /// The access to `at` that begins at time `start` with the head at `head`, without overhead. A transfer over
    /// several tracks seeks and waits at each.
    pub fn access(
        &self,
        layout: &Layout,
        head: Head,
        start: Nanos,
        at: Extent,
        write: bool,
    ) -> (Access, Head) {
        let (mut took, mut head, mut now) = (Access::default(), head, start.0);
        let mut rest = at;
        while rest.sectors > 0 {
            let piece = layout.piece(rest);
            if rest.start == at.start {
                took.distance = head.cylinder.abs_diff(piece.cylinder);
            }
            let seek = self.reach(head, &piece, write);
            let rotation = self.wait(piece.angle, now + seek);
            let transfer = self.pass(piece.at.sectors, piece.per_track);
            took.seek += Nanos(seek);
            took.rotation += Nanos(rotation);
            took.transfer += Nanos(transfer);
            now += seek + rotation + transfer;
            head = Head { cylinder: piece.cylinder, head: piece.head };
            rest = Extent { start: piece.at.end(), sectors: rest.sectors - piece.at.sectors };
        }
        (took, head)
    }
}
