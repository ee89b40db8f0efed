//! A trace record: one recorded request. Formats are in the `trace` crate; the record itself is here, because
//! profilers, replays and live recordings all use it.

use rustc_hash::FxHashMap;

use crate::request::{Op, Origin};
use crate::units::{Extent, Nanos};

/// Properties of a request besides its operation, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Synchronous: the issuer waits for it.
    pub const SYNC: Flags = Flags(1);
    /// File-system metadata.
    pub const META: Flags = Flags(2);
    /// Read-ahead.
    pub const AHEAD: Flags = Flags(4);
    /// Durable when acknowledged (force unit access).
    pub const FUA: Flags = Flags(8);
    /// A flush precedes the data (a write with `REQ_PREFLUSH`).
    pub const PREFLUSH: Flags = Flags(16);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Queueing time, from the trace's own origin. Never before its predecessor's.
    pub time: Nanos,
    /// The device or volume, as the trace numbers it (Linux: `major << 20 | minor`).
    pub device: u32,
    /// Operation.
    pub op: Op,
    /// Extent; empty for a flush.
    pub extent: Extent,
    /// Flags.
    pub flags: Flags,
    /// Origin: the process, and its name at that time.
    pub origin: Origin,
    /// Latency, if the trace has it.
    pub latency: Latency,
}

/// A latency that may be unknown. Eight bytes, which an `Option<Nanos>` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency(u64);

impl Latency {
    /// Not in the trace.
    pub const UNKNOWN: Latency = Latency(u64::MAX);

    /// A latency of `time`, at most 584 years.
    pub fn of(time: Nanos) -> Latency {
        Latency(time.0.min(u64::MAX - 1))
    }

    /// The latency, if known.
    pub fn known(self) -> Option<Nanos> {
        (self != Latency::UNKNOWN).then_some(Nanos(self.0))
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::UNKNOWN
    }
}

/// A process name in a [`Names`] table. Zero is "unknown".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Process names, each stored once, numbered in order of first appearance.
#[derive(Clone, Debug)]
pub struct Names {
    names: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, NameId>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Names { names: Vec::new(), ids: FxHashMap::default() };
        names.intern("?");
        names
    }
}

impl Names {
    /// The number of `name`, assigned now if it is new.
    pub fn intern(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId(self.names.len() as u32);
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    /// The name with this number; "?" for one that is not in the table.
    pub fn get(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("?", |name| name)
    }
}
