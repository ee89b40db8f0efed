//! The components of a live volume, from a volume file: files, block devices, memory, exports of other servers;
//! optionally emulating a drive's speed.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use crate::component::{Component, Keys, Named, yielding_by_default};
use crate::description::{Leaf, VolumeError};
use seekless_core::{BlockDevice, Meter, Nanos, SECTOR_BYTES, Size};
use seekless_drive::{QueueOptions, QueuedDevice, simulated};
use seekless_layers::Refused;
use seekless_serve::component::{
    Connected, EmulatedComponent, ExportInfo, FileComponent, FileProbe, MemoryComponent, Opened, Reconnect,
    RemoteComponent, TimedComponent,
};
use seekless_serve::place::{Located, Place, SYS};
use seekless_serve::reactor::Reactor;
use serde::{Deserialize, Serialize};

use super::error::{At, LiveError};
use super::missing::Missing;
use super::models::{Base, Chosen, Models, Wanted};
use super::store::{Store, resend, store, time};

/// A component that was opened, and is not in use by another volume.
pub struct Live {
    store: Store,
    /// The drive whose speed it emulates.
    emulated: Option<Component>,
    /// The drive that layers above take it for, as the volume file has it.
    named: Named,
    /// The queue of that drive, if no key names it.
    queue_of_model: QueueOptions,
    /// The place of its file or block device, once it was sought.
    located: OnceCell<Located>,
    /// Its model, once it is built.
    model: OnceCell<Result<Chosen, String>>,
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
        let named = keys.modelled(file, name)?;
        let queue_of_model = keys.queue_of_model(file, name)?;
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
        let (queued, opened, located, model) = Default::default();
        let live = Live {
            store,
            emulated,
            named,
            queue_of_model,
            located,
            model,
            queue,
            queued,
            timeout,
            path,
            meter,
            file: opened,
        };
        live.named.check(file, name, live.sectors())?;
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

    /// A component with properties of a recorded run, and its place then, if it has one.
    pub fn from_recording(
        file: &str,
        name: &str,
        keys: Keys,
        probed: Probed,
        place: Option<Located>,
    ) -> Result<Live, VolumeError> {
        let live = Live::over(file, name, keys, |file, name, keys| {
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
        })?;
        let unknown =
            || Located { disk: None, place: Place::Unknown("recorded without its place".to_owned()) };
        live.located.set(place.unwrap_or_else(unknown)).ok();
        Ok(live)
    }

    /// Where its file or block device lies, found when first asked for; `None` if it is neither.
    pub fn located(&self) -> Option<&Located> {
        let Store::File(opened, ..) = &self.store else { return None };
        if self.located.get().is_none() {
            let opened = opened.borrow();
            self.located.set(opened.as_ref()?.locate(Path::new(SYS))).ok();
        }
        self.located.get()
    }

    /// Its model, or why it has none; once it is built.
    pub fn model(&self) -> Option<&Result<Chosen, String>> {
        self.model.get()
    }

    /// Whether its keys name a drive as its model.
    pub fn names_model(&self) -> bool {
        matches!(self.named, Named::Drive(..))
    }

    /// Chooses its model.
    pub(super) fn choose(&self) -> Result<Chosen, String> {
        let base = match &self.store {
            Store::File(..) => self.located().map_or(Base::Missing, Base::On),
            Store::Memory(_) => Base::Memory,
            Store::Remote(..) => Base::Remote,
            Store::Missing(..) => Base::Missing,
        };
        let wanted = Wanted {
            named: &self.named,
            emulated: self.emulated.as_ref(),
            queue: self.queue_of_model,
            sectors: self.sectors(),
        };
        wanted.choose(&base)
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
        let named = if let Named::Drive(drive, _) = &self.named { Some(&**drive) } else { None };
        for (key, drive) in [("emulate", self.emulated.as_ref()), ("model", named)] {
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

    /// Builds the device, component `number` of its volume, with its model among `models`; once.
    pub fn build(
        &self,
        reactor: &Rc<Reactor>,
        name: &str,
        number: u32,
        models: &Models,
    ) -> Result<Rc<dyn BlockDevice>, LiveError> {
        // Before the file is taken.
        let chosen = self.model.get_or_init(|| self.choose());
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
        Ok(match chosen {
            Ok(chosen) => models.over(device, chosen),
            Err(_) => device,
        })
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
