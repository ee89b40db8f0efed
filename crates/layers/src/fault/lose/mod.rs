//! Writes that are acknowledged but lost, torn or misdirected; requests that never complete.

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Op};
use serde::{Deserialize, Serialize};

use super::which::{OpName, When};
use super::{Act, Fault, Which};
use crate::Refused;
use crate::units::Bytes;

/// Kinds of this fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The write succeeds, and is not carried out.
    #[default]
    Lost,
    /// Only some sectors of a write are carried out: the first, the last, or a random selection.
    Torn,
    /// A write goes to a random other place.
    Misdirected,
    /// The request never completes.
    Endless,
}

/// Options.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Kind of fault.
    pub what: What,
    /// The first request to be struck, of the matching ones, counted from 1.
    pub nth: u64,
    /// Whether all later ones are struck too.
    pub for_ever: bool,
    /// Instead of `nth`: at random, in per cent.
    pub rate_pct: Option<f64>,
    /// Kinds of requests.
    pub ops: Vec<OpName>,
    /// Only requests that touch the sectors from this offset on.
    pub at: Option<Bytes>,
    /// Size of that range.
    pub size: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        let ops = vec![OpName(Op::Write)];
        Options { what: What::Lost, nth: 1, for_ever: false, rate_pct: None, ops, at: None, size: None }
    }
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        When::of(self.nth, self.for_ever, self.rate_pct)?;
        let write = |op: &OpName| matches!(op.0, Op::Write | Op::WriteZeroes);
        let writes = !self.ops.is_empty() && self.ops.iter().all(write);
        if matches!(self.what, What::Torn | What::Misdirected) && !writes {
            let expected = "write or write zeroes: only they can be torn or misdirected";
            return Err(Refused::new("ops", "other kinds", expected));
        }
        Ok(())
    }
}

/// The fault.
pub struct Lose {
    what: What,
    which: Which,
}

impl Lose {
    /// A fault with these (checked) options.
    pub fn new(options: &Options) -> Lose {
        let when = When::of(options.nth, options.for_ever, options.rate_pct).unwrap_or(When::Always);
        Lose { what: options.what, which: Which::new(&options.ops, options.at, options.size, when, "lose") }
    }
}

/// Some parts of `at`, not all of it: up to a sector, from one on, or a random selection.
fn torn(at: Extent, rng: &mut Rng) -> Vec<Extent> {
    let some = rng.below(at.sectors);
    match rng.below(3) {
        0 => vec![Extent { sectors: some, ..at }],
        1 => vec![Extent { start: at.start + (at.sectors - some), sectors: some }],
        _ => {
            let lost = at.start + some;
            at.split(1).filter(|sector| sector.start != lost && rng.below(2) == 0).collect()
        }
    }
    .into_iter()
    .filter(|part| part.sectors > 0)
    .collect()
}

impl Fault for Lose {
    fn meet(&self, op: Op, at: Extent, sectors: u64) -> Act {
        if !self.which.strikes(op, at) {
            return Act::Pass;
        }
        match self.what {
            What::Lost => Act::Lose,
            What::Endless => Act::Hang,
            What::Torn => Act::Tear(torn(at, &mut self.which.rng())),
            // Further on, within the device; at its end the write is lost.
            What::Misdirected => match sectors.saturating_sub(at.end().0) {
                0 => Act::Lose,
                room => Act::Misdirect(1 + self.which.below(room)),
            },
        }
    }
}
