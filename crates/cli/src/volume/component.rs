//! The components of a live volume, as a volume file describes them: files, block devices, memory, other servers'
//! exports; each of them as slow as a drive, if that is asked for.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use seekless_core::{BlockDevice, Nanos, SECTOR_BYTES, Size};
use seekless_drive::simulated;
use seekless_layers::Refused;
use seekless_serve::component::{
    Connected, EmulatedComponent, FileComponent, FileFacts, MemoryComponent, Opened, Reconnect,
    RemoteComponent, TimedComponent, Told,
};
use seekless_serve::reactor::Reactor;
use seekless_serve::server::Trust;
use seekless_volume::description::{Component, Leaf, VolumeError};
use seekless_volume::duration;
use seekless_volume::file::{self, ComponentKeys};
use serde::{Deserialize, Serialize};

/// The keys of a component.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    file: Option<PathBuf>,
    ram: Option<String>,
    nbd: Option<String>,
    #[serde(default)]
    cached: bool,
    #[serde(default)]
    read_only: bool,
    emulate: Option<String>,
    scheduler: Option<String>,
    starvation_limit: Option<String>,
    merge: Option<bool>,
    background_share: Option<u8>,
    depth: Option<u32>,
    write_cache: Option<bool>,
    freeblock: Option<String>,
    guard: Option<String>,
    idle_delay_limit: Option<String>,
    timeout: Option<String>,
    reconnect: Option<String>,
    tls: Option<TrustKeys>,
}

/// How another server is known, and we to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustKeys {
    /// The authorities whose servers are believed.
    authority: PathBuf,
    /// What the server wants to see of us, if it does.
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Where a file is that a volume file names: beside it, or else here.
pub fn beside(volume: &str, path: PathBuf) -> PathBuf {
    let beside = Path::new(volume).parent().map(|folder| folder.join(&path));
    beside.filter(|path| path.exists()).unwrap_or(path)
}

/// A component that was found, and is not in use by another volume.
pub struct Live {
    store: Store,
    /// The drive that it is as slow as.
    emulated: Option<Component>,
    /// The time that it has for a request.
    timeout: Option<Nanos>,
}

/// Where its data is.
enum Store {
    /// A file or block device, opened; taken when it is built. Its sectors, and whether it is only read.
    File(RefCell<Option<Opened>>, u64, bool),
    /// So many sectors of memory.
    Memory(u64),
    /// An export of another server, connected to; taken when it is built. And how it is found again when it is gone.
    Remote(RefCell<Option<Connected>>, Told, Option<Reconnect>),
}

/// What was found of a component when it was opened.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Facts {
    /// A file or block device.
    File(FileFacts),
    /// So many sectors of memory.
    Memory(u64),
    /// An export of another server.
    Remote(Told),
}

impl Leaf for Live {
    type Keys = Keys;

    fn read(file: &str, name: &str, keys: Keys) -> Result<Live, VolumeError> {
        Live::over(file, name, keys, store)
    }

    fn sectors(&self) -> u64 {
        match &self.store {
            Store::File(_, sectors, _) | Store::Memory(sectors) => *sectors,
            Store::Remote(_, told, _) => told.bytes.div_ceil(SECTOR_BYTES),
        }
    }

    fn check(&self) -> Result<(), Refused> {
        self.emulated.as_ref().map_or(Ok(()), Leaf::check)
    }

    fn line(&self) -> String {
        let data = match &self.store {
            Store::File(..) => "a file".to_owned(),
            Store::Remote(..) => "another server's export".to_owned(),
            Store::Memory(sectors) => format!("{} of memory", told(*sectors)),
        };
        match &self.emulated {
            Some(component) => format!("{data} as slow as {}", component.line()),
            None => data,
        }
    }
}

fn told(sectors: u64) -> Size {
    Size(sectors * SECTOR_BYTES)
}

/// The keys of the drive to emulate, taken out of all; without one there may be none.
fn drive_keys(file: &str, name: &str, keys: &mut Keys) -> Result<Option<ComponentKeys>, VolumeError> {
    let of_a_drive = keys.scheduler.is_some()
        || keys.starvation_limit.is_some()
        || keys.merge.is_some()
        || keys.background_share.is_some()
        || keys.depth.is_some()
        || keys.write_cache.is_some()
        || keys.freeblock.is_some()
        || keys.guard.is_some()
        || keys.idle_delay_limit.is_some();
    let Some(drive) = keys.emulate.take() else {
        if !of_a_drive {
            return Ok(None);
        }
        return Err(VolumeError {
            place: format!("{file}: component.{name}"),
            found: "keys of a drive's queue without a drive".to_owned(),
            expected: "emulate = \"...\" with scheduler, merge, depth and the like".to_owned(),
        });
    };
    Ok(Some(ComponentKeys {
        drive,
        scheduler: keys.scheduler.take(),
        starvation_limit: keys.starvation_limit.take(),
        merge: keys.merge,
        background_share: keys.background_share,
        depth: keys.depth,
        write_cache: keys.write_cache,
        freeblock: keys.freeblock.take(),
        guard: keys.guard.take(),
        idle_delay_limit: keys.idle_delay_limit.take(),
    }))
}

