//! Models of components: a simulated drive as a maker of twins, for the layers above.
//!
//! A component is modelled by the drive that its key `model` names; without that, one that is simulated or as slow as a
//! drive by that drive. Others have no model, and layers do without one.

use std::rc::Rc;
use std::sync::Arc;

use seekless_core::{BlockDevice, Model, Modelled, Twin};
use seekless_drive::{QueueOptions, Template};

use crate::component::Component;

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
struct WithModel {
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

/// `device`, modelled by a drive. A drive that is smaller than the device is no model of it.
pub fn modelled(device: Rc<dyn BlockDevice>, drive: &Component) -> Rc<dyn BlockDevice> {
    let sectors = device.geometry().sectors;
    if sectors > drive.drive.sectors() {
        return device;
    }
    let model = Drive { like: Template::new(&drive.drive), queue: drive.queue };
    let model = Modelled::new(Arc::new(model), sectors);
    Rc::new(WithModel { device, model })
}
