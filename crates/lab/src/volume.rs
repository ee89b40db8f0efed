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
        let drives: BTreeMap<_, _> = drives.collect();
        let components = drives.iter().map(|(name, drive)| (name.clone(), drive.clone().device())).collect();
        let (top, borg) = over(description, components).await?;
        Ok(Volume { top, drives, borg })
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

/// The top of the tree that a checked description describes, over these components, and the layer next to it.
pub async fn over(
    description: &Description,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
) -> Result<(Rc<dyn BlockDevice>, Option<Rc<Borg>>), IoError> {
    let mut builder = Builder { description, components, borg: None };
    let top = builder.device(&description.top).await?;
    Ok((Rc::new(Top::new(top)), builder.borg))
}

struct Builder<'a> {
    description: &'a Description,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    borg: Option<Rc<Borg>>,
}

impl Builder<'_> {
    /// The device called `name`. What is described wrongly was refused before; here it is an error still.
    async fn device(&mut self, name: &str) -> Result<Rc<dyn BlockDevice>, IoError> {
        let refused = |why: &'static str| IoError::new(ErrorKind::Invalid, name.to_owned(), None, why);
        if let Some(component) = self.components.get(name) {
            return Ok(component.clone());
        }
        if let Some(window) = self.description.slices.get(name) {
            let of =
                self.components.get(&window.of).ok_or_else(|| refused("the slice is of no component"))?;
            let slice = Slice::new(of.clone(), window.extent);
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
