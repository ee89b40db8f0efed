//! A log-structured logical disk (LLD): blocks are written to segments, with one request per segment, and segments with
//! few live blocks are cleaned (Lumb et al., OSDI 2000, section 5).
//!
//! `path` is the path of a request, `log` the open segment, `durable` writes and flushes, `cleaner` and `freely` are
//! the cleaners, `opening` is recovery; on disk are the `checkpoint` and the `summary` of each record.
//!
//! Invariants: a block has at most one slot; slots named by a durable checkpoint and the log after it are not
//! overwritten; clients leave the cleaner as many free segments as it needs to gain another.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request below may
//! fail. Data that was flushed, or acknowledged with FUA, is read back; a flush that cannot guarantee this fails.

mod checkpoint;
mod cleaner;
mod durable;
mod freely;
mod holes;
mod layout;
mod log;
mod opening;
mod options;
mod path;
mod plug;
mod sealed;
mod segments;
mod state;
mod summary;
mod sums;
mod upgrade;
mod witness;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

use seekless_core::device::{Content, ExtentState, Place, io};
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, Extent, Geometry, Hints, IoError, IoFuture, Layer, Lba, Nanos,
    Op, PAGE_SECTORS, RangeLocks, Zeroes, mutant,
};

use crate::canary::Canary;
use crate::contents::{self, New};
use crate::durable::{Quiet, not_created, writable};
use layout::{Block, Layout, NONE};
pub use options::{CANARIES, Cleaner, EDGES, Moved, Options};
use state::State;

/// The log-structured logical disk.
pub struct Lld {
    below: Rc<dyn BlockDevice>,
    options: Options,
    layout: Layout,
    /// Whether the component has a volatile cache.
    volatile: bool,
    state: RefCell<State>,
    locks: RangeLocks,
    /// Lock of the cleaner that writers wait for.
    cleaning: RangeLocks,
    /// Lock of flushes and checkpoints.
    flushing: RangeLocks,
    canary: Canary,
    waiting: RefCell<Vec<Waker>>,
    /// Delay before the checkpoint is copied to its other copy.
    quiet: Quiet,
    /// Whether both copies hold the checkpoint.
    copied: Cell<bool>,
    /// Delay before an empty record follows the last one.
    witness: Quiet,
    /// Weak reference to itself, for background tasks.
    me: Weak<Lld>,
}

impl Lld {
    /// Opens the volume; with `create`, on zeroes an empty one.
    pub async fn open(
        below: Rc<dyn BlockDevice>,
        options: Options,
        create: bool,
    ) -> Result<Rc<Lld>, IoError> {
        let (layout, found) = opening::find(&*below, &options).await?;
        if found.is_new() && !create {
            let copies = Extent { start: Lba(0), sectors: layout.copy(1).end().0 };
            return Err(not_created("lld", copies));
        }
        Lld::of(below, options, layout, found).await
    }

    /// Creates an empty volume, with its checkpoint in both copies. What an interrupted creation left is completed;
    /// other contents are refused, unless `replace`: then they are given up.
    ///
    /// # Errors
    /// `Invalid` for contents that are refused and devices that do not suit, and the devices' errors.
    pub async fn create(below: Rc<dyn BlockDevice>, options: Options, replace: bool) -> Result<(), IoError> {
        let layout = options.built(below.geometry().sectors)?;
        let metadata = Extent { start: Lba(0), sectors: layout.copy(1).end().0 };
        contents::claim(&[New { key: "over", device: &*below, metadata, leaves: None }], false, replace)
            .await?;
        let lld = Lld::open(below, options, true).await?;
        lld.begin(&Hints::default()).await?;
        lld.stop().await
    }

    /// The volume of the checkpoint and log that were found.
    async fn of(
        below: Rc<dyn BlockDevice>,
        options: Options,
        layout: Layout,
        found: checkpoint::Recovered,
    ) -> Result<Rc<Lld>, IoError> {
        let geometry = below.geometry();
        let canary = options.canary();
        let state = RefCell::new(opening::open(&*below, layout, found, &options, &canary).await?);
        let locks = || RangeLocks::new();
        Ok(Rc::new_cyclic(|me| Lld {
            below,
            options,
            layout,
            volatile: geometry.volatile_cache,
            state,
            locks: locks(),
            cleaning: locks(),
            flushing: locks(),
            canary,
            waiting: RefCell::default(),
            quiet: Quiet::default(),
            witness: Quiet::default(),
            copied: Cell::new(false),
            me: me.clone(),
        }))
    }
}

