//! The registry of layers: what an entry says of one, and how its options are read. The entries are in `list`.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::OnceLock;

use seekless_core::names;
use seekless_core::{BlockDevice, ErrorKind, IoError, Layer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::refused::Refused;
use crate::schedule::Schedule;
use crate::tools::{NoTools, Tools};

pub use crate::below::{Below, Over, Sizes};
pub use crate::list::LAYERS;

/// Properties of a kind of layer.
#[allow(clippy::struct_excessive_bools)] // independent properties, each with a name
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name in volume files and on the command line.
    pub name: &'static str,
    /// Its name in titles and sentences, if that is written otherwise.
    pub title: &'static str,
    /// One-line description.
    pub does: &'static str,
    /// Whether it is transparent: keeps the volume's order below it, so that it attaches and detaches at any time.
    pub transparent: bool,
    /// Whether it takes on the size of a device below that grows while it is in use: it keeps nothing that depends on
    /// it.
    pub grows: bool,
    /// Documentation page.
    pub readme: &'static str,
    /// The devices that `over` names.
    pub over: Over,
    /// Keys of its devices besides `over`.
    pub devices: &'static [&'static str],
    /// Keys of further devices, which it can do without.
    pub optional: &'static [&'static str],
    /// Options that name files, which are sought beside the volume file.
    pub files: &'static [&'static str],
    /// Commands: see [`Layer::command`]. One that takes a value, as in `size=64KiB`, is here with some that
    /// explorations try.
    pub commands: &'static [&'static str],
    /// Rare code paths that an exploration has to reach: see [`seekless_core::runtime::edge`].
    pub edges: &'static [&'static str],
    /// Rare code paths that no exploration reaches, since it makes no such requests: the tests of the layer do.
    pub edges_of_tests: &'static [&'static str],
    /// Further ones, which explorations with snapshots have to reach.
    pub edges_of_snapshots: &'static [&'static str],
    /// Canaries for its option `canary`; none without the feature `canaries`.
    pub canaries: &'static [&'static str],
    /// Whether it keeps metadata that distinguishes rotten sectors from torn ones (see `durable/README.md`).
    pub sealed: bool,
    /// Whether, with these options and those optional devices that it has, all data that it returns is compared with a
    /// checksum or fingerprint, also after a crash.
    pub checks_data: ChecksData,
    /// Whether it tries what it plans on models of the devices below it, if they have any.
    pub models: bool,
    /// Whether it stores pages with the same content once: explorations write such pages.
    pub shares: bool,
    /// Whether its own devices may hold newer pages of the device below, even while stopped: then that is not served
    /// without them. Such a layer has an identity (see [`Layer::identity`]).
    pub holds_newer: bool,
    /// Key of the device with which it can be started after a crash although any one of the others is missing.
    pub survives_with: Option<&'static str>,
    /// Keys of devices of which any one may be missing at a start, also after a crash, if the key lists several.
    pub spares: &'static [&'static str],
    /// Key of devices of which it should have several, and the warning if it has one.
    pub alone: Option<(&'static str, &'static str)>,
    /// Checks its options.
    pub check: Check,
    /// All options that have a default value, with that value.
    pub defaults: fn() -> toml::Table,
    /// Options that the laboratory's commands have a flag for: `--write-buffer` sets `write_buffer`.
    pub flags: &'static [&'static str],
    /// When it is reconfigured while it is served, unless its volume file says when.
    pub served: Schedule,
    /// Options that have another default value where a volume is served, as in a volume file.
    pub served_options: &'static str,
    /// What `seekless advise` tries of it.
    pub remedies: &'static [Remedy],
    /// Sectors visible to clients, if fewer than below.
    pub sectors: Option<Sectors>,
    /// Builds it.
    pub build: Build,
    /// Builds it instead, if the program gives it at run time: see [`with`].
    pub given: Option<&'static Given>,
    /// Initialises its own devices; `None` if it does so when built.
    pub create: Option<Create>,
    /// Upgrades its on-disk format to the newest; `None` if it has none.
    pub upgrade: Option<Upgrade>,
    /// Tools for its metadata while it is not in use.
    pub tools: &'static dyn Tools,
}

