//! The interface (section 2.1, Table 1): tasks register blocks to be read or written, and get them in the order that
//! suits the disk.
//!
//! The paper's callback is a stream here: [`FreeTask::next`] returns blocks as they are done. Blocks that were read and
//! not taken occupy the scheduler's buffers; when these are full it reads no more for the task until some are taken.
//! Nothing is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Buffer, Extent, IoError, IoFuture, Nanos, Op, runtime};

use super::error::FreeError;
use super::plan::Piece;
use super::{Freeblock, Inner};

/// The most tasks at once, per direction.
const MOST_TASKS: usize = 32;

/// A block that is done.
#[derive(Clone, Debug)]
pub struct FreeBlock {
    /// Extent.
    pub at: Extent,
    /// The data read; empty for a write. Only a promoted block can fail.
    pub data: Result<Buffer, IoError>,
}

/// Progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Blocks done.
    pub done: u64,
    /// Blocks registered and not done.
    pub left: u64,
    /// Estimated time for these, at the mean rate so far; `None` before the first block. The last of many blocks take
    /// longer.
    pub estimate: Option<Nanos>,
}

/// Serves promoted blocks: the component whose scheduler this is.
pub trait Foreground {
    /// Submits a request of class `Foreground`.
    fn submit(self: Rc<Self>, op: Op, at: Extent, buffer: Buffer) -> IoFuture<'static, Buffer>;

    /// Reports that there is work for idle time; the component starts it if it is idle.
    fn wake_for_idle_work(self: Rc<Self>);
}

/// A task: blocks that are registered and not yet delivered.
#[derive(Debug)]
pub(super) struct Task {
    /// Serial number: slots are reused, and a promoted block may be done after its task has ended.
    serial: u64,
    write: bool,
    set: usize,
    /// Block size in sectors.
    block: u64,
    /// Blocks registered and not delivered, and blocks delivered.
    pending: u64,
    done: u64,
    /// When the first block was registered.
    since: Option<Nanos>,
    /// Partially transferred blocks: sectors still to come.
    parts: BTreeMap<u64, u64>,
    /// Data to be written, by block.
    from: BTreeMap<u64, Buffer>,
    ready: VecDeque<FreeBlock>,
    waker: Option<Waker>,
}

/// A task of the freeblock scheduler. Dropping it aborts what is not done.
pub struct FreeTask {
    scheduler: Rc<Freeblock>,
    number: usize,
}

impl Freeblock {
    /// A task that reads blocks of `block` sectors.
    ///
    /// # Errors
    /// A block size of zero or more than 32 MiB, or 32 tasks that read already.
    pub fn reader(self: &Rc<Self>, block: u64) -> Result<FreeTask, FreeError> {
        self.task(block, false)
    }

    /// A task that writes blocks of `block` sectors.
    ///
    /// # Errors
    /// A block size of zero or more than 32 MiB, or 32 tasks that write already.
    pub fn writer(self: &Rc<Self>, block: u64) -> Result<FreeTask, FreeError> {
        self.task(block, true)
    }

    fn task(self: &Rc<Self>, block: u64, write: bool) -> Result<FreeTask, FreeError> {
        if !(1..=LARGEST_REQUEST_SECTORS).contains(&block) {
            return Err(FreeError::Block { found: block, most: LARGEST_REQUEST_SECTORS });
        }
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let sectors = inner.layout.sectors();
        if inner.tasks.iter().filter(|(_, task)| task.write == write).count() >= MOST_TASKS {
            return Err(FreeError::TooMany { most: MOST_TASKS });
        }
        let set =
            inner.directions[usize::from(write)].add_set(&inner.tracks, inner.tracks.units(block), sectors);
        inner.serial += 1;
        let task = Task {
            serial: inner.serial,
            write,
            set,
            block,
            pending: 0,
            done: 0,
            since: None,
            parts: BTreeMap::new(),
            from: BTreeMap::new(),
            ready: VecDeque::new(),
            waker: None,
        };
        // Data to be written were given; data that are read need buffers.
        if !write {
            inner.directions[0].sets[set].bound(inner.options.buffers / 512);
        }
        let number = inner.tasks.insert(task);
        Ok(FreeTask { scheduler: self.clone(), number })
    }
}

