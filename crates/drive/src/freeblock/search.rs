//! Search for the best use of a gap on one track (section 4), or on two consecutive ones (see `across`): for each
//! track, how many pending blocks pass between the head's arrival and the time it has to leave.
//!
//! Pruned as in the paper: tracks that hold no more than the best found so far, tracks whose remaining time is worth no
//! more; and by order: first the cylinders of the source and the destination, then outward and inward from both by
//! ascending extra seek. A limit on the number of candidates replaces the paper's time limit, so that the result does
//! not depend on the machine.

mod across;

use super::direction::{Across, Direction};
use super::tracks::{Tracks, Window};
use super::value::BlockValue;
use crate::disk::mechanics::{Head, Mechanics};

/// A gap: the head is at one track, and has to be at another in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where the head is.
    pub from: Head,
    /// When it may move, in nanoseconds.
    pub begin: u64,
    /// Where it has to be.
    pub to: Head,
    /// When it has to be there.
    pub due: u64,
    /// Whether the foreground writes there.
    pub write: bool,
}

/// A stop: a use of a gap, over one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The track's number.
    pub track: usize,
    /// Whether blocks are written there.
    pub write: bool,
    /// When the head is over it.
    pub window: Window,
    /// Value.
    pub value: u64,
    /// Continuation on the next track.
    pub onward: Option<Onward>,
}

/// Continuation over the end of a track, for a block that lies across it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// The block.
    pub across: Across,
    /// The next track.
    pub track: usize,
    /// When the head is over it.
    pub window: Window,
}

/// Inputs of planning; none of them changes.
#[derive(Clone, Copy)]
pub struct PlanInputs<'a> {
    pub tracks: &'a Tracks,
    pub mechanics: &'a Mechanics,
    /// By distance: the shortest seek of this distance or more.
    pub at_least: &'a [u32],
    /// Least time between two transfers.
    pub turn_round: u64,
    /// Guard time: arrivals after a seek are planned this much earlier.
    pub guard: u64,
    pub value: &'a BlockValue,
    /// Value of a microsecond of a gap: the cost of seeking there and back.
    pub price: u64,
    /// Once more tracks than this were tested, cylinders beyond the two ends' are skipped; `None`: unlimited.
    pub candidates: Option<u32>,
}

impl PlanInputs<'_> {
    /// When the head can be over a track in a gap.
    pub fn window(&self, gap: &Gap, at: Head, write: bool) -> Window {
        let from = gap.begin + self.mechanics.move_time(self.turn_round, gap.from, at, write);
        let back = if at == gap.to {
            self.turn_round
        } else {
            self.guard + self.mechanics.move_time(self.turn_round, at, gap.to, gap.write)
        };
        Window { from, to: gap.due.saturating_sub(back) }
    }
}

/// Inputs of a search.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    pub inputs: PlanInputs<'a>,
    /// Pending reads and writes.
    pub directions: &'a [Direction; 2],
}

/// State of a search.
struct SearchState<'a> {
    inputs: PlanInputs<'a>,
    gap: Gap,
    best: Option<Stop>,
    value: u64,
    /// Shorter stops bring nothing better, in nanoseconds; nor do tracks with a lower count.
    least: u64,
    least_count: u16,
    tested: u32,
    /// Whether the head may not leave its track.
    stay: bool,
    /// Time of a stop that needs no extra seek.
    whole: u64,
    /// Directions with something pending.
    directions: [Option<&'a Direction>; 2],
}

/// A scan from a cylinder outward or inward, over cylinders with something pending.
#[derive(Clone, Copy)]
struct Front {
    /// Where it continues; `None` at its end.
    from: Option<u32>,
    end: u32,
    up: bool,
    /// The end of the gap that it begins at, and the least distance to the other one.
    near: u32,
    far: u32,
    /// The longest time of a stop there; zero if the scan has ended.
    time: u64,
    at: u32,
}

