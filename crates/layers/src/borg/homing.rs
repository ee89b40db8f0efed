//! Homing: all dirty pages are drained once to keep them has cost clients' reads a good part of what their draining costs.
//!
//! The write buffer is long to read where reads find their pages in the log in another order than they were written, and
//! what such reads lose goes on until all of them have come home. What they lost is found by trials: the latest requests
//! are played with the log as it is, and with all of it at home. Trials are due after so many divided reads as are
//! expected to make up the rest, so there are few of them.
//!
//! Invariant: dirty pages cost reads little more than [`PART`] of what it costs to drain them, as far as trials can see.
//! Without a model nothing is drained. Faults: a failed drain ends; the next trial is due as after a drain.

use std::cell::Cell;

use seekless_core::runtime::{self, edge};
use seekless_core::{Class, IoError, Nanos};

use super::Borg;
use super::course::{Course, LogFate};
use super::mover::Mover;
use super::pace::Throttle;
use super::planning::REHEARSE_NS;
use super::policy::Verdict;
use super::profiler::Window;
use super::rehearsal::{Rehearsal, Trial};

/// The fewest divided reads between two trials.
const FEWEST: u64 = 16;
/// The part of the cost of a drain that reads may lose.
const PART: i128 = 4;

/// State of homing.
#[derive(Default)]
pub(super) struct Homing {
    /// Divided reads since the last trial.
    divided: Cell<u64>,
    /// Divided reads after which the next one is due, beyond [`FEWEST`].
    more: Cell<u64>,
    /// Profiled requests at the last trial.
    requests: Cell<u64>,
    /// Disk time that reads lost since the last drain.
    lost: Cell<i128>,
    /// Whether a trial or a drain is under way.
    busy: Cell<bool>,
    /// Drains so far.
    drains: Cell<u64>,
}

/// What a trial says, as disk time in nanoseconds.
struct Said {
    /// By the latest requests, since dirty pages were in the log.
    lost: i128,
    /// By draining all of them.
    price: i128,
}

impl Homing {
    /// Drains so far.
    pub fn drains(&self) -> u64 {
        self.drains.get()
    }

    /// Whether the losses so far are to be ended by a drain; if not, sets when the next trial is due.
    fn judge(&self, said: &Said, divided: u64) -> bool {
        let lost = (self.lost.get() + said.lost).max(0);
        let left = said.price / PART - lost;
        let ends = left <= 0 && lost > 0;
        let most = i128::from(2 * divided);
        let more = if said.lost > 0 { (left * i128::from(divided) / said.lost).min(most) } else { most };
        self.more.set(if ends { 0 } else { more.max(0) as u64 });
        self.lost.set(if ends { 0 } else { lost });
        ends
    }
}

impl Borg {
    /// A read of this class was divided, and found dirty pages in the log.
    pub(super) fn read_was_divided(&self, class: Class) {
        let state = &self.homing;
        if !self.rehearses || class != Class::Foreground || state.busy.get() {
            return;
        }
        state.divided.set(state.divided.get() + 1);
        if state.divided.get() < FEWEST + state.more.get() {
            return;
        }
        let Some((models, me)) = self.models().zip(self.me.upgrade()) else { return };
        state.busy.set(true);
        let (requests, window) = (self.learned.borrow().requests(), self.learned.borrow().window());
        let latest = requests - state.requests.replace(requests).min(requests);
        let divided = state.divided.take();
        let rehearsal = self.rehearsal(models, Verdict::Add);
        let cost = Nanos((2 * latest + rehearsal.fork.map().dirty() as u64) * REHEARSE_NS);
        let me = std::rc::Rc::downgrade(&me);
        let work = async move {
            let said = runtime::offload(move || tried(&rehearsal, &window, latest), |_| cost).await;
            // A layer that is detached meanwhile is not kept.
            let Some(borg) = me.upgrade() else { return };
            if said.is_some_and(|said| borg.homing.judge(&said, divided)) {
                drop(borg.bring_home().await);
            }
            borg.homing.busy.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// Drains the pages that are dirty now.
    async fn bring_home(&self) -> Result<(), IoError> {
        self.end_draining_for_free();
        let Some(mover) = Mover::start(self, self.payer(), Throttle::Throttled).await? else { return Ok(()) };
        edge("all dirty pages are drained, since reads lose much by them");
        self.homing.drains.set(self.homing.drains.get() + 1);
        let mover = mover.with_its_share();
        mover.outgoing(&self.store.pages_where(|entry| entry.dirty)).await?;
        self.store.checkpoint(&mover.with_ticket()).await
    }
}

/// Plays the `latest` requests of a window with the log and without; `None` without a result.
fn tried(rehearsal: &Rehearsal, window: &Window, latest: u64) -> Option<Said> {
    let (_, latest) = window.split(window.requests().saturating_sub(latest));
    let price = i128::from(rehearsal.drain()?.0);
    let kept = Course::as_it_is(rehearsal.absorbs, rehearsal.drains);
    let [kept, home] = [kept, Course { log: LogFate::Drained, ..kept }]
        .map(|course| rehearsal.trial(course, None, &latest));
    let (kept, home): (Trial, Trial) = (kept?, home?);
    let dirty = rehearsal.fork.map().dirty().max(1) as i128;
    let overwritten = price * i128::from(kept.overwritten_pages) / dirty;
    Some(Said { lost: i128::from(kept.busy().0) - overwritten - i128::from(home.busy().0), price })
}
