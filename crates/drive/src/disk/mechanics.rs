//! How long it takes: the arm, the turning disk, the passage under the head.
//!
//! One pure function from (head, time, sectors) to (seek, rotation, transfer, new head). The
//! simulated component obeys it, and whoever ranks or plans asks the same one. Integer nanoseconds;
//! curves are tabulated when a drive is loaded.

use seekless_core::{Extent, Nanos};

use super::layout::{Layout, Piece};
use super::seek;
use crate::spec::Spec;

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The cylinder.
    pub cylinder: u64,
    /// The surface in use.
    pub head: u64,
}

/// What an access took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Moving the arm or switching heads, and settling.
    pub seek: Nanos,
    /// Waiting for the sector.
    pub rotation: Nanos,
    /// Sectors under the head, or on the bus.
    pub transfer: Nanos,
    /// Handling the command.
    pub overhead: Nanos,
    /// How far the arm moved to the first sector, in cylinders.
    pub distance: u64,
}

impl Access {
    /// All of it.
    pub fn total(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.overhead
    }

    /// The same without so much of the time that was waited: commands' first, then the bus's.
    pub fn without(self, waited: Nanos) -> Access {
        let overhead = self.overhead.since(waited);
        let transfer = self.transfer.since(waited.since(self.overhead));
        Access { transfer, overhead, ..self }
    }
}

/// A drive's moving parts.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// Nanoseconds by distance in cylinders.
    seek: Vec<u32>,
    /// The same before a write, where that differs.
    write_seek: Option<Vec<u32>>,
    revolution: u64,
    head_switch: u64,
    /// More for a write, or less.
    write_settle: i64,
}

/// So many microseconds in nanoseconds.
pub fn nanos(micros: f64) -> u64 {
    (micros * 1_000.0).round() as u64
}

impl Mechanics {
    /// The moving parts that a description gives.
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

    /// Time from one track to another: the arm and the head switch go on at once.
    pub fn reach(&self, from: Head, to: &Piece, write: bool) -> u64 {
        self.reach_after(0, from, to, write)
    }

    /// The same if the head may not be there before `turn_round` has passed.
    pub fn reach_after(&self, turn_round: u64, from: Head, to: &Piece, write: bool) -> u64 {
        self.go(turn_round, from, Head { cylinder: to.cylinder, head: to.head }, write)
    }

    /// The same to any place of a track.
    pub fn go(&self, turn_round: u64, from: Head, to: Head, write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let switch = if from.head == to.head { 0 } else { self.head_switch };
        let seek = if write { self.write_seek.as_ref().unwrap_or(&self.seek) } else { &self.seek };
        let moving = u64::from(seek[distance as usize]).max(switch);
        let reach = moving.max(turn_round);
        if write && moving > 0 { reach.saturating_add_signed(self.write_settle) } else { reach }
    }

    /// Time from `at` until the disk has turned to `angle`.
    pub fn wait(&self, angle: u64, at: u64) -> u64 {
        let now = at % self.revolution;
        if angle >= now { angle - now } else { angle + self.revolution - now }
    }

    /// Time that so many sectors of a track take to pass.
    pub fn pass(&self, sectors: u64, per_track: u64) -> u64 {
        sectors * self.revolution / per_track
    }

    /// The access to `at` that begins at time `start` with the head at `head`; overhead is the
    /// caller's. A transfer over several tracks seeks and waits at each.
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
