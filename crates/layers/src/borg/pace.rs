//! How movers hold back (section 4.4): in pauses of the clients, and so slowly, as the options ask; and that they end
//! early when the layer is to stop or to go.
//!
//! Invariant: a mover ends, whatever clients do: for a pause it waits a bounded time. What is done in idle time
//! ends when a client asks. Who empties the layer, because somebody asked for that, does not hold back. Fault model:
//! nothing here can fail.

use std::cell::Cell;

use seekless_core::runtime::{self, edge};
use seekless_core::{Class, Nanos, PAGE_BYTES};

use super::Borg;

/// For a pause a mover waits so many times its length, at most.
const PATIENCE: u64 = 100;
/// Pages of a batch that may have to end soon: some seconds of a disk.
const SOME: usize = 512;
/// Who waits looks so often whether it is to end.
const LOOK: Nanos = Nanos::from_millis(100);

/// In which way pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// As fast as it goes, to the end: somebody waits for it.
    AtOnce,
    /// In pauses of the clients and so slowly as the options ask; it ends early.
    Gentle,
    /// One request after the other, until a client asks; it ends early.
    Idle,
    /// One request after the other, since it is time; it ends early.
    Due,
    /// As fast as it goes until this time, since the layer is to be stopped; it ends early.
    Until(Nanos),
}

/// How fast a mover goes.
pub(super) struct Pace<'a> {
    borg: &'a Borg,
    manner: Manner,
    began: Nanos,
    pages: Cell<u64>,
}

/// Somebody waits for movers to end.
pub(super) struct Awaited<'a>(&'a Borg);

impl Borg {
    /// Until this is dropped, gentle movers end as soon as they can.
    pub(super) fn await_movers(&self) -> Awaited<'_> {
        self.movers.await_end(true);
        self.hurry(Class::Foreground);
        Awaited(self)
    }

    /// What a mover copies for free is waited for, or nobody is there whose waits it could use: it goes on in this
    /// class.
    pub fn hurry(&self, class: Class) {
        if let Some(ticket) = self.movers.free_ticket() {
            ticket.promote(class);
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.movers.await_end(false);
    }
}

impl<'a> Pace<'a> {
    /// From now on.
    pub fn new(borg: &'a Borg, manner: Manner) -> Pace<'a> {
        Pace { borg, manner, began: runtime::now(), pages: Cell::new(0) }
    }

    /// Whether its requests go one after the other.
    pub fn is_one_by_one(&self) -> bool {
        matches!(self.manner, Manner::Idle | Manner::Due)
    }

    /// Before one of its requests: whether a client has asked again, so that it is to end.
    pub fn is_disturbed(&self) -> bool {
        let rested = self.borg.idle.borrow().asked + self.borg.options.idle_after;
        self.manner == Manner::Idle && (self.is_to_end() || runtime::now() < rested)
    }

    /// Pages of a batch, of which `most` would be one without any limit: what may move in a second.
    pub fn batch(&self, most: usize) -> usize {
        let most = match self.manner {
            Manner::Idle | Manner::Due | Manner::Until(_) => most.min(SOME),
            Manner::AtOnce | Manner::Gentle => most,
        };
        match self.rate() {
            Some(rate) => most.min((rate / PAGE_BYTES).max(1) as usize),
            None => most,
        }
    }

    /// Waits until so many pages more may be moved; false if it is to end instead.
    pub async fn goes_on(&self, pages: usize) -> bool {
        if self.manner == Manner::AtOnce {
            return true;
        }
        if let Some(rate) = self.rate() {
            let bytes = u128::from(self.pages.get() * PAGE_BYTES);
            let due = self.began + Nanos((bytes * 1_000_000_000 / u128::from(rate)) as u64);
            self.wait(|| due).await;
        }
        if self.manner == Manner::Gentle {
            let patience = runtime::now() + Nanos(self.borg.options.move_idle.0.saturating_mul(PATIENCE));
            self.wait(|| (self.borg.idle.borrow().asked + self.borg.options.move_idle).min(patience)).await;
        }
        self.pages.set(self.pages.get() + pages as u64);
        let late = matches!(self.manner, Manner::Until(end) if runtime::now() >= end);
        let ends = late || self.is_to_end() || self.is_disturbed();
        if self.is_to_end() {
            edge("a move ends early: the layer is to stop or to go");
        }
        !ends
    }

    fn rate(&self) -> Option<u64> {
        Some(self.borg.options.move_rate.0).filter(|rate| self.manner == Manner::Gentle && *rate > 0)
    }

    fn is_to_end(&self) -> bool {
        self.borg.movers.are_awaited()
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
