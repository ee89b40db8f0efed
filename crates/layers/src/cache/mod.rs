//! A buffer cache (section 5.3 of the IOLab paper): pages in memory, write-back, and what the freeblock paper (Lumb et
//! al., OSDI 2000, section 2.1) calls prewriting and prefetching: dirty pages are written, and neighbours of a miss
//! read, where it costs no other request anything.
//!
//! `path` is the path of a request, `write_back` writes dirty pages, `fetch` prefetches; `policy` chooses the pages to
//! evict; `resize` changes its size, `counting` is a cache without data; `state` is the set of cached pages, `page` one
//! of them. Nothing is on disk except clients' sectors, in place.
//!
//! Invariants: a known sector is what a read has to return; other sectors are on the device below; at most one version
//! of a page is being written; memory never exceeds `size`, except for large requests' own buffers.
//!
//! Fault model: power may fail at any time; unflushed data may be lost, as with a drive's own cache. Any request below
//! may fail: a page that could not be written back stays dirty, the flush that includes it fails, and the next one
//! retries. After a failed flush below no flush succeeds, since earlier writes may be lost.

mod counting;
mod fetch;
mod options;
mod page;
mod path;
pub mod policy;
mod resize;
mod state;
mod write_back;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use seekless_core::device::{Content, ExtentState, io};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Counters, Extent, Geometry, Hints, Hits, IoFuture, Layer, Mode,
    Nanos, Op, PAGE_SECTORS, RangeLocks, Ticket, Zeroes, mutant,
};

use crate::canary::Canary;
pub use options::{CANARIES, EDGES, Options, Writes};
use path::Work;
use policy::Ghost;
pub use resize::COMMANDS;
use state::{Change, State};

/// The buffer cache.
pub struct Cache {
    below: Rc<dyn BlockDevice>,
    options: Options,
    /// Locks of pages: requests for the same page are in order of arrival.
    locks: RangeLocks,
    state: RefCell<State>,
    /// The pages that it would hold, if it keeps no data.
    ghost: Option<RefCell<Ghost>>,
    waiting: RefCell<Vec<Waker>>,
    canary: Canary,
    /// Weak reference to itself, for background tasks.
    me: Weak<Cache>,
}

impl Cache {
    /// An empty cache with these (checked) options.
    pub fn new(below: Rc<dyn BlockDevice>, options: Options) -> Rc<Cache> {
        let pages = options.pages();
        let policy = options.policy.build(pages);
        let ghost = (!options.data).then(|| RefCell::new(Ghost::new(options.policy, pages)));
        let state = State::new(pages, options.dirty_pages(pages), below.geometry().sectors, policy);
        Rc::new_cyclic(|me| Cache {
            below,
            locks: RangeLocks::new(),
            state: RefCell::new(state),
            ghost,
            waiting: RefCell::default(),
            canary: options.canary(),
            options,
            me: me.clone(),
        })
    }

    /// Sectors of the largest request that is cached: an eighth of the cache.
    fn largest_kept(&self) -> u64 {
        self.state.borrow().capacity / 8 * PAGE_SECTORS
    }

    /// Whether it has all of these sectors in memory.
    pub fn knows(&self, at: Extent) -> bool {
        let state = self.state.borrow();
        let mut parts = state.within(at).split(PAGE_SECTORS);
        parts.all(|part| state.page(part.start.page()).is_some_and(|page| page.knows(part)))
    }

    /// Drops clean data of these sectors, except of pages that a request uses just now.
    pub fn forget(&self, at: Extent) {
        let here = self.state.borrow().here(at);
        for page in here {
            let page = Extent::of_pages(page, 1);
            let held = self.locks.try_lock(page, Mode::Exclusive, Class::Free, None);
            if held.is_some() && self.knows(page) {
                self.state.borrow_mut().let_go(page, &Change::Unknown);
            }
        }
    }

