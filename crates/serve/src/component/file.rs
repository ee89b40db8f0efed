//! A file or a block device as a component.
//!
//! It uses direct I/O where its file system allows that, so that durable means what the device says; a flush is the
//! device's own. Invariants: no other volume uses the file (it is locked, a block device is opened exclusively). Fault
//! model: any request fails or is cut short. After a failed flush no flush succeeds, since the system may have dropped
//! the data that it could not write; with the page cache the system reports such an error once, to one of the callers
//! that sync next. The file is truncated while in use: data is lost, and a write past its end makes it grow again, with
//! zeroes in between. So its size is checked before a write of its last block, the only one that restores the old size,
//! before a FUA write, and at each flush.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use seekless_core::device::{Content, ExtentState, LARGEST_REQUEST_SECTORS, Mark, check, io};
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Lba, Limits, Nanos,
    RangeLocks, SECTOR_BYTES, Size, Zeroes, limit::Permit, mutant, runtime,
};

use super::error::kind_of;
use crate::reactor::{Job, Memory, Op, Reactor};
pub use opened::{FileProbe, Opened};

/// Size limit, in bytes, of a buffer that is kept for reuse.
const SPARE_BYTES: usize = 128 << 10;
/// Number of buffers kept for reuse.
const SPARE: usize = 64;
/// Requests of background work in flight, and their bytes. A round of a mover has up to 65,536: without a limit each
/// would have a buffer, and clients' requests would wait behind them all in the device. Those of clients are limited at
/// the top of the volume.
const BACKGROUND_REQUESTS: u64 = 32;
const BACKGROUND_BYTES: u64 = 32 << 20;
/// Bytes of a write of zeroes, where the system has no faster way.
const ZEROES: u64 = 1 << 20;
/// The kernel's clock for file times ticks at least every 10 ms (100 Hz, the slowest setting); twice that.
const TICK: Nanos = Nanos::from_millis(20);
/// Lock range that stands for the whole file.
const ALL: Extent = Extent { start: Lba(0), sectors: 1 };

/// See the file's header.
pub struct FileComponent {
    reactor: Rc<Reactor>,
    file: Arc<OwnedFd>,
    name: String,
    path: PathBuf,
    /// Properties but for the size.
    geometry: Geometry,
    /// Size; it may grow.
    sectors: Cell<u64>,
    read_only: bool,
    /// Whether the file goes through the page cache.
    cached: bool,
    /// Whether a flush failed: nothing is known to be durable any more.
    lost: Cell<bool>,
    /// Sectors of the file when it was found smaller than it was: what was behind them is gone.
    cut: Cell<Option<u64>>,
    /// Held by a flush, and with the page cache by a FUA write: one at a time, since the system reports an error of
    /// write-back to one caller only.
    syncing: RangeLocks,
    /// Number of the last flush that was issued to the system.
    syncs: Cell<u64>,
    /// Number of the last flush that succeeded.
    synced: Cell<u64>,
    /// Held by an extent query: one at a time.
    querying: RangeLocks,
    spare: RefCell<Vec<Memory>>,
    limits: Limits,
}

impl FileComponent {
    /// The component called `name` on an opened file.
    pub fn new(reactor: &Rc<Reactor>, name: &str, opened: Opened) -> FileComponent {
        let Opened { file, probe } = opened;
        let geometry = Geometry {
            sectors: probe.sectors,
            logical_sectors: probe.logical_bytes / SECTOR_BYTES,
            physical_sectors: probe.physical_bytes / SECTOR_BYTES,
            volatile_cache: true,
            rotational: probe.rotational,
            discard_sectors: 8,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        };
        FileComponent {
            reactor: reactor.clone(),
            file: Arc::new(file.into()),
            name: name.to_owned(),
            path: probe.path,
            geometry,
            sectors: Cell::new(probe.sectors),
            read_only: probe.read_only,
            cached: !probe.direct,
            lost: Cell::new(false),
            cut: Cell::new(None),
            syncing: RangeLocks::new(),
            syncs: Cell::new(0),
            synced: Cell::new(0),
            querying: RangeLocks::new(),
            spare: RefCell::default(),
            limits: Limits::new(BACKGROUND_BYTES, BACKGROUND_REQUESTS),
        }
    }

