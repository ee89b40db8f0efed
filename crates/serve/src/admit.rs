//! Devices opened for measurements: whole rotational disks that are not in use.
//!
//! Fault model: the path may name anything. A device that the kernel reports as in use is never opened, whatever the
//! options.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;
use seekless_core::SECTOR_BYTES;

/// Requirements on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Whether files, partitions, stacked and flash devices are admitted too.
    pub any_kind: bool,
    /// Whether the device is opened for writes too; otherwise it is opened read-only.
    pub writes: bool,
}

/// Why a device was not opened.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// Opening or probing failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the device.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// Not a whole disk.
    #[error("{}: found {found}, expected a whole disk such as /dev/sdb", path.display())]
    NoDisk {
        /// Path of the device.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// A flash device: no arm to measure.
    #[error("{}: found a non-rotational device (flash), expected a spinning disk", path.display())]
    Flash {
        /// Path of the device.
        path: PathBuf,
    },
    /// The device is in use.
    #[error("{}: found it in use ({by}), expected a disk that is not in use: unmount it, or take it out of its array",
        path.display())]
    InUse {
        /// Path of the device.
        path: PathBuf,
        /// User of the device, as far as known.
        by: String,
    },
    /// No direct I/O (`O_DIRECT`).
    #[error("{}: found a file system without direct I/O (O_DIRECT), expected one with it, or a disk",
        path.display())]
    NotDirect {
        /// Path of the device.
        path: PathBuf,
    },
}

/// An opened device; read-only unless opened for writes.
#[derive(Debug)]
pub struct Target {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) writes: bool,
    /// Size of the device in sectors.
    pub sectors: u64,
    /// Bytes of a logical block: the alignment of reads.
    pub logical_bytes: u64,
    /// Bytes of a physical block.
    pub physical_bytes: u64,
    /// Whether the device reports itself as rotational; true for a file, where it is unknown.
    pub rotational: bool,
    /// Model name, if the device reports one.
    pub model: Option<String>,
}

impl Target {
    /// Opens `path` for reading if `admission` allows it; with writes, those are on the media when they complete
    /// (`O_DSYNC`).
    pub fn open(path: &Path, admission: Admission) -> Result<Target, AdmissionError> {
        let io = |error| AdmissionError::Io { path: path.to_owned(), error };
        let no_disk = |found: &str| AdmissionError::NoDisk { path: path.to_owned(), found: found.to_owned() };
        let metadata = std::fs::metadata(path).map_err(io)?;
        let kind = metadata.file_type();
        let block = kind.is_block_device();
        if kind.is_dir() {
            return Err(no_disk("a folder"));
        } else if !block && !kind.is_file() {
            return Err(no_disk("neither a disk nor a file"));
        } else if !block && !admission.any_kind {
            return Err(no_disk("a file"));
        }
        let sysfs = block.then(|| sysfs_folder(metadata.rdev()));
        // Before opening: opening a disk wakes it up.
        if let Some(sysfs) = sysfs.as_deref().filter(|_| !admission.any_kind) {
            check_whole_and_rotational(path, sysfs)?;
        }
        let exclusive = if block { OFlags::EXCL } else { OFlags::empty() };
        let durable = if admission.writes { OFlags::DSYNC } else { OFlags::empty() };
        let flags = i32::try_from((OFlags::DIRECT | exclusive | durable).bits()).unwrap_or_default();
        let opened = OpenOptions::new().read(true).write(admission.writes).custom_flags(flags).open(path);
        let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => AdmissionError::InUse { path: path.to_owned(), by: mounted_by(path) },
            Some(Errno::INVAL) => AdmissionError::NotDirect { path: path.to_owned() },
            _ => io(error),
        })?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io)?;
        let sysfs = sysfs.unwrap_or_default();
        let queue = |name: &str| queue_attribute(&sysfs, name).filter(|bytes| *bytes >= SECTOR_BYTES);
        // Files are read in pages, which every file system supports.
        let unknown = if block { SECTOR_BYTES } else { 4096 };
        let logical_bytes = queue("logical_block_size").unwrap_or(unknown);
        Ok(Target {
            file,
            path: path.to_owned(),
            writes: admission.writes,
            sectors: bytes / SECTOR_BYTES,
            logical_bytes,
            physical_bytes: queue("physical_block_size").unwrap_or(logical_bytes).max(logical_bytes),
            rotational: queue_attribute(&sysfs, "rotational").is_none_or(|turns| turns != 0),
            model: text(&sysfs.join("device/model")),
        })
    }
}

/// Refuses partitions, stacked devices, drives with several arms, and flash.
fn check_whole_and_rotational(path: &Path, sysfs: &Path) -> Result<(), AdmissionError> {
    let no_disk =
        |found: &str| Err(AdmissionError::NoDisk { path: path.to_owned(), found: found.to_owned() });
    if sysfs.join("partition").exists() {
        return no_disk("a partition");
    }
    let stacked = std::fs::read_dir(sysfs.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
    if stacked || sysfs.join("loop").exists() || sysfs.join("dm").exists() || sysfs.join("md").exists() {
        return no_disk("a stacked device");
    }
    let ranges = std::fs::read_dir(sysfs.join("queue/independent_access_ranges"));
    if ranges.is_ok_and(|ranges| ranges.count() > 1) {
        return no_disk("a drive with several arms");
    }
    if queue_attribute(sysfs, "rotational") == Some(0) {
        return Err(AdmissionError::Flash { path: path.to_owned() });
    }
    Ok(())
}

/// Folder in sysfs of a block device, by its device number.
pub(crate) fn sysfs_folder(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// An attribute of a device's queue; a partition has those of its disk.
pub(crate) fn queue_attribute(sysfs: &Path, name: &str) -> Option<u64> {
    let of = |folder: PathBuf| text(&folder.join("queue").join(name))?.parse().ok();
    of(sysfs.to_owned()).or_else(|| of(sysfs.canonicalize().ok()?.parent()?.to_owned()))
}

/// A file of one line, without spaces around it; `None` if it is empty or cannot be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Mount points of a device and its partitions.
fn mounted_by(path: &Path) -> String {
    let device = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let device = device.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounted_at(&mounts, &device).unwrap_or_else(|| "mounted, or opened by another program".to_owned())
}

/// `mounted at /home`, from the mount table.
fn mounted_at(mounts: &str, device: &str) -> Option<String> {
    let of_device = |line: &&str| {
        let part = line.split(' ').next().and_then(|source| source.strip_prefix(device));
        part.is_some_and(|rest| rest.trim_start_matches('p').chars().all(|each| each.is_ascii_digit()))
    };
    let line = mounts.lines().find(of_device)?;
    Some(format!("{} is mounted at {}", line.split(' ').next()?, line.split(' ').nth(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_says_who_uses_a_disk() {
        let mounts = "proc /proc proc rw 0 0\n/dev/sdb1 /home ext4 rw 0 0\n/dev/nvme0n1p2 / ext4 rw 0 0\n";
        assert_eq!(mounted_at(mounts, "/dev/sdb").as_deref(), Some("/dev/sdb1 is mounted at /home"));
        assert_eq!(mounted_at(mounts, "/dev/nvme0n1").as_deref(), Some("/dev/nvme0n1p2 is mounted at /"));
        assert_eq!(mounted_at(mounts, "/dev/sd"), None);
    }
}
