//! Idle-time work: compares unproven copies with the origin, drains dirty pages until there are none, then duplicates
//! current metadata. Also drains pages that reach the maximum age of the options, however busy clients are.
//!
//! Invariants: a client waits for at most one request of idle-time work; no task waits when there is no work, or once
//! the layer was stopped or detached. Age is tracked in thirds of the maximum: a page that was dirty at the end of one
//! third is drained at the end of the next, also if it was written again or moved meanwhile. A mover that waits for its
//! turn drains such pages first.
//!
//! Faults: an error ends the work; it starts again with the next request.

use std::rc::Weak;

use seekless_core::runtime::{self, edge};
use seekless_core::{Account, Class, IoError, Nanos};

use super::Borg;
use super::mover::Mover;
use super::options::AtStop;
use super::pace::Throttle;

/// State of idle-time work.
#[allow(clippy::struct_excessive_bools)] // flags
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// Time of the last request.
    pub last_request: Nanos,
    /// The account that paid for it, which also pays for the layer's own work until the next one.
    pub payer: Account,
    /// Whether there was no request since the stop.
    pub stopped: bool,
    /// Whether a task waits for idle time.
    pub waiting: bool,
    /// Whether pages are being drained where no request notices.
    pub draining_for_free: bool,
    /// Whether maintenance of the log (drain or checkpoint) is running in the background.
    pub maintaining: bool,
}

impl Idle {
    /// Records a client request.
    pub fn request(&mut self, now: Nanos, payer: Account) {
        (self.last_request, self.payer, self.stopped) = (now, payer, false);
    }
}

/// Pages that were dirty at the last check.
struct Aging {
    /// Time of the next check.
    next: Nanos,
    /// In ascending order. Not slots: a page that is written again or moved has another one, and is as old as before.
    seen: Vec<u64>,
}

/// `span` after `begin`; never, if `span` is zero.
fn after(begin: Nanos, span: Nanos) -> Nanos {
    if span == Nanos::ZERO { Nanos(u64::MAX) } else { Nanos(begin.0.saturating_add(span.0)) }
}

impl Borg {
    /// Starts a task that waits for idle time or overdue pages, if there is work and no such task.
    pub(super) fn start_idle_work(&self) {
        if self.idle.borrow().waiting
            || self.has_no_idle_work()
            || self.origin_state.borrow().refused.is_some()
        {
            return;
        }
        self.idle.borrow_mut().waiting = true;
        let me = self.me.clone();
        runtime::spawn(async move {
            // Retried after the next request.
            let _ = Borg::idle_loop(&me).await;
            if let Some(borg) = me.upgrade() {
                borg.idle.borrow_mut().waiting = false;
            }
        })
        .detach();
    }

    /// Waits and works until there is nothing to do.
    async fn idle_loop(me: &Weak<Borg>) -> Result<(), IoError> {
        let third = |borg: &Borg| Nanos(borg.options.dirty_max_age.0.div_ceil(3));
        let Some(borg) = me.upgrade() else { return Ok(()) };
        let mut aging = Aging { next: after(runtime::now(), third(&borg)), seen: Vec::new() };
        let mut tried = Nanos::ZERO;
        drop(borg);
        loop {
            let Some(borg) = me.upgrade() else { return Ok(()) };
            let idle = after(borg.idle.borrow().last_request.max(tried), borg.options.idle_after);
            drop(borg);
            runtime::sleep_until(idle.min(aging.next)).await;
            let Some(borg) = me.upgrade() else { return Ok(()) };
            if borg.idle_task_may_end() {
                return Ok(());
            }
            if runtime::now() >= aging.next {
                borg.drain_overdue(&aging).await?;
                aging.seen = borg.dirty_pages();
                aging.next = after(runtime::now(), third(&borg));
            } else if runtime::now() >= after(borg.idle.borrow().last_request, borg.options.idle_after) {
                borg.work_while_idle().await?;
                tried = runtime::now();
            }
        }
    }

    /// Whether the task that waits for idle time may end: there is no work, or none until the next request.
    fn idle_task_may_end(&self) -> bool {
        self.has_no_idle_work() || self.idle.borrow().stopped || self.origin_state.borrow().refused.is_some()
    }

    /// Whether there is nothing to do: no copy is dirty or unproven, and both copies of all metadata are current.
    fn has_no_idle_work(&self) -> bool {
        let store = &self.store;
        store.is_given_up() || store.dirty() == 0 && store.unproven() == 0 && !store.has_to_duplicate()
    }

    /// Compares, drains and duplicates until done or a client request arrives.
    async fn work_while_idle(&self) -> Result<(), IoError> {
        edge("idle: pages are compared and drained");
        let Some(mover) = Mover::start(self, self.payer(), Throttle::Idle).await? else {
            return Ok(());
        };
        let done = async {
            if !mover.compare_all().await? {
                return Ok(());
            }
            self.drain_pages(&mover, self.dirty_pages()).await?;
            let mut more = true;
            while more && mover.pace.may_continue(1).await {
                more = self.store.duplicate_some(&mover.with_ticket()).await?;
            }
            Ok(())
        };
        let done = done.await;
        if mover.pace.is_interrupted() {
            edge("a client request ends idle-time work");
            return Ok(());
        }
        done
    }

    /// Drains pages that have been dirty for about two thirds of the maximum age.
    async fn drain_overdue(&self, aging: &Aging) -> Result<(), IoError> {
        let overdue = || {
            let mut pages = self.dirty_pages();
            pages.retain(|page| aging.seen.binary_search(page).is_ok());
            pages
        };
        let old = overdue();
        if old.is_empty() {
            return Ok(());
        }
        self.movers.set_overdue(old);
        // Copies that may not cost anything could take until their deadline.
        self.boost_free_copies(Class::Background);
        let mover = Mover::start(self, self.payer(), Throttle::Overdue).await;
        self.movers.take_overdue();
        let Some(mover) = mover? else { return Ok(()) };
        self.drain_pages(&mover, overdue()).await
    }

    /// Drains before a stop, for at most `limit`, if the options say so.
    pub(super) async fn drain_for(&self, limit: Nanos) -> Result<(), IoError> {
        if self.options.at_stop == AtStop::Keep || self.store.dirty() == 0 {
            return Ok(());
        }
        let end = runtime::now() + limit;
        let mover = {
            let _stopping = self.request_movers_stop();
            Mover::start(self, self.payer(), Throttle::Until(end)).await?
        };
        let Some(mover) = mover else { return Ok(()) };
        self.drain_pages(&mover, self.dirty_pages()).await
    }

    /// The account that pays for work which no command asked for.
    pub(super) fn payer(&self) -> Account {
        self.idle.borrow().payer
    }

    fn dirty_pages(&self) -> Vec<u64> {
        self.store.pages_where(|entry| entry.dirty)
    }

    /// Drains pages, in their order.
    async fn drain_pages(&self, mover: &Mover<'_>, pages: Vec<u64>) -> Result<(), IoError> {
        if pages.is_empty() {
            return Ok(());
        }
        mover.outgoing(&pages).await?;
        self.store.checkpoint(&mover.with_ticket()).await
    }
}
