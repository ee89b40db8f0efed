//! Options of the layer.

use seekless_core::{Class, Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::cache;
use crate::cache::policy::Kind;
use crate::pattern::Bounds;
use crate::units::{Bytes, time, time_in_ns};

/// The options of the launch prefetcher, and of CDP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Memory for fetched pages, 1 MiB or more.
    pub size: Bytes,
    /// Time without a read that ends a start, at least 1 ms.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub quiet: Nanos,
    /// Least size of a start that is learned.
    pub least: Bytes,
    /// How often a program must have been started before it is prefetched, 1 to 16.
    pub starts: u32,
    /// Size of all sequences together: what the starts of all programs read.
    pub learned: Bytes,
    /// Class of the fetches. By default as the layer has it.
    pub class: Option<FetchClass>,
    /// Size of a sweep: so much at a time is fetched in the order of addresses, and the sweeps in the order in which
    /// the program reads. By default as the layer has it.
    pub sweep: Option<Bytes>,
    /// Pages between two that are fetched, up to this size, are fetched with them.
    pub gap: Bytes,
    /// Most fetches in flight, 1 to 1,024.
    pub at_once: usize,
}

/// Class of the fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FetchClass {
    /// Before the foreground.
    Urgent,
    /// Beside the foreground.
    Foreground,
    /// After the foreground.
    Background,
}

impl From<FetchClass> for Class {
    fn from(class: FetchClass) -> Class {
        match class {
            FetchClass::Urgent => Class::Urgent,
            FetchClass::Foreground => Class::Foreground,
            FetchClass::Background => Class::Background,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            size: Bytes(512 << 20),
            quiet: Nanos::from_millis(2_000),
            least: Bytes(256 << 10),
            starts: 2,
            learned: Bytes(4 << 30),
            class: None,
            sweep: None,
            gap: Bytes(16 << 10),
            at_once: 1_024,
        }
    }
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        let size = |key, Bytes(found): Bytes, least: u64, text| {
            let fits = found >= least && found % PAGE_BYTES == 0;
            if fits { Ok(()) } else { Err(Refused::new(key, format!("{found} bytes"), text)) }
        };
        size("size", self.size, 1 << 20, "1MiB or more in whole pages of 4KiB")?;
        size("least", self.least, PAGE_BYTES, "4KiB or more in whole pages of 4KiB")?;
        if self.least.0 > self.size.0.min(self.learned.0) {
            let found = format!("{} bytes", self.least.0);
            return Err(Refused::new(
                "least",
                found,
                "at most `size` and `learned`: larger starts are not learned",
            ));
        }
        size("learned", self.learned, 1 << 20, "1MiB or more in whole pages of 4KiB")?;
        if let Some(sweep) = self.sweep {
            size("sweep", sweep, PAGE_BYTES, "4KiB or more in whole pages of 4KiB")?;
        }
        if self.gap.0 % PAGE_BYTES != 0 || self.gap.0 > 1 << 20 {
            let found = format!("{} bytes", self.gap.0);
            return Err(Refused::new("gap", found, "up to 1MiB in whole pages of 4KiB"));
        }
        if self.quiet < Nanos::from_millis(1) {
            return Err(Refused::new("quiet", self.quiet.to_string(), "1ms or more"));
        }
        if !(1..=16).contains(&self.starts) {
            return Err(Refused::new("starts", self.starts.to_string(), "1 to 16"));
        }
        if !(1..=1_024).contains(&self.at_once) {
            return Err(Refused::new("at_once", self.at_once.to_string(), "1 to 1024"));
        }
        Ok(())
    }

    /// Bounds of what is learned.
    pub fn bounds(&self) -> Bounds {
        Bounds { pages: self.learned.0 / PAGE_BYTES, least: self.least.0 / PAGE_BYTES, starts: self.starts }
    }

    /// Pages of memory, which is also the largest start.
    pub fn pages(&self) -> u64 {
        self.size.0 / PAGE_BYTES
    }

    /// The cache for fetched pages: a page leaves when it is read, and writes pass by.
    pub fn cache(&self) -> cache::Options {
        let (policy, write) = (Kind::DropWhenRead, cache::Writes::Around);
        cache::Options { size: self.size, policy, write, ..cache::Options::default() }
    }
}
