//! A file or a block device as a component.
//!
//! It is read and written past the page cache where its file system allows that, so that what is durable is what the
//! device says; a flush is the device's own. Invariants: no other volume has it (it is locked, a block device opened
//! exclusively). Fault model: any request fails or is cut short. A flush that failed once is never followed by one that
//! succeeds, since the system may have dropped what it could not write. A file is made smaller under us: what was written
//! is lost, and a write behind its end makes it grow again, with zeroes in between. So its size is looked at before a
//! write of its last block, the only one that brings the old size back, before one that is durable when answered, and at
//! each flush.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{FileType, FlockOperation, OFlags, flock};
use rustix::io::Errno;
use seekless_core::device::{Content, ExtentState, LARGEST_REQUEST_SECTORS, Mark, check, io};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Nanos, PAGE_BYTES,
    RangeLocks, SECTOR_BYTES, Zeroes, runtime,
};
use serde::{Deserialize, Serialize};

use super::error::{OpenError, kind_of};
use crate::admit::{known_of, number};
use crate::patience::patiently;
use crate::reactor::inputs::stand_in;
use crate::reactor::{Job, Memory, Reactor, What};

/// Memory that is kept for the next requests, in pieces of this size at most.
const KEPT_BYTES: usize = 128 << 10;
/// So many of them.
const KEPT: usize = 64;
/// Zeroes are written in parts of this many bytes where the system has nothing better.
const ZEROES: u64 = 1 << 20;
/// The kernel's clock for files goes on this often at least, with 100 ticks a second the slowest that there are: 10 ms,
/// and as much again.
const TICK: Nanos = Nanos::from_millis(20);

/// An opened and locked file or block device.
#[derive(Debug)]
pub struct Opened {
    file: File,
    facts: FileFacts,
}

/// What is found out of a file when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFacts {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub sectors: u64,
    /// Bytes of what is read and written at least.
    pub logical_bytes: u64,
    /// Whether it goes past the page cache.
    pub direct: bool,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// Bytes of what the device writes at once; of a file, what file systems do.
    pub physical_bytes: u64,
    /// Whether it is a device that says that it turns.
    pub rotational: bool,
}

impl Opened {
    /// What was found out.
    pub fn facts(&self) -> &FileFacts {
        &self.facts
    }

    /// A file of which this was found out in another run, and which is not opened: for a replay.
    pub fn recalled(facts: FileFacts) -> io::Result<Opened> {
        let block = facts.logical_bytes;
        let whole = block >= SECTOR_BYTES && block % SECTOR_BYTES == 0 && facts.physical_bytes % block == 0;
        let sized = facts.sectors > 0
            && facts.sectors.checked_mul(SECTOR_BYTES).is_some_and(|bytes| bytes % block == 0);
        if !whole || !sized {
            return Err(io::Error::other(format!(
                "found {} sectors in blocks of {block} and {} bytes, expected whole ones",
                facts.sectors, facts.physical_bytes
            )));
        }
        Ok(Opened { file: stand_in()?.into(), facts })
    }

