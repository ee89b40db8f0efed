//! What is done when no client asks: clean copies that nobody compared with the origin are compared, and pages that are
//! newer than the origin go there, until none is left; then what counts of the metadata is copied to their second
//! places. And none stays newer for longer than the options allow, whatever is planned and however busy clients are.
//!
//! Invariants: a client waits for one request of this at most; nobody waits where there is nothing to do, and nothing
//! is waited for once the layer was stopped or taken away. How old a page is, is known by thirds of what is allowed:
//! who was newer at the end of one is seen, and goes to the origin at the end of the next.
//!
//! Faults: what fails ends it; it begins anew with the next request.

use std::rc::Weak;

use seekless_core::runtime::{self, edge};
use seekless_core::{Account, IoError, Nanos};

use super::Borg;
use super::mover::Mover;
use super::options::AtStop;
use super::pace::Manner;
use super::store::Slot;

/// Whether clients rest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// When one asked last.
    pub asked: Nanos,
    /// Nobody asked since it was stopped.
    pub stopped: bool,
    /// Somebody waits until they rest.
    pub resting: bool,
    /// The log is drained, or checkpointed, in the background.
    pub maintaining: bool,
}

impl Idle {
    /// A client asks.
    pub fn request(&mut self, now: Nanos) {
        (self.asked, self.stopped) = (now, false);
    }
}

/// Which pages were newer than the origin a while ago.
struct Aging {
    /// When to look again.
    next: Nanos,
    /// A bit a slot.
    seen: Vec<u64>,
}

impl Aging {
    fn has_seen(&self, slot: Slot) -> bool {
        self.seen.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }
}

/// A time that never comes, if `span` is zero.
fn after(begin: Nanos, span: Nanos) -> Nanos {
    if span == Nanos::ZERO { Nanos(u64::MAX) } else { Nanos(begin.0.saturating_add(span.0)) }
}

impl Borg {
    /// Sees to it that somebody waits until clients rest, or pages are too old, as long as there is something to do
    /// then.
    pub(super) fn tend_in_idle_time(&self) {
        if self.idle.borrow().resting || self.is_at_rest() || self.origin_state.borrow().refused.is_some() {
            return;
        }
        self.idle.borrow_mut().resting = true;
        let me = self.me.clone();
        runtime::spawn(async move {
            // What fails is tried again after the next request.
            let _ = Borg::rest(&me).await;
            if let Some(borg) = me.upgrade() {
                borg.idle.borrow_mut().resting = false;
            }
        })
        .detach();
    }

    /// Ends when there is nothing to do.
    async fn rest(me: &Weak<Borg>) -> Result<(), IoError> {
        let third = |borg: &Borg| Nanos(borg.options.dirty_max_age.0.div_ceil(3));
        let Some(borg) = me.upgrade() else { return Ok(()) };
        let mut aging = Aging { next: after(runtime::now(), third(&borg)), seen: Vec::new() };
        let mut tried = Nanos::ZERO;
        drop(borg);
        loop {
            let Some(borg) = me.upgrade() else { return Ok(()) };
            let idle = after(borg.idle.borrow().asked.max(tried), borg.options.idle_after);
            drop(borg);
            runtime::sleep_until(idle.min(aging.next)).await;
            let Some(borg) = me.upgrade() else { return Ok(()) };
            if borg.has_nothing_to_do() {
                return Ok(());
            }
            if runtime::now() >= aging.next {
                borg.drain_the_old(&aging).await?;
                aging.seen = borg.store.dirty_bits();
                aging.next = after(runtime::now(), third(&borg));
            } else if runtime::now() >= after(borg.idle.borrow().asked, borg.options.idle_after) {
                borg.work_while_idle().await?;
                tried = runtime::now();
            }
        }
    }

    fn has_nothing_to_do(&self) -> bool {
        self.is_at_rest() || self.idle.borrow().stopped || self.origin_state.borrow().refused.is_some()
    }

    /// Whether there is nothing to do: nothing is newer than the origin or unproven, and what counts is in both copies.
    fn is_at_rest(&self) -> bool {
        let store = &self.store;
        store.is_detached() || store.dirty() == 0 && store.unproven() == 0 && !store.has_to_duplicate()
    }

    /// Compares, drains and copies all there is, as long as no client asks.
    async fn work_while_idle(&self) -> Result<(), IoError> {
        edge("nobody asks: pages are compared, and go home");
        let Some(mover) = Mover::start(self, Account::default(), Manner::Idle).await? else { return Ok(()) };
        let done = async {
            if !mover.compare_all().await? {
                return Ok(());
            }
            self.drain_these(&mover, self.dirty_pages()).await?;
            let mut more = true;
            while more && mover.pace.goes_on(1).await {
                more = self.store.duplicate_some(&mover.raisable()).await?;
            }
            Ok(())
        };
        let done = done.await;
        if mover.pace.is_disturbed() {
            edge("a client asks: what is done in idle time ends");
            return Ok(());
        }
        done
    }

    /// Drains what has been newer than the origin for two thirds of what is allowed, or nearly.
    async fn drain_the_old(&self, aging: &Aging) -> Result<(), IoError> {
        let old = self.store.pages_where(|_, entry| entry.dirty && aging.has_seen(entry.slot));
        if old.is_empty() {
            return Ok(());
        }
        let Some(mover) = Mover::start(self, Account::default(), Manner::Due).await? else { return Ok(()) };
        self.drain_these(&mover, old).await
    }

    /// Drains what there is before a stop, if the options say so, for so long.
    pub(super) async fn drain_for(&self, limit: Nanos) -> Result<(), IoError> {
        if self.options.at_stop == AtStop::Keep || self.store.dirty() == 0 {
            return Ok(());
        }
        let end = runtime::now() + limit;
        let mover = {
            let _awaited = self.await_movers();
            Mover::start(self, Account::default(), Manner::Until(end)).await?
        };
        let Some(mover) = mover else { return Ok(()) };
        self.drain_these(&mover, self.dirty_pages()).await
    }

    fn dirty_pages(&self) -> Vec<u64> {
        self.store.pages_where(|_, entry| entry.dirty)
    }

    /// In the order of the origin.
    async fn drain_these(&self, mover: &Mover<'_>, mut pages: Vec<u64>) -> Result<(), IoError> {
        pages.sort_unstable();
        if pages.is_empty() {
            return Ok(());
        }
        mover.outgoing(&pages).await?;
        self.store.checkpoint(&mover.raisable()).await
    }
}
