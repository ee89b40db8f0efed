//! The best use of a gap on one track (section 4), or on two that follow each other (see `across`): for each track,
//! how many wanted blocks pass between coming there and having to leave.
//!
//! Pruned as in the paper: tracks that have no more than the best found so far, tracks for which the time that is
//! left is worth no more, and the order: first the cylinders of the source and the destination, then outward and
//! inward from both by ascending extra seek. A bound on the candidates replaces the paper's bound on time, so
//! that the answer does not depend on the machine.

mod across;

use super::side::{Across, Side};
use super::tracks::{Tracks, Window};
use super::worth::Worth;
use crate::disk::mechanics::{Head, Mechanics};

/// The head is at one place and has to be at another in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it is.
    pub from: Head,
    /// From when on, in nanoseconds.
    pub begin: u64,
    /// Where it has to be.
    pub to: Head,
    /// When at last.
    pub due: u64,
    /// Whether something is written there.
    pub write: bool,
}

/// A use of a gap: be over a track for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The track's number.
    pub track: usize,
    /// Whether blocks are written there.
    pub write: bool,
    /// When the head is over it.
    pub window: Window,
    /// What it is worth.
    pub worth: u64,
    /// Where the head goes on to, over the end of the track.
    pub onward: Option<Onward>,
}

/// The head goes on over the end of a track for a block that lies across it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Which block.
    pub across: Across,
    /// The other track.
    pub track: usize,
    /// When the head is over that.
    pub window: Window,
}

/// What planning asks: all of it stays as it is.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub tracks: &'a Tracks,
    pub mechanics: &'a Mechanics,
    /// By distance: the shortest way so far or farther.
    pub at_least: &'a [u32],
    /// Between two transfers at least.
    pub turn_round: u64,
    /// Whoever seeks is early by so much.
    pub guard: u64,
    pub worth: &'a Worth,
    /// What a microsecond of a gap is worth: a way there and back costs so much.
    pub price: u64,
    /// Once so many tracks were tested, no cylinder beyond the two ends' is looked at; `None`: all are.
    pub candidates: Option<u32>,
}

impl Known<'_> {
    /// When the head can be over a track in a gap.
    pub fn window(&self, gap: &Gap, at: Head, write: bool) -> Window {
        let from = gap.begin + self.mechanics.go(self.turn_round, gap.from, at, write);
        let back = if at == gap.to {
            self.turn_round
        } else {
            self.guard + self.mechanics.go(self.turn_round, at, gap.to, gap.write)
        };
        Window { from, to: gap.due.saturating_sub(back) }
    }
}

/// What a search looks at.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    pub known: Known<'a>,
    /// Reads and writes.
    pub sides: &'a [Side; 2],
}

/// A search under way.
struct Looking<'a> {
    known: Known<'a>,
    gap: Gap,
    best: Option<Stop>,
    worth: u64,
    /// A stop that is shorter brings nothing better, in nanoseconds; nor does a track on which less counts.
    least: u64,
    least_count: u16,
    tested: u32,
    /// Whether the head may not leave its track.
    stay: bool,
    /// The time that a stop without a way of its own has.
    whole: u64,
    /// Of reads and of writes what has something in it.
    sides: [Option<&'a Side>; 2],
}

/// From a cylinder outward or inward, to the next one with something wanted.
#[derive(Clone, Copy)]
struct Front {
    /// From where on it looks on; none if there is no more.
    from: Option<u32>,
    end: u32,
    up: bool,
    /// The end of the gap that it begins at, and how far the other one is at least.
    near: u32,
    far: u32,
    /// What a stop there leaves at most; zero if the front has ended.
    time: u64,
    at: u32,
}

impl Search<'_> {
    /// The best stop in a gap, and how many tracks were tested; none if nothing can be had. A head that has to
    /// `stay` looks at its track alone.
    pub fn best(&self, gap: Gap, stay: bool) -> (Option<Stop>, u32) {
        let sides = [0, 1].map(|side| Some(&self.sides[side]).filter(|side| !side.is_empty()));
        let mut looking = Looking {
            known: self.known,
            gap,
            best: None,
            worth: 0,
            least: 1,
            least_count: 1,
            tested: 0,
            stay,
            sides,
            whole: 0,
        };
        looking.whole = self.known.window(&gap, gap.from, false).length();
        if stay {
            looking.track(gap.to);
        } else {
            looking.cylinder(gap.from.cylinder);
            if gap.to.cylinder != gap.from.cylinder {
                looking.cylinder(gap.to.cylinder);
            }
            looking.elsewhere();
        }
        (looking.best, looking.tested)
    }
}

