//! Selection of the requests that a fault concerns, and of those that it strikes.

use std::cell::{Cell, RefCell};

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Op, SECTOR_BYTES, runtime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Refused;
use crate::units::Bytes;

/// The common options of faults that select requests.
#[derive(Debug)]
pub struct Which {
    ops: Vec<Op>,
    at: Option<Extent>,
    when: When,
    rng: RefCell<Rng>,
    /// Matching requests so far; bytes written, for `Full`.
    matched: Cell<u64>,
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Always.
    Always,
    /// At the n-th matching request, counted from 1, and perhaps all from then on.
    Nth(u64, bool),
    /// At random, for this many in 10^6.
    Chance(u64),
    /// At writes beyond this many bytes of writes.
    Room(u64),
}

impl When {
    /// Combines the keys `nth`, `for_ever` and `rate_pct`.
    pub fn of(nth: u64, for_ever: bool, rate_pct: Option<f64>) -> Result<When, Refused> {
        match rate_pct {
            _ if nth == 0 => Err(Refused::new("nth", "0", "1 or more: the first is 1")),
            Some(rate) if !(0.0..=100.0).contains(&rate) => {
                Err(Refused::new("rate_pct", rate.to_string(), "0 to 100"))
            }
            Some(_) if nth != 1 || for_ever => {
                Err(Refused::new("rate_pct", "it with nth or for_ever", "one of them"))
            }
            Some(rate) => Ok(When::Chance((rate * 1e4).round() as u64)),
            None => Ok(When::Nth(nth, for_ever)),
        }
    }
}

impl Which {
    /// Requests of these kinds (all, if empty) that touch these sectors (all by default).
    pub fn new(ops: &[OpName], at: Option<Bytes>, size: Option<Bytes>, when: When, stream: &str) -> Which {
        let start = at.map_or(0, |at| at.0 / SECTOR_BYTES);
        let at = (at.is_some() || size.is_some()).then(|| {
            let sectors = size.map_or(u64::MAX / 2 - start.min(u64::MAX / 2), |size| size.0 / SECTOR_BYTES);
            Extent::new(start, sectors)
        });
        let (rng, matched) = (RefCell::new(runtime::rng(stream)), Cell::new(0));
        Which { ops: ops.iter().map(|op| op.0).collect(), at, when, rng, matched }
    }

    /// Counts a request, and returns whether the fault strikes it.
    pub fn strikes(&self, op: Op, at: Extent) -> bool {
        let fits = self.ops.is_empty() || self.ops.contains(&op);
        let here = self.at.is_none_or(|area| op == Op::Flush || area.overlaps(at));
        if !fits || !here {
            return false;
        }
        if let When::Room(bytes) = self.when {
            let with = self.matched.get() + at.bytes();
            let writes = matches!(op, Op::Write | Op::WriteZeroes);
            if writes && with <= bytes {
                self.matched.set(with);
            }
            return writes && with > bytes;
        }
        self.matched.set(self.matched.get() + 1);
        match self.when {
            When::Always | When::Room(_) => true,
            When::Nth(nth, for_ever) => self.matched.get() == nth || (for_ever && self.matched.get() > nth),
            When::Chance(chance) => self.below(1_000_000) < chance,
        }
    }

    /// The part of a read that is struck at random, if any; other selections strike whole requests.
    pub fn struck(&self, at: Extent) -> Option<Extent> {
        let struck = matches!(self.when, When::Chance(_)) && self.strikes(Op::Read, at);
        let area = self.at.unwrap_or(at);
        let (start, end) = (area.start.max(at.start), area.end().min(at.end()));
        struck.then(|| Extent { start, sectors: end.0 - start.0 })
    }

    /// Number of matching requests so far.
    pub fn matched(&self) -> u64 {
        self.matched.get()
    }

    /// The fault's random stream.
    pub fn rng(&self) -> std::cell::RefMut<'_, Rng> {
        self.rng.borrow_mut()
    }

    /// A random number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().below(end)
    }
}

/// A kind of request by its name in a volume file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpName(pub Op);

impl Serialize for OpName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for OpName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let all = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes];
        let found = all.into_iter().find(|op| op.to_string() == text);
        let expected = || format!("found '{text}', expected read, write, flush, discard or write zeroes");
        found.map(OpName).ok_or_else(|| serde::de::Error::custom(expected()))
    }
}
