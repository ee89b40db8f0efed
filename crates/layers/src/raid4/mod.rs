//! RAID-4 and RAID-5 with checksums (section 4.4 of the paper on proximal I/O).
//!
//! Each block of 4 KiB has an entry of 64 bytes in a checksum block of its member, one to 63 blocks; the blocks at the
//! same place of all members are a row, with one of parity. So a block that is unreadable, rotten, torn, misdirected or
//! lost is found when it is read, and follows from the rest of its row. A client's write of one block reads and writes
//! it, its parity, and the checksum block of each: eight commands.
//!
//! Invariants: what the locks of a group order is written whole rows at a time, so the entry of a row's parity names
//! the generations of its data; nothing is computed from a row for which that does not hold. With a log all rows are
//! consistent after a crash, since what was being written is written again; without one, each row is made consistent
//! before it is used, which needs all members.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive. Any one member may fail,
//! lose, tear or misdirect writes, or rot, in each row; one may be missing, also at the start after a crash if there is
//! a log. A sector of the log may rot. More than that yields errors. Callers do not drop requests before they complete.

mod blocks;
mod done;
mod geometry;
mod head;
mod journal;
mod load;
mod log;
mod members;
mod opening;
mod options;
mod read;
mod rebuild;
mod record;
mod replace;
mod replay;
mod resync;
mod rows;
mod sums;
mod superblock;
mod update;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use seekless_core::device::{Place, io, unknown_command};
use seekless_core::runtime::edge;
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, Extent, Geometry, Hints, IoError, IoFuture, Layer, PAGE_SECTORS,
    RangeLocks, mutant,
};

use crate::canary::Canary;
use crate::durable::Quiet;
use crate::join::join_all;
use geometry::sectors;
use journal::Journal;
pub use log::RaidTools;
use members::Members;
pub use options::{CANARIES, EDGES, EDGES_OF_TESTS, LOG, Options, PARITY, Rotation};
use resync::Unsettled;
use update::Waiting;

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["rebuild"];

/// The array.
pub struct Raid {
    members: Rc<Members>,
    journal: Option<Rc<Journal>>,
    /// Locks of clients' requests.
    locks: RangeLocks,
    /// Locks of groups: writes, repairs, and what is computed from several members.
    groups: RangeLocks,
    /// Writes that wait for a group.
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    unsettled: Unsettled,
    /// Lock of rebuilds.
    rebuilding: RangeLocks,
    /// Writes to groups under way, and since the array was opened.
    writing: InFlight,
    /// Blocks that were repaired.
    repaired: Cell<u64>,
    canary: Rc<Canary>,
    /// Whether data is hollow: nothing is computed from it.
    timing_only: bool,
    quiet: Quiet,
    me: Weak<Raid>,
}

/// A count of work under way.
#[derive(Default)]
struct InFlight {
    now: Rc<Cell<u64>>,
    begun: Cell<u64>,
}

/// Work under way, until it is dropped.
struct UnderWay(Rc<Cell<u64>>);