impl FreeTask {
    /// Registers reads of all blocks of `at`.
    ///
    /// # Errors
    /// Past the end, not whole blocks, or a block that is registered already: then none is registered.
    pub fn read(&self, at: Extent) -> Result<(), FreeError> {
        self.register(at)
    }

    /// Registers writes of all blocks of `at`.
    ///
    /// # Errors
    /// As for reads, and data of another length.
    pub fn write(&self, at: Extent, from: &Buffer) -> Result<(), FreeError> {
        if from.len() as u64 != at.bytes() {
            return Err(FreeError::Data { at, found: from.len() as u64 });
        }
        self.register(at)?;
        let mut inner = self.scheduler.inner.borrow_mut();
        let task = &mut inner.tasks[self.number];
        for block in at.start.0 / task.block..at.end().0 / task.block {
            let data = from.cut_sectors(block * task.block - at.start.0, task.block);
            task.from.insert(block, data);
        }
        Ok(())
    }

    fn register(&self, at: Extent) -> Result<(), FreeError> {
        let mut inner = self.scheduler.inner.borrow_mut();
        inner.check(self.number, at)?;
        if let Some(at) = inner.first(self.number, at, true) {
            return Err(FreeError::Twice { at });
        }
        inner.add_pending(self.number, at);
        drop(inner);
        self.scheduler.wake_for_idle_work();
        Ok(())
    }

    /// Aborts blocks of `at`. Those that are being transferred are delivered all the same.
    ///
    /// # Errors
    /// Past the end, not whole blocks, or a block that is not registered: then none is aborted.
    pub fn abort(&self, at: Extent) -> Result<(), FreeError> {
        let mut inner = self.scheduler.inner.borrow_mut();
        inner.check(self.number, at)?;
        if let Some(at) = inner.first(self.number, at, false) {
            return Err(FreeError::Unknown { at });
        }
        inner.remove_pending(self.number, at);
        drop(inner);
        // There may be room for others now.
        self.scheduler.wake_for_idle_work();
        Ok(())
    }

    /// Turns blocks of `at` into requests of class `Foreground`, one for each run of adjacent blocks. Blocks that are
    /// not registered, done, or being transferred are left alone. Returns how many blocks were promoted.
    ///
    /// # Errors
    /// Past the end, or not whole blocks.
    pub fn promote(&self, at: Extent) -> Result<u64, FreeError> {
        let mut inner = self.scheduler.inner.borrow_mut();
        inner.check(self.number, at)?;
        let Some(foreground) = self.scheduler.foreground.upgrade() else { return Ok(0) };
        let Task { serial, block, .. } = inner.tasks[self.number];
        let mut runs: Vec<Extent> = Vec::new();
        for one in at.split(block).filter(|&one| inner.is_pending(self.number, one)) {
            match runs.last_mut() {
                Some(run) if run.end() == one.start && run.sectors + block <= LARGEST_REQUEST_SECTORS => {
                    run.sectors += block;
                }
                _ => runs.push(one),
            }
        }
        for &run in &runs {
            let submit = inner.promote(self.number, run, foreground.clone());
            let (scheduler, number) = (self.scheduler.clone(), self.number);
            runtime::spawn(async move { scheduler.promoted(number, serial, run, &submit.await) }).detach();
        }
        Ok(runs.iter().map(|run| run.sectors / block).sum())
    }

    /// Progress so far.
    pub fn progress(&self) -> Progress {
        let inner = self.scheduler.inner.borrow();
        let Task { done, pending: left, since, .. } = inner.tasks[self.number];
        let took = runtime::now().since(since.unwrap_or_default());
        let estimate = u128::from(took.0) * u128::from(left) / u128::from(done.max(1));
        let estimate = (done > 0).then(|| Nanos(u64::try_from(estimate).unwrap_or(u64::MAX)));
        Progress { done, left, estimate }
    }

