//! The device to be recorded: its number, its place in sysfs, the disk it is a part of.
//!
//! Faults: anything that is not a block device is an error that says what it is.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::error::RecordError;

const BY_NAME: &str = "/sys/class/block";
const BY_NUMBER: &str = "/sys/dev/block";
/// Deepest stack of devices; guards against a loop in sysfs.
const DEEPEST: usize = 16;

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name: `sda1`, `dm-0`.
    pub name: String,
    /// `major << 20 | minor`, as in traces.
    pub number: u32,
    /// Folder in sysfs.
    pub folder: PathBuf,
    /// If it is a partition, its disk and sectors.
    pub part: Option<Part>,
    /// The numbers of its partitions.
    pub partitions: Vec<u32>,
}

/// The place of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The disk's number.
    pub disk: u32,
    /// First sector.
    pub start: u64,
    /// First sector after it.
    pub end: u64,
}

impl Device {
    /// Finds the device given as `/dev/sda`, `sda`, `mapper/home` or a link to one.
    pub fn find(given: &Path) -> Result<Device, RecordError> {
        let not = |found: String, hint: String| RecordError::NotBlock {
            device: given.display().to_string(),
            found,
            hint,
        };
        let bare = given.parent().is_some_and(|parent| parent.as_os_str().is_empty());
        let under_dev = Path::new("/dev").join(given);
        let in_sysfs = Path::new(BY_NAME).join(given);
        // A name is first a device's name, and a file's only if there is no such device.
        let path = [under_dev.as_path(), given].into_iter().find(|path| path.exists());
        let folder = match path.map(fs::metadata) {
            Some(Ok(found)) if found.file_type().is_block_device() => {
                Path::new(BY_NUMBER).join(format!("{}:{}", major(found.rdev()), minor(found.rdev())))
            }
            // In a container, /dev may lack devices that the kernel has.
            _ if bare && in_sysfs.exists() => in_sysfs,
            Some(Ok(found)) => return Err(not(kind(&found).to_owned(), lies_on(given))),
            Some(Err(error)) => return Err(RecordError::io(given, "looking at it", error)),
            None => return Err(not("nothing".to_owned(), String::new())),
        };
        Device::at(&folder).ok_or_else(|| not("a device that sysfs does not know".to_owned(), String::new()))
    }

    /// The device of a folder in sysfs.
    fn at(folder: &Path) -> Option<Device> {
        let folder = folder.canonicalize().ok()?;
        let name = folder.file_name()?.to_str()?.to_owned();
        let number = number_in(&folder)?;
        let part = if folder.join("partition").exists() {
            let read = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
            let (start, sectors) = (read("start")?, read("size")?);
            Some(Part { disk: number_in(folder.parent()?)?, start, end: start + sectors })
        } else {
            None
        };
        let inside = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut partitions: Vec<u32> = inside
            .filter(|path| path.join("partition").exists())
            .filter_map(|path| number_in(&path))
            .collect();
        partitions.sort_unstable();
        Some(Device { name, number, folder, part, partitions })
    }

    /// The number as `major,minor`.
    pub fn number_text(&self) -> String {
        format!("{},{}", self.number >> 20, self.number & 0xf_ffff)
    }

    /// Whether a write to `file`, or to a file in its folder, reaches this device.
    pub fn holds(&self, file: &Path) -> bool {
        let mut below = BTreeSet::new();
        under(file, &mut below, 0);
        below.contains(&self.number) || self.partitions.iter().any(|part| below.contains(part))
    }
}

/// The number in a folder of sysfs.
fn number_in(folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// The devices that the file system of `file` lies on, at every level of the stack.
fn under(file: &Path, found: &mut BTreeSet<u32>, depth: usize) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(metadata) = fs::metadata(file).or_else(|_| fs::metadata(folder)) else { return };
    let number = (major(metadata.dev()), minor(metadata.dev()));
    // Some file systems (btrfs) have numbers of their own: the mount table gives their device.
    let number = if number.0 == 0 { mounted_from(number) } else { Some(number) };
    if let Some((major, minor)) = number {
        below(&Path::new(BY_NUMBER).join(format!("{major}:{minor}")), found, depth);
    }
}

/// A device and all those below it.
fn below(folder: &Path, found: &mut BTreeSet<u32>, depth: usize) {
    let Some(device) = Device::at(folder) else { return };
    if depth > DEEPEST || !found.insert(device.number) {
        return;
    }
    if let Some(part) = device.part {
        found.insert(part.disk);
    }
    for slave in fs::read_dir(device.folder.join("slaves")).into_iter().flatten().flatten() {
        below(&slave.path(), found, depth + 1);
    }
    if let Ok(backing) = fs::read_to_string(device.folder.join("loop/backing_file")) {
        under(Path::new(backing.trim_end()), found, depth + 1);
    }
}

/// The device that a file system with a number of its own is mounted from.
fn mounted_from((major_found, minor_found): (u32, u32)) -> Option<(u32, u32)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = source_of(&mounts, &format!("{major_found}:{minor_found}"))?;
    let metadata = fs::metadata(source).ok().filter(|found| found.file_type().is_block_device())?;
    Some((major(metadata.rdev()), minor(metadata.rdev())))
}

/// The source of the mount with this number: the second word after the dash.
fn source_of<'a>(mounts: &'a str, number: &str) -> Option<&'a str> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    line.split_once(" - ")?.1.split(' ').nth(1)
}

fn kind(found: &fs::Metadata) -> &'static str {
    let kind = found.file_type();
    if kind.is_dir() {
        "a folder"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_file() {
        "a file"
    } else {
        "neither a file nor a device"
    }
}

/// The devices that a file or folder lies on, as a hint.
fn lies_on(path: &Path) -> String {
    let mut found = BTreeSet::new();
    under(path, &mut found, 0);
    let name = |number: &u32| {
        let folder = Path::new(BY_NUMBER).join(format!("{}:{}", number >> 20, number & 0xf_ffff));
        Device::at(&folder).map(|device| format!("/dev/{}", device.name))
    };
    let names: Vec<String> = found.iter().filter_map(name).collect();
    if names.is_empty() { String::new() } else { format!(" (it lies on {})", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_device_is_named_by_its_kind() {
        for (given, found) in [
            ("/nonexistent", "nothing"),
            ("/proc", "a folder"),
            ("/dev/null", "a character device"),
            ("/proc/version", "a file"),
        ] {
            let error = Device::find(Path::new(given)).unwrap_err().to_string();
            assert!(error.contains(given) && error.contains(found) && error.contains("/dev/sda"), "{error}");
        }
    }

    #[test]
    fn the_mount_table_gives_a_file_systems_device() {
        let mounts = "22 1 0:20 / /proc rw - proc proc rw\n31 1 0:33 /root / rw,relatime shared:1 - btrfs /dev/sda2 rw,subvol=/root\n";
        assert_eq!(source_of(mounts, "0:33"), Some("/dev/sda2"));
        assert_eq!(source_of(mounts, "0:99"), None);
    }
}
