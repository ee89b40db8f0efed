//! A mirror: two to four members, each of which has everything (RAID-1).
//!
//! A read goes to the member that answers first; what that cannot read comes from another one, and is written to it
//! again. A write goes to all. A member that fails is out of service, and catches up when it is back.
//!
//! Invariants: all members in service read the same, and will after a crash: where copies may differ, they are made the
//! same, durably, before any of them is read. A member that lacks something is recorded on the others as being out of
//! service before that is answered.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive. Any member but one may
//! fail, now or later, be gone at the start, or carry out a failed write late; of each page all copies but one may be
//! unreadable, or rotten if the member says so. A sector of a label may rot. Members that lose or misdirect writes
//! silently are found only by a read that verifies, and most members are believed, of two the first one. Callers do not
//! drop requests before they complete.

mod label;
mod members;
mod opening;
mod options;
mod read;
mod rebuild;
mod replace;
mod settle;
mod write;

use std::cell::Cell;
use std::rc::{Rc, Weak};

use seekless_core::device::{Place, io, unknown_command};
use seekless_core::failed_writes::FailedWrites;
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Layer,
    Nanos, Op, PAGE_SECTORS, RangeLocks, Zeroes, runtime,
};

use crate::registry::{self, Built, Entry, Over};
use members::Members;
pub use options::{CANARIES, EDGES, EDGES_OF_TESTS, Options};
use settle::Unsettled;

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["rebuild"];

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    readme: include_str!("README.md"),
    over: Over::Several,
    commands: COMMANDS,
    edges: EDGES,
    edges_of_tests: EDGES_OF_TESTS,
    canaries: CANARIES,
    sealed: true,
    spares: &["over"],
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| registry::parse_options(table, Options::check)?.sectors(below)),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options(options::NAME, table, Options::check)?;
            Mirror::create("over", below, &options, replace).await.map(|()| None)
        })
    }),
    ..Entry::new(
        "mirror",
        "keeps everything on each of several devices, and goes on with those that are left",
        |below, table| {
            Box::pin(async move {
                let options = registry::options(options::NAME, table, Options::check)?;
                Ok(Built::new(Mirror::open(&below, &options).await?))
            })
        },
    )
};

/// The mirror.
pub struct Mirror {
    members: Members,
    /// Locks of clients' pages.
    locks: RangeLocks,
    /// Pages of which copies may differ since a crash.
    unsettled: Unsettled,
    /// Pages of which a write failed on all members in service.
    failed: FailedWrites,
    /// Lock of rebuilds.
    rebuilding: RangeLocks,
    /// Reads of each member under way.
    pending: Vec<Cell<u64>>,
    reads: Cell<u64>,
    writes: Cell<u64>,
    /// Pages that were repaired.
    repaired: Cell<u64>,
    /// Pages of which members had different data.
    mismatches: Cell<u64>,
    clean_after: Nanos,
    /// Whether a task cleans regions.
    cleans: Cell<bool>,
    /// Whether data is hollow: nothing is compared.
    timing_only: bool,
    me: Weak<Mirror>,
}

/// The error of a request when no member is in service.
fn none_left() -> IoError {
    IoError::new(ErrorKind::Gone, options::NAME, None, "found no member in service, expected one")
}

impl Mirror {
    fn new(members: Members, options: &Options, timing_only: bool) -> Rc<Mirror> {
        let pending = (0..members.count()).map(|_| Cell::new(0)).collect();
        Rc::new_cyclic(|me| Mirror {
            members,
            locks: RangeLocks::new(),
            unsettled: Unsettled::default(),
            failed: FailedWrites::default(),
            rebuilding: RangeLocks::new(),
            pending,
            reads: Cell::new(0),
            writes: Cell::new(0),
            repaired: Cell::new(0),
            mismatches: Cell::new(0),
            clean_after: options.clean_after,
            cleans: Cell::new(false),
            timing_only,
            me: me.clone(),
        })
    }