impl Looking<'_> {
    /// The tracks of a cylinder.
    fn cylinder(&mut self, cylinder: u64) {
        let heads = u64::from(self.known.tracks.heads());
        // The tracks of the two ends need no way back and forth: theirs are looked at first.
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
        let known = self.known;
        let (track, cylinder) = (known.tracks.track(at), at.cylinder as u32);
        for (side, write) in self.sides.into_iter().zip([false, true]) {
            let Some(side) = side else { continue };
            let left = side.count(track);
            if left < self.least_count {
                continue;
            }
            let left = usize::from(left);
            let window = known.window(&self.gap, at, write);
            if window.length() < self.least {
                continue;
            }
            self.tested += 1;
            let passing = |stretch| side.counting(stretch, known.tracks.passes(stretch, window));
            let taken = known.tracks.on(track).iter().map(passing).sum();
            let way = self.whole.saturating_sub(window.length());
            // The rests of blocks count for more than there is on the track.
            let worth = known.worth.of(left.max(taken), taken, cylinder);
            self.offer(Stop { track, write, window, worth, onward: None }, way);
            if side.short() && !self.stay {
                self.across(side, track);
            }
        }
    }

    /// A stop may be the best so far, on the way to which so much of the gap is lost.
    fn offer(&mut self, stop: Stop, way: u64) {
        let worth = stop.worth.saturating_sub(self.known.price * way / 1_000);
        if worth > self.worth {
            self.best = Some(Stop { worth, ..stop });
            self.better(worth);
        }
    }

    /// Something of this worth was found.
    fn better(&mut self, worth: u64) {
        self.worth = worth;
        // Few tracks are more than one stretch, or have two rests: who does not look everywhere does not wait for those.
        let known = self.known;
        let most = known.tracks.most_stretches();
        let (stretches, rests) = if known.candidates.is_some() { (1, 1) } else { (most, 2 * most) };
        let more = self.sides.iter().flatten().map(|side| side.most_more(rests as usize)).max();
        let more = more.unwrap_or(0);
        let count = known.worth.least_for(worth).saturating_sub(more).max(1);
        self.least_count = u16::try_from(count).unwrap_or(u16::MAX);
        // The shortest stop that could bring more: what passes in it less what the way to it costs.
        let least = |count: usize| {
            let sectors = self.sides.iter().flatten().map(|side| side.least_for(count, stretches)).min();
            known.tracks.least(sectors.unwrap_or(0)).max(1)
        };
        let (mut low, mut high) = (count, known.worth.counts());
        while low < high {
            let middle = low.midpoint(high);
            let way = self.whole.saturating_sub(least(middle));
            let most = known.worth.most((middle + more).min(known.worth.counts()));
            if most.saturating_sub(known.price * way / 1_000) > worth {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.least = least(low);
    }

    /// A way over this cylinder leaves so much time there, at most.
    fn time_at(&self, cylinder: u32) -> u64 {
        let way = |end: Head, write| {
            let go = |write| {
                let there = Head { cylinder: u64::from(cylinder), head: end.head };
                self.known.mechanics.go(self.known.turn_round, end, there, write)
            };
            if write { go(false).min(go(true)) } else { go(false) }
        };
        let writes = self.sides[1].is_some();
        let ways = way(self.gap.from, writes) + way(self.gap.to, self.gap.write);
        (self.gap.due - self.gap.begin).saturating_sub(ways + self.known.guard)
    }

    /// The least of a way that goes so far.
    fn at_least(&self, distance: u32) -> u64 {
        let table = self.known.at_least;
        table.get(distance as usize).or(table.last()).map_or(0, |&time| u64::from(time))
    }

    fn next(&self, front: &Front, from: u32) -> Option<u32> {
        let found = self.sides.iter().flatten().filter_map(|side| {
            let least = self.least_count;
            if front.up { side.up(from, front.end, least) } else { side.down(from, front.end, least) }
        });
        if front.up { found.min() } else { found.max() }
    }

    fn elsewhere(&mut self) {
        let (a, b) = (self.gap.from.cylinder as u32, self.gap.to.cylinder as u32);
        let (low, high) = (a.min(b), a.max(b));
        let middle = low + (high - low) / 2;
        let whole = self.known.tracks.cylinders();
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
            if front.time == 0 || self.known.candidates.is_some_and(|most| self.tested > most) {
                return;
            }
            if front.time >= self.least {
                self.cylinder(u64::from(front.at));
            } else if self.known.candidates.is_some() {
                // Farther on there is less time still, or almost always so.
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
            if self.known.candidates.is_some() || !self.may_go_on(front, at) {
                return;
            }
        }
    }

    /// Whether any cylinder of a front from `at` on could bring something better. Seek times go up and down, so
    /// that one that does not says nothing of the next.
    fn may_go_on(&self, front: &Front, at: u32) -> bool {
        let near = at.abs_diff(front.near);
        let inward = front.end != 0 && front.end != self.known.tracks.cylinders();
        let far = if inward { front.far } else { front.far + near };
        let ways = self.at_least(near) + self.at_least(far);
        (self.gap.due - self.gap.begin).saturating_sub(ways) >= self.least
    }
}
