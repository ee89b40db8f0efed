//! Components as a volume file describes them: the same keys for the laboratory, which simulates each, and for the
//! server, which opens it.

use std::path::{Path, PathBuf};

use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::queue::Yielding;
use seekless_drive::{Model, Policy, QueueOptions};
use seekless_layers::Refused;
use serde::Deserialize;

use crate::description::{Leaf, VolumeError};
use crate::duration;

/// The keys of a component.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// A simulated drive, its name or its file: for the laboratory only.
    pub drive: Option<String>,
    /// A file or block device.
    pub file: Option<PathBuf>,
    /// A size of memory.
    pub ram: Option<String>,
    /// Another server's export.
    pub nbd: Option<String>,
    /// The file goes through the host's page cache.
    pub cached: bool,
    /// Nothing is written.
    pub read_only: bool,
    /// The drive that the data is as slow as.
    pub emulate: Option<String>,
    /// Drive model that layers above use to rehearse their changes in virtual time; `none`: they do without.
    pub model: Option<String>,
    /// Where the component begins on the drive of `model`: see [`At`].
    pub model_at: Option<At>,
    /// Which request comes next.
    pub scheduler: Option<String>,
    /// How long a request waits at most.
    pub starvation_limit: Option<String>,
    /// Whether adjacent requests go together.
    pub merge: Option<bool>,
    /// The background's share, in per cent.
    pub background_share: Option<u8>,
    /// Commands in the drive at once. Where no drive is simulated: those in the device, and there is a queue in front.
    pub depth: Option<u32>,
    /// How long requests of background work wait for the next foreground request.
    pub anticipation: Option<String>,
    /// Whether the drive's write cache is on.
    pub write_cache: Option<bool>,
    /// Freeblock mode.
    pub freeblock: Option<String>,
    /// How much earlier than needed the head is where it has to be.
    pub guard: Option<String>,
    /// Limit of the average delay of requests by idle-time work.
    pub idle_delay_limit: Option<String>,
    /// The time that a request has.
    pub timeout: Option<String>,
    /// How long another server is sought when it is gone.
    pub reconnect: Option<String>,
    /// Memory for unflushed writes, which are sent again after a reconnect.
    pub resend: Option<String>,
    /// How another server is known, and we to it.
    pub tls: Option<TrustKeys>,
}

/// A place on a drive: a sector, as a number, or a size with its unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a sector such as 2048, or a size such as \"1MiB\"")]
pub enum At {
    /// A sector.
    Sector(u64),
    /// A size of whole sectors.
    Size(String),
}

/// How another server is known, and we to it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustKeys {
    /// Authorities that sign the server's certificate.
    pub authority: PathBuf,
    /// Our certificate, if the server requires one.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
}

/// A simulated drive with its queue.
#[derive(Clone, Debug)]
pub struct Component {
    /// The drive.
    pub drive: Model,
    /// Queue in front of it.
    pub queue: QueueOptions,
    /// Number of its sectors used; at most as many as the data of the emulated device.
    pub sectors: Option<u64>,
    /// The drive that layers above take it for.
    pub model: Named,
}

/// The drive that layers above take a component for, by its keys.
#[derive(Clone, Debug, Default)]
pub enum Named {
    /// No key names one.
    #[default]
    Nothing,
    /// `model = "none"`: layers do without.
    Off,
    /// This drive; and its sector that the component begins at, if a key names one.
    Drive(Box<Component>, Option<u64>),
}

impl Component {
    /// All of a drive.
    pub fn new(drive: Model, queue: QueueOptions) -> Component {
        Component { drive, queue, sectors: None, model: Named::Nothing }
    }
}

/// Path of a file named in a volume file: relative to it if it exists there, else as given.
pub fn existing_path(volume: &str, path: PathBuf) -> PathBuf {
    let beside = Path::new(volume).parent().map(|folder| folder.join(&path));
    beside.filter(|path| path.exists()).unwrap_or(path)
}

impl Keys {
    /// The drive that the data is as slow as, if there is one.
    ///
    /// # Errors
    /// Keys of a drive's queue without a drive or queue, or the error in them.
    pub fn emulated(&self, file: &str, name: &str) -> Result<Option<Component>, VolumeError> {
        match &self.emulate {
            Some(drive) => self.drive(file, name, drive, "emulate").map(Some),
            None if !self.has_model() && (self.has_drive() || (self.has_queue() && self.depth.is_none())) => {
                Err(VolumeError {
                    place: format!("{file}: component.{name}"),
                    found: "keys of a drive's queue without a drive".to_owned(),
                    expected: "emulate = \"...\" or model = \"...\" with scheduler, merge, depth and the like; or \
                               depth, and no key of freeblock or a write cache, for a queue in front of the device"
                        .to_owned(),
                })
            }
            None => Ok(None),
        }
    }

