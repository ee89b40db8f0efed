//! A drive of any kind.

use super::{FlashSpec, QueueSpec, Spec, SpecError, WriteBack, flash_of, parse, read_text};

/// A drive of any kind, as described by its file.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A disk.
    Disk(Box<Spec>),
    /// A flash drive.
    Flash(Box<FlashSpec>),
}

impl From<Spec> for Model {
    fn from(spec: Spec) -> Model {
        Model::Disk(Box::new(spec))
    }
}

impl From<FlashSpec> for Model {
    fn from(spec: FlashSpec) -> Model {
        Model::Flash(Box::new(spec))
    }
}

impl Model {
    /// The drive of this name, or in this file if the name ends in `.toml`.
    pub fn find(name: &str) -> Result<Model, SpecError> {
        let (file, text) = read_text(name)?;
        match flash_of(&file, &text)? {
            Some(flash) => Ok(flash.into()),
            None => Ok(parse(&file, &text)?.into()),
        }
    }

    /// Name on the command line.
    pub fn name(&self) -> &str {
        match self {
            Model::Disk(spec) => &spec.name,
            Model::Flash(spec) => &spec.name,
        }
    }

    /// Title for people.
    pub fn title(&self) -> &str {
        match self {
            Model::Disk(spec) => &spec.title,
            Model::Flash(spec) => &spec.title,
        }
    }

    /// Capacity in sectors.
    pub fn sectors(&self) -> u64 {
        match self {
            Model::Disk(spec) => spec.sectors,
            Model::Flash(spec) => spec.sectors,
        }
    }

    /// The drive's own queue.
    pub fn queue(&self) -> QueueSpec {
        match self {
            Model::Disk(spec) => spec.queue,
            Model::Flash(spec) => spec.queue,
        }
    }

    /// Turns its write cache on or off: whether writes are acknowledged before they are on the media.
    pub fn set_write_cache(&mut self, on: bool) {
        match self {
            Model::Disk(spec) => spec.set_write_cache(on),
            Model::Flash(spec) => spec.controller.write_cache = on,
        }
    }

    /// Whether writes are acknowledged before they are on the media.
    pub fn write_cache(&self) -> bool {
        match self {
            Model::Disk(spec) => spec.cache.write_back == WriteBack::All,
            Model::Flash(spec) => spec.controller.write_cache,
        }
    }

    /// The disk, if it is one.
    pub fn disk(&self) -> Option<&Spec> {
        match self {
            Model::Disk(spec) => Some(spec),
            Model::Flash(_) => None,
        }
    }
}
