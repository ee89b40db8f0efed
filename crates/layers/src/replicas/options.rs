//! Options of the layer.

use seekless_core::{Nanos, PAGE_BYTES, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

#[cfg(feature = "canaries")]
use super::CANARIES;
use crate::Refused;
use crate::canary::Canary;
use crate::placed::{Shape, When, check_unit};
use crate::units::{Bytes, time, time_in_ns};

/// Part of the device that is the zone, for all copies, unless its size is given.
const PART: u64 = 16;
/// Copies of a unit.
const COPIES: std::ops::RangeInclusive<u32> = 1..=8;
/// The highest count that a unit has to reach.
const LEAST: std::ops::RangeInclusive<u8> = 1..=100;

/// The options of replication.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Copies of each part, beside its own place, 1 to 8. Used at creation.
    pub copies: u32,
    /// Size of the zone, for all copies; by default a 16th of the device. Used at creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Bytes>,
    /// Where the copies are. Used at creation.
    pub at: Spread,
    /// What a write does to copies.
    pub writes: Writes,
    /// Size of the parts that are copied, 4KiB to 1MiB in steps of 4KiB. Used at creation.
    pub unit: Bytes,
    /// When parts are copied.
    pub when: When,
    /// Time without requests of clients before a part is copied; 0 to copy beside them.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle: Nanos,
    /// Reads after which a part is copied, 1 to 100.
    pub least: u8,
    /// Requests of this size and more do not heat the parts that they touch.
    pub sequential: Bytes,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// Where the copies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Spread over the device, so that one is near wherever the head is.
    Apart,
    /// All in the middle of the addresses, at various angles of the platter.
    Middle,
}

/// What a write does to copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// They count no more.
    Invalidate,
    /// They are written too.
    Update,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            copies: 3,
            zone: None,
            at: Spread::Middle,
            writes: Writes::Invalidate,
            unit: Bytes(64 << 10),
            when: When::Idle,
            idle: Nanos::from_millis(100),
            least: 16,
            sequential: Bytes(512 << 10),
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        check_unit(self.unit)?;
        if !COPIES.contains(&self.copies) {
            return Err(Refused::new("copies", self.copies.to_string(), "1 to 8"));
        }
        if !LEAST.contains(&self.least) {
            return Err(Refused::new("least", self.least.to_string(), "1 to 100"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "replicas"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on a device of these sectors.
    pub fn shape(&self, sectors: u64) -> Result<Shape, Refused> {
        self.check()?;
        let unit = self.unit.0 / PAGE_BYTES;
        let zone = self.zone.map_or(sectors / PART, |zone| zone.0 / SECTOR_BYTES);
        let shape = Shape::within(unit, sectors, zone, 500);
        let shape = shape.and_then(|shape| shape.in_bands(self.copies, self.at == Spread::Apart));
        shape.ok_or_else(|| {
            let found = format!("a zone of {zone} sectors on a device of {sectors}");
            Refused::new("zone", found, "room for two units and all their copies in it, and for more outside")
        })
    }
}
