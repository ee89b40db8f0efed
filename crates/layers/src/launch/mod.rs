//! The launch prefetcher (section 6.2 of the IOLab paper): learns what programs read when they start, recognizes a
//! start by three reads, and has the rest in memory before the program asks for it.
//!
//! `start` is the start that is going on, and what is done for it; [`crate::pattern`] learns, [`crate::dispatcher`]
//! fetches, into a [`crate::cache`] that drops a page when it is read. Layer `cdp` is the same with another [`Manner`].
//!
//! Invariants: what clients read is what the cache and the device below return; fetches only fill the cache. A read
//! waits for a fetch of its pages only while that is in flight or queued, and then reads them itself if it failed.
//! Fault model: a fetch that fails is skipped. Nothing is dirty, and of what was learned only guesses are on disk
//! (`kept`).

mod kept;
mod options;
mod start;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::device::io;
use seekless_core::runtime;
use seekless_core::{
    BlockDevice, Buffer, Class, Counters, Extent, Hints, Hits, IoError, IoFuture, Layer, Nanos, PAGE_BYTES,
    PAGE_SECTORS, RangeLocks, Zeroes,
};

use crate::cache::Cache;
use crate::dispatcher::{Ahead, runs};
use crate::registry::{self, Below, Build, Building, Built, Entry, Remedy, parse_options};
use kept::Kept;
pub use options::{FetchClass, Options};
use start::State;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    readme: include_str!("README.md"),
    remedies: &[Remedy {
        name: "launch prefetcher",
        does: "what programs read when they start is learned and fetched ahead",
        options: "",
        freeblock: false,
    }],
    edges: &["a copy of the sequences is not whole", "the sequences are of another volume"],
    ..entry(
        "launch",
        "learns what programs read when they start, and fetches it before they ask",
        |below, table| build("launch", LAUNCH, &below, table),
    )
};

/// What the entries of the launch prefetcher and of CDP have in common.
pub(crate) const fn entry(name: &'static str, does: &'static str, build: Build) -> Entry {
    Entry {
        transparent: true,
        optional: &[SEQUENCES],
        check: |table| parse_options(table, Options::check).map(drop),
        defaults: registry::defaults::<Options>,
        ..Entry::new(name, does, build)
    }
}

/// Builds it.
pub(crate) fn build(name: &'static str, manner: Manner, below: &Below, table: toml::Table) -> Building {
    let below = below.clone();
    Box::pin(async move {
        let options = registry::options(name, table, Options::check)?;
        let (over, area) = (below.one()?, below.devices.contains_key(SEQUENCES));
        let area = if area { Some(below.device(SEQUENCES)?) } else { None };
        Ok(Built::new(Launch::open(over, area, options, manner, below.timing_only).await?))
    })
}

/// Key of the area where sequences are kept.
const SEQUENCES: &str = "sequences";
/// Times `quiet` from a start that was learned to when it is kept: the program that is starting comes first.
const KEPT_AFTER: u64 = 10;

/// Largest fetch, in pages: 1 MiB.
const RUN: u64 = 256;

/// How pages are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Bytes that are fetched in the order of addresses, before others; a page to keep the order in which the program
    /// reads.
    pub sweep: u64,
    /// Class of the fetches.
    pub class: Class,
    /// Whether a read waits for a fetch of its pages, and promotes it (launch control).
    pub holds: bool,
}

/// The launch prefetcher's: in one sweep, and first the pages that the program waits for.
pub const LAUNCH: Manner = Manner { sweep: u64::MAX, class: Class::Background, holds: true };

/// The layer.
pub struct Launch {
    /// Fetched pages, over the device below.
    cache: Rc<Cache>,
    options: Options,
    manner: Manner,
    /// Fetches into it.
    ahead: Rc<Ahead>,
    state: RefCell<State>,
    /// Where sequences are kept; `None` if nowhere, or while they are written.
    kept: RefCell<Option<Kept>>,
    /// Held by the one that writes them; and whether one waits to do so.
    keeping: RangeLocks,
    keeps_soon: Cell<bool>,
    below: Rc<dyn BlockDevice>,
    timing_only: bool,
    me: Weak<Launch>,
}

