//! Options of the layer.

use seekless_core::{Nanos, PAGE_BYTES, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

#[cfg(feature = "canaries")]
use super::CANARIES;
use super::extents::{MOST_BYTES, arranged, parse};
use crate::canary::Canary;
use crate::placed::{Shape, When, Zone, check_unit};
use crate::units::{Bytes, time, time_in_ns};
use crate::{Refused, files};

/// Part of the device that is the zone, unless its size is given.
const PART: u64 = 8;
/// The options of defragmentation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The map of files, beside the volume file. Without one nothing is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extents: Option<String>,
    /// Size of a block in the map: 512 bytes to 1MiB, a power of two.
    pub block: Bytes,
    /// Where the file system begins: block 0 of the map.
    pub start: Bytes,
    /// Size of the zone; by default an eighth of the device. Used at creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Bytes>,
    /// Where the zone is. Used at creation.
    pub at: Zone,
    /// Size of the parts that are moved, 4KiB to 1MiB in steps of 4KiB. Used at creation.
    pub unit: Bytes,
    /// When parts are moved.
    pub when: When,
    /// Time without requests of clients before a part is moved; 0 to move beside them.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle: Nanos,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            extents: None,
            block: Bytes(PAGE_BYTES),
            start: Bytes(0),
            zone: None,
            at: Zone::Outer,
            unit: Bytes(PAGE_BYTES),
            when: When::Idle,
            idle: Nanos::from_millis(100),
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        check_unit(self.unit)?;
        let Bytes(block) = self.block;
        if !block.is_power_of_two() || !(SECTOR_BYTES..=1 << 20).contains(&block) {
            return Err(Refused::new("block", format!("{block} bytes"), "512B to 1MiB, a power of two"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "defrag"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on a device of these sectors.
    pub fn shape(&self, sectors: u64) -> Result<Shape, Refused> {
        self.check()?;
        self.at.shape(self.unit, self.zone, PART, sectors)
    }

    /// The units of fragmented files in the order of the map, as it is now.
    pub fn arranged(&self, shape: &Shape) -> Result<Vec<u32>, Refused> {
        let Some(file) = &self.extents else { return Ok(Vec::new()) };
        let expected = "a file with a map of extents";
        let bytes = files::read("extents", file, MOST_BYTES, expected)?;
        // Names of files may be any bytes, and do not matter.
        let text = String::from_utf8_lossy(&bytes);
        let [block, start] = [self.block, self.start].map(|Bytes(bytes)| bytes / SECTOR_BYTES);
        let files = parse(&text, shape.sectors().saturating_sub(start) / block)?;
        Ok(arranged(&files, (block, start, shape.unit_sectors()), shape.fast))
    }
}
