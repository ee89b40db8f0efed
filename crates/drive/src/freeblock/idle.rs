//! Idle time, which the paper leaves open: while nothing is queued, pending blocks are transferred at full speed, as
//! far as the foreground's mean delay stays within its limit.
//!
//! The head *visits* tracks one after the other. A request that arrives meanwhile waits for a seek that has begun, then
//! starts from where the head is: its delay is that wait, plus the difference in positioning time. A visit is allowed
//! when the longest delay it can cause is covered by what the limit allowed the requests so far. Fault model: none of
//! its own.
//!
//! The region with the largest remaining share is visited first, so that neither the innermost tracks nor the outermost
//! starve.

use seekless_core::Nanos;

use super::direction::Direction;
use super::plan::{Piece, take};
use super::search::Stop;
use super::tracks::{TrackExtent, Window};
use super::value::REGIONS;
use super::{Freeblock, Inner};
use crate::disk::mechanics::Head;
use crate::disk::trajectory::Step;

/// A visit of the head to a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Track to visit.
    pub at: Head,
    /// When the head arrives: it cannot turn back before.
    pub landed: Nanos,
    /// When its transfers there end.
    pub until: Nanos,
}

/// State of idle-time visits, and the delay that they cause.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Where the head was before the visits that no request has followed yet, and when the last one begins.
    home: Option<Head>,
    landed: Nanos,
    /// The region that is being visited.
    region: usize,
    /// Requests so far, and their total delay in nanoseconds: below zero if they were served sooner.
    requests: u64,
    delayed: i64,
    /// Delay of each request until the drive is idle again.
    delay: i64,
}

impl Freeblock {
    /// Whether idle time is used at all.
    pub fn uses_idle_time(&self) -> bool {
        self.inner.borrow().options.idle_delay_limit > Nanos::ZERO
    }

    /// The next visit of a head at `head` that is idle at `now`; `None` if it stays.
    pub fn visit(&self, head: Head, now: Nanos) -> Option<Visit> {
        let mut inner = self.inner.borrow_mut();
        if inner.idle.home.is_none() {
            inner.idle.delay = 0;
        }
        if !inner.may_visit() {
            return None;
        }
        let (at, write) = inner.next_track(head)?;
        let landed = now.0 + inner.mechanics.move_time(inner.turn_round, head, at, write);
        let until = inner.take_track(at, write, landed)?;
        inner.idle.home.get_or_insert(head);
        inner.idle.landed = Nanos(landed);
        inner.stats.visits += 1;
        Some(Visit { at, landed: Nanos(landed), until: Nanos(until) })
    }

    /// A request starts at `now`: pieces that have not passed by then become pending again.
    pub fn interrupt(&self, now: Nanos) {
        let mut inner = self.inner.borrow_mut();
        if inner.idle.home.is_none() {
            return;
        }
        while let Some(piece) = inner.due.pop_back() {
            if piece.to <= now.0 {
                inner.due.push_back(piece);
                return;
            }
            inner.stats.idle_bytes -= piece.sectors * 512;
            inner.give_back(&piece);
        }
    }
}

impl Inner {
    fn may_visit(&self) -> bool {
        let Idle { requests, delayed, .. } = self.idle;
        let limit = self.options.idle_delay_limit.0;
        let last = Head { cylinder: u64::from(self.tracks.cylinders()) - 1, head: 0 };
        let longest =
            self.mechanics.move_time(0, Head::default(), last, true) + self.mechanics.revolution().0;
        let allowed = i128::from(limit) * i128::from(requests + 1);
        let saved = requests == 0 || i128::from(delayed) + i128::from(longest) <= allowed;
        limit > 0 && saved && !self.directions.iter().all(Direction::is_empty)
    }

    /// The track to visit next from `head`, and whether to write there.
    fn next_track(&mut self, head: Head) -> Option<(Head, bool)> {
        if let Some(found) = self.on_cylinder(head.cylinder as u32, head.head) {
            return Some(found);
        }
        let region = |inner: &Inner| inner.value.cylinders(inner.idle.region);
        self.between(head, region(self)).or_else(|| {
            let left = self.left_by_region();
            self.idle.region = self.value.fullest(&left);
            // None of it may be available for taking now.
            self.between(head, region(self)).or_else(|| self.between(head, (0, self.tracks.cylinders())))
        })
    }

