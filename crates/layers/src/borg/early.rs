//! The early choice: whether writes are absorbed until the first reconfiguration.
//!
//! A layer that rehearses begins with everything off. Whether absorbing pays shows after few requests, needs no plan
//! and moves nothing. So it is rehearsed once there are enough requests to judge on, and again at each doubling of
//! their number, until the first reconfiguration, which judges it with all else.

use std::cell::Cell;

use seekless_core::{Nanos, runtime};

use super::Borg;
use super::budget::Budget;
use super::choice::Choice;
use super::course::Course;
use super::planning::{FEWEST_TO_JUDGE_ON, REHEARSE_NS};
use super::policy::Verdict;
use super::profiler::Window;
use super::rehearsal::{Known, Part, Rehearsal};

/// State of the early choice.
pub(super) struct Early {
    /// Profiled requests after which the next one is due.
    due_after: Cell<u64>,
    /// Whether one is being made.
    choosing: Cell<bool>,
}

impl Default for Early {
    fn default() -> Early {
        Early { due_after: Cell::new(FEWEST_TO_JUDGE_ON), choosing: Cell::default() }
    }
}

impl Borg {
    /// Starts an early choice, in the background, if one is due.
    pub(super) fn choose_early_if_due(&self) {
        let requests = self.learned.borrow().requests();
        let is_due = self.rehearses && requests >= self.early.due_after.get() && !self.early.choosing.get();
        if !is_due || !self.options.absorb || self.learned.borrow().plans() > 0 {
            return;
        }
        self.early.due_after.set(2 * requests);
        let Some(models) = self.models() else { return };
        let window = self.learned.borrow().window();
        let rehearsal = self.rehearsal(models, Verdict::Add);
        self.early.choosing.set(true);
        // A layer that is detached meanwhile is not kept.
        let me = self.me.clone();
        let work = async move {
            let cost = Nanos(window.requests() * REHEARSE_NS);
            let course = runtime::offload(move || choose(&rehearsal, &window), |_| cost).await;
            let Some(borg) = me.upgrade() else { return };
            // A reconfiguration that began meanwhile judges all of it.
            if let Some(course) = course.filter(|_| borg.learned.borrow().plans() == 0) {
                borg.writes.set(course.writes());
            }
            borg.early.choosing.set(false);
        };
        runtime::spawn(work).detach();
    }
}

/// The course without a plan that serves these requests best; `None` without a result.
fn choose(rehearsal: &Rehearsal, window: &Window) -> Option<Course> {
    let requests = window.requests();
    let (early, late) = window.split(requests / 2);
    let parts = [early, late].map(|later| Part { known: Known::default(), later });
    Choice::new(rehearsal, &parts, window, requests, Budget::default())?.choose_without_plan()
}