/// What a layer may do about a slow disk.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// A short name.
    pub name: &'static str,
    /// What it does, without a subject.
    pub does: &'static str,
    /// Options other than the default ones, as in a volume file.
    pub options: &'static str,
    /// Whether the drive below has freeblock scheduling.
    pub freeblock: bool,
}

/// A layer being built: it may have to read the devices below.
pub type Building = Pin<Box<dyn Future<Output = Result<Built, IoError>>>>;
/// Whether data is compared with checksums, by the options and the keys of the optional devices that there are.
pub type ChecksData = fn(&toml::Table, &dyn Fn(&str) -> bool) -> bool;
/// Checks options.
pub type Check = fn(toml::Table) -> Result<(), Refused>;
/// Sectors visible to clients, by the options and the sizes of the devices below.
pub type Sectors = fn(toml::Table, &Sizes) -> Result<u64, Refused>;
/// Builds a layer with options.
pub type Build = fn(Below, toml::Table) -> Building;
/// Builds a layer that is given at run time, with options.
pub type Given = dyn Fn(Below, toml::Table) -> Building + Sync;
/// Initialises the devices of a layer with these options, and returns its identity, if it has one. Existing contents
/// are replaced only if the last argument is true; otherwise they are an error.
pub type Create = fn(Below, toml::Table, bool) -> Work<Option<u128>>;
/// Upgrades the on-disk format of a layer with these options. No data moves: if it had to, that is an error.
pub type Upgrade = fn(Below, toml::Table) -> Work<()>;
/// Work on a layer that is not in use.
pub type Work<T> = Pin<Box<dyn Future<Output = Result<T, IoError>>>>;

/// A built layer. (Two handles, because this version of Rust cannot upcast `dyn Layer`.)
#[derive(Clone)]
pub struct Built {
    /// As a block device.
    pub device: Rc<dyn BlockDevice>,
    /// As a layer, for monitoring, commands and detaching.
    pub layer: Rc<dyn Layer>,
}

impl Built {
    /// This one.
    pub fn new<T: Layer + 'static>(layer: Rc<T>) -> Built {
        Built { device: layer.clone(), layer }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.name)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.name == other.name
    }
}

impl Entry {
    /// A layer without options and on-disk state that is not transparent. Other properties are set with `Entry {
    /// transparent: true, ..Entry::new(...) }`.
    pub const fn new(name: &'static str, does: &'static str, build: Build) -> Entry {
        Entry {
            name,
            title: name,
            does,
            transparent: false,
            grows: false,
            readme: "",
            over: Over::One,
            devices: &[],
            optional: &[],
            files: &[],
            commands: &[],
            edges: &[],
            edges_of_tests: &[],
            edges_of_snapshots: &[],
            canaries: &[],
            sealed: false,
            checks_data: |_, _| false,
            models: false,
            shares: false,
            holds_newer: false,
            survives_with: None,
            spares: &[],
            alone: None,
            check: |table| parse_options(table, |_: &NoOptions| Ok(())).map(drop),
            defaults: toml::Table::new,
            flags: &[],
            served: Schedule::OnCommand,
            served_options: "",
            remedies: &[],
            sectors: None,
            build,
            given: None,
            create: None,
            upgrade: None,
            tools: &NoTools,
        }
    }

    /// Whether it lies over several devices: `over` lists them.
    pub fn is_over_several(&self) -> bool {
        self.over == Over::Several
    }

    /// Whether it keeps its metadata on the devices that `over` names, and not on devices of its own alone.
    pub fn has_metadata_below(&self) -> bool {
        self.devices.is_empty() || self.is_over_several()
    }

    /// Options with which it is built where a volume is served: these, and its defaults there.
    pub fn options_where_served(&self, options: &toml::Table) -> toml::Table {
        let mut all: toml::Table = self.served_options.parse().unwrap_or_default();
        all.extend(options.clone());
        all
    }

    /// Whether it adapts its layout: see [`Layer::reconfigure`].
    pub fn reconfigures(&self) -> bool {
        self.commands.contains(&"reconfigure")
    }

    /// Whether it can use freeblock scheduling in the drives below.
    pub fn uses_freeblock(&self) -> bool {
        self.remedies.iter().any(|remedy| remedy.freeblock)
    }

    /// The first error in these options, if any.
    pub fn check(&self, options: &toml::Table) -> Result<(), Refused> {
        (self.check)(options.clone())
    }