/// Finds what the keys say that the data is on.
fn store(file: &str, name: &str, keys: Keys) -> Result<Store, VolumeError> {
    let wrong = |key: &str, found: String, expected: &str| VolumeError {
        place: format!("{file}: component.{name}{key}"),
        found,
        expected: expected.to_owned(),
    };
    if keys.tls.is_some() && keys.nbd.is_none() {
        return Err(wrong(".tls", "tls without nbd".to_owned(), "it with another server's export only"));
    }
    if keys.reconnect.is_some() && keys.nbd.is_none() {
        let found = "reconnect without nbd".to_owned();
        return Err(wrong(".reconnect", found, "it with another server's export only"));
    }
    match (keys.file, keys.ram, keys.nbd) {
        (None, None, Some(uri)) if !keys.cached && !keys.read_only => {
            let trust = keys.tls.map(|keys| trust(file, keys)).transpose();
            let trust = trust.map_err(|found| wrong(".tls", found, "files in PEM that go together"))?;
            let limit = keys.reconnect.map(|text| time(file, name, "reconnect", &text)).transpose()?;
            let uri = reached(file, uri);
            let connected = Connected::to(&uri, trust.as_ref())
                .map_err(|error| wrong(".nbd", format!("{uri}: {error}"), "an export that can be reached"))?;
            let told = connected.told();
            let again = limit.map(|limit| Reconnect { uri, trust, limit });
            Ok(Store::Remote(RefCell::new(Some(connected)), told, again))
        }
        (Some(path), None, None) => {
            let path = beside(file, path);
            let opened = Opened::open(&path, keys.cached, keys.read_only);
            let opened = opened.map_err(|error| {
                wrong(".file", format!("{}: {}", path.display(), error.found), &error.expected)
            })?;
            let (sectors, read_only) = (opened.facts().sectors, opened.facts().read_only);
            Ok(Store::File(RefCell::new(Some(opened)), sectors, read_only))
        }
        (None, _, _) if keys.cached || keys.read_only => {
            Err(wrong("", "cached or read_only without a file".to_owned(), "these with a file only"))
        }
        (None, Some(text), None) => match text.parse::<Size>() {
            Ok(Size(bytes)) if bytes > 0 && bytes % SECTOR_BYTES == 0 => {
                Ok(Store::Memory(bytes / SECTOR_BYTES))
            }
            _ => Err(wrong(".ram", format!("'{text}'"), "a size of whole sectors such as 64MiB")),
        },
        (None, None, None) => Err(wrong("", "neither file nor ram nor nbd".to_owned(), "one of them")),
        _ => Err(wrong("", "several of file, ram and nbd".to_owned(), "one of them")),
    }
}

/// Where another server is: the socket of a relative path is sought as a file is.
fn reached(file: &str, uri: String) -> String {
    let Some((before, path)) = uri.split_once("?socket=") else { return uri };
    format!("{before}?socket={}", beside(file, path.into()).display())
}

/// The time above zero that a key of a component says.
fn time(file: &str, name: &str, key: &str, text: &str) -> Result<Nanos, VolumeError> {
    let time = duration(text).ok().filter(|time| *time > Nanos::ZERO);
    time.ok_or_else(|| VolumeError {
        place: format!("{file}: component.{name}.{key}"),
        found: format!("'{text}'"),
        expected: "a time above zero, such as 30s".to_owned(),
    })
}

/// Reads the files by which another server is known, and we to it.
fn trust(file: &str, keys: TrustKeys) -> Result<Trust, String> {
    let own = match (keys.certificate, keys.key) {
        (Some(certificate), Some(key)) => Some((beside(file, certificate), beside(file, key))),
        (None, None) => None,
        _ => return Err("certificate without key, or key without certificate".to_owned()),
    };
    let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    Trust::read(&beside(file, keys.authority), own).map_err(|error| error.to_string())
}

impl Live {
    /// As slow as its keys say, over what `store` makes of the others.
    fn over(
        file: &str,
        name: &str,
        mut keys: Keys,
        store: impl FnOnce(&str, &str, Keys) -> Result<Store, VolumeError>,
    ) -> Result<Live, VolumeError> {
        let drive = drive_keys(file, name, &mut keys)?;
        let emulated = drive.map(|keys| file::simulated(file, name, &keys, "emulate")).transpose()?;
        let timeout = keys.timeout.take().map(|text| time(file, name, "timeout", &text)).transpose()?;
        let live = Live { store: store(file, name, keys)?, emulated, timeout };
        match &live.emulated {
            Some(component) if live.sectors() > component.drive.sectors() => Err(VolumeError {
                place: format!("{file}: component.{name}.emulate"),
                found: format!(
                    "{}, which has {}, for {} of data",
                    component.drive.name(),
                    told(component.drive.sectors()),
                    told(live.sectors())
                ),
                expected: "a drive that is at least as large".to_owned(),
            }),
            _ => Ok(live),
        }
    }

