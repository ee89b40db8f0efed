//! This host's records of which BOPT belongs to a file or device, and whether it has newer pages of it: the device is
//! not served without its BOPT, nor with another one.
//!
//! A record is written before a layer that may hold newer pages, such as BORG, is served, and states from then on that
//! there may be newer pages, until a stop leaves nothing in the BOPT alone. So it does after a crash, and after a stop
//! that keeps pages. Records are in a folder of the host ([`folders`]), and those of others that are known are obeyed,
//! and kept up to date. Fault model: there is no warning if a disk is moved to another host, or the folder is lost; if
//! a record cannot be written, that is reported, and the volume is served.

use std::collections::BTreeMap;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use seekless_core::{Extent, Layer};
use serde::{Deserialize, Serialize};

use super::component::Live;
use super::environment::{Environment, is_root};
use super::error::LiveError;
use super::names;
use crate::description::{Description, Leaf};

/// A part of a file or device that a BOPT has newer pages of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Volume file of the layer.
    volume: PathBuf,
    /// Name of the layer.
    layer: String,
    /// Path of the file or device at that time.
    path: PathBuf,
    /// The device that the file was on.
    device: u64,
    /// First sector, and number of sectors.
    start: u64,
    sectors: u64,
    /// Identity of the BOPT, in hexadecimal digits.
    #[serde(default)]
    bopt: Option<String>,
    /// Its generation when that was recorded: a copy of it from before has a smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// Whether the BOPT has newer pages. Older versions removed the record when there were none.
    #[serde(default = "yes")]
    newer: bool,
}

fn yes() -> bool {
    true
}

/// What a record has of a BOPT.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bopt {
    /// Its identity.
    pub identity: Option<u128>,
    /// Its generation, if one with a smaller one is to be refused.
    pub generation: Option<u64>,
}

impl Bopt {
    /// The BOPT of a layer that is open.
    pub fn of(layer: &dyn Layer) -> Bopt {
        Bopt { identity: layer.identity(), generation: layer.generation() }
    }
}

/// The records of a server.
#[derive(Default)]
pub struct Pairs {
    /// Layers, the paths of their records in each folder, and the records.
    each: Vec<(String, Vec<PathBuf>, Record)>,
}

/// Folder of the records of root's servers, as the packaged unit has it.
const OF_HOST: &str = "/var/lib/seekless";

/// Folders of records; new ones are written to the first. `$STATE_DIRECTORY`, as systemd sets it; of root, that of the
/// host; of another user, the state folder. So what a unit served is known in root's shell too, and the other way
/// round.
fn folders() -> Vec<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd passes several, separated by colons.
    let first = |given: PathBuf| given.to_str()?.split(':').next().map(PathBuf::from);
    let given = of("STATE_DIRECTORY").and_then(first);
    let user =
        of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state"))).map(|at| at.join("seekless"));
    let host = Some(PathBuf::from(OF_HOST));
    let known = if is_root() { [given, host, user] } else { [given, user, host] };
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in known.into_iter().flatten() {
        // The unit's folder is root's alone.
        let is_hidden = std::fs::read_dir(&folder).is_err_and(|error| error.kind() == PermissionDenied);
        if !folders.contains(&folder) && (folders.is_empty() || !is_hidden) {
            folders.push(folder);
        }
    }
    folders
}

/// The part of a component that the sectors of a device are on, without layers.
fn part<C: Leaf>(description: &Description<C>, name: &str) -> Option<(String, Extent)> {
    let name = description.bottom_of(name)?;
    if let Some(window) = description.slices.get(name) {
        return Some((window.of.clone(), window.extent));
    }
    let sectors = description.components.get(name)?.sectors();
    Some((name.to_owned(), Extent::new(0, sectors)))
}

/// The records of a file or device, of its disk, and of its partitions, with extents as they are on it.
fn records(folder: &Path, path: &Path) -> Result<Vec<Record>, LiveError> {
    let mut found = Vec::new();
    for known in names::all(path) {
        let Ok(entries) = std::fs::read_dir(folder.join(&known.key)) else { continue };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        // Others are new ones whose writing did not end.
        for file in paths.filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
            let Some(record) = read(&file)? else { continue };
            if record.device != known.device && record.path != path {
                continue;
            }
            // An extent that begins before a partition is cut there.
            let signed = |sectors: u64| i64::try_from(sectors).unwrap_or(i64::MAX);
            let start = signed(record.start).saturating_sub(known.shift);
            let sectors = signed(record.sectors).saturating_add(start.min(0));
            if sectors > 0 {
                found.push(Record { start: start.max(0) as u64, sectors: sectors as u64, ..record });
            }
        }
    }
    Ok(found)
}

