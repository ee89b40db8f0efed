//! Answered requests of a run, and the response times of each of its stretches.
//!
//! Those of a stretch are kept to two digits, since there may be thousands of stretches.

use hdrhistogram::Histogram;
use seekless_core::{Account, Extent, Nanos, Op};
use seekless_layers::replay::Tally;

use crate::workload::answers::Answers;

/// Answered requests.
#[derive(Debug, Default)]
pub struct PhasedAnswers {
    /// All of them.
    pub all: Answers,
    /// Response times, by account.
    each: Vec<RoughTimes>,
}

/// A distribution of response times, to two digits.
#[derive(Clone, Debug)]
pub struct RoughTimes {
    requests: u64,
    sum: Nanos,
    spread: Histogram<u32>,
}

impl Default for RoughTimes {
    fn default() -> RoughTimes {
        let spread = Histogram::new(2).expect("two digits are within 0 to 5");
        RoughTimes { requests: 0, sum: Nanos::ZERO, spread }
    }
}

impl RoughTimes {
    /// Adds a response time.
    pub fn add(&mut self, took: Nanos) {
        (self.requests, self.sum) = (self.requests + 1, self.sum + took);
        // The histogram grows as needed, so this cannot fail.
        let _ = self.spread.record(took.0);
    }

    /// Adds those of another stretch.
    pub fn add_all(&mut self, other: &RoughTimes) {
        (self.requests, self.sum) = (self.requests + other.requests, self.sum + other.sum);
        let _ = self.spread.add(&other.spread);
    }

    /// Their sum, in seconds.
    pub fn total_s(&self) -> f64 {
        self.sum.seconds()
    }

    /// Mean, in milliseconds; zero if there are none.
    pub fn mean_ms(&self) -> f64 {
        self.sum.seconds() * 1e3 / self.requests.max(1) as f64
    }

    /// 99th percentile, in milliseconds; zero if there are none.
    pub fn p99_ms(&self) -> f64 {
        self.spread.value_at_quantile(0.99) as f64 / 1e6
    }
}

impl PhasedAnswers {
    /// Response times of the requests that an account paid for; `None` if there are none.
    pub fn of(&self, account: Account) -> Option<&RoughTimes> {
        self.each.get(usize::from(account.0))
    }
}

impl Tally for PhasedAnswers {
    fn answered(&mut self, account: Account, op: Op, at: Extent, took: Nanos) {
        let index = usize::from(account.0);
        if index >= self.each.len() {
            self.each.resize_with(index + 1, RoughTimes::default);
        }
        self.each[index].add(took);
        self.all.add(op, at, took);
    }

    fn failed(&mut self) {
        self.all.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_its_own_times() {
        let mut answers = PhasedAnswers::default();
        let ms = Nanos::from_millis;
        for took in 1..=100 {
            answers.answered(Account(2), Op::Read, Extent::new(0, 8), ms(took));
        }
        answers.answered(Account(0), Op::Write, Extent::new(0, 8), ms(7));
        assert_eq!(answers.all.requests(), 101);
        let mut times = answers.of(Account(2)).unwrap().clone();
        assert!((times.mean_ms() - 50.5).abs() < 1e-9);
        assert!((times.p99_ms() - 99.0).abs() < 1.0, "{}", times.p99_ms());
        assert!(answers.of(Account(1)).unwrap().mean_ms() < 1e-9);
        times.add_all(answers.of(Account(0)).unwrap());
        assert!((times.mean_ms() - 5057.0 / 101.0).abs() < 1e-9);
        assert!(answers.of(Account(3)).is_none());
    }
}