    /// Waits until a condition of the state holds.
    async fn until(&self, is_so: impl Fn(&mut State) -> bool) {
        std::future::poll_fn(|context| {
            if is_so(&mut self.state.borrow_mut()) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes all waiters.
    fn changed(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl BlockDevice for Cache {
    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        Geometry { volatile_cache: below.volatile_cache || self.options.write == Writes::Back, ..below }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        if self.only_counts(Op::Read, at, how.class) {
            return self.below.read(at, into, how);
        }
        io(async move {
            let _held = self.locks.shared(at.whole_pages(), &how).await;
            self.read_pages(at, &into, &how).await.map(|()| into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, mut how: Hints) -> IoFuture<'_, ()> {
        if self.only_counts(Op::Write, at, how.class) {
            return self.below.write(at, from, how);
        }
        io(async move {
            how.fua &= !mutant::is("cache: FUA is dropped");
            if how.fua || self.options.write != Writes::Back || at.sectors > self.largest_kept() {
                return Box::pin(self.pass_by(at, Work::Write(from), how)).await;
            }
            let _held = self.locks.exclusive(at.whole_pages(), &how).await;
            self.write_pages(at, &from, &how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.sync(&how).await })
    }

    /// Dirty sectors read as before; the others as the device below reads them.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        if self.only_counts(Op::Discard, at, how.class) {
            return self.below.discard(at, how);
        }
        io(async move {
            let fua = std::mem::take(&mut how.fua);
            self.pass_by(at, Work::Discard, how.clone()).await?;
            let fua = fua && !mutant::is("cache: FUA of a discard is dropped");
            if fua { self.sync(&how).await } else { Ok(()) }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        if self.only_counts(Op::WriteZeroes, at, how.class) {
            return self.below.write_zeroes(at, how, zeroes);
        }
        io(self.pass_by(at, Work::Zeroes(zeroes), how))
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    /// For dirty pages, the extents of the device below do not apply.
    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let unknown = || vec![ExtentState { extent: at, content: Content::Unknown }];
            let is_dirty = || !self.state.borrow().not_below(at).is_empty();
            let held = self.locks.shared(at.whole_pages(), &Hints::default()).await;
            if is_dirty() {
                return Ok(unknown());
            }
            // Writes continue meanwhile, since this may take long.
            drop(held);
            let found = self.below.extents(at).await?;
            if is_dirty() { Ok(unknown()) } else { Ok(found) }
        })
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        if self.ghost.is_some() || at.sectors > self.largest_kept() {
            return self.below.prefetch(at, how);
        }
        io(async move {
            let _held = self.locks.shared(at.whole_pages(), &how).await;
            self.prefetch_pages(at, &how).await
        })
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let first = Extent { sectors: 1, ..at };
        if self.ghost.is_some() {
            return self.below.estimate(op, at, how);
        }
        let known = self.state.borrow().page(at.start.page()).is_some_and(|page| page.knows(first));
        if known || op != Op::Read { Some(Nanos::ZERO) } else { self.below.estimate(op, at, how) }
    }
}

impl Layer for Cache {
    fn counters(&self) -> Counters {
        let state = self.state.borrow();
        let ghost = self.ghost.as_ref().map(|ghost| ghost.borrow());
        let held = ghost.as_ref().map_or_else(|| state.held(), |ghost| ghost.held());
        let at_most = ghost.map_or(state.capacity, |ghost| ghost.pages());
        let counted = state.counted;
        vec![
            ("pages_at_most", at_most),
            ("pages_held", held),
            ("pages_dirty", state.dirty()),
            ("hits", counted.hits),
            ("misses", counted.misses),
            ("passed_by", counted.passed_by),
            ("prefetched", counted.fetched),
            ("prefetched_used", counted.fetched_used),
            ("written_back", counted.written),
            ("prewritten", counted.prewritten),
            ("promoted", counted.promoted),
            ("overwritten", counted.overwritten),
            ("write_backs_failed", state.failures.0),
            ("waits_for_room", counted.waits),
        ]
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(self.quiesce())
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        io(self.quiesce())
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move { self.carry_out(&name, &how).await })
    }

    fn hits(&self) -> Option<Hits> {
        let counted = self.state.borrow().counted;
        Some(Hits { lookups: counted.hits + counted.misses, hit: counted.hits })
    }

    /// Writes back dirty pages.
    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        self.flush(Hints { account, ..Hints::default() })
    }
}

/// Hints of the cache's own requests.
fn own(class: Class, ticket: &Ticket) -> Hints {
    Hints { class, ticket: Some(ticket.clone()), ..Hints::default() }
}

#[cfg(test)]
mod tests;
