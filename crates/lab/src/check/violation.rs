//! Violations as the checker reports them: where, what was found, what was expected.

use std::fmt;

use schemars::JsonSchema;
use seekless_core::{Extent, Op};
use serde::{Serialize, Serializer};

use super::stamp::SectorContent;

/// Allowed writes that are named, at most.
const NAMED: usize = 6;

/// Kinds of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A read returned content that had been replaced by a write answered before the read began.
    Stale,
    /// A read returned older content than a read before it.
    NewThenOld,
    /// After a crash: a version that precedes a durable one, or one that cannot have been left.
    Lost,
    /// A stamp of a write that was not issued yet.
    NeverWritten,
    /// A stamp of another address.
    Elsewhere,
    /// Bytes that are not a stamp.
    Foreign,
    /// A read returned too few or too many sectors.
    Length,
    /// A second answer to a request, or one to a request that was lost in a power cut.
    AnsweredTwice,
    /// An answer to a request that was not issued.
    NeverIssued,
    /// No answer to a request.
    NotAnswered,
}

/// A violation of the device's semantics.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Violation {
    /// Kind.
    pub kind: Kind,
    /// The request that revealed it; `None` for a check of a crash state.
    pub request: Option<u64>,
    /// The sector, if it concerns one.
    pub sector: Option<u64>,
    /// Content found there.
    #[schemars(with = "Option<String>")]
    #[serde(serialize_with = "found")]
    pub found: Option<SectorContent>,
    /// The write that had replaced the content found; 0 for zeroes.
    pub replaced_by: Option<u64>,
    /// The writes whose content was allowed, 0 for zeroes; ascending.
    pub allowed: Vec<u64>,
    /// The request, if the violation concerns it as a whole.
    #[serde(skip)]
    pub about: Option<Box<About>>,
}

/// A request that violates the semantics as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Operation.
    pub op: Op,
    /// Extent.
    pub at: Extent,
    /// Number of sectors in the answer, for [`Kind::Length`].
    pub sectors: u64,
}

impl Violation {
    /// A violation that concerns a request as a whole.
    pub(super) fn of_request(kind: Kind, id: u64, about: Option<About>) -> Violation {
        let about = about.map(Box::new);
        let (sector, found, replaced_by, allowed) = (None, None, None, Vec::new());
        Violation { kind, request: Some(id), sector, found, replaced_by, allowed, about }
    }

    fn request_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.request.unwrap_or(0))?;
        match self.about.as_deref() {
            Some(About { op: Op::Flush, .. }) => f.write_str(" (flush)"),
            Some(About { op, at, .. }) => write!(f, " ({op} of {at})"),
            None => Ok(()),
        }
    }
}

/// Serialises it as in a history.
#[allow(clippy::ref_option)] // what serde calls
fn found<S: Serializer>(found: &Option<SectorContent>, serializer: S) -> Result<S::Ok, S::Error> {
    match found {
        None => serializer.serialize_none(),
        Some(SectorContent::Zeroes) => serializer.serialize_str("0"),
        Some(SectorContent::Foreign) => serializer.serialize_str("?"),
        Some(SectorContent::Stamp(stamp)) => {
            serializer.collect_str(&format_args!("{}@{}", stamp.write, stamp.sector))
        }
    }
}

/// A write by its number, where 0 stands for zeroes.
struct Content(u64);

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("zeroes"),
            write => write!(f, "write {write}"),
        }
    }
}

/// Content found at `sector`.
struct At(Option<SectorContent>, u64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(SectorContent::Zeroes) => f.write_str("zeroes"),
            Some(SectorContent::Stamp(stamp)) if stamp.sector == self.1 => write!(f, "write {}", stamp.write),
            Some(SectorContent::Stamp(stamp)) => {
                write!(f, "write {} of sector {}", stamp.write, stamp.sector)
            }
            Some(SectorContent::Foreign) | None => f.write_str("bytes that are not a stamp"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sector) = self.sector else {
            self.request_text(f)?;
            return match (self.kind, self.about.as_deref()) {
                (Kind::Length, Some(About { at, sectors, .. })) => {
                    write!(f, ": found an answer of {sectors} sectors, expected {}", at.sectors)
                }
                (Kind::NeverIssued, _) => {
                    f.write_str(": found an answer, though it was never issued; expected none")
                }
                (Kind::NotAnswered, _) => f.write_str(": found no answer, expected one"),
                _ => f.write_str(
                    ": found an answer, though it was answered before or lost in a power cut; expected \
                                  one at most",
                ),
            };
        };
        write!(f, "sector {sector}: ")?;
        match self.request {
            Some(id) => write!(f, "read {id} found ")?,
            None => f.write_str("after a crash, found ")?,
        }
        write!(f, "{}", At(self.found, sector))?;
        match (self.kind, self.replaced_by) {
            (Kind::Stale, Some(by)) => {
                write!(f, ", which {} had replaced before the read began", Content(by))?;
            }
            (Kind::NewThenOld, Some(by)) => {
                write!(f, ", which {} had replaced: an earlier read had returned that", Content(by))?;
            }
            (Kind::Lost, Some(by)) => write!(f, ", though {} came later and was durable", Content(by))?,
            (Kind::Stale, None) => f.write_str(", which cannot be there any more")?,
            (Kind::Lost, None) => f.write_str(", which cannot have been left")?,
            (Kind::NeverWritten, _) => f.write_str(", which was not issued yet")?,
            (Kind::Elsewhere, _) => f.write_str(", which belongs there")?,
            _ => {}
        }
        f.write_str("; expected ")?;
        let (others, latest) = self.allowed.split_at(self.allowed.len().saturating_sub(NAMED));
        for (at, write) in latest.iter().enumerate() {
            let or = if at > 0 { " or " } else { "" };
            write!(f, "{or}{}", Content(*write))?;
        }
        match others.len() {
            0 => Ok(()),
            others => write!(f, " or one of {others} earlier"),
        }
    }
}

impl std::error::Error for Violation {}
