//! Requests that fail: the n-th, from the n-th on, or by chance.

use seekless_core::{ErrorKind, Extent, IoError, Op};
use serde::{Deserialize, Deserializer};

use super::which::{OpName, When};
use super::{Act, Fault, Which};
use crate::Refused;
use crate::units::Bytes;

/// What can be set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// With which error.
    #[serde(deserialize_with = "kind")]
    pub kind: ErrorKind,
    /// The first that fails, of those that fit, counted from 1.
    pub nth: u64,
    /// Whether all fail from then on.
    pub for_ever: bool,
    /// Instead of the n-th: by chance, in per cent.
    pub rate_pct: Option<f64>,
    /// Kinds of requests; none named: all.
    pub ops: Vec<OpName>,
    /// Only those that touch the sectors from here on.
    pub at: Option<Bytes>,
    /// As far as that.
    pub size: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            kind: ErrorKind::Medium,
            nth: 1,
            for_ever: false,
            rate_pct: None,
            ops: Vec::new(),
            at: None,
            size: None,
        }
    }
}

/// The kinds by their names in a volume file.
const KINDS: [(&str, ErrorKind); 7] = [
    ("medium", ErrorKind::Medium),
    ("corrupt", ErrorKind::Corrupt),
    ("timeout", ErrorKind::Timeout),
    ("gone", ErrorKind::Gone),
    ("no space", ErrorKind::NoSpace),
    ("read only", ErrorKind::ReadOnly),
    ("unsupported", ErrorKind::Unsupported),
];

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorKind, D::Error> {
    let text = String::deserialize(from)?;
    let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    found.ok_or_else(|| {
        let names = KINDS.map(|(name, _)| name).join(", ");
        serde::de::Error::custom(format!("found '{text}', expected one of: {names}"))
    })
}

impl Options {
    /// What cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        if self.nth == 0 {
            return Err(Refused::new("nth", "0", "1 or more: the first is 1"));
        }
        match self.rate_pct {
            Some(rate) if !(0.0..=100.0).contains(&rate) => {
                Err(Refused::new("rate_pct", rate.to_string(), "0 to 100"))
            }
            Some(_) if self.nth != 1 || self.for_ever => {
                Err(Refused::new("rate_pct", "it with nth or for_ever", "one of them"))
            }
            _ => Ok(()),
        }
    }
}

/// The fault.
pub struct Error {
    kind: ErrorKind,
    which: Which,
}

impl Error {
    /// With these options, which were checked.
    pub fn new(options: &Options) -> Error {
        let when = match options.rate_pct {
            Some(rate) => When::Chance((rate * 1e4).round() as u64),
            None => When::Nth(options.nth, options.for_ever),
        };
        Error { kind: options.kind, which: Which::new(&options.ops, options.at, options.size, when, "error") }
    }
}

impl Error {
    /// How many it might have struck so far.
    pub fn met(&self) -> u64 {
        self.which.met()
    }
}

impl Fault for Error {
    fn meet(&self, op: Op, at: Extent, _sectors: u64) -> Act {
        if !self.which.strikes(op, at) {
            return Act::Pass;
        }
        let extent = (op != Op::Flush).then_some(at);
        Act::Fail(IoError::new(self.kind, "error", extent, "made to fail by a layer"))
    }
}
