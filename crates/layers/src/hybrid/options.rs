//! Options of the layer.

use seekless_core::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::canary::Canary;
#[cfg(feature = "canaries")]
use crate::placed;
use crate::placed::{Shape, check_unit};
use crate::registry::Sizes;
use crate::units::{Bytes, time, time_in_ns};

/// The options of the hybrid drive.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Which parts of the volume are on the fast device.
    pub placement: Placement,
    /// Size of the parts that are moved, 4KiB to 1MiB in steps of 4KiB. Used at creation.
    pub unit: Bytes,
    /// Time without requests of clients before a part is moved; 0 to move beside them.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub idle: Nanos,
    /// Requests of this size and more do not heat the parts that they touch: a disk reads them nearly as fast.
    pub sequential: Bytes,
    /// Parts of the volume that are on the fast device whatever their heat.
    pub pin: Vec<Pinned>,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// What decides where a part of the volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Its address: the first ones are on the fast device, and nothing moves.
    Static,
    /// How often it is accessed.
    Heat,
}

/// A part of the volume that stays on the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// Where it begins.
    pub at: Bytes,
    /// Its size.
    pub size: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            placement: Placement::Heat,
            unit: Bytes(64 << 10),
            idle: Nanos::from_millis(100),
            sequential: Bytes(512 << 10),
            pin: Vec::new(),
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        check_unit(self.unit)?;
        if self.placement == Placement::Static && !self.pin.is_empty() {
            let expected = "none with placement = \"static\", which moves nothing";
            return Err(Refused::new("pin", format!("{} parts", self.pin.len()), expected));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), placed::CANARIES)?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "hybrid"), placed::CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on devices of these sectors: the fast one, and the other.
    pub fn shape(&self, fast: u64, slow: u64) -> Result<Shape, Refused> {
        self.check()?;
        Shape::new(self.unit.0 / PAGE_BYTES, fast, slow).ok_or_else(|| {
            let found = format!("devices of {fast} and {slow} sectors");
            Refused::new("fast", found, "room for some units on each, and less than 2^30 units")
        })
    }

    /// Shape of a new volume on devices of these sizes.
    pub fn shape_on(&self, below: &Sizes) -> Result<Shape, Refused> {
        let fast = below.devices.get("fast").map_or(0, |parts| parts.iter().sum());
        self.shape(fast, below.sum())
    }

    /// The pinned units of a volume, ascending.
    ///
    /// # Errors
    /// They are not on the volume, or more than fit on the fast device.
    pub fn pinned(&self, shape: &Shape) -> Result<Vec<u32>, Refused> {
        let unit = shape.unit * PAGE_BYTES;
        let mut pinned = Vec::new();
        for Pinned { at: Bytes(at), size: Bytes(size) } in &self.pin {
            let end =
                at.checked_add(*size).filter(|end| *size > 0 && *end <= u64::from(shape.units()) * unit);
            let refused = || {
                let expected = format!("a part of a volume of {} bytes", u64::from(shape.units()) * unit);
                Refused::new("pin", format!("{size} bytes at {at}"), expected)
            };
            let end = end.ok_or_else(refused)?;
            // The end of a volume of 2^30 units fits.
            pinned.extend((at / unit) as u32..end.div_ceil(unit) as u32);
        }
        pinned.sort_unstable();
        pinned.dedup();
        let room = shape.fast - shape.spare;
        if pinned.len() as u64 > u64::from(room) {
            let found = format!("{} units of {unit} bytes", pinned.len());
            return Err(Refused::new("pin", found, format!("at most the {room} that fit on `fast`")));
        }
        Ok(pinned)
    }
}
