//! Options of volumes with a zone on their one device.

use seekless_core::{Nanos, PAGE_BYTES, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use super::Shape;
use crate::Refused;
use crate::units::Bytes;

/// Where the zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Zone {
    /// First: on a disk, in its outer tracks.
    Outer,
    /// In the middle of the addresses.
    Middle,
}

/// When parts are moved or copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// In pauses of the clients.
    Idle,
    /// When the layer is asked to, by its command or its schedule.
    Asked,
}

impl Zone {
    /// Shape of a new volume on a device of these sectors; the zone has this size, or this part of the device.
    pub fn shape(self, unit: Bytes, size: Option<Bytes>, part: u64, sectors: u64) -> Result<Shape, Refused> {
        let zone = size.map_or(sectors / part, |size| size.0 / SECTOR_BYTES);
        let behind = match self {
            Zone::Outer => 0,
            Zone::Middle => 500,
        };
        Shape::within(unit.0 / PAGE_BYTES, sectors, zone, behind).ok_or_else(|| {
            let found = format!("a zone of {zone} sectors on a device of {sectors}");
            Refused::new("zone", found, "room for two units in it, and for more outside")
        })
    }
}

impl When {
    /// Time without requests before something is moved, if that is in pauses of this length.
    pub fn pause(self, idle: Nanos) -> Option<Nanos> {
        (self == When::Idle).then_some(idle)
    }
}