    /// The next block that is done; `None` when there is none and none is registered.
    pub async fn next(&self) -> Option<FreeBlock> {
        let mut full = false;
        let next = poll_fn(|context| {
            let mut inner = self.scheduler.inner.borrow_mut();
            let inner = &mut *inner;
            let task = &mut inner.tasks[self.number];
            if let Some(block) = task.ready.pop_front() {
                let set = &mut inner.directions[usize::from(task.write)].sets[task.set];
                full = set.full();
                set.give_room(task.block);
                return Poll::Ready(Some(block));
            }
            if task.pending == 0 {
                return Poll::Ready(None);
            }
            task.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        if full {
            self.scheduler.wake_for_idle_work();
        }
        next
    }

    /// Blocks that are done and were not taken by [`FreeTask::next`].
    pub fn ready(&self) -> u64 {
        self.scheduler.inner.borrow().tasks[self.number].ready.len() as u64
    }
}

impl Drop for FreeTask {
    fn drop(&mut self) {
        let Ok(mut inner) = self.scheduler.inner.try_borrow_mut() else { return };
        inner.forget(self.number);
    }
}

impl Freeblock {
    /// Completes promoted blocks.
    fn promoted(&self, number: usize, serial: u64, run: Extent, result: &Result<Buffer, IoError>) {
        let mut inner = self.inner.borrow_mut();
        // The task may be gone.
        let Some(task) = inner.tasks.get_mut(number).filter(|task| task.serial == serial) else { return };
        for at in run.split(task.block) {
            task.pending -= 1;
            task.done += 1;
            let data = match result {
                Ok(buffer) if task.write => Ok(buffer.cut(0, 0)),
                Ok(buffer) => Ok(buffer.cut_sectors(at.start.0 - run.start.0, at.sectors)),
                Err(error) => Err(error.clone()),
            };
            task.ready.push_back(FreeBlock { at, data });
        }
        task.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    /// Whether a part of a block is still pending.
    fn is_pending(&self, task: usize, block: Extent) -> bool {
        let Task { write, set, .. } = self.tasks[task];
        let pending = &self.directions[usize::from(write)].sets[set].pending;
        let mut is_pending = false;
        self.tracks.of(&self.layout, block, |_, extent| {
            is_pending |= pending.next(pending.pieces(extent, extent.within(block))).is_some();
        });
        is_pending
    }

    /// Submits blocks to the foreground instead.
    fn promote(&mut self, number: usize, run: Extent, by: Rc<dyn Foreground>) -> IoFuture<'static, Buffer> {
        let task = &mut self.tasks[number];
        let (write, block) = (task.write, task.block);
        let data = if write {
            let parts = run.split(block).filter_map(|at| task.from.get(&(at.start.0 / block)).cloned());
            Buffer::join(parts.collect::<Vec<_>>())
        } else {
            Buffer::zeroed(run.bytes())
        };
        // They still count as pending: they are in flight.
        self.remove_pending(number, run);
        self.tasks[number].pending += run.sectors / block;
        if !write {
            self.directions[0].sets[self.tasks[number].set].take_room(run.sectors);
        }
        by.submit(if write { Op::Write } else { Op::Read }, run, data)
    }

    fn check(&self, task: usize, at: Extent) -> Result<(), FreeError> {
        let (block, sectors) = (self.tasks[task].block, self.layout.sectors());
        if at.start.0.checked_add(at.sectors).is_none_or(|end| end > sectors) {
            return Err(FreeError::PastTheEnd { at, sectors });
        }
        if at.start.0 % block != 0 || at.sectors % block != 0 {
            return Err(FreeError::NotWhole { at, block });
        }
        Ok(())
    }

    /// The first block of `at` that is registered, or that is not.
    fn first(&self, task: usize, at: Extent, registered: bool) -> Option<Extent> {
        let Task { write, set, block, parts, .. } = &self.tasks[task];
        let own = &self.directions[usize::from(*write)].sets[*set];
        let pending = &own.pending;
        let under_way = |number: u64| {
            parts.contains_key(&number) || self.due.iter().any(|piece| piece.is_of(*write, *set, number))
        };
        let mut found = None;
        self.tracks.of(&self.layout, at, |_, extent| {
            let (from, to) = pending.pieces(extent, extent.within(at));
            let count = pending.count((from, to)) as usize;
            // Most often all are, or none is.
            if found.is_some() || (registered && count == 0 && parts.is_empty() && self.due.is_empty()) {
                return;
            }
            if !registered && count == to - from {
                return;
            }
            let so =
                |&bit: &usize| (pending.is_set(bit) || under_way(own.block_at(extent, bit))) == registered;
            found = (from..to).find(so).map(|bit| own.block_at(extent, bit));
        });
        found.map(|number| Extent::new(number * block, *block))
    }

    /// Makes blocks of `at` pending, of which none was.
    fn add_pending(&mut self, task: usize, at: Extent) {
        let Task { write, set, block, .. } = self.tasks[task];
        self.tasks[task].pending += at.sectors / block;
        self.tasks[task].since.get_or_insert(runtime::now());
        let direction = &mut self.directions[usize::from(write)];
        self.tracks.of(&self.layout, at, |track, extent| {
            let (from, to) = direction.sets[set].pending.pieces(extent, extent.within(at));
            direction.add_pending(&self.tracks, set, track, (from, to));
        });
    }

    /// Makes blocks of `at` not pending.
    fn remove_pending(&mut self, task: usize, at: Extent) {
        let Task { write, set, block, .. } = self.tasks[task];
        let direction = &mut self.directions[usize::from(write)];
        let mut last = u64::MAX;
        let task = &mut self.tasks[task];
        self.tracks.of(&self.layout, at, |track, extent| {
            let (from, to) = direction.sets[set].pending.pieces(extent, extent.within(at));
            for bit in from..to {
                let number = direction.sets[set].block_at(extent, bit);
                if !direction.remove_pending(&self.tracks, set, track, bit) || number == last {
                    continue;
                }
                last = number;
                task.pending -= 1;
                task.from.remove(&number);
                let (first, end) = direction.sets[set].pending.part(extent, extent.unit_at(bit));
                if u64::from(end - first) == block {
                    continue;
                }
                // A part that has passed, or will, is dropped.
                task.parts.remove(&number);
                self.due.retain(|piece| !piece.is_of(write, set, number));
                let set = &mut direction.sets[set];
                let taken = set.partial.forget(number);
                set.give_room(taken);
            }
        });
        debug_assert!(task.pending <= self.layout.sectors() / block);
        if task.pending == 0 {
            task.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Delivers a piece that has passed.
    pub(super) fn delivered(
        &mut self,
        piece: &Piece,
        bytes: &mut impl FnMut(Extent, Option<Buffer>) -> Buffer,
    ) {
        let mine = |task: &Task| task.write == piece.write && task.set == piece.taken.set;
        let Some((_, task)) = self.tasks.iter_mut().find(|(_, task)| mine(task)) else { return };
        if piece.sectors < task.block {
            match task.parts.get_mut(&piece.taken.block) {
                None => {
                    task.parts.insert(piece.taken.block, task.block - piece.sectors);
                    return;
                }
                Some(left) if *left > piece.sectors => {
                    *left -= piece.sectors;
                    return;
                }
                Some(_) => {
                    task.parts.remove(&piece.taken.block);
                    let set = &mut self.directions[usize::from(task.write)].sets[task.set];
                    set.partial.forget(piece.taken.block);
                }
            }
        }
        let at = Extent::new(piece.taken.block * task.block, task.block);
        let data = bytes(at, task.from.remove(&piece.taken.block));
        task.pending -= 1;
        task.done += 1;
        task.ready.push_back(FreeBlock { at, data: Ok(data) });
        task.waker.take().into_iter().for_each(Waker::wake);
    }

    fn forget(&mut self, number: usize) {
        let task = self.tasks.remove(number);
        self.directions[usize::from(task.write)].remove_set(&self.tracks, task.set);
        self.due.retain(|piece| (piece.write, piece.taken.set) != (task.write, task.set));
    }
}
