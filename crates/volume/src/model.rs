//! Models of components: a simulated drive as a maker of twins, for the layers above.
//!
//! A component is modelled by the drive that its key `model` names; without that, one that is simulated or as slow as a
//! drive by that drive, and one on a real disk as `live` finds it. Others have no model, and layers do without
//! one.

use std::rc::Rc;
use std::sync::Arc;

use seekless_core::{BlockDevice, Extent, Model, Modelled, Twin};
use seekless_drive::{QueueOptions, Template};

use crate::component::{Component, Named};

/// A drive that twins are made of.
struct Drive {
    like: Template,
    queue: QueueOptions,
}

impl Model for Drive {
    fn twin(&self) -> Twin {
        let drive = self.like.simulated(0, self.queue);
        let device = drive.clone().device();
        Twin { device, busy: Box::new(move |account| drive.account(account).busy()) }
    }
}

/// A component with its model.
pub struct WithModel {
    device: Rc<dyn BlockDevice>,
    model: Modelled,
}

impl BlockDevice for WithModel {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.device)
    }

    fn model(&self) -> Option<Modelled> {
        Some(self.model.clone())
    }
}

impl WithModel {
    /// `device`, which lies on these sectors of a drive, one after the other. A device that does not fit there has no
    /// model.
    pub fn over(
        device: Rc<dyn BlockDevice>,
        model: &Arc<dyn Model>,
        drive_sectors: u64,
        pieces: impl IntoIterator<Item = Extent>,
    ) -> Rc<dyn BlockDevice> {
        let whole = Modelled::new(model.clone(), drive_sectors);
        let parts: Option<Vec<Modelled>> = pieces.into_iter().map(|piece| whole.part(piece)).collect();
        let all = Extent::new(0, device.geometry().sectors);
        match parts.and_then(|parts| Modelled::joined(parts).part(all)) {
            Some(model) => Rc::new(WithModel { device, model }),
            None => device,
        }
    }
}

/// A model of this drive, with a twin of its own.
pub fn of_drive(drive: &Component) -> Arc<dyn Model> {
    Arc::new(Drive { like: Template::new(&drive.drive), queue: drive.queue })
}

/// A simulated component, modelled as its keys say. A drive that is smaller than the device is no model of it.
pub fn simulated(device: Rc<dyn BlockDevice>, component: &Component) -> Rc<dyn BlockDevice> {
    let (drive, at) = match &component.model {
        Named::Nothing => (component, 0),
        Named::Off => return device,
        Named::Drive(drive, at) => (&**drive, at.unwrap_or(0)),
    };
    let sectors = device.geometry().sectors;
    WithModel::over(device, &of_drive(drive), drive.drive.sectors(), [Extent::new(at, sectors)])
}
