//! One sector as a register: which versions a read may return, and which a crash may leave.
//!
//! **Linearisation** is by the zones of Gibbons and Korach ("Testing shared memories", 1997). The write of a version
//! and the reads that returned it are a cluster; its zone goes between its first end and its last start. Some order
//! explains all reads, each within its interval, if and only if no two clusters conflict: a first end of each before
//! the last start of the other. Zones change at the ends of requests only, so the check is on-line: at a request's end
//! its cluster's zone is compared with the zones that it now overlaps. Those have one instant in common, so they are as
//! many as requests were in flight at once; they are found by binary search in a list that grows at its end. A zone
//! whose first end lies before the start of everything that is in flight is retired: only the latest of their last
//! starts matters from then on.
//!
//! **Durability**: a crash may leave every version that was issued, except those that precede a durable version (the
//! first end of theirs lies before a last start of its).
//!
//! **Zeroes** have many sources. A read of zeroes counts for its source where only one is possible; with several it has
//! no further effect. A discard is a write of zeroes that may not have happened, until a read shows that it did.
//!
//! Invariants: versions are in the order of their numbers, which is that of their starts; no two clusters conflict;
//! some version can always be left by a crash.

use std::collections::VecDeque;

/// The content that no write puts down.
pub(super) const ZEROES: u64 = 0;
/// Number of the initial version.
const BASE: u64 = 0;
/// The end of a version that has none yet.
const OPEN: u64 = u64::MAX;
/// Sources of zeroes that are examined; among more, a read of zeroes is taken as ambiguous.
const SOURCES: usize = 16;

/// How a version gets into a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// A write of a stamp.
    Stamp,
    /// A write of zeroes.
    Zeroes,
    /// A discard: zeroes, or no effect.
    Discard,
}

#[derive(Clone, Debug)]
struct Version {
    id: u64,
    put: Put,
    /// First end of its cluster.
    first_end: u64,
    /// Last start of its cluster.
    last_start: u64,
    /// The version that it precedes, and the time at which that was there.
    before: (u64, u64),
    /// Whether it took place: its write was answered, or a read returned it.
    happened: bool,
    /// Whether its write was answered.
    answered: bool,
    /// Whether a flush covers it.
    durable: bool,
}

/// The two latest last starts of clusters, with their versions: of all but any one cluster, the latest is here.
#[derive(Clone, Copy, Debug)]
struct Latest {
    first: (u64, u64),
    second: (u64, u64),
}

impl Latest {
    fn of(start: u64, id: u64) -> Latest {
        Latest { first: (start, id), second: (0, id) }
    }

    fn raise(&mut self, start: u64, id: u64) {
        if id == self.first.1 {
            self.first.0 = self.first.0.max(start);
        } else if start > self.first.0 {
            (self.second, self.first) = (self.first, (start, id));
        } else if start > self.second.0 {
            self.second = (start, id);
        }
    }

    fn but(&self, id: u64) -> (u64, u64) {
        if id == self.first.1 { self.second } else { self.first }
    }
}

/// Why a version is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// Content of the version that follows it.
    pub by: u64,
    /// Whether the write of that one was answered.
    pub answered: bool,
}

/// A sector on which something is open: versions in flight, not durable, or not settled.
#[derive(Clone, Debug)]
pub(super) struct Register {
    /// Content of the base, if settled.
    settled: u64,
    /// Possible contents of the base, if not; ascending.
    undecided: Vec<u64>,
    versions: VecDeque<Version>,
    /// First ends and versions of zones that are not retired, by time.
    ended: VecDeque<(u64, u64)>,
    /// Versions of zeroes; some that no read may return any more are removed.
    zeroes: VecDeque<u64>,
    /// Zones with an earlier first end are retired.
    retired: u64,
    /// Of the retired versions.
    newest: Latest,
    /// Of the durable versions.
    durable: Latest,
}

impl Register {
    /// A register of a sector that holds `content`.
    pub fn of(content: u64) -> Register {
        Register::from(content, Vec::new(), 0)
    }

    fn from(settled: u64, undecided: Vec<u64>, now: u64) -> Register {
        let base = Version {
            id: BASE,
            put: Put::Stamp,
            first_end: now,
            last_start: now,
            before: (OPEN, 0),
            happened: true,
            answered: true,
            durable: true,
        };
        let mut register = Register {
            settled,
            undecided,
            versions: VecDeque::from([base]),
            ended: VecDeque::new(),
            zeroes: VecDeque::new(),
            retired: now + 1,
            newest: Latest::of(now, BASE),
            durable: Latest::of(now, BASE),
        };
        if register.base_may_be(ZEROES) {
            register.zeroes.push_back(BASE);
        }
        register
    }

    fn base_may_be(&self, content: u64) -> bool {
        if self.undecided.is_empty() {
            self.settled == content
        } else {
            self.undecided.binary_search(&content).is_ok()
        }
    }