    /// The queue in front of a device that is not simulated, if there is one.
    ///
    /// # Errors
    /// An error in its keys.
    pub fn queue_in_front(&self, file: &str, name: &str) -> Result<Option<QueueOptions>, VolumeError> {
        let Some(depth) = self.depth.filter(|_| self.emulate.is_none()) else { return Ok(None) };
        let invalid = invalid_in(file, name);
        if !(1..=MOST_IN_DEVICE).contains(&depth) {
            return Err(invalid("depth", depth.to_string(), &format!("1 to {MOST_IN_DEVICE}")));
        }
        let queue = self.queue(&invalid)?;
        if queue.policy.scheduler().by_position() {
            let expected = "fcfs, look, c-look or sstf: where the head of a real device is, is not known";
            return Err(invalid("scheduler", format!("'{}'", queue.policy), expected));
        }
        Ok(Some(queue))
    }

    /// The drive model that layers above use for the component, if its keys name one.
    ///
    /// # Errors
    /// A drive that is not known; a place on a drive without one, or that is no sector.
    pub fn modelled(&self, file: &str, name: &str) -> Result<Named, VolumeError> {
        let at = self.model_at.as_ref();
        let invalid = |found: String, expected: &str| invalid_in(file, name)("model_at", found, expected);
        match (self.model.as_deref().filter(|_| self.has_model()), at) {
            (None, Some(_)) => {
                let expected = "model = \"DRIVE\" with it, the drive that this is a place on";
                Err(invalid("a place without a model".to_owned(), expected))
            }
            (None, None) if self.model.is_some() => Ok(Named::Off),
            (None, None) => Ok(Named::Nothing),
            (Some(drive), at) => {
                let at =
                    at.map(|at| at.sector().map_err(|found| invalid(found, At::EXPECTED))).transpose()?;
                Ok(Named::Drive(Box::new(self.drive(file, name, drive, "model")?), at))
            }
        }
    }

    /// Whether a drive model is named.
    fn has_model(&self) -> bool {
        self.model.as_deref().is_some_and(|name| name != NO_MODEL)
    }

    /// The queue of a drive model that no key names.
    ///
    /// # Errors
    /// An error in its keys.
    pub fn queue_of_model(&self, file: &str, name: &str) -> Result<QueueOptions, VolumeError> {
        self.queue(&invalid_in(file, name))
    }

    /// Whether there are keys of a drive's queue.
    fn has_queue(&self) -> bool {
        self.scheduler.is_some()
            || self.starvation_limit.is_some()
            || self.merge.is_some()
            || self.background_share.is_some()
            || self.depth.is_some()
            || self.anticipation.is_some()
    }

    /// Whether there are keys of a drive besides those of its queue.
    fn has_drive(&self) -> bool {
        self.write_cache.is_some()
            || self.freeblock.is_some()
            || self.guard.is_some()
            || self.idle_delay_limit.is_some()
    }

    /// The simulated drive `named`, with the queue of component `name`; `key` is that of the drive itself, for
    /// messages.
    fn drive(&self, file: &str, name: &str, named: &str, key: &str) -> Result<Component, VolumeError> {
        let invalid = invalid_in(file, name);
        let beside = Path::new(file).parent().map(|folder| folder.join(named)).filter(|path| path.is_file());
        let drive = beside.map_or_else(|| named.to_owned(), |path| path.display().to_string());
        let mut drive =
            Model::find(&drive).map_err(|error| invalid(key, format!("'{named}' ({error})"), "a drive"))?;
        let queue = self.queue(&invalid)?;
        if let Some(on) = self.write_cache {
            drive.set_write_cache(on);
        }
        Ok(Component::new(drive, queue))
    }

