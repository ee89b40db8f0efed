//! Requests that take longer: a fixed time, a random one, so many times what they take.

use seekless_core::{Extent, Nanos, Op};
use serde::Deserialize;

use super::which::{OpName, When};
use super::{Act, Fault, Which};
use crate::Refused;
use crate::units::{Bytes, time};

/// What can be set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A request begins so much later.
    #[serde(deserialize_with = "time")]
    pub time: Nanos,
    /// And by chance up to so much later still, all times being as likely.
    #[serde(deserialize_with = "time")]
    pub random: Nanos,
    /// Instead of both: it takes so many times as long, 1 or more.
    pub times: f64,
    /// Kinds of requests; none named: all.
    pub ops: Vec<OpName>,
    /// Only those that touch the sectors from here on.
    pub at: Option<Bytes>,
    /// As far as that.
    pub size: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Options { time: Nanos::ZERO, random: Nanos::ZERO, times: 1.0, ops: Vec::new(), at: None, size: None }
    }
}

impl Options {
    /// What cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        if !(1.0..=1e6).contains(&self.times) {
            return Err(Refused::new("times", self.times.to_string(), "1 to 1000000"));
        }
        let waits = self.time > Nanos::ZERO || self.random > Nanos::ZERO;
        if waits == (self.times > 1.0) {
            let found = if waits { "it with a time" } else { "no delay" };
            return Err(Refused::new("times", found, "times above 1, or time or random"));
        }
        Ok(())
    }
}

/// The fault.
pub struct Delay {
    options: Options,
    which: Which,
}

impl Delay {
    /// With these options, which were checked.
    pub fn new(options: Options) -> Delay {
        let which = Which::new(&options.ops, options.at, options.size, When::Always, "delay");
        Delay { options, which }
    }
}

impl Fault for Delay {
    fn meet(&self, op: Op, at: Extent, _sectors: u64) -> Act {
        if !self.which.strikes(op, at) {
            return Act::Pass;
        }
        if self.options.times > 1.0 {
            return Act::Slow(self.options.times);
        }
        let random =
            if self.options.random > Nanos::ZERO { self.which.below(self.options.random.0 + 1) } else { 0 };
        Act::Wait(self.options.time + Nanos(random))
    }
}
