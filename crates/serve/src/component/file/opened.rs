//! Opening, locking and probing a file or a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use seekless_core::{PAGE_BYTES, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use crate::admit::{queue_attribute, sysfs_folder};
use crate::component::error::OpenError;
use crate::place::{self, Located};
use crate::reactor::Memory;
use crate::reactor::inputs::placeholder;
use crate::retry::retry_while;

/// An opened and locked file or block device.
#[derive(Debug)]
pub struct Opened {
    pub(super) file: File,
    pub(super) probe: FileProbe,
}

/// Properties of a file, probed when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileProbe {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in sectors.
    pub sectors: u64,
    /// Logical block size in bytes: the unit of requests.
    pub logical_bytes: u64,
    /// Whether it uses direct I/O.
    pub direct: bool,
    /// Whether it is opened read-only.
    pub read_only: bool,
    /// Physical block size in bytes: of a device as it reports it, of a file the file system's.
    pub physical_bytes: u64,
    /// Whether it is a device that reports itself as rotational.
    pub rotational: bool,
}

impl Opened {
    /// The probed properties.
    pub fn probe(&self) -> &FileProbe {
        &self.probe
    }

    /// Where it lies on its disk; devices are sought in the folder `sys`.
    pub fn locate(&self, sys: &Path) -> Located {
        place::locate(sys, &self.file, self.probe.sectors)
    }

    /// A stand-in for a file with these recorded properties, without opening one: for a replay.
    pub fn from_recording(probe: FileProbe) -> io::Result<Opened> {
        let block = probe.logical_bytes;
        let whole = block >= SECTOR_BYTES && block % SECTOR_BYTES == 0 && probe.physical_bytes % block == 0;
        let sized = probe.sectors > 0
            && probe.sectors.checked_mul(SECTOR_BYTES).is_some_and(|bytes| bytes % block == 0);
        if !whole || !sized {
            return Err(io::Error::other(format!(
                "found {} sectors in blocks of {block} and {} bytes, expected whole ones",
                probe.sectors, probe.physical_bytes
            )));
        }
        Ok(Opened { file: placeholder()?.into(), probe })
    }

    /// Opens and locks `path`; `cached` forces the page cache.
    pub fn open(path: &Path, cached: bool, read_only: bool) -> Result<Opened, OpenError> {
        let refuse = |found: String, expected: &str| OpenError {
            path: path.to_owned(),
            found,
            expected: expected.to_owned(),
            gone: false,
        };
        let io = |error: io::Error| OpenError {
            gone: is_gone(&error),
            ..refuse(error.to_string(), "a file or block device that can be opened")
        };
        let metadata = std::fs::metadata(path).map_err(io)?;
        let block = metadata.file_type().is_block_device();
        if !block && !metadata.is_file() {
            return Err(refuse("neither a file nor a block device".to_owned(), "one of these"));
        }
        let exclusive = if block { OFlags::EXCL } else { OFlags::empty() };
        let open = |direct: OFlags| {
            let flags = i32::try_from((direct | exclusive).bits()).unwrap_or_default();
            let open = || OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path);
            retry_while(open, |error| Errno::from_io_error(error) == Some(Errno::BUSY))
        };
        let in_use = || refuse("it in use".to_owned(), "a component that no volume and no mount uses");
        let requested = if cached { OFlags::empty() } else { OFlags::DIRECT };
        let (mut file, direct) = match open(requested) {
            Ok(file) => (file, !cached),
            Err(error) => match Errno::from_io_error(&error) {
                // The file system has no direct I/O.
                Some(Errno::INVAL) if !cached => (open(OFlags::empty()).map_err(io)?, false),
                Some(Errno::BUSY) => return Err(in_use()),
                _ => return Err(io(error)),
            },
        };
        let lock = if read_only {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        retry_while(|| flock(&file, lock), |error| *error == Errno::WOULDBLOCK).map_err(|_| in_use())?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io)?;
        let logical_bytes = if direct { smallest_direct(&file) } else { SECTOR_BYTES };
        if bytes < logical_bytes || bytes % logical_bytes != 0 {
            let expected = format!("a multiple of {logical_bytes} bytes, at least one");
            return Err(OpenError { gone: bytes == 0, ..refuse(format!("{bytes} bytes"), &expected) });
        }
        let known = block.then(|| sysfs_folder(metadata.rdev()));
        let known = |name| known.as_deref().and_then(|known| queue_attribute(known, name));
        let physical_bytes = known("physical_block_size").unwrap_or(PAGE_BYTES).max(logical_bytes);
        let probe = FileProbe {
            path: path.to_owned(),
            sectors: bytes / SECTOR_BYTES,
            logical_bytes,
            direct,
            read_only,
            physical_bytes,
            rotational: known("rotational") == Some(1),
        };
        Ok(Opened { file, probe })
    }
}

/// Whether an error of opening says that there is no file, or no device that answers.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM, Errno::IO];
    Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}

/// Alignment of direct reads of a file: found by trying, since only new kernels report it.
fn smallest_direct(file: &File) -> u64 {
    let mut memory = Memory::aligned(SECTOR_BYTES as usize);
    match rustix::io::pread(file, memory.part_mut(), SECTOR_BYTES) {
        Err(Errno::INVAL) => 4096,
        _ => SECTOR_BYTES,
    }
}
