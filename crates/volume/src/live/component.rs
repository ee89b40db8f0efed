//! The components of a live volume, from a volume file: files, block devices, memory, exports of other servers;
//! optionally emulating a drive's speed.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use crate::component::{Component, Keys, TrustKeys, existing_path, memory, yielding_by_default};
use crate::description::{Leaf, VolumeError};
use crate::duration;
use crate::model::modelled;
use seekless_core::{BlockDevice, Meter, Nanos, SECTOR_BYTES, Size};
use seekless_drive::{QueueOptions, QueuedDevice, simulated};
use seekless_layers::Refused;
use seekless_serve::component::{
    Connected, EmulatedComponent, ExportInfo, FileComponent, FileProbe, MemoryComponent, Opened, Reconnect,
    RemoteComponent, TimedComponent,
};
use seekless_serve::reactor::Reactor;
use seekless_serve::uri;
use seekless_serve::wire::Trust;
use serde::{Deserialize, Serialize};

use super::error::{At, LiveError};
use super::missing::Missing;

/// A component that was opened, and is not in use by another volume.
pub struct Live {
    store: Store,
    /// The drive whose speed it emulates.
    emulated: Option<Component>,
    /// The drive that layers above take it for, if not for that one.
    model: Option<Component>,
    /// The queue in front of it, if any.
    queue: Option<QueueOptions>,
    /// That queue, once it is built.
    queued: RefCell<Weak<QueuedDevice>>,
    /// Time limit of a request.
    timeout: Option<Nanos>,
    /// Path of its file.
    path: Option<PathBuf>,
    /// Counts and times its requests; those of memory take no time.
    meter: Option<Rc<Meter>>,
    /// The file or block device, once it is built.
    file: RefCell<Weak<FileComponent>>,
}

/// Storage of its data.
enum Store {
    /// A file or block device, opened; taken when the component is built. Its sectors, and whether it is read-only.
    File(RefCell<Option<Opened>>, Cell<u64>, bool),
    /// Memory: sectors.
    Memory(u64),
    /// An export of another server, connected; taken when the component is built. And how to reconnect.
    Remote(RefCell<Option<Connected>>, ExportInfo, Option<Reconnect>),
    /// A file or block device that is not there: its sectors, as others have them, and the error.
    Missing(Cell<u64>, VolumeError),
}

/// Properties of a component, found when it was opened.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probed {
    /// A file or block device.
    File(FileProbe),
    /// Memory: sectors.
    Memory(u64),
    /// An export of another server.
    Remote(ExportInfo),
    /// A file or block device that was not there.
    Missing {
        /// Its sectors, as others had them.
        sectors: u64,
        /// Where that was found, what, and what was expected.
        error: [String; 3],
    },
}

impl Leaf for Live {
    type Keys = Keys;

    fn read(file: &str, name: &str, keys: Keys) -> Result<Live, VolumeError> {
        Live::over(file, name, keys, store)
    }

    fn sectors(&self) -> u64 {
        match &self.store {
            Store::File(_, sectors, _) | Store::Missing(sectors, _) => sectors.get(),
            Store::Memory(sectors) => *sectors,
            Store::Remote(_, info, _) => info.bytes.div_ceil(SECTOR_BYTES),
        }
    }

    fn check(&self) -> Result<(), Refused> {
        self.emulated.as_ref().map_or(Ok(()), Leaf::check)
    }

    fn line(&self) -> String {
        let data = match &self.store {
            Store::File(..) => "a file".to_owned(),
            Store::Remote(..) => "another server's export".to_owned(),
            Store::Memory(sectors) => format!("{} of memory", size_text(*sectors)),
            Store::Missing(..) => "a file that is not there".to_owned(),
        };
        match &self.emulated {
            Some(component) => format!("{data} as slow as {}", component.line()),
            None => data,
        }
    }

    fn missing(&self) -> Option<&VolumeError> {
        if let Store::Missing(_, error) = &self.store { Some(error) } else { None }
    }

    fn suppose(&self, found: u64) {
        if let Store::Missing(sectors, _) = &self.store {
            sectors.set(found);
        }
    }
}

fn size_text(sectors: u64) -> Size {
    Size(sectors * SECTOR_BYTES)
}

/// Bytes of unflushed writes to keep, to be sent again.
fn resend(file: &str, name: &str, text: Option<&str>) -> Result<u64, VolumeError> {
    text.map_or(Ok(0), |text| Ok(memory(file, name, "resend", text)? * SECTOR_BYTES))
}

