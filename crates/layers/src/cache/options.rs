//! Options of the layer.

use seekless_core::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::policy::Kind;
use crate::Refused;
use crate::canary::Canary;
use crate::units::{Bytes, time, time_in_ns};

/// Size of the smallest cache: an eighth of it, the largest cached request, is a page.
const SMALLEST: u64 = 8 * PAGE_BYTES;

/// Sizes that a cache may have.
pub const SIZES: &str = "32KiB or more in whole pages of 4KiB";

/// The options of the buffer cache.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Memory for pages, in whole pages of 4 KiB: cached, being written, and being read.
    pub size: Bytes,
    /// Whether pages are kept; otherwise only their numbers, to count what a cache of this size would hit.
    pub data: bool,
    /// Policy that chooses the pages to evict.
    pub policy: Kind,
    /// Where writes go.
    pub write: Writes,
    /// Share of it that may be dirty, above 0 to 1; beyond that writes wait.
    pub dirty: f64,
    /// Age at which dirty pages are written back in the background.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub expire: Nanos,
    /// Whether dirty pages are written early where it costs nothing (prewriting).
    pub prewrite: bool,
    /// Time without another write before a page is prewritten, at least 1 ms.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub settle: Nanos,
    /// Size prefetched around a read that missed, half before and half after it, where it costs nothing: at most a
    /// sixteenth of the cache; 0 for none.
    pub prefetch: Bytes,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    pub canary: Option<String>,
}

/// Where writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writes {
    /// To memory, and to the device below later.
    #[default]
    Back,
    /// To the device below, and to memory.
    Through,
    /// To the device below, and to memory only where a page is cached.
    Around,
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a page is overwritten while it is written back",
    "a page could not be written back: it stays dirty",
    "a page that could not be written back is tried alone",
    "a flush failed: all later ones fail",
    "a flush waits for a page that is being written",
    "a write waits for room",
    "nothing can be written back: a write fails",
    "a read finds no room, and is not kept",
    "a request bypasses dirty pages",
    "a request that bypasses pages fails: clean ones are dropped",
    "pages of a failed request are not kept",
    "part of a page is merged with the device below",
    "part of a page is written back",
    "others read a page while it is fetched",
    "a fetched page makes room for the next",
    "a request bypasses a page that is being fetched",
    "a cache that becomes smaller waits for pages in use",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["missing flush", "forgotten on its way", "stale prefetch", "lost overwrite"]
} else {
    &[]
};

/// Pages of a cache of this size; `None` if it is not one of [`SIZES`].
pub fn pages_of(bytes: u64) -> Option<u64> {
    (bytes >= SMALLEST && bytes % PAGE_BYTES == 0).then_some(bytes / PAGE_BYTES)
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        let Bytes(size) = self.size;
        if pages_of(size).is_none() {
            return Err(Refused::new("size", format!("{size} bytes"), SIZES));
        }
        if !(self.dirty > 0.0 && self.dirty <= 1.0) {
            return Err(Refused::new("dirty", self.dirty.to_string(), "above 0 to 1"));
        }
        let least = Nanos::from_millis(1);
        for (key, time) in [("expire", self.expire), ("settle", self.settle)] {
            if time < least {
                return Err(Refused::new(key, time.to_string(), "1ms or more"));
            }
        }
        if self.prewrite && self.write != Writes::Back {
            return Err(Refused::new(
                "prewrite",
                "true",
                "false, since `write` leaves nothing to write back",
            ));
        }
        if !self.data && self.write == Writes::Back {
            return Err(Refused::new("write", "back", "through or around, since `data = false` keeps none"));
        }
        let Bytes(prefetch) = self.prefetch;
        if !self.data && prefetch != 0 {
            return Err(Refused::new(
                "prefetch",
                format!("{prefetch} bytes"),
                "0, since `data = false` keeps none",
            ));
        }
        if prefetch % (2 * PAGE_BYTES) != 0 || prefetch > size / 16 {
            let expected = format!("whole pages before and behind, 8KiB to {} bytes in all, or 0", size / 16);
            return Err(Refused::new("prefetch", format!("{prefetch} bytes"), expected));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "cache"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Maximum number of pages.
    pub fn pages(&self) -> u64 {
        self.size.0 / PAGE_BYTES
    }

    /// Maximum number of dirty pages in a cache of this many pages.
    pub fn dirty_pages(&self, pages: u64) -> u64 {
        ((pages as f64 * self.dirty) as u64).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            size: Bytes(16 << 20),
            data: true,
            policy: Kind::Lru,
            write: Writes::Back,
            dirty: 0.5,
            expire: Nanos::from_millis(30_000),
            prewrite: false,
            settle: Nanos::from_millis(10),
            prefetch: Bytes(0),
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}