    fn error(&self, kind: ErrorKind, at: Option<Extent>, why: impl std::fmt::Display) -> IoError {
        IoError::new(kind, self.name.clone(), at, format!("{}: {why}", self.path.display()))
    }

    fn system(&self, at: Option<Extent>, error: &io::Error) -> IoError {
        self.error(kind_of(error), at, error)
    }

    /// Sectors that the file or device has now, in whole blocks.
    ///
    /// # Errors
    /// `Gone` if it is smaller than it is served.
    pub fn sectors_found(&self) -> Result<u64, IoError> {
        let found = self.reactor.observe(|| size(&self.file).to_le_bytes().to_vec());
        let found = found.try_into().map_or(0, u64::from_le_bytes) / SECTOR_BYTES;
        let found = found / self.geometry.logical_sectors * self.geometry.logical_sectors;
        if found < self.sectors.get() {
            let expected = self.sectors.get() * SECTOR_BYTES;
            let why = format!(
                "found {} bytes, expected {expected} or more: it cannot shrink while it is served; give it back its size, \
                 or stop the server",
                found * SECTOR_BYTES
            );
            return Err(self.error(ErrorKind::Gone, None, why));
        }
        Ok(found)
    }

    /// From now on it has this size, which was found.
    pub fn grow(&self, sectors: u64) {
        self.sectors.set(sectors.max(self.sectors.get()));
    }

    /// Checks that `at` is whole logical blocks within the device.
    fn check(&self, at: Extent, writes: bool) -> Result<(), IoError> {
        check(&Geometry { largest_sectors: u64::MAX, ..self.geometry() }, at, "file")?;
        if writes && self.read_only {
            return Err(self.error(ErrorKind::ReadOnly, Some(at), "opened read-only"));
        }
        let block = self.geometry.logical_sectors;
        if at.start.0 % block != 0 || at.sectors % block != 0 {
            let why = format!("expected whole blocks of {} bytes", block * SECTOR_BYTES);
            return Err(self.error(ErrorKind::Invalid, Some(at), why));
        }
        Ok(())
    }

    /// Checks that the file is no smaller than when it was opened; if it is, nothing is known to be durable any more.
    fn check_not_truncated(&self, at: Option<Extent>) -> Result<(), IoError> {
        let found = self.reactor.observe(|| size(&self.file).to_le_bytes().to_vec());
        let found = found.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let expected = self.sectors.get() * SECTOR_BYTES;
        if found >= expected {
            return Ok(());
        }
        self.lost.set(true);
        let left = found / SECTOR_BYTES;
        self.cut.set(Some(self.cut.get().map_or(left, |before| before.min(left))));
        let why = format!("found {found} bytes, expected {expected}: it was made smaller while in use");
        Err(self.error(ErrorKind::Gone, at, why))
    }

    /// Waits until a request of background work may be in flight.
    async fn admitted(&self, at: Extent, how: &Hints) -> Option<Permit> {
        if how.effective_class() <= Class::Foreground {
            return None;
        }
        // Boxed: clients' requests carry no state for it.
        Some(Box::pin(self.limits.admit(how, at.bytes())).await)
    }

