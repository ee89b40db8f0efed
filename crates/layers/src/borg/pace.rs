//! How movers hold back (section 4.4): in pauses of the clients, and so slowly, as the options ask; and that they end
//! early when the layer is to stop or to go.
//!
//! Invariant: a mover ends, whatever clients do: for a pause it waits a bounded time. Who empties the layer, because
//! somebody asked for that, does not hold back. Fault model: nothing here can fail.

use std::cell::Cell;

use seekless_core::runtime::{self, edge};
use seekless_core::{Class, Nanos, PAGE_BYTES};

use super::Borg;

/// For a pause a mover waits so many times its length, at most.
const PATIENCE: u64 = 100;
/// Who waits looks so often whether it is to end.
const LOOK: Nanos = Nanos::from_millis(100);

/// How fast a mover goes.
pub(super) struct Pace<'a> {
    borg: &'a Borg,
    /// Whether it holds back, and ends early.
    gentle: bool,
    began: Nanos,
    pages: Cell<u64>,
}

/// Somebody waits for movers to end.
pub(super) struct Awaited<'a>(&'a Borg);

impl Borg {
    /// Until this is dropped, gentle movers end as soon as they can.
    pub(super) fn await_movers(&self) -> Awaited<'_> {
        self.state.borrow_mut().awaited += 1;
        self.hurry(Class::Foreground);
        Awaited(self)
    }

    /// What a mover copies for free is waited for, or nobody is there whose waits it could use: it goes on in this
    /// class.
    pub fn hurry(&self, class: Class) {
        let ticket = self.state.borrow().freely.clone();
        if let Some(ticket) = ticket {
            ticket.promote(class);
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().awaited -= 1;
    }
}

impl<'a> Pace<'a> {
    /// From now on; gentle, or as fast as it goes to its end.
    pub fn new(borg: &'a Borg, gentle: bool) -> Pace<'a> {
        Pace { borg, gentle, began: runtime::now(), pages: Cell::new(0) }
    }

    /// Pages of a batch, of which `most` would be one without any limit: what may move in a second.
    pub fn batch(&self, most: usize) -> usize {
        match self.rate() {
            Some(rate) => most.min((rate / PAGE_BYTES).max(1) as usize),
            None => most,
        }
    }

    /// Waits until so many pages more may be moved; false if it is to end instead.
    pub async fn goes_on(&self, pages: usize) -> bool {
        if !self.gentle {
            return true;
        }
        if let Some(rate) = self.rate() {
            let bytes = u128::from(self.pages.get() * PAGE_BYTES);
            let due = self.began + Nanos((bytes * 1_000_000_000 / u128::from(rate)) as u64);
            self.wait(|| due).await;
        }
        let patience = runtime::now() + Nanos(self.borg.options.move_idle.0.saturating_mul(PATIENCE));
        self.wait(|| (self.borg.state.borrow().asked + self.borg.options.move_idle).min(patience)).await;
        self.pages.set(self.pages.get() + pages as u64);
        let ends = self.is_to_end();
        if ends {
            edge("a move ends early: the layer is to stop or to go");
        }
        !ends
    }

    fn rate(&self) -> Option<u64> {
        Some(self.borg.options.move_rate.0).filter(|rate| self.gentle && *rate > 0)
    }

    fn is_to_end(&self) -> bool {
        self.borg.state.borrow().awaited > 0
    }

    /// Waits until a moment that may move on, or it is to end.
    async fn wait(&self, until: impl Fn() -> Nanos) {
        while !self.is_to_end() {
            let left = until().since(runtime::now());
            if left == Nanos::ZERO {
                return;
            }
            runtime::sleep(left.min(LOOK)).await;
        }
    }
}
