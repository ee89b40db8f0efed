//! Models of served components: which drive layers take one for, and where it lies there.
//!
//! A drive that the volume file names goes before what the disk reports of itself. Invariant: a component has a model
//! only if the place of each of its sectors is known, on a drive that is large enough; components on one disk that are
//! taken for one drive share its twin. Nothing here reads the system: what was found there is recorded, so that a
//! replay chooses the same.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use seekless_core::{BlockDevice, Extent, Model, SECTOR_BYTES, Size};
use seekless_drive::{QueueOptions, spec};
use seekless_serve::place::{DiskProbe, Located, Piece, Place};
use serde::{Deserialize, Serialize};

use crate::component::{Component, Named};
use crate::model::{WithModel, of_drive};

/// How the drive was found that layers take a component for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// The volume file names it.
    Named,
    /// It is the drive whose speed the component has.
    Emulated,
    /// By the model number that the disk reports.
    Identity,
    /// By the disk's size alone: a guess.
    Size,
}

/// The model of a component, or why it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ModelStatus {
    /// The drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// How it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<FoundBy>,
    /// The kernel's name of the disk that the component lies on, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// What that disk reports to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The component's first sector on the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sector: Option<u64>,
    /// In how many pieces the component lies on the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<u64>,
    /// Why there is no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<String>,
}

/// What a component stores its data on, as far as models are concerned.
pub enum Base<'a> {
    /// A file or block device, and what was found of its place.
    On(&'a Located),
    /// Memory.
    Memory,
    /// An export of another server.
    Remote,
    /// A file or device that is not there.
    Missing,
}

/// Keys of a component that decide on its model.
pub struct Wanted<'a> {
    /// The drive named.
    pub named: &'a Named,
    /// The drive emulated.
    pub emulated: Option<&'a Component>,
    /// The queue of a drive that is not named.
    pub queue: QueueOptions,
    /// Size of the component in sectors.
    pub sectors: u64,
}

/// A drive that layers take a component for.
pub struct Chosen {
    drive: Component,
    by: FoundBy,
    /// Where the component lies on it.
    pieces: Vec<Piece>,
    /// The disk, if it is known.
    disk: Option<DiskProbe>,
}

impl Wanted<'_> {
    /// Chooses the model.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn choose(&self, base: &Base<'_>) -> Result<Chosen, String> {
        if let Base::Missing = base {
            return Err("the component is not there".to_owned());
        }
        let chosen = match (self.named, self.emulated) {
            (Named::Off, _) => return Err("model = \"none\"".to_owned()),
            (Named::Drive(drive, at), None) => self.named(drive, *at, base)?,
            (Named::Drive(drive, at), Some(_)) => self.from(drive, FoundBy::Named, at.unwrap_or(0), None),
            (Named::Nothing, Some(drive)) => self.from(drive, FoundBy::Emulated, 0, None),
            (Named::Nothing, None) => self.found(base)?,
        };
        let most = chosen.drive.drive.sectors();
        let end =
            chosen.pieces.iter().map(|piece| piece.start.saturating_add(piece.sectors)).max().unwrap_or(0);
        if end > most {
            let name = chosen.drive.drive.name();
            return Err(format!("it ends at sector {end} of its disk, and {name} has {most}"));
        }
        Ok(chosen)
    }

    /// From a sector of a drive on.
    fn from(&self, drive: &Component, by: FoundBy, at: u64, disk: Option<DiskProbe>) -> Chosen {
        Chosen { drive: drive.clone(), by, pieces: vec![Piece { start: at, sectors: self.sectors }], disk }
    }

    /// The drive that is named, at its place.
    fn named(&self, drive: &Component, at: Option<u64>, base: &Base<'_>) -> Result<Chosen, String> {
        let disk = if let Base::On(located) = base { located.disk.clone() } else { None };
        if let Some(at) = at {
            return Ok(self.from(drive, FoundBy::Named, at, disk));
        }
        let unknown = |why: &str| {
            Err(format!("{why}; expected model_at, the sector of {} where it begins", drive.drive.name()))
        };
        match base {
            Base::On(Located { place: Place::At(pieces), .. }) => {
                Ok(Chosen { drive: drive.clone(), by: FoundBy::Named, pieces: pieces.clone(), disk })
            }
            Base::On(Located { place: Place::Unknown(why), .. }) => unknown(why),
            Base::Remote | Base::Missing => unknown("on a disk of another server"),
            // As if the drive began with it: there is nothing else on it.
            Base::Memory => Ok(self.from(drive, FoundBy::Named, 0, None)),
        }
    }

    /// The drive that the disk reports to be, or the nearest in size.
    fn found(&self, base: &Base<'_>) -> Result<Chosen, String> {
        let located = match base {
            Base::On(located) => located,
            Base::Memory => return Err("memory".to_owned()),
            Base::Remote | Base::Missing => return Err("on a disk of another server".to_owned()),
        };
        let (disk, pieces) = match (&located.disk, &located.place) {
            (_, Place::Unknown(why)) => return Err(why.clone()),
            (None, Place::At(_)) => return Err("on a disk that is not known".to_owned()),
            (Some(disk), Place::At(pieces)) => (disk, pieces),
        };
        if !disk.rotational {
            return Err(format!(
                "on flash ({}), which no layer has to rehearse on unless model names it",
                disk.name
            ));
        }
        let known = spec::with_identity(&disk.identity).map(|spec| (spec, FoundBy::Identity));
        let known = known.or_else(|| Some((spec::nearest_in_size(disk.sectors)?, FoundBy::Size)));
        let (spec, by) = known.ok_or_else(|| {
            let size = Size(disk.sectors * SECTOR_BYTES);
            format!(
                "no drive that ships is like {} ({}, {size}); model names one",
                disk.name,
                model_number(disk)
            )
        })?;
        let most = spec.queue.depth;
        let depth = self.queue.depth.map(|depth| depth.min(most));
        let drive = Component::new(spec.into(), QueueOptions { depth, ..self.queue });
        Ok(Chosen { drive, by, pieces: pieces.clone(), disk: Some(disk.clone()) })
    }
}