    /// Opens and locks `path`; `cached` goes through the page cache although it need not.
    pub fn open(path: &Path, cached: bool, read_only: bool) -> Result<Opened, OpenError> {
        let refuse = |found: String, expected: &str| OpenError {
            path: path.to_owned(),
            found,
            expected: expected.to_owned(),
        };
        let io = |error: io::Error| refuse(error.to_string(), "a file or block device that can be opened");
        let metadata = std::fs::metadata(path).map_err(io)?;
        let block = metadata.file_type().is_block_device();
        if !block && !metadata.is_file() {
            return Err(refuse("neither a file nor a block device".to_owned(), "one of these"));
        }
        let exclusive = if block { OFlags::EXCL } else { OFlags::empty() };
        let open = |direct: OFlags| {
            let flags = i32::try_from((direct | exclusive).bits()).unwrap_or_default();
            let open = || OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path);
            patiently(open, |error| Errno::from_io_error(error) == Some(Errno::BUSY))
        };
        let in_use =
            || refuse("it in use by another".to_owned(), "a component that no volume has, nor a mount");
        let asked = if cached { OFlags::empty() } else { OFlags::DIRECT };
        let (mut file, direct) = match open(asked) {
            Ok(file) => (file, !cached),
            Err(error) => match Errno::from_io_error(&error) {
                // A file system that has no direct I/O.
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
        patiently(|| flock(&file, lock), |error| *error == Errno::WOULDBLOCK).map_err(|_| in_use())?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io)?;
        let logical_bytes = if direct { smallest_direct(&file) } else { SECTOR_BYTES };
        if bytes < logical_bytes || bytes % logical_bytes != 0 {
            return Err(refuse(
                format!("{bytes} bytes"),
                &format!("a multiple of {logical_bytes} bytes, and some"),
            ));
        }
        let known = block.then(|| known_of(metadata.rdev()));
        let known = |name| known.as_deref().and_then(|known| number(known, name));
        let physical_bytes = known("physical_block_size").unwrap_or(PAGE_BYTES).max(logical_bytes);
        let facts = FileFacts {
            path: path.to_owned(),
            sectors: bytes / SECTOR_BYTES,
            logical_bytes,
            direct,
            read_only,
            physical_bytes,
            rotational: known("rotational") == Some(1),
        };
        Ok(Opened { file, facts })
    }
}

/// What direct reads of a file have to be multiples of: tried, since only new kernels tell.
fn smallest_direct(file: &File) -> u64 {
    let mut memory = Memory::aligned(SECTOR_BYTES as usize);
    match rustix::io::pread(file, memory.part_mut(), SECTOR_BYTES) {
        Err(Errno::INVAL) => 4096,
        _ => SECTOR_BYTES,
    }
}

/// See the file's header.
pub struct FileComponent {
    reactor: Rc<Reactor>,
    file: Arc<OwnedFd>,
    name: String,
    path: PathBuf,
    geometry: Geometry,
    read_only: bool,
    /// A flush failed: nothing is known to be durable any more.
    lost: Cell<bool>,
    /// Who asks what the file holds waits for those who asked before.
    asking: RangeLocks,
    kept: RefCell<Vec<Memory>>,
}

impl FileComponent {
    /// The component called `name` on an opened file.
    pub fn new(reactor: &Rc<Reactor>, name: &str, opened: Opened) -> FileComponent {
        let Opened { file, facts } = opened;
        let geometry = Geometry {
            sectors: facts.sectors,
            logical_sectors: facts.logical_bytes / SECTOR_BYTES,
            physical_sectors: facts.physical_bytes / SECTOR_BYTES,
            volatile_cache: true,
            rotational: facts.rotational,
            discard_sectors: 8,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        };
        FileComponent {
            reactor: reactor.clone(),
            file: Arc::new(file.into()),
            name: name.to_owned(),
            path: facts.path,
            geometry,
            read_only: facts.read_only,
            lost: Cell::new(false),
            asking: RangeLocks::new(),
            kept: RefCell::default(),
        }
    }

    fn error(&self, kind: ErrorKind, at: Option<Extent>, why: impl std::fmt::Display) -> IoError {
        IoError::new(kind, self.name.clone(), at, format!("{}: {why}", self.path.display()))
    }

    fn system(&self, at: Option<Extent>, error: &io::Error) -> IoError {
        self.error(kind_of(error), at, error)
    }

    /// Whether `at` is of whole logical blocks, and within the device.
    fn check(&self, at: Extent, writes: bool) -> Result<(), IoError> {
        check(&Geometry { largest_sectors: u64::MAX, ..self.geometry }, at, "file")?;
        if writes && self.read_only {
            return Err(self.error(ErrorKind::ReadOnly, Some(at), "opened for reading only"));
        }
        let block = self.geometry.logical_sectors;
        if at.start.0 % block != 0 || at.sectors % block != 0 {
            let why = format!("expected whole blocks of {} bytes", block * SECTOR_BYTES);
            return Err(self.error(ErrorKind::Invalid, Some(at), why));
        }
        Ok(())
    }

