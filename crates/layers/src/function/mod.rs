//! A function between clients and the device below (section 5 of the IOLab paper): it sees the requests that pass, and
//! has pages fetched before they are read. It is built in, or a WebAssembly module.
//!
//! `abi` is what passes between both, [`Function`] what a function does; [`crate::dispatcher`] fetches, into a
//! [`crate::cache`].
//!
//! Invariants: what clients read is what the cache and the device below return, whatever the function does; actions
//! only fill the cache, or drop clean pages of it. Every action is checked before it is carried out. Fault model: a
//! function that fails, or answers what it may not, is turned off, and the volume goes on without it. A fetch that
//! fails is skipped. Nothing is dirty, and nothing is on disk.

pub mod abi;
mod failure;
#[cfg(feature = "wasm")]
mod module;
#[cfg(not(feature = "wasm"))]
#[path = "no_module.rs"]
mod module;
mod options;
mod sequential;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime::{self, Event, edge, now};
use seekless_core::{
    BlockDevice, Buffer, Class, Counters, ErrorKind, Extent, Hints, Hits, IoError, IoFuture, Layer, Op,
    PAGE_SECTORS, Zeroes,
};

use crate::cache::Cache;
use crate::dispatcher::Ahead;
use crate::registry::{self, Building, Built, Entry, parse_options};
use abi::{Action, Request};
pub use failure::Failure;
pub use options::{BuiltIn, Options};
use sequential::Sequential;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    transparent: true,
    readme: include_str!("README.md"),
    files: &["module"],
    edges_of_tests: &["a function is turned off", "memory is full of fetches: one is skipped"],
    check: |table| parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    ..Entry::new(
        "function",
        "shows requests to a function, built in or a WebAssembly module, which has pages fetched ahead",
        |below, table| {
            let built = registry::options("function", table, Options::check)
                .and_then(|options| Ok(Built::new(Rc::new(Functional::new(below.one()?, options)?))));
            Box::pin(std::future::ready(built)) as Building
        },
    )
};

/// What sees requests, and answers with actions. Deterministic: the same requests give the same actions.
pub trait Function {
    /// A request arrives. Adds its actions, which are carried out before the request.
    ///
    /// # Errors
    /// Why it is turned off.
    fn seen(&mut self, request: &Request, actions: &mut Vec<Action>) -> Result<(), Failure>;
}

/// The function of these (checked) options, for a volume of this many sectors.
///
/// # Errors
/// An invalid module, or one that fails as it starts.
pub fn start(options: &Options, sectors: u64) -> Result<Box<dyn Function>, Failure> {
    match &options.module {
        Some(file) => module::start(file, options, sectors),
        None => Ok(Box::new(Sequential::new(sectors, options.parameter))),
    }
}

/// Largest fetch, in pages: 1 MiB.
const RUN: u64 = 256;
/// Most runs, as large as a fetch, that are looked at for the actions of a request.
const MOST_LOOKED_AT: u64 = 1 << 16;

/// The layer.
pub struct Functional {
    /// Fetched pages, over the device below.
    cache: Rc<Cache>,
    /// Fetches into it.
    ahead: Rc<Ahead>,
    options: Options,
    function: RefCell<State>,
    counted: Cell<Counted>,
    /// Called when the function is turned off.
    tell: RefCell<Option<Tell>>,
}

/// Tells a person something.
type Tell = Box<dyn Fn(&str)>;

/// The function, or why it is off.
enum State {
    On(Box<dyn Function>),
    Off(Failure),
}

/// Counters.
#[derive(Clone, Copy, Default)]
struct Counted {
    requests: u64,
    actions: u64,
    fetched: u64,
    dropped: u64,
    skipped: u64,
    reads: u64,
    prefetched: u64,
    waited: u64,
}

impl Functional {
    /// A layer with these (checked) options.
    ///
    /// # Errors
    /// A module that does not start.
    pub fn new(below: Rc<dyn BlockDevice>, options: Options) -> Result<Functional, IoError> {
        let sectors = below.geometry().sectors;
        let function = start(&options, sectors).map_err(|failure| {
            let file = options.module.as_deref().unwrap_or_default();
            IoError::new(ErrorKind::Invalid, "function", None, format!("module '{file}': {failure}"))
        })?;
        Ok(Functional::with(below, options, function))
    }

    /// A layer with this function.
    pub fn with(below: Rc<dyn BlockDevice>, options: Options, function: Box<dyn Function>) -> Functional {
        let cache = Cache::new(below, options.cache());
        let ahead = Rc::new(Ahead::new(cache.clone()));
        let function = RefCell::new(State::On(function));
        Functional { cache, ahead, options, function, counted: Cell::default(), tell: RefCell::default() }
    }

    /// Why the function was turned off, if it was.
    pub fn failure(&self) -> Option<Failure> {
        match &*self.function.borrow() {
            State::On(_) => None,
            State::Off(failure) => Some(failure.clone()),
        }
    }

