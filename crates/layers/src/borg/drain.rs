//! Draining: writing dirty pages to the origin (section 4.4) when the write buffer is nearly full, or on command.
//!
//! Invariant: segments of the log are drained by cost and benefit, older ones first.
//!
//! Faults: a failed drain in the background is retried after the next write.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{Account, Class, ErrorKind, Hints, IoError, Nanos, Ticket, runtime};

use super::Borg;
use super::locking::Counted;
use super::mover::{Mover, ROUND};
use super::pace::Throttle;
use super::policy::{FREE_ROUND, Maintenance};

impl Borg {
    /// Has `then` called after each drain of all pages that began by itself.
    pub(crate) fn after_drains(&self, then: impl Fn() + 'static) {
        self.after_drains.replace(Some(Box::new(then)));
    }

    /// Number of dirty pages.
    pub(crate) fn dirty(&self) -> usize {
        self.store.dirty()
    }

    /// Writes all dirty pages to the origin, and drops their copies.
    pub async fn drain_all(&self, account: Account) -> Result<(), IoError> {
        self.empty(account, |dirty| dirty).await
    }

    /// Evicts the pages that `accepts` accepts by their dirty bit. Meanwhile writes of pages without a copy go to the
    /// origin. Pages that clients write at that moment are retried; without holding writers back this may not end.
    async fn empty(&self, account: Account, accepts: impl Fn(bool) -> bool) -> Result<(), IoError> {
        const TRIES: u32 = 16;
        /// As a power of two, in ms. Together they wait for 1.3 s.
        const LONGEST_WAIT: u32 = 7;
        let _emptying = Counted::of(&self.emptying);
        let Some(mover) = Mover::start(self, account, Throttle::Unthrottled).await? else { return Ok(()) };
        if self.store.is_empty() {
            // A BOPT that never held a page is not formatted for this.
            return self.store.flush_origin(&mover.with_ticket()).await;
        }
        for attempt in 0..TRIES {
            let left = self.store.pages_where(|entry| accepts(entry.dirty));
            if left.is_empty() {
                return self.end_emptying(&mover.with_ticket()).await;
            }
            // A page that is being written stays, and the attempt takes no time if there is no other.
            if mover.outgoing(&left).await? < left.len() as u64 {
                runtime::sleep(Nanos::from_millis(1 << attempt.min(LONGEST_WAIT))).await;
            }
        }
        let left = self.store.pages_where(|entry| accepts(entry.dirty)).len();
        let why =
            format!("{left} pages are still written as fast as they are moved: hold the writers back first");
        Err(IoError::new(ErrorKind::Timeout, "borg", None, why))
    }

    /// Makes it durable that pages were evicted. If everything is on the origin, a BOPT that fails does not matter.
    async fn end_emptying(&self, how: &Hints) -> Result<(), IoError> {
        let written = async {
            self.store.begin_mapping(how).await?;
            self.store.checkpoint(how).await
        };
        match written.await {
            Err(_) if self.can_do_without_bopt() => {}
            done => done?,
        }
        self.store.flush_origin(how).await
    }

    /// Evicts all pages, and gives up the BOPT: from then on the layer passes requests through.
    pub(super) async fn detach_now(&self, account: Account) -> Result<(), IoError> {
        self.empty(account, |_| true).await?;
        if !self.store.is_given_up() && !self.store.is_empty() {
            let why = "pages were written as the last ones left: hold the writers back first";
            return Err(IoError::new(ErrorKind::Timeout, "borg", None, why));
        }
        self.store.erase(&Hints::default()).await
    }

    /// Gives up the BOPT, with the clean copies in it: nothing is moved. A new one can be created there.
    pub(super) async fn give_up_now(&self) -> Result<(), IoError> {
        let dirty = self.store.dirty();
        if dirty > 0 {
            let why = format!("found {dirty} dirty pages, expected none: write them back first");
            return Err(IoError::new(ErrorKind::Invalid, "borg", None, why));
        }
        self.store.erase(&Hints::default()).await?;
        self.blank_ends().await
    }

    /// Pages of the segments to drain to free `goal` slots: best ratio of freed slots to cost first, older before
    /// younger. Only pages that `accepts` accepts, and about `most`.
    pub(super) fn best_to_drain(&self, goal: u64, most: usize, accepts: impl Fn(u64) -> bool) -> Vec<u64> {
        let size = u64::from(self.store.layout().segment);
        let mut segments: Vec<(u64, u32)> = self
            .store
            .used_segments()
            .into_iter()
            // (1 - u) age / (1 + u), in thousandths.
            .map(|used| (1_000 * (size - used.pages) * used.age / (size + used.pages), used.segment))
            .collect();
        segments.sort_unstable_by_key(|&(benefit, number)| (std::cmp::Reverse(benefit), number));
        let (mut free, mut pages) = (self.store.room(), Vec::new());
        for (_, number) in segments {
            if free >= goal || pages.len() >= most {
                break;
            }
            pages.extend(self.store.pages_of(number).into_iter().filter(|page| accepts(*page)));
            free += size;
        }
        pages
    }