    fn place(&self, id: u64) -> Option<usize> {
        self.versions.binary_search_by_key(&id, |version| version.id).ok()
    }

    fn version(&self, id: u64) -> Option<&Version> {
        self.versions.get(self.place(id)?)
    }

    /// The version of a stamp.
    fn source(&self, content: u64) -> Option<&Version> {
        match self.version(content) {
            Some(version) if content != BASE => (version.put == Put::Stamp).then_some(version),
            _ if self.base_may_be(content) => self.version(BASE),
            _ => None,
        }
    }

    fn holds_zeroes(&self, version: &Version) -> bool {
        if version.id == BASE { self.base_may_be(ZEROES) } else { version.put != Put::Stamp }
    }

    /// A write, a write of zeroes or a discard is issued.
    pub fn issue(&mut self, id: u64, put: Put, now: u64) {
        self.versions.push_back(Version {
            id,
            put,
            first_end: OPEN,
            last_start: now,
            before: (OPEN, 0),
            happened: false,
            answered: false,
            durable: false,
        });
        if put != Put::Stamp {
            self.zeroes.push_back(id);
        }
    }

    /// It succeeded. A failed one stays open.
    pub fn answered(&mut self, id: u64, now: u64) {
        let Some(place) = self.place(id) else { return };
        let version = &mut self.versions[place];
        version.answered = true;
        version.happened |= version.put != Put::Discard;
        if version.first_end == OPEN {
            version.first_end = now;
            self.ended.push_back((now, id));
        }
    }

    /// It becomes durable; returns whether a crash can now leave less.
    pub fn make_durable(&mut self, id: u64) -> bool {
        let Some(place) = self.place(id) else { return false };
        let version = &mut self.versions[place];
        version.durable = true;
        if version.happened {
            self.durable.raise(version.last_start, id);
        }
        version.happened
    }

    /// A read that began at `start` returns `content` at `now`; nothing in flight began before `oldest`. Returns
    /// whether a crash can now leave less.
    pub fn read(
        &mut self,
        content: u64,
        start: u64,
        now: u64,
        oldest: u64,
    ) -> Result<bool, Option<Replaced>> {
        self.retire(oldest);
        if content == ZEROES {
            return match self.source_of_zeroes(start, now) {
                (0, _) => Err(self.why_no_zeroes(start, now)),
                (1, id) => Ok(self.returned(id, content, start, now)),
                _ => Ok(false),
            };
        }
        let version = self.source(content).ok_or(None)?;
        match self.conflict(version, start, now) {
            Some(by) => Err(Some(by)),
            None => Ok(self.returned(version.id, content, start, now)),
        }
    }

    /// The number of possible sources of zeroes of a read, counted up to two, and one of them.
    fn source_of_zeroes(&mut self, start: u64, now: u64) -> (u32, u64) {
        while let Some(id) = self.zeroes.front() {
            if self.version(*id).is_some_and(|version| self.is_past(version).is_none()) {
                break;
            }
            self.zeroes.pop_front();
        }
        let (mut sources, mut source) = (0, BASE);
        for (looked, id) in self.zeroes.iter().rev().enumerate() {
            let possible = |version: &Version| self.conflict(version, start, now).is_none();
            if self.version(*id).is_some_and(possible) {
                (sources, source) = (sources + 1, *id);
            }
            if sources > 0 && looked >= SOURCES {
                sources = 2;
            }
            if sources == 2 {
                break;
            }
        }
        (sources, source)
    }

    fn why_no_zeroes(&self, start: u64, now: u64) -> Option<Replaced> {
        let zeroes = self.versions.iter().rev().find(|version| self.holds_zeroes(version))?;
        self.conflict(zeroes, start, now)
    }

    /// The version that followed this one before everything in flight began, if any.
    fn is_past(&self, version: &Version) -> Option<u64> {
        let (start, by) = self.newest.but(version.id);
        (version.first_end < start).then_some(by)
    }

    /// The version that this one would conflict with if a read between `start` and `now` had returned it.
    fn conflict(&self, version: &Version, start: u64, now: u64) -> Option<Replaced> {
        let (end, start) = (version.first_end.min(now), version.last_start.max(start));
        let by = self
            .is_past(version)
            .or_else(|| (version.before.0 < start).then_some(version.before.1))
            .or_else(|| {
                self.within(end, start)
                    .find(|other| other.happened && other.last_start > end)
                    .map(|other| other.id)
            })?;
        let answered = by != BASE && self.version(by).is_none_or(|version| version.answered);
        Some(Replaced { by: self.named(by), answered })
    }

    /// Versions with a first end between both times.
    fn within(&self, end: u64, start: u64) -> impl Iterator<Item = &Version> {
        let from = self.ended.partition_point(|(first_end, _)| *first_end <= end);
        let ended = self.ended.range(from..).take_while(move |(first_end, _)| *first_end < start);
        ended.filter_map(|(_, id)| self.version(*id))
    }

