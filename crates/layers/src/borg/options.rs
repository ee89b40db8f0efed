//! Options of the layer, with defaults.

use seekless_core::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::analyzer::{Edges, Training};
use super::planner::PlannerName;
use super::store::{LARGEST_SEGMENT, SMALLEST_SEGMENT};
use crate::Refused;
use crate::canary::Canary;
use crate::registry::Remedy;
use crate::units::{Bytes, time, time_in_ns};

/// The options of the BORG layer.
#[allow(clippy::struct_excessive_bools)] // switches, each with its key
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Share of the BOPT that absorbs writes, 0 to 1; the rest is the read cache. The BORG paper's best for its
    /// developer workload was 0.4 to 0.5 (section 6.5.3).
    pub write_buffer: f64,
    /// Whether writes to pages without a copy are absorbed; those to pages with a copy always are. With `rehearse`,
    /// what a rehearsal found to be better.
    pub absorb: bool,
    /// Only writes of fewer bytes are absorbed, if none of their pages has a copy; 0 for no limit.
    pub absorb_below: Bytes,
    /// Size of a segment of the BOPT: at most 2MiB, whole pages, at least four. A small BOPT has smaller segments, so
    /// that it has at least 16 of them.
    pub segment: Bytes,
    /// Where writes to mapped pages go.
    pub overwrite: Overwrite,
    /// The write buffer is drained in the background when less than this share of it is free, 0 to 1.
    pub drain_below: f64,
    /// Which dirty pages are drained then.
    pub drain: Drain,
    /// Rate limit of reconfigurations and background draining, in bytes per second; 0 for none.
    pub move_rate: Bytes,
    /// Both continue after this time without client requests, or after a hundred times as long.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub move_idle: Nanos,
    /// Time without client requests after which all dirty pages are drained, and unproven copies compared with the
    /// origin; 0 for never.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle_after: Nanos,
    /// Maximum time that a page stays dirty, however busy clients are; 0 for no limit.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub dirty_max_age: Nanos,
    /// How a reconfiguration copies: in the background, or for free, where no request notices. The write buffer is
    /// drained in the same class; for free from twice `drain_below` on.
    pub reconfigure_class: MoveClass,
    /// Share of the head's time that a reconfiguration has at least, in per cent, idle time included: it takes none
    /// from the clients where pauses are enough. 0: as the component has it (`background_share`).
    pub reconfigure_share: u8,
    /// Deadline of free copies, after which the remainder is copied in the background.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub free_deadline: Nanos,
    /// Where a reconfiguration places pages.
    pub placement: Placement,
    /// How a plan orders pages; with `rehearse`, the order that is tried first.
    pub planner: PlannerName,
    /// Which requests follow each other in the access graph; with `rehearse`, those tried first.
    pub edges: Edges,
    /// Minimum weight of edges of the access graph used for placement (section 4.3).
    pub threshold: u32,
    /// Requests that the planner uses.
    pub training: Training,
    /// Memory for the profile: half of it for requests that are not analysed yet, of which the excess goes into the
    /// access graph early, half for that graph, which drops its lightest parts; and as much again while graphs are
    /// merged. At least one page of 64 KiB of requests is kept, while an analysis runs as many as arrive, and at least
    /// some thousand ranges and jumps of the graph.
    pub profile_memory: Bytes,
    /// Number of reconfigurations after which all is planned anew, at least 1; the others extend the last plan by
    /// recent requests, which takes a fraction of the time. With a partial training window all is always planned anew.
    pub full_plan_every: u32,
    /// Whether absorbed writes go where the head arrives first, in the segment of the log that is being filled, if the
    /// device below knows where its head is; otherwise they follow each other.
    pub eager: bool,
    /// Whether a reconfiguration chooses what to do by trials in virtual time, on a model of the devices below; until
    /// something wins, reads and writes go to the origin. Without a model (`model` of a component) every plan is
    /// carried out.
    pub rehearse: bool,
    /// Bytes that are copied to the read cache as clients read them, before a rehearsal says whether such copies save
    /// more busy time than they cost. Without a model nothing is judged, and it stays with these bytes. Zero, or
    /// without `rehearse`: never.
    pub copy_on_read: Bytes,
    /// Share of the time in which reads of clean copies go to the origin, to measure what copies gain, in per cent, 0
    /// to 50; 0 for never. Where a volume is served: 1.
    pub measure_share: u8,
    /// Fate of dirty pages when the layer is stopped.
    pub at_stop: AtStop,
    /// Whether copies are taken to equal the origin at opening, without comparing them. If the origin was written
    /// without this layer, stale data is read.
    pub trust_origin: bool,
    /// Fate of dirty pages if the origin was written without this layer.
    pub origin_changed: OriginChanged,
    /// Whether a BOPT is opened read-only and in spite of damage, so that what is readable can be copied out.
    pub older: bool,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// What it may do about a slow disk.