impl Launch {
    /// A layer with these (checked) options, and with an area where it keeps sequences, if there is one.
    ///
    /// # Errors
    /// An area of another volume or with other contents, and the devices' errors.
    pub async fn open(
        below: Rc<dyn BlockDevice>,
        area: Option<Rc<dyn BlockDevice>>,
        options: Options,
        manner: Manner,
        timing_only: bool,
    ) -> Result<Rc<Launch>, IoError> {
        let (kept, sequences) = match area {
            Some(area) => {
                let (kept, sequences) = Kept::open(area, &*below, options.bounds(), timing_only).await?;
                (Some(kept), sequences)
            }
            None => (None, None),
        };
        let cache = Cache::new(below.clone(), options.cache());
        Ok(Rc::new_cyclic(|me| Launch {
            ahead: Rc::new(Ahead::new(cache.clone())),
            cache,
            state: RefCell::new(State::new(&options, sequences)),
            kept: RefCell::new(kept),
            keeping: RangeLocks::new(),
            keeps_soon: Cell::default(),
            below,
            timing_only,
            options,
            manner,
            me: me.clone(),
        }))
    }

    /// Keeps what was learned, some time from now.
    fn keep_later(&self) {
        if self.kept.borrow().is_none() || !self.state.borrow().has_unkept() || self.keeps_soon.replace(true)
        {
            return;
        }
        let (me, after) = (self.me.clone(), Nanos(self.options.quiet.0 * KEPT_AFTER));
        runtime::spawn(async move {
            runtime::sleep(after).await;
            let Some(launch) = me.upgrade() else { return };
            launch.keeps_soon.set(false);
            // What could not be kept is kept with the next start.
            drop(launch.keep().await);
        })
        .detach();
    }

    /// Keeps what was learned, if it is not kept.
    async fn keep(&self) -> Result<(), IoError> {
        let _turn = self.keeping.exclusive(Extent::new(0, 1), &Hints::default()).await;
        let Some(mut kept) = self.kept.take() else { return Ok(()) };
        let mut written = Ok(());
        if self.state.borrow().has_unkept() {
            // In runs that only measure time pages have no contents.
            let witnesses = if self.timing_only { 0 } else { kept::WITNESSES };
            let (encoded, witnesses) = self.state.borrow_mut().keep(kept.room(), witnesses);
            written = kept.write(&encoded, &witnesses, &*self.below).await;
            if written.is_err() {
                self.state.borrow_mut().not_kept();
            }
        }
        *self.kept.borrow_mut() = Some(kept);
        written
    }

    /// Fetches these pages, which are listed in the order of reading.
    fn dispatch(&self, mut pages: Vec<u64>, how: &Hints) {
        let class = self.options.class.map_or(self.manner.class, Class::from);
        // The layer is stopping.
        let Some(working) = self.ahead.begin(class) else { return };
        let sweep = self.options.sweep.map_or(self.manner.sweep, |sweep| sweep.0) / PAGE_BYTES;
        pages.chunks_mut(usize::try_from(sweep).unwrap_or(usize::MAX)).for_each(<[u64]>::sort_unstable);
        let largest = self.cache.geometry().largest_sectors / PAGE_SECTORS;
        let most = RUN.min(self.options.pages() / 8).min(largest).max(1);
        let runs = runs(pages, most, self.options.gap.0 / PAGE_BYTES);
        self.state.borrow_mut().fetching(&runs);
        let how = Hints { class, account: how.account, origin: how.origin, ..Hints::default() };
        self.ahead.fetch(working, runs, how, self.manner.holds, self.options.at_once);
    }
}

impl BlockDevice for Launch {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let observed = how.class <= Class::Foreground;
            if observed {
                let fetched = self.state.borrow_mut().arrived(at, how.origin.process, &self.options);
                if !fetched.is_empty() {
                    self.dispatch(fetched, &how);
                }
                self.keep_later();
            }
            if self.ahead.is_fetching(at, how.class) {
                self.state.borrow_mut().waited();
                self.ahead.wait(at, &how).await;
            }
            let read = self.cache.read(at, into, how).await;
            if observed {
                self.state.borrow_mut().answered();
            }
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.cache.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.cache.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.cache)
    }
}

impl Layer for Launch {
    fn counters(&self) -> Counters {
        let mut counters = self.state.borrow().counters();
        let held = self.cache.counters().into_iter().find(|(name, _)| *name == "pages_held");
        counters.extend(held);
        counters
    }

    fn hits(&self) -> Option<Hits> {
        Some(self.state.borrow().hits())
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.ahead.quiesce().await;
            self.state.borrow_mut().end();
            // Only guesses are lost if it fails.
            drop(self.keep().await);
            self.cache.stop().await
        })
    }

    fn give_up(&self) -> IoFuture<'_, ()> {
        io(async move {
            // One that is being written would come after it.
            let _turn = self.keeping.exclusive(Extent::new(0, 1), &Hints::default()).await;
            let kept = self.kept.take();
            if let Some(kept) = &kept { kept.give_up().await } else { Ok(()) }
        })
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