    /// Builds the layer with these options; call it inside a runtime.
    pub fn build(&self, below: Below, options: &toml::Table) -> Building {
        match self.given {
            Some(given) => given(below, options.clone()),
            None => (self.build)(below, options.clone()),
        }
    }

    /// Sectors visible to clients with these options, over devices of these sizes.
    pub fn sectors(&self, options: &toml::Table, below: &Sizes) -> Result<u64, Refused> {
        self.sectors.map_or(Ok(below.sum()), |sectors| sectors(options.clone(), below))
    }
}

/// Options of a layer that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Parses and checks a layer's options.
pub fn parse_options<T: DeserializeOwned>(
    options: toml::Table,
    check: fn(&T) -> Result<(), Refused>,
) -> Result<T, Refused> {
    let options: T = toml::Value::Table(options)
        .try_into()
        .map_err(|error: toml::de::Error| refused(&error.to_string()))?;
    check(&options).map(|()| options)
}

/// The error of a text by the reader of TOML: a message that may begin with "found", and the key on a line after it.
fn refused(text: &str) -> Refused {
    let (message, key) = text.trim_end().rsplit_once("\nin `").unwrap_or((text.trim_end(), ""));
    let key = names::interned(key.strip_suffix('`').unwrap_or_default());
    let message = message.strip_prefix("found ").unwrap_or(message);
    match message.split_once(", expected ") {
        Some((found, expected)) => Refused::new(key, found, expected),
        None => Refused::new(key, message, "the options on the layer's page"),
    }
}

/// Default values of options, as a volume file would set them.
pub(crate) fn defaults<T: Default + Serialize>() -> toml::Table {
    toml::Table::try_from(T::default()).unwrap_or_default()
}

/// As [`parse_options`], with the error of a layer being built.
pub(crate) fn options<T: DeserializeOwned>(
    name: &'static str,
    options: toml::Table,
    check: fn(&T) -> Result<(), Refused>,
) -> Result<T, IoError> {
    parse_options(options, check)
        .map_err(|refused| IoError::new(ErrorKind::Invalid, name, None, refused.to_string()))
}

/// The layer that the laboratory compares by default.
pub const DEFAULT: &str = "borg";

/// Layers of the program that are not in this crate.
static MORE: OnceLock<&'static [Entry]> = OnceLock::new();

/// Adds layers that are not in this crate; a program does so once, before it uses any. A name that is taken is an
/// error.
pub fn add(more: &'static [Entry]) -> Result<(), Refused> {
    for (at, entry) in more.iter().enumerate() {
        if LAYERS.iter().chain(&more[..at]).any(|other| other.name == entry.name) {
            return Err(Refused::new("", format!("two layers named '{}'", entry.name), "a name for each"));
        }
    }
    MORE.set(more).map_err(|_| Refused::new("", "a second list of more layers", "one list"))
}

thread_local! {
    /// Layers that are given for a piece of work.
    static GIVEN: RefCell<Vec<&'static Entry>> = const { RefCell::new(Vec::new()) };
}

/// Removes those given last, also after a panic.
struct Until(usize);

impl Drop for Until {
    fn drop(&mut self) {
        GIVEN.with_borrow_mut(|given| given.truncate(self.0));
    }
}

/// Does work that knows these layers as well, in this thread. A name that is taken is an error.
pub fn with<T>(layers: &[&'static Entry], work: impl FnOnce() -> T) -> Result<T, Refused> {
    let _until = Until(GIVEN.with_borrow(Vec::len));
    for entry in layers {
        if find(entry.name).is_some() {
            return Err(Refused::new("", format!("two layers named '{}'", entry.name), "a name for each"));
        }
        GIVEN.with_borrow_mut(|given| given.push(entry));
    }
    Ok(work())
}

/// All layers: those of this crate by name, those that were added, and those that are given now.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    let given = GIVEN.with_borrow(Clone::clone);
    LAYERS.iter().chain(MORE.get().copied().unwrap_or_default()).chain(given)
}

/// The layer of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

/// End of an error message about a name that no layer has: which one may be meant.
pub fn perhaps(name: &str) -> String {
    names::perhaps(name, all().map(|entry| entry.name))
}

#[cfg(test)]
mod tests;