    /// Whether all members are in service.
    pub(crate) fn is_whole(&self) -> bool {
        self.members.first_out().is_none()
    }

    /// Records that regions are clean, of those that were not written since the `before`th write.
    async fn clean(&self, before: u64) -> Result<(), IoError> {
        self.members.clean(before, |region| self.is_unsettled(region)).await
    }

    /// Regions that are not written for a while are clean: a crash then costs nothing there.
    fn clean_later(&self) {
        if self.members.is_clean() || self.cleans.replace(true) {
            return;
        }
        let (me, after, mut before) = (self.me.clone(), self.clean_after, self.members.writes_begun());
        let work = async move {
            loop {
                runtime::sleep(after).await;
                let Some(mirror) = me.upgrade() else { return };
                let last = std::mem::replace(&mut before, mirror.members.writes_begun());
                // If it fails, the next flush reports that.
                let cleaned = mirror.clean(last).await;
                if cleaned.is_err() || mirror.members.is_clean() {
                    mirror.cleans.set(false);
                    return;
                }
            }
        };
        runtime::spawn(work).detach();
    }
}

impl BlockDevice for Mirror {
    fn geometry(&self) -> Geometry {
        let each = || self.members.written().into_iter().map(|member| self.members.device(member).geometry());
        let most = |of: fn(Geometry) -> u64| each().map(of).max().unwrap_or(1);
        Geometry {
            sectors: self.members.label().pages * PAGE_SECTORS,
            logical_sectors: most(|geometry| geometry.logical_sectors),
            physical_sectors: most(|geometry| geometry.physical_sectors),
            volatile_cache: each().any(|geometry| geometry.volatile_cache),
            rotational: each().any(|geometry| geometry.rotational),
            discard_sectors: most(|geometry| geometry.discard_sectors),
            largest_sectors: each().map(|geometry| geometry.largest_sectors).min().unwrap_or(PAGE_SECTORS),
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            if how.verify {
                self.verify(at, &how).await;
            }
            self.read_one(at, into, &Hints { verify: false, ..how }).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.write_all(at, from, &how).await })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.members.flush(&how).await })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.free_all(at, &how).await })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move { self.zero_all(at, &how, zeroes).await })
    }

    /// Known only if one member is left: with several, any of them may answer.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let serving = self.members.serving();
        let [only] = serving[..] else { return each(at, Place::Unknown) };
        let place = Members::place(at);
        let here = |found: Extent| at.start + (found.start.0 - place.start.0);
        self.members
            .device(only)
            .places(place, &mut |found, on| each(Extent { start: here(found), ..found }, on));
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let each = self.members.serving().into_iter();
        let each = each.map(|member| self.members.device(member).estimate(op, Members::place(at), how));
        let known: Vec<Nanos> = each.collect::<Option<_>>()?;
        if op == Op::Read { known.into_iter().min() } else { known.into_iter().max() }
    }
}

impl Layer for Mirror {
    fn counters(&self) -> Counters {
        let label = self.members.label();
        vec![
            ("reads", self.reads.get()),
            ("writes", self.writes.get()),
            ("repaired_pages", self.repaired.get()),
            ("mismatches", self.mismatches.get()),
            ("members_missing", (self.members.count() - self.members.serving().len()) as u64),
            ("regions_to_rebuild", self.members.to_rebuild()),
            ("regions_dirty", label.differ.count()),
            ("pages_to_resync", self.unsettled.pages()),
        ]
    }

    /// Makes everything durable; no region is dirty then, unless a member is out of service.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.members.flush(&Hints::default()).await?;
            self.clean(self.members.writes_begun()).await
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
        io(self.replace_member(at, with, overwrites, commit))
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        let how = Hints { account, ..Hints::default() };
        io(async move { self.members.flush(&how).await })
    }
}

#[cfg(test)]
mod tests;
