//! The disk, left alone: knows when it was last used, and flushes it only if there is something to flush.
//!
//! Invariants: a flush covers every write and discard that ended before it, also those before the layer was opened, and
//! those that failed and may have taken effect. Fault model: that of the disk; a failed flush covers nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime::{self, edge};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoFuture, Nanos, Zeroes};

use crate::canary::Canary;

/// See the file's header.
pub(super) struct Resting {
    disk: Rc<dyn BlockDevice>,
    idle: Nanos,
    canary: Canary,
    /// Writes and discards that ended; the first stands for all before the layer was opened.
    changes: Cell<u64>,
    /// Those of them that are covered by a flush.
    flushed: Cell<u64>,
    /// Flushes that did not go to the disk.
    spared: Cell<u64>,
    last_use: Cell<Nanos>,
    /// Requests that the disk has not answered: it may still be spinning up for them.
    in_use: Cell<u32>,
    /// Uses after the disk had been idle.
    wakes: Cell<u64>,
    when_used: RefCell<Option<Rc<dyn Fn()>>>,
}

impl Resting {
    /// `disk`, idle if it was not used for a time of `idle`.
    pub fn new(disk: Rc<dyn BlockDevice>, idle: Nanos, canary: Canary) -> Resting {
        Resting {
            disk,
            idle,
            canary,
            changes: Cell::new(1),
            flushed: Cell::new(0),
            spared: Cell::new(0),
            last_use: Cell::new(runtime::now()),
            in_use: Cell::new(0),
            wakes: Cell::new(0),
            when_used: RefCell::default(),
        }
    }

    /// Calls `then` at each use from now on.
    pub fn when_used(&self, then: impl Fn() + 'static) {
        self.when_used.replace(Some(Rc::new(then)));
    }

    /// When the disk was last used: now, if it has requests.
    pub fn last_use(&self) -> Nanos {
        if self.in_use.get() > 0 { runtime::now() } else { self.last_use.get() }
    }

    /// Uses after the disk had been idle.
    pub fn wakes(&self) -> u64 {
        self.wakes.get()
    }

    /// Flushes that did not go to the disk.
    pub fn spared(&self) -> u64 {
        self.spared.get()
    }

    /// A request uses the disk until its guard is dropped.
    fn used(&self) -> Use<'_> {
        let idle = runtime::now().since(self.last_use());
        self.wakes.set(self.wakes.get() + u64::from(idle > self.idle));
        self.in_use.set(self.in_use.get() + 1);
        let then = self.when_used.borrow().clone();
        if let Some(then) = then {
            then();
        }
        Use(self)
    }

    /// Awaits a write or discard.
    fn change<'a>(&'a self, work: impl FnOnce() -> IoFuture<'a, ()> + 'a) -> IoFuture<'a, ()> {
        io(async move {
            let _use = self.used();
            let changed = work().await;
            self.changes.set(self.changes.get() + 1);
            changed
        })
    }
}

/// A request of the disk.
struct Use<'a>(&'a Resting);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.in_use.set(self.0.in_use.get() - 1);
        self.0.last_use.set(runtime::now());
    }
}

impl BlockDevice for Resting {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.disk)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _use = self.used();
            self.disk.read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.change(move || self.disk.write(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let changes = self.changes.get();
            if self.flushed.get() >= changes || self.canary.is("a flush of the disk is spared") {
                edge("nothing was written to the disk since its last flush");
                self.spared.set(self.spared.get() + 1);
                return Ok(());
            }
            let _use = self.used();
            self.disk.flush(how).await?;
            self.flushed.set(self.flushed.get().max(changes));
            Ok(())
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.change(move || self.disk.discard(at, how))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.change(move || self.disk.write_zeroes(at, how, zeroes))
    }
}