    /// Shows a request to the function, and carries out its actions.
    fn show(&self, op: Op, at: Extent, how: &Hints) {
        let mut actions = Vec::new();
        let seen = match &mut *self.function.borrow_mut() {
            State::On(function) => function.seen(&Request::arriving(now(), op, at, how), &mut actions),
            State::Off(_) => return,
        };
        self.count(|counted| counted.requests += 1);
        if let Err(failure) = seen {
            edge("a function is turned off");
            let (layer, what) = ("function", "a function is turned off");
            runtime::event(&Event::Did { layer, what, extent: at, at: at.start.0 });
            self.function.replace(State::Off(failure));
            if let (Some(tell), Some(why)) = (&*self.tell.borrow(), self.trouble()) {
                tell(&why);
            }
            return;
        }
        self.count(|counted| counted.actions += actions.len() as u64);
        self.carry_out(&actions, how);
    }

    /// Carries out actions in their order: fetches of one class, one after the other, are one dispatcher's.
    fn carry_out(&self, actions: &[Action], how: &Hints) {
        let mut runs = Vec::new();
        let mut of = Class::Free;
        let mut left = MOST_LOOKED_AT;
        for action in actions {
            match action {
                Action::Fetch { extent, class } => {
                    let class = (*class).max(self.options.class.into());
                    if class != of {
                        self.fetch(std::mem::take(&mut runs), of, how);
                        of = class;
                    }
                    self.runs(*extent, &mut runs, &mut left);
                }
                Action::Drop { extent } => {
                    let pages = extent.page_count().min(self.options.pages());
                    let Some(rest) = left.checked_sub(pages.div_ceil(RUN)) else { continue };
                    left = rest;
                    self.fetch(std::mem::take(&mut runs), of, how);
                    self.cache.forget(*extent);
                    self.count(|counted| counted.dropped += extent.page_count());
                }
            }
        }
        self.fetch(runs, of, how);
    }

    /// Adds the runs of these sectors that are neither in memory nor on their way there, as far as there is room.
    /// It looks at `left` runs at most.
    fn runs(&self, at: Extent, runs: &mut Vec<Extent>, left: &mut u64) {
        let pages = self.options.pages();
        let largest = self.cache.geometry().largest_sectors / PAGE_SECTORS;
        let most = RUN.min(pages / 8).min(largest).max(1);
        let mut planned: u64 = runs.iter().map(|run| run.page_count()).sum();
        let (all, mut walked) = (at.page_count(), 0);
        for run in at.whole_pages().split(most * PAGE_SECTORS) {
            if self.ahead.pages_in_flight() + planned >= pages || *left == 0 {
                edge("memory is full of fetches: one is skipped");
                // A function may ask for all of a volume.
                self.count(|counted| counted.skipped += all - walked);
                return;
            }
            walked += run.page_count();
            *left -= 1;
            if self.cache.knows(run) || self.ahead.is_fetching(run, Class::Free) {
                continue;
            }
            if self.ahead.pages_in_flight() + planned + run.page_count() > pages {
                edge("memory is full of fetches: one is skipped");
                self.count(|counted| counted.skipped += run.page_count());
                continue;
            }
            planned += run.page_count();
            runs.push(run);
        }
    }

    fn fetch(&self, runs: Vec<Extent>, class: Class, how: &Hints) {
        if runs.is_empty() {
            return;
        }
        // The layer is stopping.
        let Some(working) = self.ahead.begin(class) else { return };
        let pages: u64 = runs.iter().map(|run| run.page_count()).sum();
        self.count(|counted| counted.fetched += pages);
        let how = Hints { class, account: how.account, origin: how.origin, ..Hints::default() };
        self.ahead.fetch(working, runs, how, true, self.options.at_once);
    }

    fn count(&self, add: impl FnOnce(&mut Counted)) {
        let mut counted = self.counted.get();
        add(&mut counted);
        self.counted.set(counted);
    }
}

impl BlockDevice for Functional {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.show(Op::Read, at, &how);
            let waits = self.ahead.is_fetching(at, how.class);
            let prefetched = waits || self.cache.knows(at);
            self.count(|counted| {
                counted.reads += 1;
                counted.prefetched += u64::from(prefetched);
                counted.waited += u64::from(waits);
            });
            if waits {
                self.ahead.wait(at, &how).await;
            }
            self.cache.read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.show(Op::Write, at, &how);
        self.cache.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.show(Op::Flush, Extent::default(), &how);
        self.cache.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.show(Op::Discard, at, &how);
        self.cache.discard(at, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.show(Op::WriteZeroes, at, &how);
        self.cache.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.cache)
    }
}

impl Layer for Functional {
    fn counters(&self) -> Counters {
        let Counted { requests, actions, fetched, dropped, skipped, reads, prefetched, waited } =
            self.counted.get();
        let of_cache = self.cache.counters();
        let cache = |name| of_cache.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        vec![
            ("requests_shown", requests),
            ("actions", actions),
            ("reads", reads),
            ("reads_prefetched", prefetched),
            ("reads_waited", waited),
            ("pages_fetched", fetched),
            ("pages_fetched_used", cache("hits")),
            ("pages_skipped", skipped),
            ("pages_dropped", dropped),
            ("pages_held", cache("pages_held")),
            ("turned_off", u64::from(self.failure().is_some())),
        ]
    }

    fn hits(&self) -> Option<Hits> {
        let counted = self.counted.get();
        Some(Hits { lookups: counted.reads, hit: counted.prefetched })
    }

    fn trouble(&self) -> Option<String> {
        self.failure().map(|failure| format!("the function is off: {failure}"))
    }

    fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        self.tell.replace(Some(tell));
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.ahead.quiesce().await;
            self.cache.stop().await
        })
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