/// Opens the storage that the keys describe.
fn store(file: &str, name: &str, keys: Keys) -> Result<Store, VolumeError> {
    let invalid = |key: &str, found: String, expected: &str| VolumeError {
        place: format!("{file}: component.{name}{key}"),
        found,
        expected: expected.to_owned(),
    };
    if keys.tls.is_some() && keys.nbd.is_none() {
        return Err(invalid(".tls", "tls without nbd".to_owned(), "it with another server's export only"));
    }
    if keys.reconnect.is_some() && keys.nbd.is_none() {
        let found = "reconnect without nbd".to_owned();
        return Err(invalid(".reconnect", found, "it with another server's export only"));
    }
    if keys.resend.is_some() && keys.reconnect.is_none() {
        let found = "resend without reconnect".to_owned();
        return Err(invalid(".resend", found, "both, or neither: it is for the time after a reconnect"));
    }
    match (keys.file, keys.ram, keys.nbd) {
        (None, None, Some(uri)) if !keys.cached && !keys.read_only => {
            let trust = keys.tls.map(|keys| trust(file, keys)).transpose();
            let trust = trust.map_err(|found| invalid(".tls", found, "files in PEM that go together"))?;
            let limit = keys.reconnect.map(|text| time(file, name, "reconnect", &text)).transpose()?;
            let uri = reached(file, uri);
            let connected = Connected::to(&uri, trust.as_ref()).map_err(|error| {
                invalid(".nbd", format!("{uri}: {error}"), "an export that can be reached")
            })?;
            let info = connected.info();
            let resend = resend(file, name, keys.resend.as_deref())?;
            let again = limit.map(|limit| Reconnect { uri, trust, limit, resend });
            Ok(Store::Remote(RefCell::new(Some(connected)), info, again))
        }
        (Some(path), None, None) => {
            let path = existing_path(file, path);
            let opened = Opened::open(&path, keys.cached, keys.read_only);
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    let found = format!("{}: {}", path.display(), error.found);
                    let refused = invalid(".file", found, &error.expected);
                    return if error.gone { Ok(Store::Missing(Cell::new(0), refused)) } else { Err(refused) };
                }
            };
            let (sectors, read_only) = (opened.probe().sectors, opened.probe().read_only);
            Ok(Store::File(RefCell::new(Some(opened)), Cell::new(sectors), read_only))
        }
        (None, _, _) if keys.cached || keys.read_only => {
            Err(invalid("", "cached or read_only without a file".to_owned(), "these with a file only"))
        }
        (None, Some(text), None) => memory(file, name, "ram", &text).map(Store::Memory),
        (None, None, None) => Err(invalid("", "neither file nor ram nor nbd".to_owned(), "one of them")),
        _ => Err(invalid("", "several of file, ram and nbd".to_owned(), "one of them")),
    }
}

/// URI of another server: a socket's relative path is resolved as a file's is.
fn reached(file: &str, given: String) -> String {
    let Some((before, path)) = given.split_once("?socket=") else { return given };
    let path = existing_path(file, PathBuf::from(OsString::from_vec(uri::decoded(path))));
    format!("{before}?socket={}", uri::encoded(path.as_os_str().as_bytes()))
}

/// Parses a key of a component as a time above zero.
fn time(file: &str, name: &str, key: &str, text: &str) -> Result<Nanos, VolumeError> {
    let time = duration(text).ok().filter(|time| *time > Nanos::ZERO);
    time.ok_or_else(|| VolumeError {
        place: format!("{file}: component.{name}.{key}"),
        found: format!("'{text}'"),
        expected: "a time above zero, such as 30s".to_owned(),
    })
}

/// Reads the certificates for another server.
fn trust(file: &str, keys: TrustKeys) -> Result<Trust, String> {
    let own = match (keys.certificate, keys.key) {
        (Some(certificate), Some(key)) => Some((existing_path(file, certificate), existing_path(file, key))),
        (None, None) => None,
        _ => return Err("certificate without key, or key without certificate".to_owned()),
    };
    let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    Trust::read(&existing_path(file, keys.authority), own).map_err(|error| error.to_string())
}