/// Model number of a disk, for messages.
fn model_number(disk: &DiskProbe) -> &str {
    if disk.identity.is_empty() { "disk without a model number" } else { &disk.identity }
}

impl ModelStatus {
    /// The status of a model.
    pub(super) fn of(chosen: &Result<Chosen, String>) -> ModelStatus {
        let Chosen { drive, by, pieces, disk } = match chosen {
            Ok(chosen) => chosen,
            Err(why) => return ModelStatus { none: Some(why.clone()), ..ModelStatus::default() },
        };
        ModelStatus {
            drive: Some(drive.drive.name().to_owned()),
            by: Some(*by),
            disk: disk.as_ref().map(|disk| disk.name.clone()),
            identity: disk.as_ref().map(|disk| model_number(disk).to_owned()),
            first_sector: pieces.first().map(|piece| piece.start),
            pieces: Some(pieces.len() as u64),
            none: None,
        }
    }
}

/// In a sentence.
impl fmt::Display for ModelStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(drive), Some(by)) = (&self.drive, self.by) else {
            return write!(f, "no model: {}; layers do without", self.none.as_deref().unwrap_or("unknown"));
        };
        let identity = self.identity.as_deref().unwrap_or_default();
        write!(f, "modelled as {drive}, ")?;
        match by {
            FoundBy::Named => write!(f, "which model names"),
            FoundBy::Emulated => write!(f, "which it emulates"),
            FoundBy::Identity => write!(f, "by its model number {identity}"),
            FoundBy::Size => write!(f, "a guess by the size of a {identity}, which no drive that ships is"),
        }?;
        let first = self.first_sector.unwrap_or_default();
        match self.pieces {
            Some(pieces) if pieces > 1 => write!(f, "; in {pieces} pieces, the first at sector {first}"),
            _ => write!(f, "; from sector {first} on"),
        }?;
        self.disk.as_ref().map_or(Ok(()), |disk| write!(f, ", {disk}"))
    }
}

/// The models of a volume's disks: one for each disk and the drive that it is taken for.
#[derive(Default)]
pub struct Models(RefCell<Vec<Known>>);

/// A model that is in use.
struct Known {
    /// Number of the disk.
    disk: String,
    drive: seekless_drive::Model,
    queue: QueueOptions,
    model: Arc<dyn Model>,
}

impl Models {
    /// `device` with the model that was chosen.
    pub fn over(&self, device: Rc<dyn BlockDevice>, chosen: &Chosen) -> Rc<dyn BlockDevice> {
        let model = self.of(chosen);
        let pieces = chosen.pieces.iter().map(|piece| Extent::new(piece.start, piece.sectors));
        WithModel::over(device, &model, chosen.drive.drive.sectors(), pieces)
    }

    /// The model of a disk; that of an unknown one is its own.
    fn of(&self, Chosen { drive, disk, .. }: &Chosen) -> Arc<dyn Model> {
        let Some(disk) = disk else { return of_drive(drive) };
        let Component { drive: like, queue, .. } = drive;
        let known = self.0.borrow().iter().find_map(|known| {
            let same = known.disk == disk.number && known.queue == *queue && known.drive == *like;
            same.then(|| known.model.clone())
        });
        known.unwrap_or_else(|| {
            let model = of_drive(drive);
            let (disk, like) = (disk.number.clone(), like.clone());
            self.0.borrow_mut().push(Known { disk, drive: like, queue: *queue, model: model.clone() });
            model
        })
    }
}

#[cfg(test)]
mod tests;
