//! What a user can set, with defaults.

use seekless_core::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::store::{LARGEST_SEGMENT, SMALLEST_SEGMENT};
use crate::Refused;
use crate::canary::Canary;
use crate::units::{Bytes, time, time_in_ns};

/// The options of the BORG layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The part of the BOPT that absorbs writes, 0 to 1; the rest is the read cache. The BORG
    /// paper's best for its developer workload was 0.4 to 0.5 (section 6.5.3).
    pub write_buffer: f64,
    /// Pages of a segment of the BOPT, as a size: at most 2MiB, whole pages, at least four. A small BOPT has smaller
    /// segments, so that it has at least 16 of them.
    pub segment: Bytes,
    /// Where a page that is mapped is written.
    pub overwrite: Overwrite,
    /// Below this part of the write buffer being free, 0 to 1, segments of it are drained in the background.
    pub drain_below: f64,
    /// Of a reconfiguration, and of what is drained in the background: bytes a second, at most; without a limit, if 0.
    pub move_rate: Bytes,
    /// The same goes on when no client has asked for so long, or after a hundred times as long.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub move_idle: Nanos,
    /// When no client has asked for so long, pages that are newer than the device below go there until none is left,
    /// and copies that nobody compared with it are compared; never, if 0.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle_after: Nanos,
    /// No page stays newer than the device below for longer than this, however busy clients are; without a limit, if 0.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub dirty_max_age: Nanos,
    /// How a reconfiguration copies: in the background, with the share of the head's time that is guaranteed to
    /// that, or for free, only where no request notices. The write buffer is drained in the same class; for free from
    /// twice `drain_below` on.
    pub reconfigure_class: MoveClass,
    /// What is not copied for free after so long goes on in the background.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub free_deadline: Nanos,
    /// Where a reconfiguration puts pages.
    pub placement: Placement,
    /// Edges of the access graph below this weight place nothing (section 4.3).
    pub threshold: u32,
    /// What the planner learns from.
    pub training: Training,
    /// Memory of what is learnt: half of it for requests that are not analysed yet, of which what is above goes into
    /// the access graph early, half for that graph, which lets go of what is light; and as much again while graphs are
    /// merged. At least one page of 64 KiB of requests is kept, and while an analysis runs as much as comes, and at
    /// least some thousand ranges and jumps of the graph.
    pub profile_memory: Bytes,
    /// Every so many reconfigurations all is planned anew, at least 1; the others extend the last
    /// plan by what was seen since, which takes a fraction of the time. A partial training window
    /// is always planned anew.
    pub full_plan_every: u32,
    /// Whether a plan is tried in virtual time before it is carried out, on a model of the devices below, and declined
    /// if it costs more than it gains. Without a model (`model` of a component) every plan is carried out.
    pub rehearse: bool,
    /// What becomes of pages that are newer than the device below when the layer is stopped for good.
    pub at_stop: AtStop,
    /// Whether copies are believed to be as the device below is when they were found at opening: nothing is compared.
    /// Whoever writes that device without this layer reads old data with it.
    pub trust_origin: bool,
    /// What becomes of pages that are newer than the device below if that was written without this layer.
    pub origin_changed: OriginChanged,
    /// The known bug that it has.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// The rare places of its code, which an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a page is written while it is copied",
    "a page is discarded while it is copied",
    "it stops while pages are moved",
    "a blank BOPT",
    "a clean start",
    "a start after a crash",
    "a torn super page: the other counts",
    "a torn map page: its other home counts",
    "the log ends with a run that is not whole",
    "a run of the log is replayed",
    "a flush failed: all later ones fail",
    "a map page could not be written: it is owed",
    "a new BOPT",
    "map pages are copied to their other homes",
    "the log opens",
    "a flush writes what was owed",
    "a run failed",
    "runs wait behind one that failed",
    "the log cannot go on behind a run that failed: those behind it fail",
    "a clean copy cannot be read: home can",
    "a write that is to be durable was absorbed",
    "part of a page is joined with a copy that must not be overwritten",
    "the write buffer is full of what must not be overwritten: it is told first",
    "the write buffer is full",
    "the profile knows less than what is placed: nothing goes that is only not planned",
    "pages move within the read cache",
    "an eviction is taken back",
    "a move ends early: the layer is to stop or to go",
    "a page is used while it is copied: its move is abandoned",
    "the write buffer is drained in the background",
    "the map tells what the log does, in the background",
    "nobody asks: pages are compared, and go home",
    "a client asks: what is done in idle time ends",
    "a sample of home cannot be read: it tells nothing",
    "clean copies are compared with home before they are served",
    "a copy or its page of home cannot be read: it is not served",
    "a clean copy is to be overwritten: the map says before that it is newer",
    "a read that verifies finds something: its pages are looked at under their locks",
    "home is repaired from a copy",
    "home cannot be repaired: its copy counts as newer",
    "a copy is repaired from home",
    "a copy cannot be repaired: home can be read",
];

/// The known bugs that it can have.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["early reuse", "dropped by a relocate", "repaired from home though newer"]
} else {
    &[]
};

/// Where a page goes that has a copy already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwrite {
    /// Over that copy, as in the paper (section 4.5).
    InPlace,
    /// Into the write buffer like any other, as far as there is room.
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
    /// In class `Free`: what freeblock scheduling is for.
    Free,
}

/// Where a reconfiguration puts pages in the read cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// What is there and still planned stays where it is, the others fill what is free.
    #[default]
    Kept,
    /// All pages lie as planned, as in the paper (section 4.4): chains and cycles move.
    Planned,
}

/// What becomes of pages that are newer than the device below when the layer is stopped for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtStop {
    /// They go there, as far as there is time.
    #[default]
    Drain,
    /// They stay in the BOPT, and whoever uses the device below without it sees old data.
    Keep,
}

/// What becomes of pages that are newer than the device below if that was written without this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginChanged {
    /// Opening is refused; and if it is found out later, all requests are from then on.
    #[default]
    Refuse,
    /// They are kept, and go over what was written there.
    Keep,
}

/// The training window (section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// All that was ever seen.
    #[default]
    Cumulative,
    /// What was seen since the last reconfiguration.
    Partial,
    /// All, but each reconfiguration halves the weight of what was seen before it.
    Decayed,
}

impl Options {
    /// What cannot be.
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
        if let Some(name) = self.canary.as_ref().filter(|name| !CANARIES.contains(&name.as_str())) {
            return Err(Refused::new("canary", name, CANARIES.join(", ")));
        }
        if self.full_plan_every == 0 {
            return Err(Refused::new("full_plan_every", "0", "at least 1"));
        }
        Ok(())
    }

    /// The bug that it has: none, but in a build with canaries.
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
            segment: Bytes(2 << 20),
            overwrite: Overwrite::Logged,
            drain_below: 0.25,
            move_rate: Bytes(0),
            move_idle: Nanos::ZERO,
            idle_after: Nanos::from_millis(30_000),
            dirty_max_age: Nanos::from_millis(3_600_000),
            reconfigure_class: MoveClass::Background,
            free_deadline: Nanos::from_millis(600_000),
            placement: Placement::Kept,
            threshold: 1,
            training: Training::Cumulative,
            profile_memory: Bytes(64 << 20),
            full_plan_every: 1,
            rehearse: false,
            at_stop: AtStop::Drain,
            trust_origin: false,
            origin_changed: OriginChanged::Refuse,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}