impl BlockDevice for Lld {
    fn geometry(&self) -> Geometry {
        let sectors = u64::from(self.layout.blocks) * PAGE_SECTORS;
        Geometry {
            sectors,
            volatile_cache: true,
            physical_sectors: PAGE_SECTORS,
            discard_sectors: PAGE_SECTORS,
            ..self.below.geometry()
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at, &how).await;
            self.read_blocks(at, &into, &how).await.map(|()| into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            writable("lld", self.options.older)?;
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at.whole_pages(), &how).await;
            self.write_blocks(at, &from, !fua, &how).await?;
            drop(held);
            if fua { self.sync(&how).await } else { Ok(()) }
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { if self.options.older { Ok(()) } else { self.sync_all(&how).await } })
    }

    /// Whole blocks read as zeroes afterwards; partly discarded blocks are unchanged.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            writable("lld", self.options.older)?;
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at, &how).await;
            self.delete_blocks(at, &how).await?;
            drop(held);
            let fua = fua && !mutant::is("lld: FUA of a discard is dropped");
            if fua { self.sync(&how).await } else { Ok(()) }
        })
    }

    fn write_zeroes(&self, at: Extent, mut how: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            writable("lld", self.options.older)?;
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.exclusive(at.whole_pages(), &how).await;
            self.zero_blocks(at, !fua, &how).await?;
            drop(held);
            let fua = fua && !mutant::is("lld: FUA of zeroes is dropped");
            if fua { self.sync(&how).await } else { Ok(()) }
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let state = self.state.borrow();
            let mut found: Vec<ExtentState> = Vec::new();
            for part in at.split(PAGE_SECTORS) {
                let block = part.start.page() as Block;
                let nowhere = state.slots[block as usize] == NONE && state.holes.staged(block).is_none();
                let content = if nowhere { Content::Hole } else { Content::Data };
                match found.last_mut() {
                    Some(last) if last.content == content => last.extent.sectors += part.sectors,
                    _ => found.push(ExtentState { extent: part, content }),
                }
            }
            Ok(found)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let state = self.state.borrow();
        for part in at.split(PAGE_SECTORS) {
            let block = part.start.page() as Block;
            let slot = state.slots[block as usize];
            if state.holes.staged(block).is_some() {
                each(part, Place::Unknown);
            } else if slot == NONE {
                each(part, Place::Nowhere);
            } else if state.log.held(slot).is_some() {
                each(part, Place::Unknown);
            } else {
                let there = self.layout.extent(slot, 1).start + part.start.0 % PAGE_SECTORS;
                let here = |found: Extent| part.start + (found.start.0 - there.0);
                let on = Extent { start: there, ..part };
                self.below.places(on, &mut |found, on| each(Extent { start: here(found), ..found }, on));
            }
        }
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let slot = self.state.borrow().slots[at.start.page() as usize];
        if slot == NONE || op != Op::Read {
            None
        } else {
            self.below.estimate(op, self.layout.extent(slot, 1), how)
        }
    }
}

impl Layer for Lld {
    fn counters(&self) -> Counters {
        let state = self.state.borrow();
        let counted = state.counted;
        let (live, all) = (state.live, u64::from(self.layout.segments) * u64::from(self.layout.room()));
        vec![
            ("segments", u64::from(self.layout.segments)),
            ("free_segments", u64::from(state.segments.free())),
            ("empty_segments", state.segments.pending().count() as u64),
            ("live_blocks", live),
            ("utilisation_permille", live * 1_000 / all),
            ("segments_cleaned", counted.cleaned),
            ("segments_cleaned_free", counted.cleaned_free),
            ("blocks_moved", counted.moved),
            ("blocks_moved_free", counted.moved_free),
            ("blocks_moved_apart", counted.moved_apart),
            ("blocks_withdrawn", counted.aborted),
            ("blocks_plugged", state.holes.plugged),
            ("plugs_withdrawn", state.holes.unplugged),
            ("blocks_staged", state.holes.numbers().0),
            ("holes", state.holes.numbers().1),
            ("cleaner_read_bytes", counted.read),
            ("waits_for_the_cleaner", counted.waits),
            ("waited_for_the_cleaner_us", counted.waited_ns / 1_000),
            ("blocks_asked_for", counted.blocks),
            ("blocks_written", counted.written),
            ("write_amplification_permille", counted.written * 1_000 / counted.blocks.max(1)),
            ("summaries_written", counted.summaries),
            ("checkpoints_written", counted.checkpoints),
            ("checkpoint_blocks_written", counted.checkpoint_blocks),
            ("segment_writes_failed", counted.failures),
        ]
    }

    /// Makes everything acknowledged durable and writes a checkpoint: the next start reads no summaries.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.state.borrow_mut().resting += 1;
            self.take_over_all().await;
            let _rest = self.rest_plugs().await;
            let stopped = self.settle().await;
            let stopped =
                if stopped.is_ok() { self.copy_checkpoint(&Hints::default()).await } else { stopped };
            self.state.borrow_mut().resting -= 1;
            stopped
        })
    }

    /// The segment that clients fill.
    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        self.flush(Hints { account, ..Hints::default() })
    }
}

#[cfg(test)]
mod tests;