impl Search<'_> {
    /// The best stop in a gap, and how many tracks were tested; `None` if nothing can be had. If the head has to
    /// `stay`, only its track is tested.
    pub fn best(&self, gap: Gap, stay: bool) -> (Option<Stop>, u32) {
        let directions = [0, 1]
            .map(|direction| Some(&self.directions[direction]).filter(|direction| !direction.is_empty()));
        let mut state = SearchState {
            inputs: self.inputs,
            gap,
            best: None,
            value: 0,
            least: 1,
            least_count: 1,
            tested: 0,
            stay,
            directions,
            whole: 0,
        };
        state.whole = self.inputs.window(&gap, gap.from, false).length();
        if stay {
            state.track(gap.to);
        } else {
            state.cylinder(gap.from.cylinder);
            if gap.to.cylinder != gap.from.cylinder {
                state.cylinder(gap.to.cylinder);
            }
            state.elsewhere();
        }
        (state.best, state.tested)
    }
}

impl SearchState<'_> {
    /// Tests the tracks of a cylinder.
    fn cylinder(&mut self, cylinder: u64) {
        let heads = u64::from(self.inputs.tracks.heads());
        // The tracks of the gap's two ends need no extra seek: test them first.
        let (from, to) = (self.gap.from, self.gap.to);
        for head in [from, to] {
            if head.cylinder == cylinder {
                self.track(head);
            }
        }
        for head in (0..heads).map(|head| Head { cylinder, head }).filter(|&head| head != from && head != to)
        {
            self.track(head);
        }
    }

    fn track(&mut self, at: Head) {
        let inputs = self.inputs;
        let (track, cylinder) = (inputs.tracks.track(at), at.cylinder as u32);
        for (direction, write) in self.directions.into_iter().zip([false, true]) {
            let Some(direction) = direction else { continue };
            let left = direction.count(track);
            if left < self.least_count {
                continue;
            }
            let left = usize::from(left);
            let window = inputs.window(&self.gap, at, write);
            if window.length() < self.least {
                continue;
            }
            self.tested += 1;
            let passing = |extent| direction.counting(extent, inputs.tracks.passes(extent, window));
            let taken = inputs.tracks.on(track).iter().map(passing).sum();
            let way = self.whole.saturating_sub(window.length());
            // Remainders may count for more than there is on the track.
            let value = inputs.value.of(left.max(taken), taken, cylinder);
            self.offer(Stop { track, write, window, value, onward: None }, way);
            if direction.short() && !self.stay {
                self.across(direction, track);
            }
        }
    }

    /// Considers a stop whose extra seeks cost `way` nanoseconds of the gap.
    fn offer(&mut self, stop: Stop, way: u64) {
        let value = stop.value.saturating_sub(self.inputs.price * way / 1_000);
        if value > self.value {
            self.best = Some(Stop { value, ..stop });
            self.better(value);
        }
    }

    /// Raises the pruning limits for a best value of `value`.
    fn better(&mut self, value: u64) {
        self.value = value;
        // Few tracks have more than one track extent, or two remainders: a limited search assumes one.
        let inputs = self.inputs;
        let most = inputs.tracks.most_extents();
        let (extents, remainders) = if inputs.candidates.is_some() { (1, 1) } else { (most, 2 * most) };
        let more =
            self.directions.iter().flatten().map(|direction| direction.most_extra(remainders as usize)).max();
        let more = more.unwrap_or(0);
        let count = inputs.value.least_for(value).saturating_sub(more).max(1);
        self.least_count = u16::try_from(count).unwrap_or(u16::MAX);
        // The shortest stop that could bring more: its value less the cost of reaching it.
        let least = |count: usize| {
            let sectors =
                self.directions.iter().flatten().map(|direction| direction.least_for(count, extents)).min();
            inputs.tracks.least(sectors.unwrap_or(0)).max(1)
        };
        let (mut low, mut high) = (count, inputs.value.counts());
        while low < high {
            let middle = low.midpoint(high);
            let way = self.whole.saturating_sub(least(middle));
            let most = inputs.value.most((middle + more).min(inputs.value.counts()));
            if most.saturating_sub(inputs.price * way / 1_000) > value {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.least = least(low);
    }

    /// The longest time of a stop at this cylinder.
    fn time_at(&self, cylinder: u32) -> u64 {
        let way = |end: Head, write| {
            let move_time = |write| {
                let there = Head { cylinder: u64::from(cylinder), head: end.head };
                self.inputs.mechanics.move_time(self.inputs.turn_round, end, there, write)
            };
            if write { move_time(false).min(move_time(true)) } else { move_time(false) }
        };
        let writes = self.directions[1].is_some();
        let ways = way(self.gap.from, writes) + way(self.gap.to, self.gap.write);
        (self.gap.due - self.gap.begin).saturating_sub(ways + self.inputs.guard)
    }

    /// The shortest seek of at least this distance.
    fn at_least(&self, distance: u32) -> u64 {
        let table = self.inputs.at_least;
        table.get(distance as usize).or(table.last()).map_or(0, |&time| u64::from(time))
    }

    fn next(&self, front: &Front, from: u32) -> Option<u32> {
        let found = self.directions.iter().flatten().filter_map(|direction| {
            let least = self.least_count;
            if front.up {
                direction.up(from, front.end, least)
            } else {
                direction.down(from, front.end, least)
            }
        });
        if front.up { found.min() } else { found.max() }
    }

    fn elsewhere(&mut self) {
        let (a, b) = (self.gap.from.cylinder as u32, self.gap.to.cylinder as u32);
        let (low, high) = (a.min(b), a.max(b));
        let middle = low + (high - low) / 2;
        let whole = self.inputs.tracks.cylinders();
        let front = |up: bool, near: u32, end: u32, far: u32| {
            let from = if up { Some(near + 1) } else { near.checked_sub(1) };
            Front { from, end, up, near, far, time: 0, at: near }
        };
        let mut fronts = [
            front(true, low, middle + 1, (high - low) / 2),
            front(false, high, middle + 1, (high - low) / 2),
            front(false, low, 0, high - low),
            front(true, high, whole, high - low),
        ];
        for front in &mut fronts {
            self.advance(front);
        }
        loop {
            // By ascending extra seek: the one that leaves most time is next.
            let mut next = 0;
            for number in 1..fronts.len() {
                if fronts[number].time > fronts[next].time {
                    next = number;
                }
            }
            let front = &mut fronts[next];
            if front.time == 0 || self.inputs.candidates.is_some_and(|most| self.tested > most) {
                return;
            }
            if front.time >= self.least {
                self.cylinder(u64::from(front.at));
            } else if self.inputs.candidates.is_some() {
                // Farther on there is almost always less time still.
                return;
            }
            self.advance(front);
        }
    }

    /// Goes on to the next cylinder at which a stop could bring something better.
    fn advance(&self, front: &mut Front) {
        front.time = 0;
        while let Some(at) = front.from.and_then(|from| self.next(front, from)) {
            front.from = if front.up { Some(at + 1) } else { at.checked_sub(1) };
            let time = self.time_at(at);
            if time >= self.least {
                (front.at, front.time) = (at, time);
                return;
            }
            if self.inputs.candidates.is_some() || !self.may_go_on(front, at) {
                return;
            }
        }
    }

    /// Whether any cylinder of a scan from `at` on could bring something better. Seek times are not monotonic, so a
    /// cylinder that does not proves nothing about the next.
    fn may_go_on(&self, front: &Front, at: u32) -> bool {
        let near = at.abs_diff(front.near);
        let inward = front.end != 0 && front.end != self.inputs.tracks.cylinders();
        let far = if inward { front.far } else { front.far + near };
        let ways = self.at_least(near) + self.at_least(far);
        (self.gap.due - self.gap.begin).saturating_sub(ways) >= self.least
    }
}