    /// Starts maintenance that is due after a write: drains segments if few slots are free, or writes a checkpoint if
    /// recovery would have to read much of the log.
    pub(super) fn maintain_the_log(&self) {
        if self.is_nearly_full() {
            // Clients will soon wait for room: freeblock copies are promoted.
            self.boost_free_copies(Class::Background);
        }
        self.drain_for_free_if_due();
        if self.idle.borrow().maintaining || self.store.is_given_up() {
            return;
        }
        let Some((due, borg)) = self.due().zip(self.me.upgrade()) else { return };
        self.idle.borrow_mut().maintaining = true;
        let work = async move {
            // Failures are retried after the next write.
            match due {
                Maintenance::Drain { goal } => {
                    edge("the write buffer is drained in the background");
                    drop(borg.drain(goal).await);
                }
                Maintenance::DrainAll => {
                    edge("the write buffer is drained in the background");
                    drop(borg.drain_in_order().await);
                    if let Some(then) = &*borg.after_drains.borrow() {
                        then();
                    }
                }
                Maintenance::Checkpoint => {
                    edge("a checkpoint in the background");
                    let (class, ticket, account) = (Class::Background, Some(Ticket::new()), borg.payer());
                    drop(borg.store.checkpoint(&Hints { class, ticket, account, ..Hints::default() }).await);
                }
            }
            borg.idle.borrow_mut().maintaining = false;
        };
        runtime::spawn(work).detach();
    }

    /// Drains the pages that are dirty now, in the order of their addresses.
    pub(crate) async fn drain_in_order(self: &Rc<Self>) -> Result<(), IoError> {
        let mover = Mover::start(self, self.payer(), Throttle::Throttled).await?.map(Mover::in_its_class);
        let Some(mover) = mover else { return Ok(()) };
        mover.outgoing(&self.store.pages_where(|entry| entry.dirty)).await?;
        self.store.checkpoint(&mover.with_ticket()).await
    }

    /// Starts to drain where no request notices, if the course has it so and there is enough to drain.
    fn drain_for_free_if_due(&self) {
        if !self.has_to_drain_for_free() || self.idle.borrow().draining_for_free || self.store.is_given_up() {
            return;
        }
        let Some(borg) = self.me.upgrade() else { return };
        self.idle.borrow_mut().draining_for_free = true;
        let work = async move {
            // Failures are retried after the next write.
            drop(borg.drain_for_free().await);
            borg.idle.borrow_mut().draining_for_free = false;
        };
        runtime::spawn(work).detach();
    }

    /// Ends draining where no request notices: pages that were not written yet stay dirty.
    pub(super) fn end_draining_for_free(&self) {
        if let Some(ticket) = self.movers.ticket_to_abort() {
            ticket.abort();
        }
    }

    /// Drains pages that are dirty now, where no request notices: those of the first slots.
    async fn drain_for_free(self: &Rc<Self>) -> Result<(), IoError> {
        let mover = Mover::start(self, self.payer(), Throttle::Throttled).await?.map(Mover::in_class_free);
        let Some(mover) = mover.filter(|_| self.writes.get().drains) else { return Ok(()) };
        mover.allow_abort();
        let mut pages = self.store.pages_by_slot(|entry| entry.dirty);
        pages.truncate(FREE_ROUND);
        mover.outgoing(&pages).await?;
        self.store.checkpoint(&mover.with_ticket()).await
    }

    /// Drains until `goal` slots are free, or there is no progress.
    async fn drain(self: &Rc<Self>, goal: u64) -> Result<(), IoError> {
        let mover = Mover::start(self, self.payer(), Throttle::Throttled).await?.map(Mover::in_its_class);
        let Some(mover) = mover else { return Ok(()) };
        loop {
            let before = self.store.room();
            let pages = self.best_to_drain(goal, ROUND, |_| true);
            mover.outgoing(&pages).await?;
            self.store.checkpoint(&mover.with_ticket()).await?;
            let now = self.store.room();
            if now >= goal || now <= before {
                return Ok(());
            }
        }
    }
}
