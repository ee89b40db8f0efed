//! Failing requests: the n-th, from the n-th on, at random, or for lack of space; and unreadable sectors.

mod medium;

use seekless_core::{ErrorKind, Extent, Hints, IoError, Op, SECTOR_BYTES, Size};
use serde::{Deserialize, Deserializer, Serialize};

use super::which::{OpName, When};
use super::{Act, Fault, Which};
use crate::Refused;
use crate::units::Bytes;
use medium::Medium;

/// Options.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Kind of error; by default a medium error, or no space for `full`.
    #[serde(deserialize_with = "kind", skip_serializing)]
    pub kind: Option<ErrorKind>,
    /// The first request to fail, of the matching ones, counted from 1.
    pub nth: u64,
    /// Whether all later ones fail too.
    pub for_ever: bool,
    /// Instead of `nth`: at random, in per cent.
    pub rate_pct: Option<f64>,
    /// Instead: writes fail after this many bytes of writes.
    pub after: Option<Bytes>,
    /// Instead: sectors are unreadable until they are written again, those in `at` and `size`; or with `rate_pct` one
    /// sector of each read that is struck.
    pub until_written: bool,
    /// Such sectors fail only in reads that verify.
    pub weak: bool,
    /// Kinds of requests; default: all.
    pub ops: Vec<OpName>,
    /// Only requests that touch the sectors from this offset on.
    pub at: Option<Bytes>,
    /// Size of that range.
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
            until_written: false,
            weak: false,
            ops: Vec::new(),
            at: None,
            size: None,
        }
    }
}

/// Kinds of errors by their names in a volume file.
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
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        self.when().map(drop)
    }

    fn when(&self) -> Result<When, Refused> {
        let when = When::of(self.nth, self.for_ever, self.rate_pct)?;
        if self.until_written {
            return self.until_written(when);
        }
        if self.weak {
            return Err(Refused::new("weak", "it without until_written", "both: it is of sectors"));
        }
        let Some(Bytes(bytes)) = self.after else { return Ok(when) };
        if when != When::Nth(1, false) || !self.ops.is_empty() {
            let found = "it with nth, for_ever, rate_pct or ops";
            return Err(Refused::new("after", found, "it alone: all writes fail that have no room"));
        }
        Ok(When::Room(bytes))
    }

    /// The unreadable sectors at the start.
    fn sectors(&self) -> Extent {
        let [at, size] =
            [self.at, self.size].map(|bytes| bytes.map_or(0, |Bytes(bytes)| bytes / SECTOR_BYTES));
        Extent::new(at, if self.rate_pct.is_some() { 0 } else { size })
    }

    fn until_written(&self, when: When) -> Result<When, Refused> {
        let alone = self.after.is_none() && self.ops.is_empty();
        if !alone || !matches!(when, When::Nth(1, false) | When::Chance(_)) {
            let expected = "it with rate_pct, or with at and size: of reads, those of bad sectors fail";
            return Err(Refused::new("until_written", "it with nth, for_ever, after or ops", expected));
        }
        let sectors = self.sectors().sectors;
        if self.rate_pct.is_none() && !(1..=MOST_SECTORS).contains(&sectors) {
            let most = format!("512B to {}", Size(MOST_SECTORS * SECTOR_BYTES));
            return Err(Refused::new("size", format!("{} bytes", sectors * SECTOR_BYTES), most));
        }
        Ok(when)
    }
}

/// Maximum number of unreadable sectors, all of which are recorded.
const MOST_SECTORS: u64 = 1 << 17;

/// The fault.
pub struct Error {
    kind: ErrorKind,
    which: Which,
    /// `None` if sectors are unreadable instead.
    medium: Option<Medium>,
    weak: bool,
}

impl Error {
    /// A fault with these (checked) options.
    pub fn new(options: &Options) -> Error {
        let full = options.after.map(|_| ErrorKind::NoSpace);
        let kind = options.kind.or(full).unwrap_or(ErrorKind::Medium);
        let when = options.when().unwrap_or(When::Always);
        let which = Which::new(&options.ops, options.at, options.size, when, "error");
        let medium = options.until_written.then(|| Medium::new(options.sectors()));
        Error { kind, which, medium, weak: options.weak }
    }
}

impl Error {
    /// Number of requests that matched so far.
    pub fn matched(&self) -> u64 {
        self.which.matched()
    }
}

impl Fault for Error {
    fn meet(&self, op: Op, at: Extent, _sectors: u64) -> Act {
        if let Some(medium) = &self.medium {
            if matches!(op, Op::Write | Op::WriteZeroes) {
                medium.written(at);
            }
            return Act::Pass;
        }
        if !self.which.strikes(op, at) {
            return Act::Pass;
        }
        let extent = (op != Op::Flush).then_some(at);
        Act::Fail(IoError::new(self.kind, "error", extent, "made to fail by a layer"))
    }

    fn meet_read(&self, at: Extent, how: &Hints, sectors: u64) -> Act {
        let Some(medium) = &self.medium else { return self.meet(Op::Read, at, sectors) };
        if self.weak && !how.verify {
            return Act::Pass;
        }
        if let Some(here) = self.which.struck(at) {
            medium.spoil(here.start.0 + self.which.below(here.sectors));
        }
        match medium.first_bad(at) {
            Some(sector) => {
                let found = Some(Extent::new(sector, 1));
                Act::Fail(IoError::new(self.kind, "error", found, "a sector that was made bad by a layer"))
            }
            None => Act::Pass,
        }
    }
}
