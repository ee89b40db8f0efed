//! A simulated drive of any kind, from its description.

use std::rc::Rc;

use crate::component::{Component, FlashDrive, Simulated};
use crate::disk::Drive;
use crate::queue::QueueOptions;
use crate::shingled::Shingled;
use crate::spec::{FlashSpec, Model, ShingledSpec, Spec};

/// The simulated drive of this description, idle; `device` is its number in the event log.
pub fn simulated(device: u32, model: &Model, options: QueueOptions) -> Rc<dyn Simulated> {
    Template::new(model).simulated(device, options)
}

/// Makes many simulated drives of one description: what only depends on that is computed once.
#[derive(Clone, Debug)]
pub struct Template(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// An idle arm, and how many there are.
    Disk(Box<Drive>, u32),
    Shingled(Box<Spec>, ShingledSpec),
    Flash(Box<FlashSpec>),
}

impl Template {
    /// One for this description.
    pub fn new(model: &Model) -> Template {
        Template(match model {
            Model::Disk(spec) => match spec.shingled {
                Some(shingled) => Kind::Shingled(spec.clone(), shingled),
                None => Kind::Disk(Box::new(Drive::new(&spec.arm())), spec.actuators),
            },
            Model::Flash(spec) => Kind::Flash(spec.clone()),
        })
    }

    /// A drive, idle; `device` is its number in the event log.
    pub fn simulated(&self, device: u32, options: QueueOptions) -> Rc<dyn Simulated> {
        match &self.0 {
            Kind::Disk(arm, arms) => {
                let arms = (0..*arms).map(|_| (**arm).clone()).collect();
                Rc::new(Component::of(device, arms, options))
            }
            Kind::Shingled(spec, shingled) => Rc::new(Shingled::new(device, spec, *shingled, options)),
            Kind::Flash(spec) => Rc::new(FlashDrive::new(device, spec, options)),
        }
    }
}
