//! What was mounted on a folder, for `umount`: a file in `$RUNTIME_DIRECTORY` or `/run/seekless`, which a reboot empties.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::device::Device;
use crate::output;

/// A mounted volume.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The volume file.
    pub volume: PathBuf,
    /// The block device.
    pub device: Device,
    /// Process number of the server, if it was started for the mount.
    pub server: Option<u32>,
}

/// Where things of a mount on this folder are kept.
pub fn place(folder: &Path) -> PathBuf {
    let runtime = std::env::var_os("RUNTIME_DIRECTORY").map_or_else(|| "/run/seekless".into(), PathBuf::from);
    runtime.join("mounts").join(format!("mount{}", short(name(folder))))
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

/// A name that leaves room for a socket's path, of which the kernel takes 107 bytes: of a long one only the end is kept.
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

impl Record {
    /// The record of this folder, if there is one and what it names is still there.
    pub fn of(folder: &Path) -> anyhow::Result<Option<Record>> {
        let file = file(folder);
        let text = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == NotFound => return Ok(None),
            text => text.with_context(|| file.display().to_string())?,
        };
        Ok(Some(serde_json::from_str(&text).with_context(|| file.display().to_string())?))
    }

    /// Writes it.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        output::file(&file(folder), &(serde_json::to_string(self)? + "\n"))
    }

    /// Removes it.
    pub fn remove(folder: &Path) -> anyhow::Result<()> {
        std::fs::remove_dir_all(place(folder)).with_context(|| folder.display().to_string())
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
