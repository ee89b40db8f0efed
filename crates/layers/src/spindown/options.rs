//! Options of the layer.

use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::borg::{self, AtStop, OriginChanged};
use crate::canary::Canary;
use crate::units::{Bytes, time, time_in_ns};

/// The options of the layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Time without use of the disk after which dirty pages are destaged, and it is left alone.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle: Nanos,
    /// The cache is destaged when less than this share of it is free, 0 to 1.
    pub destage_below: f64,
    /// Only writes of fewer bytes are collected, if none of their pages is cached; 0 for no limit.
    pub absorb_below: Bytes,
    /// Maximum time that a page stays dirty; 0 for no limit.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub dirty_max_age: Nanos,
    /// Size of a segment of the log, as of BORG's.
    pub segment: Bytes,
    /// Fate of dirty pages when the layer is stopped.
    pub at_stop: AtStop,
    /// Whether copies are taken to equal the disk at opening, without comparing them.
    pub trust_origin: bool,
    /// Fate of dirty pages if the disk was written without this layer.
    pub origin_changed: OriginChanged,
    /// Whether a cache is opened read-only and in spite of damage.
    pub older: bool,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let of_borg = borg::Options::default();
        Options {
            idle: Nanos::from_millis(2_000),
            destage_below: 0.1,
            absorb_below: Bytes(0),
            dirty_max_age: Nanos::from_millis(24 * 3_600_000),
            segment: of_borg.segment,
            at_stop: of_borg.at_stop,
            trust_origin: of_borg.trust_origin,
            origin_changed: of_borg.origin_changed,
            older: false,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "the disk was used and is idle: everything is destaged",
    "nothing was written to the disk since its last flush",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] =
    if cfg!(feature = "canaries") { &["a flush of the disk is spared"] } else { &[] };

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        if !(0.0..=1.0).contains(&self.destage_below) {
            return Err(Refused::new("destage_below", self.destage_below.to_string(), "0 to 1"));
        }
        if self.idle == Nanos::ZERO {
            return Err(Refused::new("idle", "0", "a time above zero"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        self.borg().check()
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "spindown"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// BORG's options: its write buffer over all of the cache, which is left as it is in idle time, since that would
    /// wake the disk.
    pub(super) fn borg(&self) -> borg::Options {
        borg::Options {
            write_buffer: 1.0,
            absorb: true,
            absorb_below: self.absorb_below,
            drain_below: self.destage_below,
            drain: borg::Drain::All,
            idle_after: Nanos::ZERO,
            dirty_max_age: self.dirty_max_age,
            segment: self.segment,
            eager: false,
            rehearse: false,
            at_stop: self.at_stop,
            trust_origin: self.trust_origin,
            origin_changed: self.origin_changed,
            older: self.older,
            ..borg::Options::default()
        }
    }
}