    /// As `next_track`, among these cylinders, from the head's on.
    fn between(&self, head: Head, (begin, end): (u32, u32)) -> Option<(Head, bool)> {
        let middle = (head.cylinder as u32).clamp(begin, end);
        for (mut from, to) in [(middle, end), (begin, middle)] {
            while let Some(cylinder) =
                self.directions.iter().filter_map(|direction| direction.up(from, to, 1)).min()
            {
                if let Some(found) = self.on_cylinder(cylinder, head.head) {
                    return Some(found);
                }
                from = cylinder + 1;
            }
        }
        None
    }

    /// The first track of a cylinder, from head `first` on, with pending pieces that may be taken now.
    fn on_cylinder(&self, cylinder: u32, first: u64) -> Option<(Head, bool)> {
        let heads = u64::from(self.tracks.heads());
        for step in 0..heads {
            let at = Head { cylinder: u64::from(cylinder), head: (first + step) % heads };
            for (direction, write) in self.directions.iter().zip([false, true]) {
                let track = self.tracks.track(at);
                let all = |extent: &TrackExtent| direction.counting(extent, [(0, extent.sectors), (0, 0)]);
                if !direction.is_empty() && self.tracks.on(track).iter().map(all).sum::<usize>() > 0 {
                    return Some((at, write));
                }
            }
        }
        None
    }

    /// Pending work by region, in units of 8 sectors.
    pub(super) fn left_by_region(&self) -> [u64; REGIONS] {
        let (_, cylinders) = self.value.cylinders(0);
        let tracks = cylinders as usize * self.tracks.heads() as usize;
        let mut left = [0; REGIONS];
        for direction in &self.directions {
            for (left, counts) in left.iter_mut().zip(direction.counts().chunks(tracks)) {
                *left += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
            }
        }
        left
    }

    /// Takes all that is pending on a track; returns when it has passed.
    fn take_track(&mut self, at: Head, write: bool, landed: u64) -> Option<u64> {
        let (track, turn) = (self.tracks.track(at), self.mechanics.revolution().0);
        let turns = [(landed, landed + turn), (landed + turn / 2, landed + turn + turn / 8)];
        let mut until = 0;
        // And what was just passing when the head arrived.
        for (from, to) in turns {
            let stop = Stop { track, write, window: Window { from, to }, value: 0, onward: None };
            until = until.max(take(&self.tracks, &mut self.directions, &stop, &mut self.plan).to);
        }
        self.plan.pieces.sort_unstable_by_key(|piece| (piece.to, piece.start));
        self.stats.idle_bytes += self.plan.pieces.iter().map(|piece| piece.sectors * 512).sum::<u64>();
        self.due.extend(self.plan.pieces.drain(..));
        (until > 0).then_some(until)
    }

    /// Undoes taking a piece that did not pass after all.
    pub(super) fn give_back(&mut self, piece: &Piece) {
        let (direction, taken) = (&mut self.directions[usize::from(piece.write)], piece.taken);
        let pending = self.requests[usize::from(piece.write)].is_still_pending(&taken);
        self.tracks.of(&self.layout, piece.at(), |track, _| {
            direction.give_back(taken, piece.sectors);
            if pending {
                direction.add_pending(&self.tracks, taken.set, track, (taken.bit, taken.bit + 1));
            }
        });
    }

    /// Accounts for the delay that visits caused to a request that started at `now` with these segments.
    pub(super) fn charge_delay(&mut self, trajectory: &[Step], now: Nanos) {
        self.idle.requests += 1;
        if let (Some(home), Some(step)) = (self.idle.home, trajectory.iter().find(|step| step.begin >= now)) {
            self.idle.home = None;
            let waited = self.idle.landed.since(now).0;
            let angle = self.layout.piece(step.at).angle;
            let first = |begin: u64, from: Head| {
                let there = begin + self.mechanics.move_time(self.turn_round, from, step.to, step.write);
                there + self.mechanics.wait(angle, there)
            };
            let (is, were) = (first(step.begin.0, step.from), first(step.begin.0 - waited, home));
            self.stats.idle_waited += Nanos(waited);
            self.idle.delay = difference(is, were);
            self.stats.idle_moved += difference(is, were + waited);
        }
        self.idle.delayed += self.idle.delay;
    }
}

/// `a - b`.
fn difference(a: u64, b: u64) -> i64 {
    let size = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a < b { -size } else { size }
}