    /// Whether it is as large as it was; if not, nothing is known to be durable any more.
    fn is_whole(&self, at: Option<Extent>) -> Result<(), IoError> {
        let found = self.reactor.find_out(|| size(&self.file).to_le_bytes().to_vec());
        let found = found.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let expected = self.geometry.sectors * SECTOR_BYTES;
        if found >= expected {
            return Ok(());
        }
        self.lost.set(true);
        let why = format!("found {found} bytes, expected {expected}: it was made smaller while in use");
        Err(self.error(ErrorKind::Gone, at, why))
    }

    /// Memory for a request.
    fn memory(&self, len: usize) -> Memory {
        if len > KEPT_BYTES {
            return Memory::aligned(len);
        }
        if let Some(pooled) = self.reactor.pooled(len) {
            return pooled;
        }
        let kept = self.kept.borrow_mut().pop();
        kept.unwrap_or_else(|| Memory::aligned(KEPT_BYTES)).cut(0..len)
    }

    fn keep(&self, memory: Memory) {
        let mut kept = self.kept.borrow_mut();
        if memory.part().len() <= KEPT_BYTES && kept.len() < KEPT && !memory.is_pooled() {
            kept.push(memory);
        }
    }

    /// Moves bytes until all are moved; less than that is progress.
    async fn all(
        &self,
        at: Extent,
        mut memory: Memory,
        what: impl Fn(u64) -> What,
    ) -> Result<Memory, IoError> {
        let (start, len) = (at.start.0 * SECTOR_BYTES, memory.part().len());
        let mut moved = 0;
        while moved < len {
            let left = if moved == 0 { memory } else { memory.cut(moved..len) };
            let done = self.reactor.ask(Job::new(what(start + moved as u64), &self.file, left)).await;
            memory = done.memory.back(moved);
            match done.result {
                Ok(0) => {
                    let why = "it ends before this: it was made smaller while in use";
                    return Err(self.error(ErrorKind::Gone, Some(at), why));
                }
                // Direct I/O goes on at whole blocks.
                Ok(bytes) => {
                    let block = (self.geometry.logical_sectors * SECTOR_BYTES) as usize;
                    let whole = (moved + bytes) / block * block;
                    if whole == moved {
                        return Err(self.error(ErrorKind::Gone, Some(at), "it ends within a block"));
                    }
                    moved = whole;
                }
                Err(error) => return Err(self.system(Some(at), &error)),
            }
        }
        Ok(memory)
    }

    /// Zeroes where the system has no quick way to them.
    async fn write_them(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        for part in at.split(ZEROES / SECTOR_BYTES) {
            self.write(part, Buffer::zeroed(part.bytes()), how.clone()).await?;
        }
        Ok(())
    }
}

/// What a file is known by, as bytes: inode, size, times of the last write and change; a block device by nothing.
fn mark(file: &OwnedFd) -> Option<Vec<u8>> {
    let found = rustix::fs::fstat(file).ok()?;
    let nanos = |seconds: i64, nanos: u64| {
        u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
    };
    let modified = nanos(found.st_mtime, found.st_mtime_nsec)?;
    let changed = nanos(found.st_ctime, found.st_ctime_nsec)?;
    let bytes = u64::try_from(found.st_size).ok()?;
    FileType::from_raw_mode(found.st_mode)
        .is_file()
        .then(|| [found.st_ino, bytes, modified, changed].map(u64::to_le_bytes).concat())
}

