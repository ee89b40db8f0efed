//! Scrubbing (integrity checking and RAID scrubbing in the freeblock paper, section 2.1): periodically, or on command,
//! all sectors are read from the medium, every copy of them, so that a bad one is found while it can be repaired from
//! another. It may be done for free.
//!
//! `pass` goes through the volume, `areas` chooses the next block, `bad_blocks` lists unreadable ones. The layer
//! preserves the order of the device below, and holds nothing back.
//!
//! Invariants: overlapping requests of clients take effect in order of arrival. At most one pass is running. No client
//! waits for it in this layer: its reads hold no locks and fill no buffer. A block listed as bad could not be read
//! alone, and was not written since. A pass ends: blocks not read for free by the deadline are read in the background.
//! Fault model: any read below may fail; finding that is the purpose. The progress of a pass is in memory only: after a
//! restart it begins anew.

mod areas;
mod bad_blocks;
mod options;
mod pass;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::{Rc, Weak};

use seekless_core::device::{io, unknown_command};
use seekless_core::runtime::{self, Event};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Counters, Extent, Hints, IoError, IoFuture, Layer, Nanos,
    RangeLocks, Ticket, Zeroes,
};

use areas::Areas;
use bad_blocks::BadBlocks;
pub use options::{EDGES, Options};

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["scrub"];

/// The layer.
pub struct Scrub {
    below: Rc<dyn BlockDevice>,
    options: Options,
    /// Locks of clients' requests.
    locks: RangeLocks,
    /// Lock of the running pass.
    turn: RangeLocks,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Remainder of the pass, and the present class of its reads.
    left: Areas,
    class: Class,
    account: Account,
    began: Nanos,
    /// Bytes read in the pass.
    asked: u64,
    /// Tickets of requests in flight, by reader.
    tickets: BTreeMap<usize, Ticket>,
    /// Number of tasks that wait for the pass to end early.
    waiters: u32,
    /// The error that ended the pass.
    failed: Option<IoError>,
    found: BadBlocks,
    /// Sectors written by clients in blocks being searched for bad sectors, by start of the block.
    sought: BTreeMap<u64, (Extent, Vec<Extent>)>,
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    /// Passes completed, and not completed.
    passes: u64,
    unfinished: u64,
    /// Bytes read, and those of them read for free.
    bytes: u64,
    free_bytes: u64,
    /// Duration of the last complete pass.
    took: Nanos,
    /// Result of the last pass, for tasks that waited for it.
    last: Option<IoError>,
}

impl Scrub {
    /// A layer with these (checked) options. Call it inside a runtime.
    pub fn new(below: Rc<dyn BlockDevice>, options: Options) -> Rc<Scrub> {
        let (locks, turn, state) = (RangeLocks::new(), RangeLocks::new(), RefCell::default());
        let scrub = Rc::new(Scrub { below, options, locks, turn, state });
        if let Some(every) = scrub.options.every {
            runtime::spawn(Scrub::over_and_over(Rc::downgrade(&scrub), every)).detach();
        }
        scrub
    }

    /// Starts passes periodically, the first one now, for the lifetime of the layer.
    async fn over_and_over(me: Weak<Scrub>, every: Nanos) {
        loop {
            let next = runtime::now() + every;
            let Some(scrub) = me.upgrade() else { return };
            // Failures are counted; the next pass retries.
            drop(scrub.pass(Account::default()).await);
            drop(scrub);
            runtime::sleep_until(next).await;
        }
    }

    /// A client's write has completed: its sectors are good again, or bad for a reason not known yet.
    fn written(&self, at: Extent) {
        let State { found, sought, .. } = &mut *self.state.borrow_mut();
        found.well(at);
        for (_, written) in sought.values_mut().filter(|(block, _)| block.overlaps(at)) {
            written.push(at);
        }
    }
}

/// Writes to the event log.
fn did(what: &'static str, at: Extent) {
    runtime::event(&Event::Did { layer: "scrub", what, extent: at, at: at.start.0 });
}

impl BlockDevice for Scrub {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            // Verifying reads take no locks.
            let _held = if how.verify { None } else { Some(self.locks.shared(at, &how).await) };
            self.below.read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.below.write(at, from, how).await?;
            self.written(at);
            Ok(())
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.below.discard(at, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.below.write_zeroes(at, how, zeroes).await?;
            self.written(at);
            Ok(())
        })
    }

    fn unreadable(&self, at: Extent, each: &mut dyn FnMut(Extent, bool)) -> bool {
        let block = self.geometry().logical_sectors;
        self.state.borrow().found.each(at, block, each);
        true
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }
}

impl Layer for Scrub {
    fn counters(&self) -> Counters {
        let State { left, found, counted, .. } = &*self.state.borrow();
        vec![
            ("passes", counted.passes),
            ("passes_not_finished", counted.unfinished),
            ("bytes_left_of_the_pass", left.bytes()),
            ("bytes_scrubbed", counted.bytes),
            ("bytes_scrubbed_for_free", counted.free_bytes),
            ("bad_sectors", found.now()),
            ("bad_sectors_so_far", found.so_far()),
            ("last_pass_s", counted.took.0 / 1_000_000_000),
        ]
    }

    /// Holds nothing back; ends a running pass.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.end_early().await;
            self.flush(Hints::default()).await
        })
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "scrub" => io(self.pass(how.account)),
            _ => io(ready(Err(unknown_command("scrub", name, COMMANDS)))),
        }
    }

    /// Everything acknowledged is below: it can be detached at any time.
    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
