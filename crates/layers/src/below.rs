//! What a layer is built on: one device or several, and others by key.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::{BlockDevice, ErrorKind, IoError};

use crate::joined::Joined;

/// The number of devices that a layer's `over` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// One.
    One,
    /// A list.
    Several,
}

/// Sizes of the devices that a layer is built on, in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of each device of `over`, in order.
    pub over: Vec<u64>,
    /// Of each other device, by key.
    pub devices: BTreeMap<String, Vec<u64>>,
}

impl Sizes {
    /// Of one device, and no others.
    pub fn of(sectors: u64) -> Sizes {
        Sizes { over: vec![sectors], devices: BTreeMap::new() }
    }

    /// Of all devices of `over` together.
    pub fn sum(&self) -> u64 {
        self.over.iter().fold(0, |sum, sectors| sum.saturating_add(*sectors))
    }
}

/// The devices that a layer is built on.
#[derive(Clone)]
pub struct Below {
    /// The devices of `over`, in order: one, except for layers over several.
    pub over: Vec<Rc<dyn BlockDevice>>,
    /// Other devices, by key.
    pub devices: BTreeMap<String, Vec<Rc<dyn BlockDevice>>>,
    /// Whether on-disk state may be missing: it is created then.
    pub create: bool,
    /// Whether data is hollow, in runs that measure time: the layer need not copy bytes.
    pub timing_only: bool,
}

impl Below {
    /// The device below a layer over one; several are concatenated.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn one(&self) -> Result<Rc<dyn BlockDevice>, IoError> {
        joined("over", &self.over)
    }

    /// The device of this key; several are concatenated.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn device(&self, key: &'static str) -> Result<Rc<dyn BlockDevice>, IoError> {
        joined(key, self.devices.get(key).map(Vec::as_slice).unwrap_or_default())
    }
}

fn joined(key: &'static str, parts: &[Rc<dyn BlockDevice>]) -> Result<Rc<dyn BlockDevice>, IoError> {
    if let [one] = parts {
        return Ok(one.clone());
    }
    let lacks = || IoError::new(ErrorKind::Invalid, key, None, "found no device, expected one");
    Ok(Rc::new(Joined::new(parts.to_vec()).ok_or_else(lacks)?))
}