/// The records that a volume file's layers need.
///
/// # Errors
/// As [`of_layer`].
pub fn of(volume: &Path, description: &Description<Live>) -> Result<Pairs, LiveError> {
    let path = |component: &str| description.components.get(component)?.path();
    let mut all = Pairs::default();
    for name in description.layers.keys() {
        all.extend(of_layer(volume, description, name, path)?);
    }
    Ok(all)
}

/// Refuses two layers of which each may have newer pages of one device, one above the other: there is one record for
/// it.
fn check_stacked<C: Leaf>(description: &Description<C>, name: &str) -> Result<(), LiveError> {
    let part_of = |name: &str| {
        let layer = description.layers.get(name).filter(|layer| layer.entry.holds_newer)?;
        part(description, layer.over.first()?)
    };
    if part_of(name).is_none() {
        return Ok(());
    }
    match description.downwards(name).into_iter().find(|below| below != name && part_of(below).is_some()) {
        None => Ok(()),
        Some(below) => Err(LiveError::new(format!(
            "{}: layer.{name}: found layer.{below} below it, expected at most one of a device's layers to keep newer \
             pages elsewhere: seekless volume rescue writes them to it, then remove one",
            description.file
        ))),
    }
}

/// The record that a layer needs, if any; `path` gives the path of a component's file.
///
/// # Errors
/// Two layers, one above the other, may have newer pages of one device.
pub fn of_layer<C: Leaf>(
    volume: &Path,
    description: &Description<C>,
    name: &str,
    path: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Pairs, LiveError> {
    for layer in description.layers.keys() {
        check_stacked(description, layer)?;
    }
    let record = || {
        let layer = description.layers.get(name).filter(|layer| layer.entry.holds_newer)?;
        let (component, at) = part(description, layer.over.first()?)?;
        let path = path(&component)?;
        let known = names::own(&path)?;
        let start = at.start.0.checked_add_signed(known.shift)?;
        let place = Path::new(&known.key).join(format!("{start}-{}.toml", at.sectors));
        let files = folders().into_iter().map(|folder| folder.join(&place)).collect();
        let volume = std::path::absolute(volume).ok()?;
        let (layer, sectors, device) = (name.to_owned(), at.sectors, known.device);
        let record =
            Record { volume, layer, path, device, start, sectors, bopt: None, generation: None, newer: true };
        Some((name.to_owned(), files, record))
    };
    Ok(Pairs { each: record().into_iter().collect() })
}

/// Refuses a device that would be served without the BOPT that has newer pages of it. To be called before components
/// are built.
pub fn look(
    volume: &Path,
    description: &Description<Live>,
    environment: Environment,
) -> Result<Pairs, LiveError> {
    if environment.is_replay() {
        return Ok(Pairs::default());
    }
    for export in &description.exports {
        let Some((component, at)) = part(description, &export.top) else { continue };
        let Some(path) = description.components.get(&component).and_then(Live::path) else { continue };
        let over = description.downwards(&export.top);
        let held = over.iter().any(|name| description.layers[name].entry.holds_newer);
        let newer =
            |record: &Record| record.newer && !held && Extent::new(record.start, record.sectors).overlaps(at);
        for folder in folders() {
            let Some(record) = records(&folder, &path)?.into_iter().find(newer) else { continue };
            let of = record.volume.display();
            return Err(LiveError::new(format!(
                "{}: export.{}: found {}, whose newest pages are in the BOPT of layer.{} of {of}, expected it to be \
                 served with that: seekless volume serve {of}, and a stop writes them to the origin; \
                 to give them up: remove the record of it in {}",
                description.file,
                export.name,
                path.display(),
                record.layer,
                folder.display()
            )));
        }
    }
    of(volume, description)
}

/// The records of this host, with the keys of their devices.
fn all_records(folder: &Path) -> Result<Vec<(String, PathBuf, Record)>, LiveError> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        paths
    };
    let files = inside(folder).into_iter().flat_map(|folder| {
        let key = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inside(&folder).into_iter().map(move |file| (key.clone(), file))
    });
    let records = files.filter(|(_, file)| file.extension().is_some_and(|extension| extension == "toml"));
    records
        .filter_map(|(key, file)| Some(read(&file).transpose()?.map(|record| (key, file, record))))
        .collect()
}