impl InFlight {
    fn enter(&self) -> UnderWay {
        self.now.set(self.now.get() + 1);
        self.begun.set(self.begun.get() + 1);
        UnderWay(self.now.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Raid {
    fn new(
        members: Members,
        journal: Option<Rc<Journal>>,
        unsettled: Unsettled,
        canary: Rc<Canary>,
        timing_only: bool,
    ) -> Rc<Raid> {
        Rc::new_cyclic(|me| Raid {
            members: Rc::new(members),
            journal,
            locks: RangeLocks::new(),
            groups: RangeLocks::new(),
            waiting: RefCell::default(),
            unsettled,
            rebuilding: RangeLocks::new(),
            writing: InFlight::default(),
            repaired: Cell::new(0),
            canary,
            timing_only,
            quiet: Quiet::default(),
            me: me.clone(),
        })
    }

    /// Records that the array is clean, unless it is written to meanwhile.
    async fn clean(&self) -> Result<(), IoError> {
        // A write under way may end before the flush does, and not be covered by it.
        let (begun, quiet) = (self.writing.begun.get(), self.writing.now.get() == 0);
        self.members.flush(&Hints::default()).await?;
        if self.unsettled.left() > 0 || !quiet {
            return Ok(());
        }
        let written = || self.writing.now.get() > 0 || self.writing.begun.get() != begun;
        edge("nothing is being written: the array is clean");
        self.members.end(written).await
    }

    /// After a while without writes the array is clean: a crash then costs nothing.
    fn clean_later(&self) {
        let begun = |raid: &Raid| raid.writing.begun.get();
        self.quiet.wait(self.me.clone(), self.writing.begun.get(), begun, async |raid: &Raid| {
            // If it fails, the next write reports that.
            let _ = raid.clean().await;
        });
    }
}

impl BlockDevice for Raid {
    fn geometry(&self) -> Geometry {
        let layout = &self.members.layout;
        let each = || (0..layout.members()).map(|member| self.members.device(member).geometry());
        let logical = each().map(|geometry| geometry.logical_sectors).max().unwrap_or(1);
        Geometry {
            sectors: layout.pages() * PAGE_SECTORS,
            logical_sectors: logical,
            physical_sectors: PAGE_SECTORS.max(logical),
            volatile_cache: self.journal.is_none() && each().any(|geometry| geometry.volatile_cache),
            rotational: each().any(|geometry| geometry.rotational),
            discard_sectors: 0,
            ..Geometry::of_memory(0)
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            if how.verify {
                self.verify(at, &how).await;
            }
            let _held = self.locks.shared(at.whole_pages(), &how).await;
            self.read_parts(at, &into, &Hints { verify: false, ..how }).await?;
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let sectors = mutant::is("raid4: a write locks sectors, not pages");
            let _held = self.locks.exclusive(if sectors { at } else { at.whole_pages() }, &how).await;
            let groups = self.pieces(at, &from).into_iter();
            let written = join_all(groups.map(|(group, pieces)| self.write_group(group, pieces, &how))).await;
            self.clean_later();
            written.into_iter().collect()
        })
    }

    /// With a log, answered writes are durable already.
    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if self.journal.is_some() {
                return Ok(());
            }
            self.members.check()?;
            self.members.flush(&how).await
        })
    }

    /// Nothing is freed: the sectors stay as they are.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            drop(self.locks.shared(at, &how).await);
            Ok(())
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let layout = &self.members.layout;
        for part in at.split(PAGE_SECTORS) {
            let place = layout.locate(part.start.page());
            let member = layout.member(place.group, place.column);
            if self.members.missing(place.group) == Some(member) {
                each(part, Place::Unknown);
                continue;
            }
            let block = sectors(layout.block(place.group, place.row));
            let there = Extent { start: block.start + part.start.0 % PAGE_SECTORS, ..part };
            let here = |found: Extent| part.start + (found.start.0 - there.start.0);
            self.members.device(member).places(there, &mut |found, on| {
                each(Extent { start: here(found), ..found }, on);
            });
        }
    }
}

impl Layer for Raid {
    fn counters(&self) -> Counters {
        vec![
            ("reads", self.members.reads.get()),
            ("writes", self.members.writes.get()),
            ("repaired_blocks", self.repaired.get()),
            ("members_missing", u64::from(self.members.out().is_some())),
            ("groups_rebuilt", self.members.rebuilt()),
            ("groups_to_resync", self.unsettled.left()),
            ("log_bytes", self.journal.as_ref().map_or(0, |journal| journal.bytes.get())),
        ]
    }

    /// Makes everything durable in place; the array is clean.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.members.check()?;
            self.clean().await
        })
    }

    fn trouble(&self) -> Option<String> {
        self.members.trouble()
    }

    fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        self.members.on_trouble(tell);
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move {
            match name.as_str() {
                "rebuild" => self.rebuild(&how).await,
                _ => Err(unknown_command(options::NAME, &name, COMMANDS)),
            }
        })
    }

    fn replace_device<'a>(
        &'a self,
        at: (&'a str, usize),
        with: Rc<dyn BlockDevice>,
        overwrites: bool,
        commit: IoFuture<'a, ()>,
    ) -> IoFuture<'a, ()> {
        if at.0 == LOG {
            return io(self.replace_log(with, overwrites, commit));
        }
        io(self.replace_member(at, with, overwrites, commit))
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        let how = Hints { account, ..Hints::default() };
        io(async move { self.members.flush(&how).await })
    }
}

#[cfg(test)]
mod tests;