impl Live {
    /// Emulates the drive of its keys, over the storage that `store` makes of the others.
    fn over(
        file: &str,
        name: &str,
        mut keys: Keys,
        store: impl FnOnce(&str, &str, Keys) -> Result<Store, VolumeError>,
    ) -> Result<Live, VolumeError> {
        if let Some(drive) = keys.drive.take() {
            return Err(VolumeError {
                place: format!("{file}: component.{name}.drive"),
                found: format!("'{drive}', a simulated drive that keeps no data"),
                expected: format!(
                    "file = \"...\" or ram = \"...\", and emulate = \"{drive}\" to be as slow as it"
                ),
            });
        }
        let emulated = keys.emulated(file, name)?;
        let model = keys.modelled(file, name)?;
        let timeout = keys.timeout.take().map(|text| time(file, name, "timeout", &text)).transpose()?;
        let queue = keys.queue_in_front(file, name)?;
        let store = store(file, name, keys)?;
        let path = match &store {
            Store::File(opened, ..) => opened.borrow().as_ref().map(|opened| opened.probe().path.clone()),
            _ => None,
        };
        let path = path.and_then(|path| std::path::absolute(path).ok());
        let instant = matches!(store, Store::Memory(_)) && emulated.is_none();
        let meter = (!instant).then(Rc::default);
        let (queued, opened) = Default::default();
        let live = Live { store, emulated, model, queue, queued, timeout, path, meter, file: opened };
        match &live.emulated {
            Some(component) if live.sectors() > component.drive.sectors() => Err(VolumeError {
                place: format!("{file}: component.{name}.emulate"),
                found: format!(
                    "{}, which has {}, for {} of data",
                    component.drive.name(),
                    size_text(component.drive.sectors()),
                    size_text(live.sectors())
                ),
                expected: "a drive that is at least as large".to_owned(),
            }),
            _ => Ok(live),
        }
    }

    /// A component with properties of a recorded run.
    pub fn from_recording(file: &str, name: &str, keys: Keys, probed: Probed) -> Result<Live, VolumeError> {
        Live::over(file, name, keys, |file, name, keys| {
            let limit = keys.reconnect.map(|text| time(file, name, "reconnect", &text)).transpose()?;
            let resend = resend(file, name, keys.resend.as_deref())?;
            let store = match probed {
                Probed::Memory(sectors) => Ok(Store::Memory(sectors)),
                Probed::Missing { sectors, error: [place, found, expected] } => {
                    Ok(Store::Missing(Cell::new(sectors), VolumeError { place, found, expected }))
                }
                Probed::File(facts) => {
                    let (sectors, read_only) = (facts.sectors, facts.read_only);
                    Opened::from_recording(facts)
                        .map(|opened| Store::File(RefCell::new(Some(opened)), Cell::new(sectors), read_only))
                }
                Probed::Remote(info) => Connected::from_recording(info).map(|connected| {
                    let again =
                        limit.map(|limit| Reconnect { uri: String::new(), trust: None, limit, resend });
                    Store::Remote(RefCell::new(Some(connected)), info, again)
                }),
            };
            store.map_err(|error| VolumeError {
                place: format!("{file}: component.{name}"),
                found: error.to_string(),
                expected: "something to stand for it".to_owned(),
            })
        })
    }

    /// Whether it uses direct I/O, where registered memory helps; until it is built.
    pub fn is_direct(&self) -> bool {
        let Store::File(opened, ..) = &self.store else { return false };
        opened.borrow().as_ref().is_some_and(|opened| opened.probe().direct)
    }

    /// Whether it holds only zeroes, since it is created when it is built.
    pub fn is_new(&self) -> bool {
        matches!(self.store, Store::Memory(_))
    }

    /// Absolute path of its file or block device, if it is one.
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// Sectors that its file or block device has now, if it is one that can grow while it is served.
    ///
    /// # Errors
    /// One that is smaller than it is served, or larger than the drive that it emulates or is modelled by.
    pub fn sectors_found(&self) -> Result<Option<u64>, LiveError> {
        let Some(file) = self.file.borrow().upgrade() else { return Ok(None) };
        let found = file.sectors_found()?;
        for (key, drive) in [("emulate", &self.emulated), ("model", &self.model)] {
            let Some(Component { drive, .. }) = drive else { continue };
            // One that was too small before is not used.
            if found > drive.sectors() && self.sectors() <= drive.sectors() {
                return Err(LiveError::new(format!(
                    "found {} for {key} = \"{}\", which has {}; expected a drive that is at least as large",
                    size_text(found),
                    drive.name(),
                    size_text(drive.sectors())
                )));
            }
        }
        Ok(Some(found))
    }

