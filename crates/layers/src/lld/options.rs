//! Options of the layer.

use seekless_core::{ErrorKind, IoError, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use super::layout::{LARGEST_SEGMENT, Layout, SMALLEST_SEGMENT, THRESHOLD};
use crate::Refused;
use crate::canary::Canary;
use crate::units::Bytes;

/// The largest size of what waits for holes, in bytes.
const MOST_STAGED: u64 = 1 << 30;

/// The options of the log-structured logical disk.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Size visible to clients; by default fifteen sixteenths of the maximum.
    pub size: Option<Bytes>,
    /// Size of a segment including its summary: whole blocks of 4 KiB, 4 to 128.
    pub segment: Bytes,
    /// Cleaner to use.
    pub cleaner: Cleaner,
    /// Writers wait for the cleaner below this number of free segments: at least 2.
    pub threshold: u32,
    /// The freeblock cleaner starts below this number of free segments: more than `threshold`.
    pub free_threshold: u32,
    /// Where the freeblock cleaner writes moved blocks.
    pub moved: Moved,
    /// Memory for blocks that wait to be written to dead slots near the head's way, in class `Free`, whole blocks of
    /// 4 KiB: hole plugging. With the freeblock cleaner only; 0: none.
    pub plug: Bytes,
    /// Segments cleaned together, at least 1.
    pub at_once: u32,
    /// Opens the checkpoint before the newest, read-only, if a sector of the newest has rotted. Blocks written since
    /// may read as older data.
    pub older: bool,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    pub canary: Option<String>,
}

/// Cleaners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cleaner {
    /// Started by a writer that finds too few free segments.
    #[default]
    Original,
    /// In class `Free` from a higher threshold on; below the lower one as `Original`.
    Freeblock,
}

/// Where the freeblock cleaner writes moved blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Moved {
    /// Into the open segment: clients' writes carry them, as in the paper.
    Joined,
    /// Into segments of its own, in class `Free`.
    #[default]
    Apart,
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a torn checkpoint: the one before counts",
    "zeroes where no checkpoint was written: a volume of zeroes",
    "records behind a checkpoint are replayed",
    "the log ends with an incomplete segment",
    "the log cannot be read where it seems to end",
    "a segment could not be written, and there is no room: it is written again",
    "nothing can be written any more",
    "a segment could not be written: its blocks join the next one",
    "a flush failed: nothing is written any more",
    "a second flush waits for the first",
    "the log failed during a checkpoint: another one is made",
    "a checkpoint is due",
    "a checkpoint is written to its other copy too",
    "an empty record says that the last one is durable",
    "no room for an empty record: a checkpoint says what is durable",
    "a record of the log is repaired from its parity",
    "a moved block is not whole: its old copy counts",
    "the log continues where only a checkpoint can lead",
    "no segment is left for the log to continue in",
    "a block that has no place",
    "a block is read from memory",
    "a segment is free when the last read of it ends",
    "no block of a segment is live any more",
    "there is no segment to move blocks to: they join the log",
    "part of a block is merged with the rest",
    "part of a block is read: all of it is verified",
    "a block is used while it is cleaned: it is not moved",
    "only the emptiest segments are worth cleaning",
    "a client waits for the cleaner",
    "segments are chosen anew after a wait for the freeblock cleaner",
    "a segment that the freeblock cleaner fills is cleaned too",
    "empty segments are free only behind a checkpoint",
    "empty segments became free while the freeblock cleaner was taken over",
    "a segment cannot be read at once: block by block",
    "the freeblock cleaner is taken over",
    "the freeblock cleaner waits for a free segment",
    "a block is staged for a hole",
    "a block is used while it is written to a hole",
    "a block in a hole was in the open record before",
    "a flush puts a staged block into the log",
    "a checkpoint makes holes of dead slots",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["early reuse", "missing flush", "torn segment accepted", "lost deletion", "unflushed opening"]
} else {
    &[]
};

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        let Bytes(segment) = self.segment;
        let sensible = u64::from(SMALLEST_SEGMENT)..=u64::from(LARGEST_SEGMENT);
        if segment % PAGE_BYTES != 0 || !sensible.contains(&(segment / PAGE_BYTES)) {
            let expected = "16KiB to 512KiB in whole blocks of 4KiB";
            return Err(Refused::new("segment", format!("{segment} bytes"), expected));
        }
        if self.threshold < THRESHOLD {
            return Err(Refused::new("threshold", self.threshold.to_string(), "at least 2"));
        }
        if self.cleaner == Cleaner::Freeblock && self.free_threshold <= self.threshold {
            let expected = format!("more than the threshold of {}", self.threshold);
            return Err(Refused::new("free_threshold", self.free_threshold.to_string(), expected));
        }
        if self.plug.0 % PAGE_BYTES != 0 || self.plug.0 > MOST_STAGED {
            let expected = "whole blocks of 4 KiB, at most 1 GiB of them";
            return Err(Refused::new("plug", format!("{} bytes", self.plug.0), expected));
        }
        if self.plug.0 > 0 && self.cleaner == Cleaner::Original {
            let expected = "0 with the cleaner \"original\"; with \"freeblock\" more";
            return Err(Refused::new("plug", format!("{} bytes", self.plug.0), expected));
        }
        if self.at_once == 0 {
            return Err(Refused::new("at_once", "0", "at least 1"));
        }
        match self.size {
            Some(Bytes(bytes)) if bytes == 0 || bytes % PAGE_BYTES != 0 => {
                Err(Refused::new("size", format!("{bytes} bytes"), "whole blocks of 4 KiB"))
            }
            _ => Ok(()),
        }
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "lld"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Layout of a device of `sectors` sectors.
    pub fn layout(&self, sectors: u64) -> Result<Layout, Refused> {
        self.check()?;
        let blocks = self.size.map(|Bytes(bytes)| bytes / PAGE_BYTES);
        Layout::new(sectors, (self.segment.0 / PAGE_BYTES) as u32, self.threshold, blocks)
    }

    /// As `layout`, with the layer's error.
    pub fn built(&self, sectors: u64) -> Result<Layout, IoError> {
        self.layout(sectors).map_err(|why| invalid(&why))
    }

    /// Layout in the first format.
    pub fn first_format(&self, sectors: u64) -> Result<Layout, IoError> {
        let blocks = self.size.map(|Bytes(bytes)| bytes / PAGE_BYTES);
        let segment = (self.segment.0 / PAGE_BYTES) as u32;
        Layout::first_format(sectors, segment, self.threshold, blocks).map_err(|why| invalid(&why))
    }
}

fn invalid(why: &Refused) -> IoError {
    IoError::new(ErrorKind::Invalid, "lld", None, why.to_string())
}

impl Default for Options {
    fn default() -> Self {
        Options {
            size: None,
            segment: Bytes(u64::from(LARGEST_SEGMENT) * PAGE_BYTES),
            cleaner: Cleaner::Original,
            threshold: THRESHOLD,
            free_threshold: 16,
            moved: Moved::Apart,
            plug: Bytes(0),
            at_once: 8,
            older: false,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}
