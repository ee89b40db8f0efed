//! A simulated drive of any kind, from its description.

use std::rc::Rc;

use crate::component::{Disk, FlashDrive, Simulated};
use crate::queue::QueueOptions;
use crate::shingled::Shingled;
use crate::spec::Model;

/// The simulated drive of this description, idle; `device` is its number in the event log.
pub fn simulated(device: u32, model: &Model, options: QueueOptions) -> Rc<dyn Simulated> {
    match model {
        Model::Disk(spec) => match spec.shingled {
            Some(shingled) => Rc::new(Shingled::new(device, spec, shingled, options)),
            None => Rc::new(Disk::new(device, spec, options)),
        },
        Model::Flash(spec) => Rc::new(FlashDrive::new(device, spec, options)),
    }
}
