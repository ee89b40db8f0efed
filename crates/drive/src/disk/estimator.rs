//! Positioning times of a drive, estimated without moving its head: the input of position-aware schedulers.
//!
//! Exact for a command that is queued behind the one before and needs the media: seek and rotation are those of serving
//! it. Cache hits are ranked like misses. For a command that is not queued, costs common to all are left out.

use std::sync::Arc;

use seekless_core::{Extent, Lba, Nanos};

use super::Drive;
use super::layout::{Layout, Piece};
use super::mechanics::{Head, Mechanics};
use crate::scheduler::positioning::Bounds;
use crate::scheduler::{Place, Positioning, Reach};
use crate::spec::WriteBack;

/// By distance in cylinders: the shortest time to reach a track at this distance or more, in nanoseconds. Measured seek
/// curves are not monotonic; this table is.
pub type AtLeast = Arc<[u32]>;

/// The table of a drive with `cylinders` cylinders.
pub fn at_least(mechanics: &Mechanics, cylinders: u64) -> AtLeast {
    let reach = |cylinder| {
        let to = piece(Place { cylinder, ..Place::default() });
        let [read, write] = [false, true].map(|write| mechanics.reach(Head::default(), &to, write));
        read.min(write).min(u64::from(u32::MAX)) as u32
    };
    let mut times: Vec<u32> = (0..cylinders.max(1) as u32).map(reach).collect();
    for nearer in (1..times.len()).rev() {
        times[nearer - 1] = times[nearer - 1].min(times[nearer]);
    }
    times.into()
}

/// Positioning times of a drive at one time.
pub struct Estimator<'a> {
    mechanics: &'a Mechanics,
    at_least: &'a [u32],
    head: Head,
    /// For a read and a write that are not queued, and for a queued command: the delay after the head is free, the
    /// angle of the disk by then, and how long the turn-round still takes.
    begins: [(Nanos, u64, u64); 3],
    minimum_write_seek: u64,
    /// Where a write continues the one before, which takes no turn-round.
    goes_on: Option<Place>,
}

impl Drive {
    /// Positioning times at `now`, before the next command.
    pub fn estimator(&self, now: Nanos) -> Estimator<'_> {
        let (free, head) = match &self.write_behind {
            Some(write_behind) => (write_behind.done.max(now), write_behind.head),
            None => self.cache.could_stop(&self.layout, &self.mechanics, now).unwrap_or((now, self.head)),
        };
        let early = self.policy.write_back == WriteBack::All;
        let begin = self.timing.begin(now);
        let costs = [self.timing.read_miss(self.after_write), self.timing.write(early, self.after_write)];
        let costs = costs.map(|cost| (begin + Nanos(cost)).since(free));
        let begins = |handling: Nanos| {
            let at = free + handling;
            (handling, at.0 % self.mechanics.revolution().0, self.turned.since(at).0)
        };
        let follows =
            self.timing.turn_round > 0 && self.after_write && self.write_end.0 < self.layout.sectors();
        Estimator {
            mechanics: &self.mechanics,
            at_least: &self.at_least,
            head,
            begins: [costs[0], costs[1], Nanos::ZERO].map(begins),
            minimum_write_seek: self.timing.minimum_write_seek,
            goes_on: follows.then(|| self.place(self.write_end)),
        }
    }

    /// The place of a sector, for schedulers.
    pub fn place(&self, lba: Lba) -> Place {
        place(&self.layout, lba)
    }
}

/// The place of a sector of this layout.
pub fn place(layout: &Layout, lba: Lba) -> Place {
    let Piece { cylinder, head, angle, .. } = layout.piece(Extent { start: lba, sectors: 1 });
    // A description limits cylinders and heads to these types, and a revolution takes less than 2^28 nanoseconds.
    Place { cylinder: cylinder as u32, head: head as u16, angle: angle as u32 }
}

/// A track, for the mechanics.
fn piece(at: Place) -> Piece {
    let (cylinder, head, angle) = (u64::from(at.cylinder), u64::from(at.head), u64::from(at.angle));
    Piece { cylinder, head, angle, per_track: 1, at: Extent::default() }
}

impl Positioning for Estimator<'_> {
    fn cylinder(&self) -> u32 {
        self.head.cylinder as u32
    }

    fn reach(&self, place: Place, write: bool, queued: bool) -> Reach {
        let (handling, begin, turning) = self.begins[if queued { 2 } else { usize::from(write) }];
        let goes_on = write && self.goes_on == Some(place);
        let turn_round = if goes_on { 0 } else { turning };
        let mut seek = self.mechanics.reach_after(turn_round, self.head, &piece(place), write);
        if write && !queued {
            seek = seek.max(self.minimum_write_seek);
        }
        let rotation = self.mechanics.wait(u64::from(place.angle), begin + seek);
        Reach { handling, seek: Nanos(seek), rotation: Nanos(rotation) }
    }

    fn bounds(&self) -> Bounds<'_> {
        let (angle, revolution) = (self.begins[2].1 as u32, self.mechanics.revolution().0 as u32);
        Bounds { seek: self.at_least, angle, revolution }
    }
}
