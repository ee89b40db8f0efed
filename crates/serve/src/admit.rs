//! What may be opened for measurements: a whole disk that turns and that nobody uses.
//!
//! Fault model: the name can be anything's. What is said to be in use by the kernel is never opened, whatever is asked.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;
use seekless_core::SECTOR_BYTES;

/// What is asked of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Files, partitions, stacked and flash devices too.
    pub any_kind: bool,
    /// To be written too; otherwise it is opened so that it cannot be.
    pub writes: bool,
}

/// Why a device is not opened.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// Opening or looking failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no disk.
    #[error("{}: found {found}, expected a whole disk such as /dev/sdb", path.display())]
    NoDisk {
        /// What was asked for.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// It has no arm.
    #[error("{}: found a device that says it does not turn (flash), expected a spinning disk", path.display())]
    Flash {
        /// What was asked for.
        path: PathBuf,
    },
    /// Somebody uses it.
    #[error("{}: found it in use ({by}), expected a disk that nobody uses: unmount it, or take it out of its array",
        path.display())]
    InUse {
        /// What was asked for.
        path: PathBuf,
        /// By whom, as far as it is known.
        by: String,
    },
    /// It cannot be read past the page cache.
    #[error("{}: found a file system that knows no direct reads (O_DIRECT), expected one that does, or a disk",
        path.display())]
    NotDirect {
        /// What was asked for.
        path: PathBuf,
    },
}

/// An opened device; read-only unless writes were asked for.
#[derive(Debug)]
pub struct Target {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) writes: bool,
    /// Its size.
    pub sectors: u64,
    /// Bytes of a logical block: what reads have to be aligned to.
    pub logical_bytes: u64,
    /// Bytes of a physical block.
    pub physical_bytes: u64,
    /// Whether it says that it turns; of a file it is not known.
    pub rotational: bool,
    /// What it is called by its maker, if it says so.
    pub model: Option<String>,
}

impl Target {
    /// Opens `path`, if it is what is asked for: for reading; if asked so, for writes that are on the media when they
    /// are answered (`O_DSYNC`).
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
        // Before anything is opened: opening a disk wakes it up.
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
        // A file is read in pages: what any file system takes.
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

/// Refuses partitions, stacked devices, several arms and flash.
fn check_whole_and_rotational(path: &Path, sysfs: &Path) -> Result<(), AdmissionError> {
    let no_disk =
        |found: &str| Err(AdmissionError::NoDisk { path: path.to_owned(), found: found.to_owned() });
    if sysfs.join("partition").exists() {
        return no_disk("a partition");
    }
    let stacked = std::fs::read_dir(sysfs.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
    if stacked || sysfs.join("loop").exists() || sysfs.join("dm").exists() || sysfs.join("md").exists() {
        return no_disk("a device made of others");
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

/// What the system knows of a block device, by its number.
pub(crate) fn sysfs_folder(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// A figure of a device's queue; a partition's is its disk's.
pub(crate) fn queue_attribute(sysfs: &Path, name: &str) -> Option<u64> {
    let of = |folder: PathBuf| text(&folder.join("queue").join(name))?.parse().ok();
    of(sysfs.to_owned()).or_else(|| of(sysfs.canonicalize().ok()?.parent()?.to_owned()))
}

fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Where a device or a partition of it is mounted.
fn mounted_by(path: &Path) -> String {
    let device = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let device = device.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounted_at(&mounts, &device).unwrap_or_else(|| "mounted, or held by another".to_owned())
}

/// `mounted at /home`, by the table of mounts.
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
