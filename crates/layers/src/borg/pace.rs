//! Throttling of movers (section 4.4): they move in pauses of the clients, at a limited rate, and end early when the
//! layer stops or is detached.
//!
//! Invariant: a mover always ends: it waits for a pause for a bounded time, and no longer once pages reached their
//! maximum age. Idle-time work ends when a client request arrives. Movers that drain everything or detach, by command,
//! are not throttled; a reconfiguration always is, also by command. Fault model: nothing here can fail.

use std::cell::Cell;

use seekless_core::runtime::{self, edge};
use seekless_core::{Class, Nanos, PAGE_BYTES};

use super::Borg;

/// A mover waits for a pause at most this many times the pause's length.
const TIMEOUT_FACTOR: u64 = 100;
/// Pages of a round that may be stopped early: some seconds of a disk.
pub(super) const SHORT_ROUND: usize = 512;
/// Interval at which a waiting mover checks for a stop request.
const POLL_INTERVAL: Nanos = Nanos::from_millis(100);

/// How a mover is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Throttle {
    /// As fast as possible, to the end: a full drain, a detach or a rehearsal waits for it.
    Unthrottled,
    /// In pauses of the clients and at a limited rate; may end early.
    Throttled,
    /// One request at a time, until a client request arrives; may end early.
    Idle,
    /// One request at a time, for pages that reached their maximum age; may end early.
    Overdue,
    /// As fast as possible until this time, before a stop; may end early.
    Until(Nanos),
}

/// Pace of a mover.
pub(super) struct Pace<'a> {
    borg: &'a Borg,
    throttle: Throttle,
    began: Nanos,
    pages: Cell<u64>,
}

/// Guard of a stop request to movers.
pub(super) struct StopRequest<'a>(&'a Borg);

impl Borg {
    /// Asks movers other than unthrottled ones to end as soon as possible, until the guard is dropped.
    pub(super) fn request_movers_stop(&self) -> StopRequest<'_> {
        self.movers.add_stop_request();
        self.end_draining_for_free();
        self.boost_free_copies(Class::Foreground);
        StopRequest(self)
    }

    /// Raises freeblock copies to `class`: something waits for them, or there is no foreground load.
    pub fn boost_free_copies(&self, class: Class) {
        if let Some(ticket) = self.movers.free_ticket() {
            ticket.promote(class);
        }
    }
}

impl Drop for StopRequest<'_> {
    fn drop(&mut self) {
        self.0.movers.remove_stop_request();
    }
}

impl<'a> Pace<'a> {
    /// Starts now.
    pub fn new(borg: &'a Borg, throttle: Throttle) -> Pace<'a> {
        Pace { borg, throttle, began: runtime::now(), pages: Cell::new(0) }
    }

    /// Whether it issues one request at a time.
    pub fn is_sequential(&self) -> bool {
        matches!(self.throttle, Throttle::Idle | Throttle::Overdue)
    }

    /// Whether a client request has arrived, so that idle-time work should end; checked before each request.
    pub fn is_interrupted(&self) -> bool {
        let rested = self.borg.idle.borrow().last_request + self.borg.options.idle_after;
        self.throttle == Throttle::Idle && (self.must_stop() || runtime::now() < rested)
    }

    /// Pages of a round, at most `most`: those that may move in a second.
    pub fn round_size(&self, most: usize) -> usize {
        let most = match self.throttle {
            Throttle::Idle | Throttle::Overdue | Throttle::Until(_) => most.min(SHORT_ROUND),
            Throttle::Unthrottled | Throttle::Throttled => most,
        };
        match self.rate() {
            Some(rate) => most.min((rate / PAGE_BYTES).max(1) as usize),
            None => most,
        }
    }

    /// Waits until `pages` more pages may be moved; false if the mover should end.
    pub async fn may_continue(&self, pages: usize) -> bool {
        self.turn().await;
        self.take(pages)
    }

    /// Waits until more may be moved, or until pages reached their maximum age.
    pub async fn turn(&self) {
        if self.throttle != Throttle::Throttled {
            return;
        }
        if let Some(rate) = self.rate() {
            let bytes = u128::from(self.pages.get() * PAGE_BYTES);
            let due = self.began + Nanos((bytes * 1_000_000_000 / u128::from(rate)) as u64);
            self.wait(|| due).await;
        }
        let timeout = runtime::now() + Nanos(self.borg.options.move_idle.0.saturating_mul(TIMEOUT_FACTOR));
        self.wait(|| (self.borg.idle.borrow().last_request + self.borg.options.move_idle).min(timeout)).await;
    }

    /// Counts `pages` pages as moved; false if the mover should end instead.
    pub fn take(&self, pages: usize) -> bool {
        if self.throttle == Throttle::Unthrottled {
            return true;
        }
        self.pages.set(self.pages.get() + pages as u64);
        let late = matches!(self.throttle, Throttle::Until(end) if runtime::now() >= end);
        let ends = late || self.must_stop() || self.is_interrupted();
        if self.must_stop() {
            edge("a move ends early: the layer stops or is detached");
        }
        !ends
    }

    /// The pages that reached their maximum age, if this mover has to drain them before it moves others.
    pub fn take_overdue(&self) -> Vec<u64> {
        if self.throttle == Throttle::Throttled { self.borg.movers.take_overdue() } else { Vec::new() }
    }

    fn rate(&self) -> Option<u64> {
        Some(self.borg.options.move_rate.0).filter(|rate| self.throttle == Throttle::Throttled && *rate > 0)
    }

    pub(super) fn must_stop(&self) -> bool {
        self.borg.movers.is_stop_requested()
    }

    /// Waits until `until`, which may move on, or until a stop request, or until pages reached their maximum age.
    async fn wait(&self, until: impl Fn() -> Nanos) {
        while !self.must_stop() && !self.borg.movers.has_overdue() {
            let left = until().since(runtime::now());
            if left == Nanos::ZERO {
                return;
            }
            runtime::sleep(left.min(POLL_INTERVAL)).await;
        }
    }
}
