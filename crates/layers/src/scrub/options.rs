//! Options of the layer, with defaults.

use seekless_core::{Class, Nanos, SECTOR_BYTES, device::LARGEST_REQUEST_SECTORS};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Refused;
use crate::units::{Bytes, time, time_in_ns};

/// Options. Each key is described on the layer's page, which a test reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Time from the start of a pass to the next; without it only on command.
    #[serde(deserialize_with = "some_time", skip_serializing)]
    pub every: Option<Nanos>,
    /// Class of its reads.
    pub class: ReadClass,
    /// Size of a background read.
    pub block: Bytes,
    /// Maximum number of bytes requested together for free.
    pub wanted: Bytes,
    /// Limit in bytes per second; 0 for none.
    pub rate: Bytes,
    /// Deadline of free reads, after which the remainder is read in the background.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub deadline: Nanos,
}

/// Classes of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadClass {
    /// In order, in the background.
    #[default]
    Background,
    /// For free, with freeblock scheduling.
    Free,
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a block cannot be read: its bad sectors are located",
    "a block that could not be read is readable after all",
    "a bad sector is written while it is located",
    "a pass ends early: the layer stops or is detached",
    "a request for a pass joins the running one",
];

fn some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Nanos>, D::Error> {
    time(from).map(Some)
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        let sectors = self.block.0 / SECTOR_BYTES;
        if sectors % 8 != 0 || !(8..=LARGEST_REQUEST_SECTORS).contains(&sectors) {
            let found = format!("{} bytes", self.block.0);
            return Err(Refused::new("block", found, "4KiB to 32MiB in whole pages of 4KiB"));
        }
        if self.wanted.0 < FREE_BLOCK * SECTOR_BYTES {
            let found = format!("{} bytes", self.wanted.0);
            return Err(Refused::new("wanted", found, "32MiB or more: a read has as much"));
        }
        match self.every {
            Some(Nanos::ZERO) => Err(Refused::new("every", "0s", "a time, such as 7d")),
            _ => Ok(()),
        }
    }

    /// The class of reads before the deadline.
    pub fn class(&self) -> Class {
        match self.class {
            ReadClass::Background => Class::Background,
            ReadClass::Free => Class::Free,
        }
    }

    /// Number of readers in a class, for a volume of `sectors` sectors, and the sectors of each read.
    pub fn reads(&self, class: Class, sectors: u64) -> (usize, u64) {
        match class {
            Class::Free => {
                let most = (self.wanted.0 / SECTOR_BYTES / FREE_BLOCK) as usize;
                (most.min(sectors.div_ceil(FREE_BLOCK) as usize), FREE_BLOCK)
            }
            _ => (BACKGROUND_AT_ONCE, self.block.0 / SECTOR_BYTES),
        }
    }
}

/// Sectors of a free read: the maximum of a request. The more is requested, the more lies under the head's path, and it
/// arrives in any order and piece by piece.
const FREE_BLOCK: u64 = LARGEST_REQUEST_SECTORS;
/// One is read while the next one is queued, so that the head reads continuously.
const BACKGROUND_AT_ONCE: usize = 2;

impl Default for Options {
    fn default() -> Self {
        Options {
            every: None,
            class: ReadClass::Background,
            block: Bytes(64 << 10),
            wanted: Bytes(1 << 40),
            rate: Bytes(0),
            deadline: Nanos::from_millis(7 * 86_400_000),
        }
    }
}
