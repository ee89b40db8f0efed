//! The components of a live volume, as a volume file describes them: files, block devices, memory.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use seekless_core::{BlockDevice, SECTOR_BYTES, Size};
use seekless_lab::description::{Leaf, VolumeError};
use seekless_serve::component::{Connected, FileComponent, MemoryComponent, Opened, RemoteComponent};
use seekless_serve::reactor::Reactor;
use serde::Deserialize;

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
}

/// Where a file is that a volume file names: beside it, or else here.
pub fn beside(volume: &str, path: PathBuf) -> PathBuf {
    let beside = Path::new(volume).parent().map(|folder| folder.join(&path));
    beside.filter(|path| path.exists()).unwrap_or(path)
}

/// A component that was found, and is not in use by another volume.
pub enum Live {
    /// A file or block device, opened; taken when it is built.
    File(RefCell<Option<Opened>>, u64),
    /// So many sectors of memory.
    Memory(u64),
    /// An export of another server, connected to; taken when it is built.
    Remote(RefCell<Option<Connected>>, u64),
}

impl Leaf for Live {
    type Keys = Keys;

    fn read(file: &str, name: &str, keys: Keys) -> Result<Live, VolumeError> {
        let wrong = |key: &str, found: String, expected: &str| VolumeError {
            place: format!("{file}: component.{name}{key}"),
            found,
            expected: expected.to_owned(),
        };
        match (keys.file, keys.ram, keys.nbd) {
            (None, None, Some(uri)) if !keys.cached && !keys.read_only => {
                let connected = Connected::to(&uri).map_err(|error| {
                    wrong(".nbd", format!("{uri}: {error}"), "an export that can be reached")
                })?;
                let sectors = connected.sectors();
                Ok(Live::Remote(RefCell::new(Some(connected)), sectors))
            }
            (Some(path), None, None) => {
                let path = beside(file, path);
                let opened = Opened::open(&path, keys.cached, keys.read_only);
                let opened = opened.map_err(|error| {
                    wrong(".file", format!("{}: {}", path.display(), error.found), &error.expected)
                })?;
                let sectors = opened.sectors;
                Ok(Live::File(RefCell::new(Some(opened)), sectors))
            }
            (None, _, _) if keys.cached || keys.read_only => {
                Err(wrong("", "cached or read_only without a file".to_owned(), "these with a file only"))
            }
            (None, Some(text), None) => match text.parse::<Size>() {
                Ok(Size(bytes)) if bytes > 0 && bytes % SECTOR_BYTES == 0 => {
                    Ok(Live::Memory(bytes / SECTOR_BYTES))
                }
                _ => Err(wrong(".ram", format!("'{text}'"), "a size of whole sectors such as 64MiB")),
            },
            (None, None, None) => Err(wrong("", "neither file nor ram nor nbd".to_owned(), "one of them")),
            _ => Err(wrong("", "several of file, ram and nbd".to_owned(), "one of them")),
        }
    }

    fn sectors(&self) -> u64 {
        match self {
            Live::File(_, sectors) | Live::Memory(sectors) | Live::Remote(_, sectors) => *sectors,
        }
    }

    fn line(&self) -> String {
        match self {
            Live::File(..) => "a file".to_owned(),
            Live::Remote(..) => "another server's export".to_owned(),
            Live::Memory(sectors) => format!("{} of memory", Size(sectors * SECTOR_BYTES)),
        }
    }
}

impl Live {
    /// The device; once.
    pub fn build(&self, reactor: &Rc<Reactor>, name: &str) -> anyhow::Result<Rc<dyn BlockDevice>> {
        match self {
            Live::File(opened, _) => {
                let opened = opened.take().with_context(|| format!("component.{name} is built twice"))?;
                Ok(Rc::new(FileComponent::new(reactor, name, opened)))
            }
            Live::Remote(connected, _) => {
                let connected =
                    connected.take().with_context(|| format!("component.{name} is built twice"))?;
                Ok(Rc::new(RemoteComponent::new(reactor, name, connected)))
            }
            Live::Memory(sectors) => {
                let memory = MemoryComponent::new(*sectors);
                let memory =
                    memory.with_context(|| format!("component.{name}.ram: there is not that much memory"))?;
                Ok(Rc::new(memory))
            }
        }
    }
}