/// Refuses a device that the BOPT of this identity would be served with, if it has newer pages of another one.
fn check_device(file: &str, layer: &str, record: &Record, bopt: &str) -> Result<(), LiveError> {
    let names = names::all(&record.path);
    let is_here = |key: &str, other: &Record| names.iter().any(|name| name.key == key) && other.is_of(record);
    let has = |other: &Record| other.newer && other.bopt.as_deref() == Some(bopt);
    let mut others = Vec::new();
    for folder in folders() {
        others.extend(all_records(&folder)?);
    }
    let other = others.into_iter().find(|(key, _, other)| has(other) && !is_here(key, other));
    let Some((_, place, other)) = other else { return Ok(()) };
    Err(LiveError::new(format!(
        "{file}: layer.{layer}: found {}, another device than the one that the BOPT {bopt} has the newest pages of, \
         expected that one, which was {}; to give its newest pages up, or if this is a copy of it: remove {}",
        record.path.display(),
        other.path.display(),
        place.display()
    )))
}

/// Refuses a BOPT that is older than the one that was recorded: a copy of it from before.
fn check_age(
    file: &str,
    layer: &str,
    before: &Record,
    place: &Path,
    found: Option<u64>,
) -> Result<(), LiveError> {
    let Some((found, least)) = found.zip(before.generation).filter(|(found, least)| found < least) else {
        return Ok(());
    };
    Err(LiveError::new(format!(
        "{file}: layer.{layer}: found an old copy of the BOPT (generation {found}), expected generation {least} or later, \
         with which {} was served; serve it with that one; to give up what was written since: remove {}",
        before.path.display(),
        place.display()
    )))
}

impl Pairs {
    /// Refuses layers with another BOPT than the one that their device was served with, or with another device than the
    /// one that their BOPT has newer pages of. To be called before clients connect.
    pub fn check(&self, file: &str, layers: &BTreeMap<String, Rc<dyn Layer>>) -> Result<(), LiveError> {
        for (name, place, record) in self.each_place() {
            let Some(layer) = layers.get(name) else { continue };
            if let Some(found) = layer.identity().map(digits) {
                check_device(file, name, record, &found)?;
            }
            let Some(before) = read(place)?.filter(|before| before.is_of(record)) else { continue };
            let Some(expected) = &before.bopt else { continue };
            // A BOPT in memory is new each time.
            let found = match layer.identity().map(digits) {
                Some(found) if found == *expected => {
                    check_age(file, name, &before, place, layer.generation())?;
                    continue;
                }
                None if !before.newer => continue,
                Some(found) => format!("the BOPT {found}"),
                None => "a new BOPT".to_owned(),
            };
            let lost = if before.newer { ", which has the newest pages of it" } else { "" };
            return Err(LiveError::new(format!(
                "{file}: layer.{name}: found {found}, expected the BOPT {expected}, with which {} was served{lost}; \
                 serve it with that one; to give that up: seekless volume create --replace, which empties the one that \
                 was found, or remove {}",
                record.path.display(),
                place.display()
            )));
        }
        Ok(())
    }

    /// Refuses to create a new BOPT for a device whose newest pages are in another one.
    pub fn may_create(&self, file: &str, layer: &str) -> Result<(), LiveError> {
        for (name, place, record) in self.each_place().filter(|(name, ..)| *name == layer) {
            if let Some(before) = read(place)?.filter(|before| before.newer && before.is_of(record)) {
                return Err(LiveError::new(format!(
                    "{file}: layer.{name}: found {}, whose newest pages are in the BOPT {} of {}, expected none: serve it \
                     with that one, and a stop drains them; --replace gives them up",
                    record.path.display(),
                    before.bopt.unwrap_or_default(),
                    before.volume.display()
                )));
            }
        }
        Ok(())
    }

    /// Records that there may be newer pages in the BOPTs of these layers from now on.
    pub fn write(&self, layers: &BTreeMap<String, Rc<dyn Layer>>, environment: Environment) {
        for (name, _, record) in &self.each {
            let Some(layer) = layers.get(name) else { continue };
            if names::own(&record.path).is_some_and(|known| known.is_path()) {
                environment.warn(&format!(
                    "layer.{name}: found {} without a serial number or UUID, expected one: by another path it would be \
                     served without its BOPT",
                    record.path.display()
                ));
            }
            self.set(name, Bopt::of(&**layer), true, environment);
        }
    }

    /// Records that a layer has no newer pages left.
    pub fn set_clean(&self, name: &str, layer: &dyn Layer, environment: Environment) {
        self.set(name, Bopt::of(layer), false, environment);
    }

