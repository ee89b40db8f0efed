//! Scrubbing (what integrity checking and RAID scrubbing are: freeblock paper, section 2.1): from time to time, or when
//! told, all sectors are read from the medium, every copy of them, so that a bad one is found while there is another
//! to repair it from. It may be done for free.
//!
//! Laid out as it works: `pass` goes through the volume, `areas` says what comes next, `found` is what could not be
//! read. It keeps the order of what is below, and nothing back.
//!
//! Invariants: overlapping requests of clients have their effect in the order in which they came. At most one pass is
//! under way. No client waits for it here: its reads hold no range and fill no buffer. What is listed as bad failed to
//! be read alone, and was not written since. A pass ends: what is not read for free by a deadline is read in the
//! background. Fault model: any read below may fail; that is what it is for. Where a pass has come is in memory only:
//! after a restart it begins anew.

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

/// What it can be told to do besides requests.
pub const COMMANDS: &[&str] = &["scrub"];

/// The layer.
pub struct Scrub {
    below: Rc<dyn BlockDevice>,
    options: Options,
    /// What clients are at.
    locks: RangeLocks,
    /// Passes stand in line here.
    turn: RangeLocks,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// What is left of the pass, and of which class its reads are now.
    left: Areas,
    class: Class,
    account: Account,
    began: Nanos,
    /// Bytes that were asked for in it.
    asked: u64,
    /// How to reach what is asked for, by reader.
    tickets: BTreeMap<usize, Ticket>,
    /// So many wait for the pass to end, which it then does early.
    waiters: u32,
    /// Why it cannot go on.
    failed: Option<IoError>,
    found: BadBlocks,
    /// What clients wrote of blocks in which bad sectors are sought now, by where the blocks begin.
    sought: BTreeMap<u64, (Extent, Vec<Extent>)>,
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    /// Passes that came to their ends, and those that did not.
    passes: u64,
    unfinished: u64,
    /// Bytes read, and those of them for free.
    bytes: u64,
    free_bytes: u64,
    /// How long the last whole pass took.
    took: Nanos,
    /// What the last pass came to, for those who waited for it.
    last: Option<IoError>,
}

impl Scrub {
    /// With these options, which were checked. Build it inside of a runtime.
    pub fn new(below: Rc<dyn BlockDevice>, options: Options) -> Rc<Scrub> {
        let (locks, turn, state) = (RangeLocks::new(), RangeLocks::new(), RefCell::default());
        let scrub = Rc::new(Scrub { below, options, locks, turn, state });
        if let Some(every) = scrub.options.every {
            runtime::spawn(Scrub::over_and_over(Rc::downgrade(&scrub), every)).detach();
        }
        scrub
    }

    /// A pass begins every so often, the first now, as long as the layer is there.
    async fn over_and_over(me: Weak<Scrub>, every: Nanos) {
        loop {
            let next = runtime::now() + every;
            let Some(scrub) = me.upgrade() else { return };
            // What fails is counted, and tried again with the next pass.
            drop(scrub.pass(Account::default()).await);
            drop(scrub);
            runtime::sleep_until(next).await;
        }
    }

    /// A client's write was answered: what it wrote is well, or bad for a reason that is not known yet.
    fn written(&self, at: Extent) {
        let State { found, sought, .. } = &mut *self.state.borrow_mut();
        found.well(at);
        for (_, written) in sought.values_mut().filter(|(block, _)| block.overlaps(at)) {
            written.push(at);
        }
    }
}

/// Tells the event log.
fn did(what: &'static str, at: Extent) {
    runtime::event(&Event::Did { layer: "scrub", what, extent: at, at: at.start.0 });
}

impl BlockDevice for Scrub {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            // Who verifies holds nobody up.
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

    /// It holds nothing back; a pass that is under way ends.
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

    /// What it answered is below: it can be left out at any time.
    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
