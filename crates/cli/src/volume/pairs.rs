//! Which files and devices have newer pages in a BOPT, as this host remembers it: they are not served without that.
//!
//! A record is written before a BORG layer is served, and taken away by a stop that leaves nothing in its BOPT alone. So
//! it is there after a crash, and after a stop that keeps pages. Records lie in `$STATE_DIRECTORY`, as systemd gives it,
//! or else in the user's state folder. Fault model: whoever moves a disk to another host, or loses the folder, is not
//! warned; a record that cannot be read or written is told, and the volume is served.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::bail;
use seekless_core::Extent;
use seekless_lab::description::{Description, Leaf};
use serde::{Deserialize, Serialize};

use super::component::{Facts, Live};
use super::ground::Ground;

/// A part of a file or device that a BOPT has newer pages of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The volume file whose layer that is.
    volume: PathBuf,
    /// The layer.
    layer: String,
    /// The file or device, as it was called then.
    path: PathBuf,
    /// The device that the file was on.
    device: u64,
    /// The first sector, and how many.
    start: u64,
    sectors: u64,
}

/// The records of a server.
pub struct Pairs {
    /// Layers, where their records are, and these.
    each: Vec<(String, PathBuf, Record)>,
}

/// Where records are; `None` if nothing says so.
fn folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd gives several with colons between.
    let first = |given: PathBuf| given.to_str()?.split(':').next().map(PathBuf::from);
    let given = of("STATE_DIRECTORY").and_then(first);
    let user =
        || Some(of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?.join("seekless"));
    given.or_else(user)
}

/// By what a file or device is known, whatever it is called; and the device that it is on.
fn key(path: &Path) -> Option<(String, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.file_type().is_block_device() {
        return Some((format!("inode-{}", metadata.ino()), metadata.dev()));
    }
    let (major, minor) =
        (metadata.rdev() >> 8 & 0xfff, metadata.rdev() & 0xff | metadata.rdev() >> 12 & !0xff);
    let known = std::fs::read_to_string(format!("/run/udev/data/b{major}:{minor}")).ok()?;
    let of = |name: &str| known.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
    let (serial, partition) = (of("E:ID_SERIAL="), of("E:ID_PART_ENTRY_UUID="));
    let name: String = format!("device-{serial}-{partition}")
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    (!serial.is_empty() || !partition.is_empty()).then_some((name, 0))
}

/// The part of a component that the sectors of a device are on, without layers.
fn part(description: &Description<Live>, name: &str) -> Option<(String, Extent)> {
    let mut name = name;
    while let Some(layer) = description.layers.get(name) {
        name = &layer.over;
    }
    if let Some(window) = description.slices.get(name) {
        return Some((window.of.clone(), window.extent));
    }
    let sectors = description.components.get(name)?.sectors();
    Some((name.to_owned(), Extent::new(0, sectors)))
}

/// The file of a component, as long as it is not built.
fn path(description: &Description<Live>, component: &str) -> Option<PathBuf> {
    match description.components.get(component)?.facts().ok()? {
        Facts::File(facts) => std::path::absolute(facts.path).ok(),
        _ => None,
    }
}

/// The records of a file or device.
fn records(folder: &Path, path: &Path) -> Vec<Record> {
    let Some((key, device)) = key(path) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(folder.join(key)) else { return Vec::new() };
    let read = |entry: std::fs::DirEntry| -> Option<Record> {
        toml::from_str(&std::fs::read_to_string(entry.path()).ok()?).ok()
    };
    let found = entries.filter_map(|entry| read(entry.ok()?));
    found.filter(|record| record.device == device || record.path == path).collect()
}

/// Refuses what would be served without the BOPT that has newer pages of it. To be called before components are built.
pub fn look(volume: &Path, description: &Description<Live>, ground: Ground) -> anyhow::Result<Pairs> {
    let Some(folder) = folder().filter(|_| ground == Ground::Live) else {
        return Ok(Pairs { each: Vec::new() });
    };
    for export in &description.exports {
        let Some((component, at)) = part(description, &export.top) else { continue };
        let Some(path) = path(description, &component) else { continue };
        let over = description.downwards(&export.top);
        let borg = over.iter().any(|name| description.layers[name].entry.name == "borg");
        let newer = |record: &Record| !borg && Extent::new(record.start, record.sectors).overlaps(at);
        if let Some(record) = records(&folder, &path).into_iter().find(newer) {
            let of = record.volume.display();
            bail!(
                "{}: export.{}: found {}, whose newest pages are in the BOPT of layer.{} of {of}, expected it to be \
                 served with that: seekless volume serve {of}, and a stop brings them home; \
                 to give them up: remove {}",
                description.file,
                export.name,
                path.display(),
                record.layer,
                folder.join(key(&path).map_or_else(String::new, |(key, _)| key)).display()
            );
        }
    }
    let layers = description.layers.iter().filter(|(_, layer)| layer.entry.name == "borg");
    let each = layers.filter_map(|(name, layer)| {
        let (component, at) = part(description, &layer.over)?;
        let path = path(description, &component)?;
        let (key, device) = key(&path)?;
        let file = folder.join(key).join(format!("{}-{}.toml", at.start.0, at.sectors));
        let volume = std::path::absolute(volume).ok()?;
        let (layer, start, sectors) = (name.clone(), at.start.0, at.sectors);
        Some((name.clone(), file, Record { volume, layer, path, device, start, sectors }))
    });
    Ok(Pairs { each: each.collect() })
}

impl Pairs {
    /// From now on there may be newer pages in the BOPTs.
    pub fn write(&self, ground: Ground) {
        for (layer, file, record) in &self.each {
            if let Err(error) = write(file, record) {
                ground.say(&format!(
                    "layer.{layer}: {}: {error}: nothing will keep what is below it from being served without it",
                    file.display()
                ));
            }
        }
    }

    /// A layer has left nothing that only it holds.
    pub fn is_home(&self, layer: &str) {
        for (_, file, _) in self.each.iter().filter(|(name, ..)| name == layer) {
            let _ = std::fs::remove_file(file);
            let _ = file.parent().map(std::fs::remove_dir);
        }
    }
}

/// Writes a record, durably: the one before is there until this one is.
fn write(file: &Path, record: &Record) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let text = toml::to_string(record).map_err(std::io::Error::other)?;
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, file)?;
    std::fs::File::open(folder)?.sync_all()
}