    /// A buffer for a request.
    fn memory(&self, len: usize) -> Memory {
        if len > SPARE_BYTES {
            return Memory::aligned(len);
        }
        if let Some(pooled) = self.reactor.pooled(len) {
            return pooled;
        }
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Memory::aligned(SPARE_BYTES)).cut(0..len)
    }

    fn keep(&self, memory: Memory) {
        let mut spare = self.spare.borrow_mut();
        if memory.part().len() <= SPARE_BYTES && spare.len() < SPARE && !memory.is_pooled() {
            spare.push(memory);
        }
    }

    /// Repeats a transfer until all bytes are moved; a short one is progress.
    async fn transfer(
        &self,
        at: Extent,
        mut memory: Memory,
        op: impl Fn(u64) -> Op,
    ) -> Result<Memory, IoError> {
        let (start, len) = (at.start.0 * SECTOR_BYTES, memory.part().len());
        let mut moved = 0;
        while moved < len {
            let left = if moved == 0 { memory } else { memory.cut(moved..len) };
            let again = mutant::is("file: the rest of a short write goes to its beginning");
            let to = if again { start } else { start + moved as u64 };
            let done = self.reactor.submit(Job::new(op(to), &self.file, left)).await;
            memory = done.memory.back(moved);
            match done.result {
                Ok(0) => {
                    let why = "it ends before this: it was made smaller while in use";
                    return Err(self.error(ErrorKind::Gone, Some(at), why));
                }
                // Direct I/O continues at whole blocks.
                Ok(bytes) => {
                    if mutant::is("file: a short write counts as whole") {
                        break;
                    }
                    let block = (self.geometry.logical_sectors * SECTOR_BYTES) as usize;
                    let whole = (moved + bytes) / block * block;
                    if whole == moved {
                        return Err(self.error(ErrorKind::Gone, Some(at), "it ends within a block"));
                    }
                    moved = whole;
                }
                Err(_) if mutant::is("file: a request that failed counts") => break,
                Err(error) => return Err(self.system(Some(at), &error)),
            }
        }
        Ok(memory)
    }

    /// Writes bytes that are durable on completion. With the page cache one at a time: the system reports a failed
    /// write-back once, to the first caller, and success to the others.
    async fn write_through(&self, at: Extent, memory: Memory) -> Result<Memory, IoError> {
        if !self.cached {
            return self.transfer(at, memory, Op::WriteThrough).await;
        }
        let _alone = self.syncing.exclusive(ALL, &Hints::default()).await;
        let guard = LostIfDropped(&self.lost);
        let done = self.transfer(at, memory, Op::WriteThrough).await;
        std::mem::forget(guard);
        // A failed write-back may concern any data; a lack of space concerns this write only.
        let own = |error: &IoError| matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Unsupported);
        if done.as_ref().is_err_and(|error| !own(error)) && !mutant::is("file: only FUA returns an error") {
            self.lost.set(true);
        }
        done
    }

    /// Makes all completed writes durable, by a flush that is issued from now on, by this caller or another.
    async fn sync(&self) -> Result<(), IoError> {
        let requested = self.syncs.get();
        let joins = mutant::is("file: a flush covers less than was acknowledged") && !self.syncing.is_empty();
        let requested = if joins { requested.saturating_sub(1) } else { requested };
        let alone = self.syncing.exclusive(ALL, &Hints::default()).await;
        let _alone = (!mutant::is("file: flushes do not wait for each other")).then_some(alone);
        if self.lost.get() {
            let why = "an earlier flush failed: writes since then may be lost";
            return Err(self.error(ErrorKind::Medium, None, why));
        }
        if self.synced.get() >= requested + u64::from(!mutant::is("file: a flush that began before counts"))
            && self.synced.get() > 0
        {
            return Ok(());
        }
        let number = self.syncs.get() + 1;
        self.syncs.set(number);
        let answer = self.reactor.submit(Job::without(Op::Sync, &self.file));
        if mutant::is("file: a flush is not waited for") {
            return Ok(());
        }
        let guard = LostIfDropped(&self.lost);
        let answer = answer.await;
        std::mem::forget(guard);
        match answer.result {
            Ok(_) => {
                self.check_not_truncated(None)?;
                self.synced.set(number);
                Ok(())
            }
            Err(_) if mutant::is("file: flush errors are swallowed") => Ok(()),
            Err(error) => {
                if !mutant::is("file: a failed flush is forgotten") {
                    self.lost.set(true);
                }
                Err(self.system(None, &error))
            }
        }
    }

    /// Writes zeroes where the system has no faster way.
    async fn write_zero_blocks(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        for part in at.split(ZEROES / SECTOR_BYTES) {
            self.write(part, Buffer::zeroed(part.bytes()), how.clone()).await?;
        }
        Ok(())
    }
}

/// A sync in flight. If its future is dropped, as after a timeout, its error goes unseen, and the system reports it
/// only once: so written data may be lost.
struct LostIfDropped<'a>(&'a Cell<bool>);