    /// The identity in the record, if the host knows that there are no newer pages.
    pub fn clean_identity(&self) -> Option<u128> {
        let mut known = None;
        for (_, file, record) in self.each_place() {
            match read(file).ok()?.filter(|before| before.is_of(record)) {
                Some(before) if before.newer => return None,
                before => known = known.or(before),
            }
        }
        u128::from_str_radix(&known?.bopt?, 16).ok()
    }

    /// Layers, the paths of their records, and the records.
    fn each_place(&self) -> impl Iterator<Item = (&String, &PathBuf, &Record)> {
        self.each
            .iter()
            .flat_map(|(name, places, record)| places.iter().map(move |place| (name, place, record)))
    }

    /// Adds the records of another layer.
    pub fn extend(&mut self, other: Pairs) {
        self.each.extend(other.each);
    }

    /// Removes the records of a layer that was detached.
    pub fn remove(&mut self, name: &str, environment: Environment) {
        for (layer, file, _) in self.each_place().filter(|(layer, ..)| *layer == name) {
            let removed = std::fs::remove_file(file).and_then(|()| sync_folder(file));
            if let Err(error) =
                removed.or_else(|error| if error.kind() == NotFound { Ok(()) } else { Err(error) })
            {
                environment.warn(&format!("layer.{layer}: {}: {error}", file.display()));
            }
        }
        self.each.retain(|(layer, ..)| layer != name);
    }

    /// Accepts the BOPT of a layer in any generation: a tool has written another one, with what could be read.
    pub fn accept_any_generation(&self, name: &str, environment: Environment) {
        for (layer, file, record) in self.each_place().filter(|(layer, ..)| *layer == name) {
            let before = read(file).ok().flatten().filter(|before| before.is_of(record));
            if let Some(before) = before.filter(|before| before.generation.is_some())
                && let Err(error) = write(file, &Record { generation: None, ..before })
            {
                environment.warn(&format!(
                    "layer.{layer}: {}: {error}: remove it before the volume is served",
                    file.display()
                ));
            }
        }
    }

    /// Records that this BOPT belongs to the layer's device, and whether it may have newer pages.
    pub fn set(&self, name: &str, bopt: Bopt, newer: bool, environment: Environment) {
        for (layer, files, record) in self.each.iter().filter(|(layer, ..)| layer == name) {
            // One that another user, or another environment, has left.
            let also = files.iter().skip(1).filter(|file| file.exists());
            for file in files.first().into_iter().chain(also) {
                if let Err(error) = write(file, &record.with(bopt, newer)) {
                    environment.warn(&format!(
                        "layer.{layer}: {}: {error}: the device below it will not be protected from being served without \
                         it",
                        file.display()
                    ));
                }
            }
        }
    }
}

/// An identity for people.
fn digits(identity: u128) -> String {
    format!("{identity:032x}")
}

impl Record {
    /// Whether both are of one file, if their names are the same: numbers of devices may change with each start of the
    /// host, and paths with each mount.
    fn is_of(&self, other: &Record) -> bool {
        self.device == other.device || self.path == other.path
    }

    fn with(&self, bopt: Bopt, newer: bool) -> Record {
        let (volume, layer, path) = (self.volume.clone(), self.layer.clone(), self.path.clone());
        let Bopt { identity, generation } = bopt;
        Record { volume, layer, path, bopt: identity.map(digits), generation, newer, ..*self }
    }
}

/// Reads a record, if it exists. One that is damaged may be of a BOPT with newer pages.
fn read(file: &Path) -> Result<Option<Record>, LiveError> {
    let damaged = |found: &dyn std::fmt::Display| {
        LiveError::new(format!(
            "{}: found a record that cannot be used ({}), expected which BOPT belongs to a device, and whether it has \
             newer pages; if it has none, remove the record",
            file.display(),
            found.to_string().trim_end().replace('\n', "; ")
        ))
    };
    match std::fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|error| damaged(&error)),
        Err(error) if error.kind() == NotFound => Ok(None),
        Err(error) => Err(damaged(&error)),
    }
}

/// Writes a record durably: the old one exists until the new one does.
fn write(file: &Path, record: &Record) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    if !folder.exists() {
        std::fs::create_dir_all(folder)?;
        sync_folder(folder)?;
    }
    let text = toml::to_string(record).map_err(std::io::Error::other)?;
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, file)?;
    sync_folder(file)
}

/// Makes the entry of a file in its folder durable.
fn sync_folder(file: &Path) -> std::io::Result<()> {
    std::fs::File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}
