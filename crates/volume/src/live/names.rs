//! Identification of a file or device regardless of its path: a file by its inode, a device by its serial number, a
//! partition by its UUID too. A partition is a part of its disk, so both are considered. Where udev knows neither,
//! sysfs may: a serial number, a world-wide name, the UUID of a mapped device or an array, the file of a loop device. A
//! device without any of these is known by its path alone.

use std::fs::{Metadata, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use seekless_core::SECTOR_BYTES;

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

impl StableName {
    /// Whether another device may have this name after the next start of the host.
    pub fn is_path(&self) -> bool {
        self.key.starts_with(PATH)
    }
}

/// What the key of a device begins with that is known by its path alone.
const PATH: &str = "path";

/// Files of sysfs that identify a device.
const IDENTITIES: [&str; 6] = ["dm/uuid", "md/uuid", "serial", "wwid", "device/wwid", "device/serial"];

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
    let mut found = places.all(&format!("{major}:{minor}"));
    if !found.iter().any(|known| known.shift >= 0) {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        found.push(StableName { key: key(&[PATH, &path.to_string_lossy()]), device: 0, shift: 0 });
    }
    found
}

/// The name to record a file or device under: its own, or that of the disk which it is a part of.
pub fn own(path: &Path) -> Option<StableName> {
    all(path).into_iter().find(|known| known.shift >= 0)
}

/// A key, valid as a file name.
fn key(parts: &[&str]) -> String {
    let letters = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    parts.join("-").chars().map(letters).collect()
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

    /// The name of a device, by udev or sysfs.
    fn of(&self, number: &str, shift: i64) -> Option<StableName> {
        let known = read_to_string(self.udev.join(format!("b{number}"))).unwrap_or_default();
        let value = |name: &str| known.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        let (serial, partition) = (value("E:ID_SERIAL="), value("E:ID_PART_ENTRY_UUID="));
        if !serial.is_empty() || !partition.is_empty() {
            return Some(StableName { key: key(&["device", serial, partition]), device: 0, shift });
        }
        let folder = self.sys.join(number);
        let text = |name: &str| {
            let text = read_to_string(folder.join(name)).ok()?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        if let Some(identity) = IDENTITIES.into_iter().find_map(text) {
            return Some(StableName { key: key(&["device", &identity]), device: 0, shift });
        }
        let file = std::fs::metadata(text("loop/backing_file")?).ok()?;
        let offset: u64 = text("loop/offset").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        Some(StableName { shift: shift.saturating_add_unsigned(offset / SECTOR_BYTES), ..of_file(&file) })
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

    #[test]
    fn a_device_that_udev_does_not_know_is_known_by_sysfs() {
        let folder = tempfile::tempdir().unwrap();
        let backing = folder.path().join("backing");
        fs::write(&backing, "").unwrap();
        let inode = format!("inode-{}", fs::metadata(&backing).unwrap().ino());
        let file = backing.to_str().unwrap();
        let devices: [(&str, &[(&str, &str)]); 5] = [
            ("253:0", &[("dm/uuid", "LVM-a_b\n")]),
            ("252:0", &[("serial", "\n"), ("device/wwid", "naa.5\n")]),
            ("252:1", &[("serial", "virtual 7\n")]),
            ("7:0", &[("loop/backing_file", file), ("loop/offset", "1048576\n")]),
            ("1:0", &[]),
        ];
        for (number, files) in devices {
            fs::create_dir_all(folder.path().join(number)).unwrap();
            for (name, text) in files {
                let at = folder.path().join(number).join(name);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::write(at, text).unwrap();
            }
        }
        let places = Places { sys: folder.path(), udev: Path::new("/nowhere") };
        let names =
            |number| places.all(number).into_iter().map(|known| (known.key, known.shift)).collect::<Vec<_>>();
        assert_eq!(names("253:0"), [("device-LVM-a-b".to_owned(), 0)]);
        assert_eq!(names("252:0"), [("device-naa-5".to_owned(), 0)]);
        assert_eq!(names("252:1"), [("device-virtual-7".to_owned(), 0)]);
        assert_eq!(names("7:0"), [(inode, 2048)]);
        assert_eq!(names("1:0"), []);
    }

    #[test]
    fn a_partition_without_a_name_is_a_part_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, sys) = (folder.path().join("devices/vda"), folder.path().join("sys"));
        fs::create_dir_all(disk.join("vda1")).unwrap();
        fs::create_dir_all(&sys).unwrap();
        for (at, number) in [(disk.clone(), "254:0"), (disk.join("vda1"), "254:1")] {
            fs::write(at.join("dev"), number).unwrap();
            std::os::unix::fs::symlink(&at, sys.join(number)).unwrap();
        }
        fs::write(disk.join("serial"), "s1").unwrap();
        fs::write(disk.join("vda1/partition"), "1").unwrap();
        fs::write(disk.join("vda1/start"), "34").unwrap();
        let places = Places { sys: &sys, udev: Path::new("/nowhere") };
        let known = |shift| StableName { key: "device-s1".to_owned(), device: 0, shift };
        assert_eq!(places.all("254:0"), [known(0)]);
        assert_eq!(places.all("254:1"), [known(34)]);
    }
}
