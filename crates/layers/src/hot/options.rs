//! Options of the layer.

use seekless_core::Nanos;
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::canary::Canary;
#[cfg(feature = "canaries")]
use crate::placed;
use crate::placed::{Shape, When, Zone, check_unit};
use crate::units::{Bytes, time, time_in_ns};

/// Part of the device that is the zone, unless its size is given.
const PART: u64 = 32;
/// The highest count that a unit has to reach.
const LEAST: std::ops::RangeInclusive<u8> = 1..=100;

/// The options of hot-data clustering.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Size of the zone; by default a 32nd of the device. Used at creation.
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
    /// Accesses after which a part is hot, 1 to 100.
    pub least: u8,
    /// Requests of this size and more do not heat the parts that they touch.
    pub sequential: Bytes,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            zone: None,
            at: Zone::Middle,
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
        if !LEAST.contains(&self.least) {
            return Err(Refused::new("least", self.least.to_string(), "1 to 100"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), placed::CANARIES_OF_ONE)?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "hot"), placed::CANARIES_OF_ONE);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on a device of these sectors.
    pub fn shape(&self, sectors: u64) -> Result<Shape, Refused> {
        self.check()?;
        self.at.shape(self.unit, self.zone, PART, sectors)
    }
}
