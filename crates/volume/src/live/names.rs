//! Identification of a file or device regardless of its path: a file by its inode, a device by its serial number, a
//! partition by its UUID too. A partition is a part of its disk, so both are considered.

use std::fs::{Metadata, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A name of a file or device, or of a disk or partition that shares sectors with it.
#[derive(Debug, PartialEq, Eq)]
pub struct StableName {
    /// The name, valid as a file name.
    pub key: String,
    /// The device that a file is on; 0 for a device.
    pub device: u64,
    /// Sectors to add to an address on the file or device for that on the one with this key: for a partition's disk,
    /// the start of the partition; for a disk's partition, minus its start.
    pub shift: i64,
}

/// Where the kernel and udev list devices.
struct Places<'a> {
    sys: &'a Path,
    udev: &'a Path,
}

/// All names of a file or device: its own is the first, if it has one.
pub fn all(path: &Path) -> Vec<StableName> {
    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    if !metadata.file_type().is_block_device() {
        return vec![of_file(&metadata)];
    }
    let (major, minor) =
        (metadata.rdev() >> 8 & 0xfff, metadata.rdev() & 0xff | metadata.rdev() >> 12 & !0xff);
    let places = Places { sys: Path::new("/sys/dev/block"), udev: Path::new("/run/udev/data") };
    places.all(&format!("{major}:{minor}"))
}

/// The own name of a file or device.
pub fn own(path: &Path) -> Option<StableName> {
    all(path).into_iter().find(|known| known.shift == 0)
}

fn of_file(metadata: &Metadata) -> StableName {
    StableName { key: format!("inode-{}", metadata.ino()), device: metadata.dev(), shift: 0 }
}

impl Places<'_> {
    /// The names of the device of this number.
    fn all(&self, number: &str) -> Vec<StableName> {
        let folder = self.sys.join(number).canonicalize().ok();
        let own = self.of(number, 0);
        let others = folder.map_or_else(Vec::new, |folder| match start(&folder) {
            Some(start) => {
                folder.parent().and_then(|disk| self.of(&number_of(disk)?, start)).into_iter().collect()
            }
            None => self.partitions(&folder),
        });
        own.into_iter().chain(others).collect()
    }

    /// The partitions of a disk.
    fn partitions(&self, disk: &Path) -> Vec<StableName> {
        let Ok(entries) = std::fs::read_dir(disk) else { return Vec::new() };
        let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        folders.sort();
        folders.iter().filter_map(|folder| self.of(&number_of(folder)?, -start(folder)?)).collect()
    }

    /// The name of a device in udev.
    fn of(&self, number: &str, shift: i64) -> Option<StableName> {
        let known = read_to_string(self.udev.join(format!("b{number}"))).ok()?;
        let value = |name: &str| known.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        let (serial, partition) = (value("E:ID_SERIAL="), value("E:ID_PART_ENTRY_UUID="));
        let key: String = format!("device-{serial}-{partition}")
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        (!serial.is_empty() || !partition.is_empty()).then_some(StableName { key, device: 0, shift })
    }
}

/// Device number of this folder in sysfs.
fn number_of(folder: &Path) -> Option<String> {
    Some(read_to_string(folder.join("dev")).ok()?.trim().to_owned())
}

/// Start of a partition on its disk; `None` if it is not one.
fn start(folder: &Path) -> Option<i64> {
    folder
        .join("partition")
        .exists()
        .then(|| read_to_string(folder.join("start")).ok()?.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_partition_is_known_with_its_disk_and_a_disk_with_its_partitions() {
        let folder = tempfile::tempdir().unwrap();
        let (sys, udev) = (folder.path().join("sys"), folder.path().join("udev"));
        let disk = folder.path().join("devices/sda");
        for (at, number, uuid) in [(disk.clone(), "8:0", ""), (disk.join("sda2"), "8:2", "aa bb")] {
            fs::create_dir_all(&at).unwrap();
            fs::create_dir_all(&sys).unwrap();
            fs::create_dir_all(&udev).unwrap();
            fs::write(at.join("dev"), format!("{number}\n")).unwrap();
            std::os::unix::fs::symlink(&at, sys.join(number)).unwrap();
            fs::write(
                udev.join(format!("b{number}")),
                format!("E:ID_SERIAL=WD_1\nE:ID_PART_ENTRY_UUID={uuid}\n"),
            )
            .unwrap();
        }
        fs::write(disk.join("sda2/partition"), "2\n").unwrap();
        fs::write(disk.join("sda2/start"), "2048\n").unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        let places = Places { sys: &sys, udev: &udev };
        let known = |key: &str, shift| StableName { key: key.to_owned(), device: 0, shift };
        assert_eq!(places.all("8:0"), [known("device-WD-1-", 0), known("device-WD-1-aa-bb", -2048)]);
        assert_eq!(places.all("8:2"), [known("device-WD-1-aa-bb", 0), known("device-WD-1-", 2048)]);
        assert_eq!(places.all("8:9"), []);
    }
}