    /// From now on it has this size, which was found.
    pub fn grow(&self, sectors: u64) {
        if let (Some(file), Store::File(_, served, _)) = (self.file.borrow().upgrade(), &self.store) {
            file.grow(sectors);
            served.set(sectors);
        }
    }

    /// The queue in front of it, if there is one and it is built.
    pub fn queue(&self) -> Option<Rc<QueuedDevice>> {
        self.queued.borrow().upgrade()
    }

    /// What counts and times its requests, if anything does.
    pub fn meter(&self) -> Option<Rc<Meter>> {
        self.meter.clone()
    }

    /// Whether it is read-only.
    pub fn is_read_only(&self) -> bool {
        match &self.store {
            Store::File(_, _, read_only) => *read_only,
            Store::Memory(_) | Store::Missing(..) => false,
            Store::Remote(_, info, _) => info.is_read_only(),
        }
    }

    /// Size in bytes: an export of another server may end within a sector.
    pub fn bytes(&self) -> u64 {
        match &self.store {
            Store::Remote(_, info, _) => info.bytes,
            _ => self.sectors() * SECTOR_BYTES,
        }
    }

    /// Whether its connection is encrypted; until it is built.
    pub fn is_encrypted(&self) -> bool {
        let Store::Remote(connected, ..) = &self.store else { return false };
        connected.borrow().as_ref().is_some_and(Connected::is_encrypted)
    }

    /// Its recorded properties.
    pub fn probed(&self) -> Result<Probed, LiveError> {
        let built = "a component is asked for what was found before it is built";
        Ok(match &self.store {
            Store::Memory(sectors) => Probed::Memory(*sectors),
            Store::File(opened, ..) => Probed::File(opened.borrow().as_ref().at(|| built)?.probe().clone()),
            Store::Remote(_, info, _) => Probed::Remote(*info),
            Store::Missing(sectors, error) => {
                let VolumeError { place, found, expected } = error.clone();
                Probed::Missing { sectors: sectors.get(), error: [place, found, expected] }
            }
        })
    }

    /// Builds the device, component `number` of its volume; once.
    pub fn build(
        &self,
        reactor: &Rc<Reactor>,
        name: &str,
        number: u32,
    ) -> Result<Rc<dyn BlockDevice>, LiveError> {
        let data = self.build_store(reactor, name)?;
        let device: Rc<dyn BlockDevice> = match &self.emulated {
            Some(Component { drive, queue, .. }) => {
                reactor.spin_before_timers();
                Rc::new(EmulatedComponent::new(simulated(number, drive, *queue), data))
            }
            None => data,
        };
        let device = match self.timeout {
            Some(limit) => Rc::new(TimedComponent::new(device, name, limit)),
            None => device,
        };
        let device = match self.queue {
            Some(mut options) => {
                let rotational = device.geometry().rotational;
                options.yielding.get_or_insert(yielding_by_default(rotational, options.depth));
                let queued = Rc::new(QueuedDevice::new(number, device, options));
                self.queued.replace(Rc::downgrade(&queued));
                queued
            }
            None => device,
        };
        let model = self.model.as_ref().or(self.emulated.as_ref());
        Ok(model.map_or(device.clone(), |model| modelled(device, model)))
    }
}

impl Live {
    fn build_store(&self, reactor: &Rc<Reactor>, name: &str) -> Result<Rc<dyn BlockDevice>, LiveError> {
        let twice = || format!("component.{name} is built twice");
        Ok(match &self.store {
            Store::File(opened, ..) => {
                let file = Rc::new(FileComponent::new(reactor, name, opened.take().at(twice)?));
                self.file.replace(Rc::downgrade(&file));
                file
            }
            Store::Remote(connected, _, again) => {
                let connected = connected.take().at(twice)?;
                Rc::new(RemoteComponent::new(reactor, name, connected, again.clone()))
            }
            Store::Missing(sectors, error) => {
                Rc::new(Missing::new(name, sectors.get(), format!("it is not there: {error}")))
            }
            Store::Memory(sectors) => {
                let memory = MemoryComponent::new(*sectors);
                let none = || format!("component.{name}.ram: there is not that much memory");
                Rc::new(memory.at(none)?)
            }
        })
    }
}