    /// A component of which this was found in a run that is over.
    pub fn recalled(file: &str, name: &str, keys: Keys, facts: Facts) -> Result<Live, VolumeError> {
        Live::over(file, name, keys, |file, name, keys| {
            let limit = keys.reconnect.map(|text| time(file, name, "reconnect", &text)).transpose()?;
            let store = match facts {
                Facts::Memory(sectors) => Ok(Store::Memory(sectors)),
                Facts::File(facts) => {
                    let (sectors, read_only) = (facts.sectors, facts.read_only);
                    Opened::recalled(facts)
                        .map(|opened| Store::File(RefCell::new(Some(opened)), sectors, read_only))
                }
                Facts::Remote(told) => Connected::recalled(told).map(|connected| {
                    let again = limit.map(|limit| Reconnect { uri: String::new(), trust: None, limit });
                    Store::Remote(RefCell::new(Some(connected)), told, again)
                }),
            };
            store.map_err(|error| VolumeError {
                place: format!("{file}: component.{name}"),
                found: error.to_string(),
                expected: "something to stand for it".to_owned(),
            })
        })
    }

    /// Whether it goes past the page cache, where registered memory is of use; as long as it is not built.
    pub fn is_direct(&self) -> bool {
        let Store::File(opened, ..) = &self.store else { return false };
        opened.borrow().as_ref().is_some_and(|opened| opened.facts().direct)
    }

    /// Whether it holds only zeroes, since it is made when it is built.
    pub fn is_new(&self) -> bool {
        matches!(self.store, Store::Memory(_))
    }

    /// Whether it cannot be written.
    pub fn is_read_only(&self) -> bool {
        match &self.store {
            Store::File(_, _, read_only) => *read_only,
            Store::Memory(_) => false,
            Store::Remote(_, told, _) => told.is_read_only(),
        }
    }

    /// Its size in bytes: an export of another server may end within a sector.
    pub fn bytes(&self) -> u64 {
        match &self.store {
            Store::Remote(_, told, _) => told.bytes,
            _ => self.sectors() * SECTOR_BYTES,
        }
    }

    /// Whether what it is told is encrypted; as long as it is not built.
    pub fn is_encrypted(&self) -> bool {
        let Store::Remote(connected, ..) = &self.store else { return false };
        connected.borrow().as_ref().is_some_and(Connected::is_encrypted)
    }

    /// What was found of it, as long as it is not built.
    pub fn facts(&self) -> anyhow::Result<Facts> {
        let built = "a component is asked for what was found before it is built";
        Ok(match &self.store {
            Store::Memory(sectors) => Facts::Memory(*sectors),
            Store::File(opened, ..) => Facts::File(opened.borrow().as_ref().context(built)?.facts().clone()),
            Store::Remote(_, told, _) => Facts::Remote(*told),
        })
    }

    /// The device, the `number`-th of its volume; once.
    pub fn build(
        &self,
        reactor: &Rc<Reactor>,
        name: &str,
        number: u32,
    ) -> anyhow::Result<Rc<dyn BlockDevice>> {
        let data = self.store.build(reactor, name)?;
        let device: Rc<dyn BlockDevice> = match &self.emulated {
            Some(Component { drive, queue }) => {
                reactor.be_exact();
                Rc::new(EmulatedComponent::new(simulated(number, drive, *queue), data))
            }
            None => data,
        };
        Ok(match self.timeout {
            Some(limit) => Rc::new(TimedComponent::new(device, name, limit)),
            None => device,
        })
    }
}

impl Store {
    fn build(&self, reactor: &Rc<Reactor>, name: &str) -> anyhow::Result<Rc<dyn BlockDevice>> {
        let twice = || format!("component.{name} is built twice");
        Ok(match self {
            Store::File(opened, ..) => {
                Rc::new(FileComponent::new(reactor, name, opened.take().with_context(twice)?))
            }
            Store::Remote(connected, _, again) => {
                let connected = connected.take().with_context(twice)?;
                Rc::new(RemoteComponent::new(reactor, name, connected, again.clone()))
            }
            Store::Memory(sectors) => {
                let memory = MemoryComponent::new(*sectors);
                let none = || format!("component.{name}.ram: there is not that much memory");
                Rc::new(memory.with_context(none)?)
            }
        })
    }
}