impl Drop for LostIfDropped<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// What identifies a file's state, as bytes: inode, size, times of the last write and change; `None` for a block
/// device.
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
        Geometry { sectors: self.sectors.get(), ..self.geometry }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.check(at, false)?;
            // It may have grown again since, with zeroes.
            if let Some(left) = self.cut.get().filter(|left| at.end().0 > *left) {
                let why = format!(
                    "was once cut to {} while in use: what was behind is lost",
                    Size(left * SECTOR_BYTES)
                );
                return Err(self.error(ErrorKind::Gone, Some(at), why));
            }
            let _permit = self.admitted(at, &how).await;
            let memory = self.memory(at.bytes() as usize);
            let memory = self.transfer(at, memory, Op::Read).await?;
            into.put(0, memory.part());
            self.keep(memory);
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            let _permit = self.admitted(at, &how).await;
            if how.fua || at.end().0 == self.sectors.get() {
                self.check_not_truncated(Some(at))?;
            }
            let mut memory = self.memory(at.bytes() as usize);
            let target = memory.part_mut();
            from.for_each(|offset, len, bytes| match bytes {
                Some(bytes) => target[offset..offset + len].copy_from_slice(bytes),
                None => target[offset..offset + len].fill(0),
            });
            let durable = how.fua && !mutant::is("file: FUA is dropped");
            let memory = if durable {
                self.write_through(at, memory).await?
            } else {
                self.transfer(at, memory, Op::Write).await?
            };
            self.keep(memory);
            Ok(())
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(async move { if self.read_only { Ok(()) } else { self.sync().await } })
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            let op = Op::Punch { at: at.start.0 * SECTOR_BYTES, len: at.bytes() };
            match self.reactor.submit(Job::without(op, &self.file)).await.result {
                Err(error) if kind_of(&error) != ErrorKind::Unsupported => Err(self.system(Some(at), &error)),
                // Not supported: the space stays allocated.
                _ => Ok(()),
            }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at, true)?;
            let (start, len) = (at.start.0 * SECTOR_BYTES, at.bytes());
            let zero = Op::Zero { at: start, len };
            let quick = if zeroes.may_unmap { Op::Punch { at: start, len } } else { zero };
            match self.reactor.submit(Job::without(quick, &self.file)).await.result {
                Ok(_) if how.fua && !mutant::is("file: zeroes with FUA are not flushed") => {
                    self.flush(how).await
                }
                Ok(_) => Ok(()),
                Err(error) if kind_of(&error) != ErrorKind::Unsupported => Err(self.system(Some(at), &error)),
                Err(error) if zeroes.only_if_fast => Err(self.system(Some(at), &error)),
                Err(_) => {
                    let fua = how.fua && !mutant::is("file: zeroes that are written as data are not durable");
                    self.write_zero_blocks(at, &Hints { fua, ..how }).await
                }
            }
        })
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        io(async move {
            // A later write then has another time, at the resolution of file systems.
            runtime::sleep(TICK).await;
            let found = self.reactor.observe(|| mark(&self.file).unwrap_or_default());
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
            // One query at a time: each occupies a thread.
            let _alone = self.querying.exclusive(ALL, &Hints::default()).await;
            let file = self.file.clone();
            Ok(self.reactor.query_extents(at, move || file_extents(&file, at)).await)
        })
    }
}

/// Bytes of a file or a block device; 0 if it cannot be queried any more.
fn size(file: &OwnedFd) -> u64 {
    match rustix::fs::fstat(file) {
        Ok(found) if rustix::fs::FileType::from_raw_mode(found.st_mode).is_block_device() => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).unwrap_or(0)
        }
        Ok(found) => u64::try_from(found.st_size).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Data and holes of a part of a file, as its file system reports them. That may take as long as the file has extents,
/// so it runs on a worker thread. Moves the position of the file, which nothing else relies on.
fn file_extents(file: &OwnedFd, at: Extent) -> Vec<ExtentState> {
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
mod explored;
mod opened;
#[cfg(test)]
mod shim;
#[cfg(test)]
mod tests;
