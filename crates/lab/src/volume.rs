//! The tree under test: simulated drives, slices on them, layers over those, and the top.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::limit::Top;
use seekless_core::{Account, BlockDevice, ErrorKind, IoError, Slice};
use seekless_drive::{Disk, Work};
use seekless_layers::Borg;

use crate::description::Description;

/// A simulated volume. Build it inside of a runtime.
pub struct Volume {
    /// What clients use.
    pub top: Rc<dyn BlockDevice>,
    /// The drives below, by the names of their components.
    pub disks: BTreeMap<String, Rc<Disk>>,
    /// The topmost layer, if any.
    pub borg: Option<Rc<Borg>>,
}

impl Volume {
    /// The tree that a description describes, in the world that the caller runs in.
    pub fn new(description: &Description) -> Result<Volume, IoError> {
        // Also keeps a tree that is made of itself from being built for ever.
        description
            .check()
            .map_err(|error| IoError::new(ErrorKind::Invalid, "volume", None, error.to_string()))?;
        let disks = description.components.iter().zip(0..).map(|((name, component), number)| {
            (name.clone(), Rc::new(Disk::new(number, &component.drive, component.queue)))
        });
        let mut builder = Builder { description, disks: disks.collect(), borg: None };
        let top = builder.device(&description.top)?;
        Ok(Volume { top: Rc::new(Top::new(top)), disks: builder.disks, borg: builder.borg })
    }

    /// What all drives did, for one account.
    pub fn account(&self, account: Account) -> Work {
        self.sum(|disk| disk.account(account))
    }

    /// What all drives did.
    pub fn all(&self) -> Work {
        self.sum(Disk::all)
    }

    fn sum(&self, of: impl Fn(&Disk) -> Work) -> Work {
        let mut sum = Work::default();
        self.disks.values().for_each(|disk| sum.add(&of(disk)));
        sum
    }
}

struct Builder<'a> {
    description: &'a Description,
    disks: BTreeMap<String, Rc<Disk>>,
    borg: Option<Rc<Borg>>,
}

impl Builder<'_> {
    /// The device called `name`. What is described wrongly was refused before; here it is an error still.
    fn device(&mut self, name: &str) -> Result<Rc<dyn BlockDevice>, IoError> {
        let refused = |why: &'static str| IoError::new(ErrorKind::Invalid, name.to_owned(), None, why);
        if let Some(disk) = self.disks.get(name) {
            return Ok(disk.clone());
        }
        if let Some(window) = self.description.slices.get(name) {
            let disk = self.disks.get(&window.of).ok_or_else(|| refused("the slice is of no component"))?;
            let slice = Slice::new(disk.clone(), window.extent);
            return Ok(Rc::new(slice.ok_or_else(|| refused("the slice reaches past the end"))?));
        }
        let layer = self.description.layers.get(name).ok_or_else(|| refused("there is no such device"))?;
        let over = self.device(&layer.over)?;
        let bopt = self.device(&layer.bopt)?;
        let borg = Rc::new(Borg::new(over, bopt, layer.options.clone())?.timing_only());
        self.borg = Some(borg.clone());
        Ok(borg)
    }
}
