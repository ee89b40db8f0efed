//! A volume on simulated drives, in virtual time.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::{Account, BlockDevice, ErrorKind, Extent, IoError, Layer, Slice};
use seekless_drive::{Simulated, Work, simulated};

use crate::description::Description;
use crate::model;
use crate::tree::{self, Bytes, Tree};

/// A simulated volume. Build it inside of a runtime.
pub struct Volume {
    /// The device that clients use.
    pub top: Rc<dyn BlockDevice>,
    /// The drives below, by the names of their components.
    pub drives: BTreeMap<String, Rc<dyn Simulated>>,
    /// The layers over them, by name.
    pub layers: BTreeMap<String, Rc<dyn Layer>>,
    /// Names of the layers, from the top down.
    downwards: Vec<String>,
}

impl Volume {
    /// The tree that a description describes, in the world that the caller runs in.
    pub async fn new(description: &Description) -> Result<Volume, IoError> {
        // Also keeps a tree that is made of itself from being built for ever.
        description
            .check()
            .map_err(|error| IoError::new(ErrorKind::Invalid, "volume", None, error.to_string()))?;
        let drives = description.components.iter().zip(0..).map(|((name, component), number)| {
            (name.clone(), simulated(number, &component.drive, component.queue))
        });
        let drives: BTreeMap<_, _> = drives.collect();
        let mut components = BTreeMap::new();
        for (name, drive) in &drives {
            let device = drive.clone().device();
            let part = description.components[name].sectors.and_then(|sectors| {
                Some(Rc::new(Slice::new(device.clone(), Extent::new(0, sectors))?) as Rc<dyn BlockDevice>)
            });
            let described = &description.components[name];
            components.insert(name.clone(), model::simulated(part.unwrap_or(device), described));
        }
        let Tree { top, layers, .. } = tree::build(description, components, Bytes::Hollow).await?;
        let mut downwards = Vec::new();
        for name in description.downwards(&description.top) {
            if !downwards.contains(&name) {
                downwards.push(name);
            }
        }
        Ok(Volume { top, drives, layers, downwards })
    }

    /// Its layers with their names, from the top down.
    pub fn downwards(&self) -> impl Iterator<Item = (&str, &Rc<dyn Layer>)> {
        self.downwards.iter().filter_map(|name| Some((name.as_str(), self.layers.get(name)?)))
    }

    /// Work of all drives, for one account.
    pub fn account(&self, account: Account) -> Work {
        self.sum(|drive| drive.account(account))
    }

    /// Work of all drives.
    pub fn all(&self) -> Work {
        self.sum(|drive| drive.all())
    }

    /// The arms of all drives; of a drive that has none, one.
    pub fn arms(&self) -> usize {
        self.drives.values().map(|drive| drive.arms()).sum()
    }

    /// Counters of each layer, by name.
    pub fn counted(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let counters = |layer: &Rc<dyn Layer>| {
            layer.counters().into_iter().map(|(name, count)| (name.to_owned(), count))
        };
        self.layers.iter().map(|(name, layer)| (name.clone(), counters(layer).collect())).collect()
    }

    /// Energy of all drives so far, in joules; `None` if one's description does not include it.
    pub fn joules(&self) -> Option<f64> {
        self.drives.values().map(|drive| drive.joules()).sum()
    }

    /// Commands so far that woke a drive from a power state, such as standby.
    pub fn wakes(&self) -> u64 {
        self.drives.values().map(|drive| drive.wakes()).sum()
    }

    fn sum(&self, of: impl Fn(&dyn Simulated) -> Work) -> Work {
        let mut sum = Work::default();
        self.drives.values().for_each(|drive| sum.add(&of(&**drive)));
        sum
    }
}
