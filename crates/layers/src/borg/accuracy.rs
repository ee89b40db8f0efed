//! How well the model predicts: the mean response time of the requests before a decision, as a rehearsal plays them
//! with what the layer holds, against what was measured.
//!
//! Invariant: if every prediction of a day missed by more than a quarter, rehearsals change nothing until one does not.

use std::cell::{Cell, RefCell};

use seekless_core::history::Checked;
use seekless_core::{Nanos, runtime};

/// The error of predictions that counts as a miss, in per cent.
const MISS_PERCENT: f64 = 25.0;
/// Time of nothing but misses after which rehearsals are off.
const DAY: Nanos = Nanos::from_millis(24 * 3_600_000);
/// Most marks; with more, every other one is dropped.
const MOST_MARKS: usize = 1_024;

/// See the file's header.
#[derive(Default)]
pub(super) struct Accuracy {
    /// Requests answered since the last decision, and the sum of their response times.
    answered: Cell<(u64, Nanos)>,
    /// The same at earlier times, each `stride` requests after the one before.
    marks: RefCell<Vec<(u64, Nanos)>>,
    /// 0 stands for 1.
    stride: Cell<u64>,
    last: Cell<Option<Checked>>,
    /// Since when all predictions missed.
    missing_since: Cell<Option<Nanos>>,
    off: Cell<bool>,
    /// Called when rehearsals go off.
    #[allow(clippy::type_complexity)] // a callback
    tell: RefCell<Option<Box<dyn Fn(&str)>>>,
}

impl Accuracy {
    /// A request was answered after `took`.
    pub fn answered(&self, took: Nanos) {
        let (count, sum) = self.answered.get();
        let now = (count + 1, sum + took);
        self.answered.set(now);
        if now.0 % self.stride.get().max(1) == 0 {
            let marks = &mut *self.marks.borrow_mut();
            marks.push(now);
            if marks.len() == MOST_MARKS {
                let stride = 2 * self.stride.get().max(1);
                self.stride.set(stride);
                marks.retain(|(count, _)| count % stride == 0);
            }
        }
    }

    /// Mean response time of about the last `requests` requests, of those since the last call; `None` if there were
    /// fewer.
    pub fn take(&self, requests: u64) -> Option<Nanos> {
        let (count, sum) = self.answered.take();
        let marks = self.marks.take();
        self.stride.set(0);
        let first = count.checked_sub(requests)?;
        let before = marks.iter().take_while(|(count, _)| *count <= first).last();
        let (count_before, sum_before) = before.copied().unwrap_or_default();
        Some(Nanos((sum.0 - sum_before.0) / (count - count_before).max(1)))
    }

    /// A prediction was compared with what was measured.
    pub fn check(&self, checked: Checked) {
        self.last.set(Some(checked));
        if checked.error_percent().abs() <= MISS_PERCENT {
            self.missing_since.set(None);
            self.off.set(false);
            return;
        }
        let now = runtime::now();
        let since = self.missing_since.get().unwrap_or(now);
        self.missing_since.set(Some(since));
        if now.since(since) >= DAY && !self.off.replace(true) {
            if let (Some(why), Some(tell)) = (self.trouble(), &*self.tell.borrow()) {
                tell(&why);
            }
        }
    }

    /// The last comparison.
    pub fn last(&self) -> Option<Checked> {
        self.last.get()
    }

    /// Whether rehearsals change nothing.
    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    /// Why they do not.
    pub fn trouble(&self) -> Option<String> {
        let checked = self.last.get().filter(|_| self.off.get())?;
        Some(format!(
            "rehearsals are off: for a day the model of the disk has been wrong by more than {MISS_PERCENT:.0} % \
             (a mean response of {:.2} ms, measured {:.2} ms); expected a component's model = \"...\" that is like it",
            checked.predicted.0 as f64 / 1e6,
            checked.measured.0 as f64 / 1e6
        ))
    }

    /// Has `tell` called when they go off.
    pub fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        self.tell.replace(Some(tell));
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use seekless_core::runtime::{Runtime, sleep};

    use super::*;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn the_mean_of_the_last_requests_is_measured() {
        let accuracy = Accuracy::default();
        (0..6_000).for_each(|_| accuracy.answered(ms(10)));
        (0..4_000).for_each(|_| accuracy.answered(ms(4)));
        let mean = accuracy.take(4_000).unwrap();
        assert!(mean >= ms(4) && mean.0 < 4_020_000, "{mean}");
        assert_eq!(accuracy.take(1), None, "taken");
        (0..10).for_each(|request| accuracy.answered(ms(request)));
        assert_eq!(accuracy.take(10), Some(Nanos(4_500_000)));
        (0..10).for_each(|request| accuracy.answered(ms(request)));
        assert_eq!(accuracy.take(11), None, "fewer than were asked for");
    }

    #[test]
    fn a_day_of_misses_turns_rehearsals_off_until_one_hits() {
        let run = async {
            let (accuracy, told) = (Accuracy::default(), Rc::<RefCell<Vec<String>>>::default());
            let list = told.clone();
            accuracy.on_trouble(Box::new(move |why| list.borrow_mut().push(why.to_owned())));
            let check = |predicted| accuracy.check(Checked { predicted: ms(predicted), measured: ms(100) });
            check(130);
            sleep(ms(12 * 3_600_000)).await;
            check(110);
            check(70);
            for _ in 0..3 {
                assert!(!accuracy.is_off() && accuracy.trouble().is_none());
                sleep(ms(8 * 3_600_000)).await;
                check(130);
            }
            assert!(accuracy.is_off());
            check(130);
            assert_eq!(told.borrow().len(), 1, "told once");
            assert_eq!(Some(told.borrow()[0].clone()), accuracy.trouble());
            check(124);
            assert!(!accuracy.is_off() && accuracy.trouble().is_none());
        };
        Runtime::new(1).run(run).unwrap();
    }
}
