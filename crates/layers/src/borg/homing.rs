//! Homing: all dirty pages are drained once keeping them has cost clients' reads a good part of what draining them
//! costs.
//!
//! The write buffer makes one sequential write of many scattered ones, in the order of their arrival. Reads in any
//! other order lose by that, each time, until the pages are home. How much they lost is found by trials: the latest
//! requests are played with the log as it is, and with all of it drained. The next trial is due after as many reads of
//! dirty pages as are expected to lose the rest, so trials are few.
//!
//! Invariant: as far as trials see, dirty pages cost reads little more than a part (1 / [`PART`]) of what draining them
//! costs. Without a model nothing is drained. Faults: a drain that fails ends, and the next trial is due as after a
//! drain.

use std::cell::Cell;

use seekless_core::{Class, Extent, IoError, Nanos, runtime};

use super::Borg;
use super::course::{Course, LogFate};
use super::mover::Mover;
use super::pace::Throttle;
use super::planning::REHEARSE_NS;
use super::policy::{FREE_ROUND, Verdict};
use super::profiler::Window;
use super::rehearsal::Rehearsal;

/// The fewest reads of dirty pages between two trials.
const FEWEST: u64 = 16;
/// Reads may lose this part of the cost of a drain, as a divisor.
const PART: i128 = 8;
/// Rounds of a drain at most: the more there are, the sooner the pages ahead of a scan are home, but each
/// round passes over the log.
const ROUNDS: usize = 4;

/// State of homing.
#[derive(Default)]
pub(super) struct Homing {
    /// Reads of dirty pages since the last trial.
    reads: Cell<u64>,
    /// Such reads until the next trial is due, beyond [`FEWEST`].
    more: Cell<u64>,
    /// Profiled requests at the last trial.
    requests: Cell<u64>,
    /// Page after the latest of such reads.
    next: Cell<u64>,
    /// Disk time that reads lost since the last drain, in nanoseconds.
    lost: Cell<i128>,
    /// Whether a trial or a drain is under way.
    busy: Cell<bool>,
    /// Drains so far.
    drains: Cell<u64>,
}

/// What trials say, as disk time in nanoseconds.
struct Loss {
    /// Lost by the latest requests, since dirty pages were not on the origin.
    latest: i128,
    /// What draining all of them costs.
    price: i128,
}

impl Homing {
    /// Drains so far.
    pub fn drains(&self) -> u64 {
        self.drains.get()
    }

    /// Adds what was lost in that many reads; true if it was too much. Otherwise sets when the next trial is due.
    fn add(&self, loss: &Loss, reads: u64) -> bool {
        let lost = (self.lost.get() + loss.latest).max(0);
        let left = loss.price / PART - lost;
        if lost > 0 && left <= 0 {
            self.lost.set(0);
            self.more.set(0);
            return true;
        }
        self.lost.set(lost);
        let most = i128::from(2 * reads);
        let expected = if loss.latest > 0 { left * i128::from(reads) / loss.latest } else { most };
        self.more.set(expected.min(most) as u64);
        false
    }
}

impl Borg {
    /// A read of this class found dirty pages.
    pub(super) fn dirty_pages_read(&self, at: Extent, class: Class) {
        let state = &self.homing;
        if !self.rehearses || class != Class::Foreground {
            return;
        }
        state.next.set(at.pages().end);
        state.reads.set(state.reads.get() + 1);
        if state.busy.get() || state.reads.get() < FEWEST + state.more.get() {
            return;
        }
        let Some(models) = self.models() else { return };
        let requests = self.learned.borrow().requests();
        let latest = requests.saturating_sub(state.requests.replace(requests));
        let reads = state.reads.take();
        state.busy.set(true);
        // A layer that is detached meanwhile is not kept.
        let me = self.me.clone();
        // The read that makes it due does not wait for the copy of the map.
        let work = async move {
            let Some(borg) = me.upgrade() else { return };
            let (window, rehearsal) = (borg.learned.borrow().window(), borg.rehearsal(models, Verdict::Add));
            drop(borg);
            let cost = Nanos((2 * latest + rehearsal.fork.map().dirty() as u64) * REHEARSE_NS);
            let loss = runtime::offload(move || loss(&rehearsal, &window, latest), |_| cost).await;
            let Some(borg) = me.upgrade() else { return };
            if loss.is_some_and(|loss| borg.homing.add(&loss, reads)) {
                drop(borg.bring_home().await);
                borg.homing.reads.set(0);
            }
            borg.homing.busy.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// Drains the pages that are dirty now, those first that come after the latest read.
    async fn bring_home(&self) -> Result<(), IoError> {
        self.end_draining_for_free();
        let Some(mover) = Mover::start(self, self.payer(), Throttle::Throttled).await? else { return Ok(()) };
        let mover = mover.with_its_share();
        self.homing.drains.set(self.homing.drains.get() + 1);
        let mut pages = self.store.pages_where(|entry| entry.dirty);
        let first = pages.partition_point(|page| *page < self.homing.next.get());
        pages.rotate_left(first);
        for round in pages.chunks(FREE_ROUND.max(pages.len().div_ceil(ROUNDS))) {
            mover.outgoing(round).await?;
        }
        self.store.checkpoint(&mover.with_ticket()).await
    }
}

/// Plays the `latest` requests of a window with the log as it is and with all of it drained; `None` without a result.
fn loss(rehearsal: &Rehearsal, window: &Window, latest: u64) -> Option<Loss> {
    let now = Course::as_it_is(rehearsal.writes);
    let price = i128::from(rehearsal.drain()?.0);
    let (_, late) = window.split(window.requests().saturating_sub(latest));
    let kept = rehearsal.trial(now, None, &late)?;
    let home = rehearsal.trial(Course { log: LogFate::Drained, ..now }, None, &late)?;
    // What was overwritten need not be drained any more.
    let dirty = rehearsal.fork.map().dirty().max(1) as i128;
    let overwritten = price * i128::from(kept.overwritten_pages) / dirty;
    Some(Loss { latest: i128::from(kept.busy().0) - overwritten - i128::from(home.busy().0), price })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_as_rare_as_losses_and_a_drain_ends_them() {
        let homing = Homing::default();
        let price = 1_000 * PART;
        let lose = |latest, reads| {
            let ends = homing.add(&Loss { latest, price }, reads);
            (ends, homing.more.get(), homing.lost.get())
        };
        assert_eq!(lose(0, 16), (false, 32, 0), "twice as many reads");
        assert_eq!(lose(-50, 48), (false, 96, 0), "a gain is not kept for later");
        assert_eq!(lose(400, 100), (false, 150, 400), "as many as lose the rest");
        assert_eq!(lose(1, 10), (false, 20, 401));
        assert_eq!(lose(-100, 10), (false, 20, 301));
        assert_eq!(lose(699, 10), (true, 0, 0));
        assert_eq!(lose(500, 10), (false, 10, 500), "it begins again");
    }
}
