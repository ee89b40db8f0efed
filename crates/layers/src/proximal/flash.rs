//! The flash of a volume: one device, or a mirror of several ([`mirror`](crate::mirror)), since it is the only home of
//! what is staged and of the map.
//!
//! Older versions joined several devices one after the other: such a volume begins with its own super page, and not
//! with a label of a mirror, and is opened as it was created.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::{BlockDevice, IoError, Layer};

use super::KEY;
use crate::Mirror;
use crate::contents;
use crate::mirror;
use crate::registry::Below;

/// What the first page of flash is said to be.
const CONTENTS: &str = "the flash of a proximal volume";

/// The flash of a volume.
pub struct Flash {
    /// The device.
    pub device: Rc<dyn BlockDevice>,
    /// The mirror, if it is one.
    pub mirror: Option<Rc<Mirror>>,
}

impl Flash {
    /// A single device.
    pub fn of(device: Rc<dyn BlockDevice>) -> Flash {
        Flash { device, mirror: None }
    }

    fn mirrored(mirror: Rc<Mirror>) -> Flash {
        Flash { device: mirror.clone(), mirror: Some(mirror) }
    }

    /// Opens the flash that a volume file names.
    ///
    /// # Errors
    /// Those of the mirror and of the devices.
    pub async fn open(below: &Below) -> Result<Flash, IoError> {
        let Some(members) = members(below) else { return Ok(Flash::of(below.device(KEY)?)) };
        if contents::found(&*members.over[0]).await.is_ok_and(|found| found == Some(CONTENTS)) {
            return Ok(Flash::of(below.device(KEY)?));
        }
        Ok(Flash::mirrored(Mirror::open(&members, &mirror::Options::default()).await?))
    }

    /// As `open`, for a volume that is to be created: a mirror is created, unless an unfinished creation left one.
    ///
    /// # Errors
    /// Contents of a device, unless `replace`; those of the mirror and of the devices.
    pub async fn create(below: &Below, replace: bool) -> Result<Flash, IoError> {
        let Some(members) = members(below) else { return Ok(Flash::of(below.device(KEY)?)) };
        let options = mirror::Options::default();
        let existing = Below { create: false, ..members.clone() };
        if let Ok(left) = Mirror::open(&existing, &options).await {
            if left.is_whole() && contents::is_left(&*left).await? {
                return Ok(Flash::mirrored(left));
            }
        }
        Mirror::create(KEY, members.clone(), &options, replace).await?;
        Ok(Flash::mirrored(Mirror::open(&members, &options).await?))
    }

    /// After everything above it was stopped.
    pub async fn stop(&self) -> Result<(), IoError> {
        match &self.mirror {
            Some(mirror) => Layer::stop(&**mirror).await,
            None => Ok(()),
        }
    }
}

/// The members of a mirror, if the flash is several devices.
fn members(below: &Below) -> Option<Below> {
    let over = below.devices.get(KEY).filter(|devices| devices.len() > 1)?.clone();
    Some(Below { over, devices: BTreeMap::new(), ..below.clone() })
}