    /// The keys of the queue in front of a device.
    fn queue(
        &self,
        invalid: &dyn Fn(&str, String, &str) -> VolumeError,
    ) -> Result<QueueOptions, VolumeError> {
        let defaults = QueueOptions::default();
        let policy = self.scheduler.as_ref().map(|text| {
            text.parse::<Policy>().map_err(|_| invalid("scheduler", format!("'{text}'"), Policy::NAMES))
        });
        let starvation_limit = self.starvation_limit.as_ref().map(|text| {
            let expected = "a time with its unit, 0s for never";
            duration(text).map_err(|_| invalid("starvation_limit", format!("'{text}'"), expected))
        });
        let background_share_pct = self.background_share.unwrap_or(defaults.background_share_pct);
        if !(1..=99).contains(&background_share_pct) {
            return Err(invalid("background_share", background_share_pct.to_string(), "1 to 99"));
        }
        let anticipation = self.anticipation.as_ref().map(|text| {
            let expected = "a time with its unit, such as 2ms";
            duration(text).map_err(|_| invalid("anticipation", format!("'{text}'"), expected))
        });
        let anticipation = anticipation.transpose()?;
        Ok(QueueOptions {
            policy: policy.transpose()?.unwrap_or(defaults.policy),
            merge: self.merge.unwrap_or(defaults.merge),
            background_share_pct,
            starvation_limit: starvation_limit.transpose()?.unwrap_or(defaults.starvation_limit),
            depth: self.depth,
            yielding: anticipation.map(|time| yielding(time, self.depth)),
            freeblock: free_options(self, invalid)?,
        })
    }
}

/// A `model` that is none.
const NO_MODEL: &str = "none";

impl At {
    const EXPECTED: &'static str = "a sector such as 2048, or a size of whole sectors such as \"1MiB\"";

    /// The sector.
    ///
    /// # Errors
    /// The text as found, if it is not a size of whole sectors.
    fn sector(&self) -> Result<u64, String> {
        match self {
            At::Sector(sector) => Ok(*sector),
            At::Size(text) => match text.parse::<Size>() {
                Ok(Size(bytes)) if bytes % SECTOR_BYTES == 0 => Ok(bytes / SECTOR_BYTES),
                _ => Err(format!("'{text}'")),
            },
        }
    }
}

impl Named {
    /// Checks that a component of this size fits on the drive from its place on.
    ///
    /// # Errors
    /// A place where it reaches past the end of the drive.
    pub fn check(&self, file: &str, name: &str, sectors: u64) -> Result<(), VolumeError> {
        let Named::Drive(component, Some(at)) = self else { return Ok(()) };
        let drive = &component.drive;
        if at.checked_add(sectors).is_some_and(|end| end <= drive.sectors()) {
            return Ok(());
        }
        let most = drive.sectors().checked_sub(sectors);
        let expected = most.map_or_else(
            || format!("a larger drive: {} has {} sectors", drive.name(), drive.sectors()),
            |most| format!("at most sector {most}: {} has {} sectors", drive.name(), drive.sectors()),
        );
        let found = format!("sector {at} for a component of {sectors} sectors");
        Err(invalid_in(file, name)("model_at", found, &expected))
    }
}

/// Most commands in a device that is not simulated.
const MOST_IN_DEVICE: u32 = 65_536;

/// How long background work waits for the next foreground request of a disk, by default: several times as long as a
/// client on the same machine needs between two requests, and a fraction of a disk's service time.
const ANTICIPATION: Nanos = Nanos::from_millis(2);

/// How background requests yield in front of a device, if its keys do not say so; `rotational`: it is a disk.
pub fn yielding_by_default(rotational: bool, depth: Option<u32>) -> Yielding {
    yielding(if rotational { ANTICIPATION } else { Nanos::ZERO }, depth)
}

/// Background requests wait this long for the foreground. There is one of them at a time, for which a foreground
/// request then waits; where the foreground is not waited for, an eighth of the depth.
fn yielding(anticipation: Nanos, depth: Option<u32>) -> Yielding {
    let most = if anticipation > Nanos::ZERO { 1 } else { (depth.unwrap_or(1) / 8).max(1) };
    Yielding { anticipation, most }
}

/// Makes errors of a component's keys.
fn invalid_in(file: &str, name: &str) -> impl Fn(&str, String, &str) -> VolumeError {
    move |key, found, expected| VolumeError {
        place: format!("{file}: component.{name}.{key}"),
        found,
        expected: expected.to_owned(),
    }
}

/// A size of memory in sectors, of this key.
///
/// # Errors
/// The text as found, if it is not a size of whole sectors.
pub fn memory(file: &str, name: &str, key: &str, text: &str) -> Result<u64, VolumeError> {
    match text.parse::<Size>() {
        Ok(Size(bytes)) if bytes > 0 && bytes % SECTOR_BYTES == 0 => Ok(bytes / SECTOR_BYTES),
        _ => Err(VolumeError {
            place: format!("{file}: component.{name}.{key}"),
            found: format!("'{text}'"),
            expected: "a size of whole sectors such as 64MiB".to_owned(),
        }),
    }
}

/// Sectors of a file or block device, opened only for its size.
fn size_of(path: &Path) -> std::io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    std::fs::File::open(path)?.seek(SeekFrom::End(0)).map(|bytes| bytes / SECTOR_BYTES)
}