pub const REMEDIES: &[Remedy] = &[
    Remedy {
        name: "BORG",
        does: "blocks used together are copied next to each other",
        options: "",
        freeblock: false,
    },
    Remedy {
        name: "BORG, copying for free",
        does: "blocks used together are copied next to each other, only while the head waits anyway (freeblock)",
        options: "reconfigure_class = 'free'",
        freeblock: true,
    },
];

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a page is written while it is copied",
    "pages are copied as clients read them",
    "a read goes to the origin to be timed",
    "dirty pages return to the origin after a long read",
    "a page is written while it waits for its return",
    "a page is written while it waits for its copy",
    "a write that is not absorbed locks its sectors only",
    "a page is discarded while it is copied",
    "a request waits for a page that a mover has locked",
    "a write waits for the repair of its page",
    "a stop while pages are moved",
    "a blank BOPT",
    "a clean start",
    "a start after a crash",
    "a torn super page: the other counts",
    "a torn map page: its other copy counts",
    "the log ends with an incomplete batch",
    "a batch of the log is replayed",
    "a batch is placed where the head arrives first",
    "a flush failed: all later ones fail",
    "a map page could not be written: it is pending",
    "a new BOPT",
    "nothing is absorbed while the BOPT is emptied",
    "map pages are written to their other copies",
    "the log opens",
    "a flush writes pending map pages",
    "a batch failed",
    "a batch without pages says that the last one is durable",
    "no room for a batch without pages: map pages say what is durable",
    "batches wait behind a failed one",
    "the log cannot continue behind a failed batch: those behind it fail",
    "a write that cannot be absorbed goes to the origin",
    "a page of a batch that failed is written: the batch is overruled first",
    "a clean copy is dropped in memory alone: the BOPT takes no writes",
    "a flush does without the BOPT: nothing in it is newer",
    "the BOPT takes writes again",
    "a clean copy cannot be read: its origin can",
    "a write with FUA was absorbed",
    "what was learned is written",
    "what was learned is read after a restart",
    "part of a page is merged with a copy that must not be overwritten",
    "the write buffer is full of pending slots: the map is persisted first",
    "the write buffer is full",
    "the profile knows less than what is placed: unplanned pages stay",
    "pages move within the read cache",
    "an eviction is undone",
    "a move ends early: the layer stops or is detached",
    "a page is used while it is copied: its move is abandoned",
    "a page of which a write failed is rewritten before it is moved",
    "a page is changed as it is to be evicted: it stays",
    "the write buffer is drained in the background",
    "a checkpoint in the background",
    "idle: pages are compared and drained",
    "a client request ends idle-time work",
    "a sample of the origin cannot be read: it proves nothing",
    "clean copies are compared with the origin before they are served",
    "the origin was written before pages became dirty, perhaps: copies that differ are dropped",
    "a copy or its origin cannot be read: the copy is not served",
    "a clean copy is to be overwritten: its dirty bit is persisted first",
    "a copy in the log is to be overwritten: checksums on disk are given up first",
    "checksums of a segment are read from its headers",
    "part of a dirty page is read: all of it is verified",
    "a verifying read fails: its pages are compared under their locks",
    "the origin is repaired from a copy",
    "the origin cannot be repaired: its copy counts as newer",
    "a copy is repaired from the origin",
    "a copy cannot be repaired: the origin can be read",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["early reuse", "dropped by a relocate", "repaired from home though newer"]
} else {
    &[]
};