    /// Adds a read to the version's cluster.
    fn returned(&mut self, id: u64, content: u64, start: u64, now: u64) -> bool {
        let Some(place) = self.place(id) else { return false };
        let alone = self.versions.len() == 1;
        let version = &mut self.versions[place];
        let first = version.first_end == OPEN;
        version.first_end = version.first_end.min(now);
        version.last_start = version.last_start.max(start);
        version.happened = true;
        let (end, start, durable) = (version.first_end, version.last_start, version.durable);
        if first {
            self.ended.push_back((now, id));
        }
        let from = self.ended.partition_point(|(first_end, _)| *first_end <= end);
        for at in from..self.ended.len() {
            let (first_end, other) = self.ended[at];
            if first_end >= start {
                break;
            }
            if let Some(place) = self.place(other) {
                let before = &mut self.versions[place].before;
                *before = (*before).min((end, id));
            }
        }
        if end < self.retired {
            self.newest.raise(start, id);
        }
        if durable {
            self.durable.raise(start, id);
        }
        let settles = id == BASE && !self.undecided.is_empty();
        if settles {
            (self.settled, self.undecided) = (content, Vec::new());
            self.zeroes.retain(|source| *source != BASE || content == ZEROES);
        }
        settles || (durable && !alone)
    }

    /// Retires zones: nothing in flight began before `oldest`.
    pub fn retire(&mut self, oldest: u64) {
        while let Some((_, id)) = self.ended.front().copied().filter(|(end, _)| *end < oldest) {
            self.ended.pop_front();
            if let Some(version) = self.version(id).filter(|version| version.happened) {
                let start = version.last_start;
                self.newest.raise(start, id);
            }
        }
        self.retired = self.retired.max(oldest);
        while let Some(version) = self.versions.front() {
            if self.is_past(version).is_none() || self.lost_to(version).is_none() {
                break;
            }
            self.versions.pop_front();
        }
    }

    /// The durable version that follows this one, if any.
    fn lost_to(&self, version: &Version) -> Option<u64> {
        let (start, by) = self.durable.but(version.id);
        (version.first_end < start).then_some(by)
    }

    /// Whether a crash now may leave `content`.
    pub fn may_be_left(&self, content: u64) -> bool {
        let left = |version: &Version| self.lost_to(version).is_none();
        if content == ZEROES {
            return self.versions.iter().any(|version| self.holds_zeroes(version) && left(version));
        }
        self.source(content).is_some_and(left)
    }

    /// The durable version because of which a crash cannot leave `content`.
    pub fn why_not_left(&self, content: u64) -> Option<u64> {
        let zeroes = || self.versions.iter().rev().find(|version| self.holds_zeroes(version));
        let version = if content == ZEROES { zeroes() } else { self.source(content) };
        let by = version.map_or(Some(self.durable.first.1), |version| self.lost_to(version));
        by.map(|by| self.named(by))
    }

    /// The content of a version, which is what people know it by.
    fn named(&self, id: u64) -> u64 {
        if id == BASE { self.settled } else { id }
    }

    fn contents<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = u64> + 'a {
        let base = version.id == BASE;
        let undecided = if base { &self.undecided[..] } else { &[] };
        let one = match version.put {
            _ if base => undecided.is_empty().then_some(self.settled),
            Put::Stamp => Some(version.id),
            Put::Zeroes | Put::Discard => Some(ZEROES),
        };
        undecided.iter().copied().chain(one)
    }

    /// The contents that a crash now may leave; ascending, without duplicates.
    pub fn left(&self) -> Vec<u64> {
        let left = self.versions.iter().filter(|version| self.lost_to(version).is_none());
        let mut left: Vec<u64> = left.flat_map(|version| self.contents(version)).collect();
        left.sort_unstable();
        left.dedup();
        left
    }

    /// The contents that a read between `start` and `now` may return; ascending, without duplicates.
    pub fn readable(&self, start: u64, now: u64) -> Vec<u64> {
        let right = self.versions.iter().filter(|version| self.conflict(version, start, now).is_none());
        let mut right: Vec<u64> = right.flat_map(|version| self.contents(version)).collect();
        right.sort_unstable();
        right.dedup();
        right
    }

    /// Power is cut: the content is not settled before it is read.
    pub fn crash(&mut self, now: u64) {
        let left = self.left();
        *self = match left[..] {
            [one] => Register::from(one, Vec::new(), now),
            _ => Register::from(ZEROES, left, now),
        };
    }

    /// Whether all its possible contents were there when power was cut, after request `crashed`.
    pub fn is_as_left(&self, crashed: u64) -> bool {
        self.versions.len() == 1 && self.settled <= crashed
    }

    /// Its content, if only one is possible.
    pub fn quiet(&self) -> Option<u64> {
        let version = self.versions.front().filter(|_| self.versions.len() == 1)?;
        assert!(version.durable && version.happened, "something is left by a crash");
        let mut contents = self.contents(version);
        contents.next().filter(|_| contents.next().is_none())
    }
}
