//! Which requests a fault is about.

use std::cell::{Cell, RefCell};

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Op, SECTOR_BYTES, runtime};
use serde::{Deserialize, Deserializer};

use crate::units::Bytes;

/// The keys of a fault's options that say which requests it is about, put together.
#[derive(Debug)]
pub struct Which {
    ops: Vec<Op>,
    at: Option<Extent>,
    when: When,
    rng: RefCell<Rng>,
    met: Cell<u64>,
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Always.
    Always,
    /// The n-th of those that fit, counted from 1, and perhaps all from then on.
    Nth(u64, bool),
    /// In so many of 10^6, by chance.
    Chance(u64),
}

impl Which {
    /// Of these kinds (all, if there are none) within these sectors (all, if nobody says).
    pub fn new(ops: &[OpName], at: Option<Bytes>, size: Option<Bytes>, when: When, stream: &str) -> Which {
        let start = at.map_or(0, |at| at.0 / SECTOR_BYTES);
        let at = (at.is_some() || size.is_some()).then(|| {
            let sectors = size.map_or(u64::MAX / 2 - start.min(u64::MAX / 2), |size| size.0 / SECTOR_BYTES);
            Extent::new(start, sectors)
        });
        let (rng, met) = (RefCell::new(runtime::rng(stream)), Cell::new(0));
        Which { ops: ops.iter().map(|op| op.0).collect(), at, when, rng, met }
    }

    /// Whether the fault strikes this one, which is counted.
    pub fn strikes(&self, op: Op, at: Extent) -> bool {
        let fits = self.ops.is_empty() || self.ops.contains(&op);
        let here = self.at.is_none_or(|area| op == Op::Flush || area.overlaps(at));
        if !fits || !here {
            return false;
        }
        self.met.set(self.met.get() + 1);
        match self.when {
            When::Always => true,
            When::Nth(nth, for_ever) => self.met.get() == nth || (for_ever && self.met.get() > nth),
            When::Chance(chance) => self.below(1_000_000) < chance,
        }
    }

    /// How many fitted so far.
    pub fn met(&self) -> u64 {
        self.met.get()
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().below(end)
    }
}

/// A kind of request by its name in a volume file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpName(pub Op);

impl<'de> Deserialize<'de> for OpName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let all = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes];
        let found = all.into_iter().find(|op| op.to_string() == text);
        let expected = || format!("found '{text}', expected read, write, flush, discard or write zeroes");
        found.map(OpName).ok_or_else(|| serde::de::Error::custom(expected()))
    }
}
