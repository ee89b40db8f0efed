//! What was mounted on a folder, for `umount`: a file in `$RUNTIME_DIRECTORY` or `/run/seekless`, which a reboot
//! empties.
//!
//! It is written before the first step, and what the steps made is found by its names, so that of a mount that was
//! killed in the middle nothing stays. One command at a time works on a folder, and on a volume.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::device::{Device, is_mounted};
use crate::output;

/// A volume that is mounted, or that is being mounted.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// Folder that it is mounted on; empty in records of earlier versions.
    #[serde(default)]
    pub folder: PathBuf,
    /// The volume file.
    pub volume: PathBuf,
    /// Name of the export; empty until it is known, and in records of earlier versions.
    #[serde(default)]
    pub export: String,
    /// The block device.
    pub device: Device,
    /// Whether the server was started for the mount.
    #[serde(default)]
    pub started: bool,
}

fn runtime() -> PathBuf {
    std::env::var_os("RUNTIME_DIRECTORY").map_or_else(|| "/run/seekless".into(), PathBuf::from)
}

/// Where things of a mount on this folder are kept.
pub fn place(folder: &Path) -> PathBuf {
    runtime().join("mounts").join(format!("mount{}", short(name(folder))))
}

/// Waits until no other command works on this folder or volume file. Of a mount, the folder is first.
pub fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = runtime().join("locks");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let file = folder.join(format!("lock{}", short(name(path))));
    let lock = File::create(&file).with_context(|| file.display().to_string())?;
    while let Err(error) = flock(&lock, FlockOperation::LockExclusive) {
        if error != Errno::INTR {
            return Err(error).with_context(|| file.display().to_string());
        }
    }
    Ok(lock)
}

/// A name of this folder for files and units, which no other folder has.
pub fn name(folder: &Path) -> String {
    let encoded = |letter: char| match letter {
        '/' => "-".to_owned(),
        '-' | '_' => format!("_{letter}"),
        '.' => letter.to_string(),
        _ if letter.is_ascii_alphanumeric() => letter.to_string(),
        _ => format!("_x{:x}_", u32::from(letter)),
    };
    folder.display().to_string().chars().map(encoded).collect()
}

/// A name that leaves room for a socket's path, of which the kernel takes 107 bytes: of a long one only the end is
/// kept.
fn short(name: String) -> String {
    const LONGEST: usize = 48;
    const KEPT: usize = 24;
    if name.len() <= LONGEST {
        return name;
    }
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    let end: Vec<char> = name.chars().rev().filter(char::is_ascii).take(KEPT).collect();
    format!("-{:016x}{}", hash.finish(), end.into_iter().rev().collect::<String>())
}

fn file(folder: &Path) -> PathBuf {
    place(folder).join("record.json")
}

fn read(file: &Path) -> anyhow::Result<Option<Record>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == NotFound => return Ok(None),
        text => text.with_context(|| file.display().to_string())?,
    };
    Ok(Some(serde_json::from_str(&text).with_context(|| file.display().to_string())?))
}

impl Record {
    /// A mount of this volume file on this folder, of which nothing is there yet.
    pub fn new(folder: &Path, volume: &Path) -> Record {
        let device = Device::new(&place(folder));
        let (folder, volume) = (folder.to_owned(), volume.to_owned());
        Record { folder, volume, export: String::new(), device, started: false }
    }

    /// The record of this folder, if there is one.
    pub fn of(folder: &Path) -> anyhow::Result<Option<Record>> {
        let record = read(&file(folder))?;
        Ok(record.map(|record| Record { folder: folder.to_owned(), ..record }))
    }

    /// Other folders that its volume is mounted on.
    pub fn others(&self) -> anyhow::Result<Vec<Record>> {
        let mut files: Vec<PathBuf> = match std::fs::read_dir(runtime().join("mounts")) {
            Err(error) if error.kind() == NotFound => return Ok(Vec::new()),
            entries => {
                let entries = entries.with_context(|| runtime().display().to_string())?;
                entries.filter_map(|entry| Some(entry.ok()?.path().join("record.json"))).collect()
            }
        };
        files.sort();
        let mut others = Vec::new();
        for file in files {
            let Some(other) = read(&file)?.filter(|other| other.volume == self.volume) else { continue };
            if other.folder != self.folder && is_mounted(&other.folder)? {
                others.push(other);
            }
        }
        Ok(others)
    }

    /// Writes it.
    pub fn write(&self) -> anyhow::Result<()> {
        let file = file(&self.folder);
        std::fs::create_dir_all(place(&self.folder)).with_context(|| file.display().to_string())?;
        output::file(&file, &(serde_json::to_string(self)? + "\n"))
    }

    /// Removes it.
    pub fn remove(&self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(place(&self.folder)).with_context(|| self.folder.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_folder_leaves_room_for_sockets() {
        let place =
            |folder: &str| super::place(Path::new(folder)).join("relay.control").display().to_string();
        assert!(place("/mnt/data").ends_with("mounts/mount-mnt-data/relay.control"));
        let long = |last: &str| place(&format!("/srv/{}/{last}", "deep/".repeat(40)));
        assert!(long("a").len() <= 107, "{}", long("a"));
        assert_ne!(long("a"), long("b"));
        let alike = ["/x/y", "/x-y", "/x_y", "/x_-y", "/x y", "/x_x20_y", "/x%y"];
        for (number, one) in alike.iter().enumerate() {
            for other in &alike[number + 1..] {
                assert_ne!(place(one), place(other), "{one}, {other}");
            }
        }
    }
}