/// How the waits of a component's head are filled, if they are.
fn free_options(
    keys: &Keys,
    invalid: &dyn Fn(&str, String, &str) -> VolumeError,
) -> Result<Option<FreeOptions>, VolumeError> {
    let time = |key: &str, text: &Option<String>| {
        let read = |text: &String| {
            duration(text)
                .map_err(|_| invalid(key, format!("'{text}'"), "a time with its unit, such as 100us"))
        };
        text.as_ref().map(read).transpose()
    };
    let guard = time("guard", &keys.guard)?;
    let idle = time("idle_delay_limit", &keys.idle_delay_limit)?;
    let Some(text) = keys.freeblock.as_deref().filter(|&text| text != "off") else {
        let key = guard.map(|_| "guard").or(idle.map(|_| "idle_delay_limit"));
        return key.map_or(Ok(None), |key| {
            Err(invalid(key, "no freeblock".to_owned(), "freeblock = \"weighted\" or \"paper\""))
        });
    };
    let expected = "paper, weighted or off";
    let policy = text.parse().map_err(|_| invalid("freeblock", format!("'{text}'"), expected))?;
    let (guard, idle_delay_limit) = (guard.unwrap_or_default(), idle.unwrap_or_default());
    Ok(Some(FreeOptions { policy, guard, idle_delay_limit, ..FreeOptions::default() }))
}

impl Leaf for Component {
    type Keys = Keys;

    /// A drive, or the data of a server's component, by its size: as slow as the drive that `emulate` names.
    fn read(file: &str, name: &str, keys: Keys) -> Result<Component, VolumeError> {
        let invalid = |key: &str, found: &str, expected: &str| VolumeError {
            place: format!("{file}: component.{name}{key}"),
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        let data = keys.file.is_some() || keys.ram.is_some() || keys.nbd.is_some();
        let (key, drive) = match (&keys.drive, &keys.emulate) {
            (Some(_), _) if data => {
                return Err(invalid(
                    ".drive",
                    "a simulated drive with data",
                    "one of them: emulate = \"...\" with data",
                ));
            }
            (Some(drive), None) => ("drive", drive),
            (None, Some(drive)) if data => ("emulate", drive),
            (None, None) if data => {
                let expected =
                    "emulate = \"DRIVE\", the drive that the laboratory takes it for (seekless drive list)";
                return Err(invalid("", "data without a drive", expected));
            }
            (None, _) => return Err(invalid("", "no drive", "drive = \"...\", or file or ram with emulate")),
            (Some(_), Some(_)) => return Err(invalid(".emulate", "drive and emulate", "one of them")),
        };
        let sectors = match (&keys.file, &keys.ram, &keys.nbd) {
            (None, None, None) => None,
            (Some(path), None, None) => {
                let path = existing_path(file, path.clone());
                let size = size_of(&path).map_err(|error| {
                    invalid(".file", &format!("{}: {error}", path.display()), "a file or block device")
                })?;
                Some(size)
            }
            (None, Some(text), None) => Some(memory(file, name, "ram", text)?),
            (None, None, Some(_)) => {
                let expected = "file or ram: the laboratory connects to no server, and asks for a size";
                return Err(invalid(".nbd", "another server's export", expected));
            }
            _ => return Err(invalid("", "several of file, ram and nbd", "one of them")),
        };
        let model = keys.modelled(file, name)?;
        let component = Component { sectors, model, ..keys.drive(file, name, drive, key)? };
        component.model.check(file, name, component.sectors())?;
        let most = component.drive.sectors();
        match sectors {
            Some(found) if found > most || found == 0 => Err(invalid(
                &format!(".{key}"),
                &format!("{}, for {} of data", component.drive.name(), Size(found * SECTOR_BYTES)),
                &format!("a drive that is as large; this one has {}", Size(most * SECTOR_BYTES)),
            )),
            _ => Ok(component),
        }
    }

    fn sectors(&self) -> u64 {
        self.sectors.unwrap_or(self.drive.sectors())
    }

    fn check(&self) -> Result<(), Refused> {
        let most = self.drive.queue().depth;
        match self.queue.depth.filter(|depth| !(1..=most).contains(depth)) {
            Some(depth) => {
                let expected = format!("1 to {most}, which the queue of {} holds", self.drive.name());
                Err(Refused::new("depth", depth.to_string(), expected))
            }
            None => Ok(()),
        }
    }

    fn line(&self) -> String {
        format!("{}, {}", self.drive.name(), self.queue.policy)
    }
}