/// Where writes to mapped pages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwrite {
    /// To the copy in place, as in the paper (section 4.5).
    InPlace,
    /// To the write buffer like others, as far as there is room.
    #[default]
    Logged,
}

/// How a reconfiguration copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoveClass {
    /// In class `Background`.
    #[default]
    Background,
    /// In class `Free`, with freeblock scheduling.
    Free,
}

/// Where a reconfiguration puts pages in the read cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Planned pages in the read cache stay where they are, the others fill free slots.
    #[default]
    Kept,
    /// All pages are placed as planned, as in the paper (section 4.4): chains and cycles move.
    Planned,
}

/// Dirty pages that are drained when little of the write buffer is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drain {
    /// The segments that free most for their cost.
    #[default]
    Segments,
    /// All of it, in the order of addresses.
    All,
}

/// Fate of dirty pages when the layer is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtStop {
    /// They are drained, as far as there is time.
    #[default]
    Drain,
    /// They stay in the BOPT; without this layer the origin reads as stale.
    Keep,
}

/// Fate of dirty pages if the origin was written without this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginChanged {
    /// Opening is refused; if detected later, all requests fail from then on.
    #[default]
    Refuse,
    /// They are kept, and overwrite what was written to the origin.
    Keep,
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        if !(0.0..=1.0).contains(&self.write_buffer) {
            return Err(Refused::new("write_buffer", self.write_buffer.to_string(), "0 to 1"));
        }
        let pages = self.segment.0 / PAGE_BYTES;
        if self.segment.0 % PAGE_BYTES != 0 || !(SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&pages) {
            let expected = "16KiB to 2MiB in whole pages of 4KiB";
            return Err(Refused::new("segment", format!("{} bytes", self.segment.0), expected));
        }
        if !(0.0..=1.0).contains(&self.drain_below) {
            return Err(Refused::new("drain_below", self.drain_below.to_string(), "0 to 1"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        if self.reconfigure_share > 99 {
            return Err(Refused::new("reconfigure_share", self.reconfigure_share.to_string(), "0 to 99"));
        }
        if self.measure_share > 50 {
            return Err(Refused::new("measure_share", self.measure_share.to_string(), "0 to 50"));
        }
        if self.full_plan_every == 0 {
            return Err(Refused::new("full_plan_every", "0", "at least 1"));
        }
        Ok(())
    }

    /// Pages that are copied as clients read them, before a rehearsal judges such copies.
    pub(super) fn copied_on_read(&self) -> u64 {
        if self.rehearse { self.copy_on_read.0 / PAGE_BYTES } else { 0 }
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "borg"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            write_buffer: 0.4,
            absorb: true,
            absorb_below: Bytes(0),
            segment: Bytes(2 << 20),
            overwrite: Overwrite::Logged,
            drain_below: 0.25,
            drain: Drain::Segments,
            move_rate: Bytes(0),
            move_idle: Nanos::ZERO,
            idle_after: Nanos::from_millis(30_000),
            dirty_max_age: Nanos::from_millis(3_600_000),
            reconfigure_class: MoveClass::Background,
            reconfigure_share: 60,
            free_deadline: Nanos::from_millis(600_000),
            placement: Placement::Kept,
            planner: PlannerName::Greedy,
            edges: Edges::Process,
            threshold: 1,
            training: Training::Cumulative,
            profile_memory: Bytes(64 << 20),
            full_plan_every: 1,
            eager: true,
            rehearse: true,
            copy_on_read: Bytes(0),
            measure_share: 0,
            at_stop: AtStop::Drain,
            trust_origin: false,
            origin_changed: OriginChanged::Refuse,
            older: false,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}