impl BlockDevice for FileComponent {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.check(at, false)?;
            let memory = self.memory(at.bytes() as usize);
            let memory = self.all(at, memory, What::Read).await?;
            into.put(0, memory.part());
            self.keep(memory);
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            if how.fua || at.end().0 == self.geometry.sectors {
                self.is_whole(Some(at))?;
            }
            let mut memory = self.memory(at.bytes() as usize);
            let target = memory.part_mut();
            from.for_each(|offset, len, bytes| match bytes {
                Some(bytes) => target[offset..offset + len].copy_from_slice(bytes),
                None => target[offset..offset + len].fill(0),
            });
            let what = if how.fua { What::WriteThrough } else { What::Write };
            let memory = self.all(at, memory, what).await?;
            self.keep(memory);
            Ok(())
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let why = "a flush failed before: what was written since may be lost";
            if self.lost.get() {
                return Err(self.error(ErrorKind::Medium, None, why));
            }
            if self.read_only {
                return Ok(());
            }
            let done = self.reactor.ask(Job::without(What::Sync, &self.file)).await;
            match done.result {
                Ok(_) if self.lost.get() => Err(self.error(ErrorKind::Medium, None, why)),
                Ok(_) => self.is_whole(None),
                Err(error) => {
                    self.lost.set(true);
                    Err(self.system(None, &error))
                }
            }
        })
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            let what = What::Punch { at: at.start.0 * SECTOR_BYTES, len: at.bytes() };
            match self.reactor.ask(Job::without(what, &self.file)).await.result {
                Err(error) if kind_of(&error) != ErrorKind::Unsupported => Err(self.system(Some(at), &error)),
                // Where nothing can be given back, nothing is.
                _ => Ok(()),
            }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            let (start, len) = (at.start.0 * SECTOR_BYTES, at.bytes());
            let zero = What::Zero { at: start, len };
            let quick = if zeroes.may_unmap { What::Punch { at: start, len } } else { zero };
            match self.reactor.ask(Job::without(quick, &self.file)).await.result {
                Ok(_) if how.fua => self.flush(how).await,
                Ok(_) => Ok(()),
                Err(error) if kind_of(&error) != ErrorKind::Unsupported => Err(self.system(Some(at), &error)),
                Err(error) if zeroes.only_if_fast => Err(self.system(Some(at), &error)),
                Err(_) => self.write_them(at, &how).await,
            }
        })
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        io(async move {
            // Whoever writes after this does so at another time, as far as file systems tell times apart.
            runtime::sleep(TICK).await;
            let found = self.reactor.find_out(|| mark(&self.file).unwrap_or_default());
            let number =
                |index: usize| found.get(8 * index..)?.first_chunk().copied().map(u64::from_le_bytes);
            let mark = || {
                Some(Mark { inode: number(0)?, bytes: number(1)?, modified: number(2)?, changed: number(3)? })
            };
            Ok(mark())
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            self.check(at, false)?;
            // The whole file is asked about by one at a time: each is a thread.
            let _alone = self.asking.exclusive(Extent::new(0, 1), &Hints::default()).await;
            let file = self.file.clone();
            Ok(self.reactor.look(at, move || holes(&file, at)).await)
        })
    }
}

/// Bytes of a file or a block device; none of one that cannot be asked any more.
fn size(file: &OwnedFd) -> u64 {
    match rustix::fs::fstat(file) {
        Ok(found) if rustix::fs::FileType::from_raw_mode(found.st_mode).is_block_device() => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).unwrap_or(0)
        }
        Ok(found) => u64::try_from(found.st_size).unwrap_or(0),
        Err(_) => 0,
    }
}

/// The data and the holes of a part of a file, as its file system tells them: that may take as long as the file has
/// extents, so it is asked beside the volume. Only here is the file's own position used.
fn holes(file: &OwnedFd, at: Extent) -> Vec<ExtentState> {
    let (mut from, end) = (at.start.0, at.start.0 + at.sectors);
    let mut states: Vec<ExtentState> = Vec::new();
    let seek = |to| rustix::fs::seek(file, to);
    while from < end {
        let data = match seek(rustix::fs::SeekFrom::Data(from * SECTOR_BYTES)) {
            Ok(data) => (data / SECTOR_BYTES).clamp(from, end),
            Err(Errno::NXIO) => end,
            Err(_) => {
                let extent = Extent::new(from, end - from);
                states.push(ExtentState { extent, content: Content::Unknown });
                return states;
            }
        };
        if data > from {
            states.push(ExtentState { extent: Extent::new(from, data - from), content: Content::Hole });
        }
        if data < end {
            let hole = seek(rustix::fs::SeekFrom::Hole(data * SECTOR_BYTES));
            let hole = hole.map_or(end, |hole| hole.div_ceil(SECTOR_BYTES).clamp(data + 1, end));
            states.push(ExtentState { extent: Extent::new(data, hole - data), content: Content::Data });
            from = hole;
        } else {
            from = end;
        }
    }
    states
}

#[cfg(test)]
mod tests;
