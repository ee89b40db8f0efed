//! Requests that fail: the n-th, from the n-th on, by chance, or for want of space.

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
    /// With which error; without it for want of space if that is why, else as a fault of the medium.
    #[serde(deserialize_with = "kind")]
    pub kind: Option<ErrorKind>,
    /// The first that fails, of those that fit, counted from 1.
    pub nth: u64,
    /// Whether all fail from then on.
    pub for_ever: bool,
    /// Instead of the n-th: by chance, in per cent.
    pub rate_pct: Option<f64>,
    /// Instead: writes that have no room any more after so many bytes of writes.
    pub after: Option<Bytes>,
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
            kind: None,
            nth: 1,
            for_ever: false,
            rate_pct: None,
            after: None,
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

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ErrorKind>, D::Error> {
    let text = String::deserialize(from)?;
    let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    found.map(Some).ok_or_else(|| {
        let names = KINDS.map(|(name, _)| name).join(", ");
        serde::de::Error::custom(format!("found '{text}', expected one of: {names}"))
    })
}

impl Options {
    /// What cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        self.when().map(drop)
    }

    fn when(&self) -> Result<When, Refused> {
        let when = When::of(self.nth, self.for_ever, self.rate_pct)?;
        let Some(Bytes(bytes)) = self.after else { return Ok(when) };
        if when != When::Nth(1, false) || !self.ops.is_empty() {
            let found = "it with nth, for_ever, rate_pct or ops";
            return Err(Refused::new("after", found, "it alone: all writes fail that have no room"));
        }
        Ok(When::Room(bytes))
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
        let full = options.after.map(|_| ErrorKind::NoSpace);
        let kind = options.kind.or(full).unwrap_or(ErrorKind::Medium);
        let when = options.when().unwrap_or(When::Always);
        Error { kind, which: Which::new(&options.ops, options.at, options.size, when, "error") }
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
