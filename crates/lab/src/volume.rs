//! The tree under test: a simulated drive, slices on it, a layer over them, and the top.

use std::rc::Rc;

use seekless_core::limit::Top;
use seekless_core::{BlockDevice, Extent, IoError, Slice};
use seekless_drive::Disk;
use seekless_layers::Borg;

use crate::experiment::{Experiment, Places};

/// A simulated volume. Build it inside of a runtime.
pub struct Volume {
    /// What clients use.
    pub top: Rc<dyn BlockDevice>,
    /// The drive below.
    pub disk: Rc<Disk>,
    /// The layer between, if any.
    pub borg: Option<Rc<Borg>>,
}

impl Volume {
    /// The tree that an experiment describes, in the world that the caller runs in.
    pub fn new(experiment: &Experiment, places: &Places) -> Result<Volume, IoError> {
        let disk = Rc::new(Disk::new(0, &experiment.drive, experiment.queue));
        let slice = |start, sectors| -> Result<Rc<Slice>, IoError> {
            let window = Extent::new(start, sectors);
            let refused = || {
                IoError::new(
                    seekless_core::ErrorKind::Invalid,
                    "drive",
                    Some(window),
                    "the slice reaches past the end",
                )
            };
            Slice::new(disk.clone(), window).map(Rc::new).ok_or_else(refused)
        };
        let home = slice(0, places.over_sectors)?;
        let Some(layer) = &experiment.layer else {
            return Ok(Volume { top: Rc::new(Top::new(home)), disk, borg: None });
        };
        let bopt = slice(places.bopt_at, places.bopt_sectors)?;
        let borg = Rc::new(Borg::new(home, bopt, layer.options.clone())?.timing_only());
        Ok(Volume { top: Rc::new(Top::new(borg.clone())), disk, borg: Some(borg) })
    }
}
