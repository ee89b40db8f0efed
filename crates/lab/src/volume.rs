//! The tree under test: simulated drives, slices on them, layers over those, and the top.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::limit::Top;
use seekless_core::{Account, BlockDevice, ErrorKind, IoError, Slice};
use seekless_drive::{Simulated, Work, simulated};
use seekless_layers::Borg;
use seekless_layers::registry::{self, Below};

use crate::description::Description;

/// A simulated volume. Build it inside of a runtime.
pub struct Volume {
    /// What clients use.
    pub top: Rc<dyn BlockDevice>,
    /// The drives below, by the names of their components.
    pub drives: BTreeMap<String, Rc<dyn Simulated>>,
    /// The topmost layer, if any.
    pub borg: Option<Rc<Borg>>,
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
        let mut builder = Builder { description, drives: drives.collect(), borg: None };
        let top = builder.device(&description.top).await?;
        Ok(Volume { top: Rc::new(Top::new(top)), drives: builder.drives, borg: builder.borg })
    }

    /// What all drives did, for one account.
    pub fn account(&self, account: Account) -> Work {
        self.sum(|drive| drive.account(account))
    }

    /// What all drives did.
    pub fn all(&self) -> Work {
        self.sum(|drive| drive.all())
    }

    /// The arms of all drives; of a drive that has none, one.
    pub fn arms(&self) -> usize {
        self.drives.values().map(|drive| drive.arms()).sum()
    }

    /// What all drives drew so far, in joules; `None` if one's description does not say.
    pub fn joules(&self) -> Option<f64> {
        self.drives.values().map(|drive| drive.joules()).sum()
    }

    fn sum(&self, of: impl Fn(&dyn Simulated) -> Work) -> Work {
        let mut sum = Work::default();
        self.drives.values().for_each(|drive| sum.add(&of(&**drive)));
        sum
    }
}

struct Builder<'a> {
    description: &'a Description,
    drives: BTreeMap<String, Rc<dyn Simulated>>,
    borg: Option<Rc<Borg>>,
}

impl Builder<'_> {
    /// The device called `name`. What is described wrongly was refused before; here it is an error still.
    async fn device(&mut self, name: &str) -> Result<Rc<dyn BlockDevice>, IoError> {
        let refused = |why: &'static str| IoError::new(ErrorKind::Invalid, name.to_owned(), None, why);
        if let Some(disk) = self.drives.get(name) {
            return Ok(disk.clone().device());
        }
        if let Some(window) = self.description.slices.get(name) {
            let disk = self.drives.get(&window.of).ok_or_else(|| refused("the slice is of no component"))?;
            let slice = Slice::new(disk.clone().device(), window.extent);
            return Ok(Rc::new(slice.ok_or_else(|| refused("the slice reaches past the end"))?));
        }
        let layer = self.description.layers.get(name).ok_or_else(|| refused("there is no such device"))?;
        let over = Box::pin(self.device(&layer.over)).await?;
        let mut devices = BTreeMap::new();
        for (key, device) in &layer.devices {
            devices.insert(key.clone(), Box::pin(self.device(device)).await?);
        }
        let below = Below { over, devices };
        if layer.entry.name != "borg" {
            return layer.entry.build(below, &layer.options).await;
        }
        // Of BORG more is asked than of any layer: to reconfigure, and what it served.
        let options = toml::Value::Table(layer.options.clone()).try_into();
        let options = options.map_err(|error: toml::de::Error| {
            IoError::new(ErrorKind::Invalid, name.to_owned(), None, error.to_string())
        })?;
        let borg = Rc::new(registry::borg(&below, options)?.timing_only());
        self.borg = Some(borg.clone());
        Ok(borg)
    }
}
