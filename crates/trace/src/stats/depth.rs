//! Latencies and queue depth, where the trace has them.
//!
//! A request is in flight from its arrival to its completion. Requests of unknown latency are left out, and the share
//! of known ones is given.
//!
//! Bound: at most [`MOST`] in flight are followed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use seekless_core::{Buckets, Record};
use serde::{Deserialize, Serialize};

use super::buckets::{Doubling, counted, doublings, plain};
use super::percent;

/// A bound for hostile latencies.
const MOST: usize = 1 << 20;

/// Latencies, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Latencies {
    /// Requests of known latency, in per cent of all.
    pub known_pct: f64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub median_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
    /// Histogram; `up_to` in microseconds.
    pub histogram: Vec<Doubling>,
}

/// Number of requests in flight.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct QueueDepth {
    /// Mean over the time of the trace.
    pub mean: f64,
    /// Mean over the busy time.
    pub mean_busy: f64,
    /// Maximum.
    pub max: u64,
    /// Busy share of the trace's time, in per cent.
    pub busy_pct: f64,
    /// Shares of the busy time by depth; each class above the one before.
    pub shares: Vec<DepthShare>,
}

/// A class of queue depths.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct DepthShare {
    /// Largest depth.
    pub up_to: u64,
    /// Share of the busy time, in per cent.
    pub share_pct: f64,
}

/// Follows requests to their completions. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Depth {
    #[serde(deserialize_with = "counted::one")]
    requests: u64,
    #[serde(with = "plain")]
    took: Buckets,
    sum: u128,
    longest: u64,
    /// Completion times of the requests in flight.
    #[serde(skip)]
    answers: BinaryHeap<Reverse<u64>>,
    now: u64,
    /// Time at each depth, up to powers of two.
    at: [u64; 24],
    /// Requests times time.
    area: u128,
    #[serde(deserialize_with = "counted::one")]
    max: u64,
}

impl Default for Depth {
    fn default() -> Depth {
        Depth {
            requests: 0,
            took: Buckets::new(8),
            sum: 0,
            longest: 0,
            answers: BinaryHeap::new(),
            now: 0,
            at: [0; 24],
            area: 0,
            max: 0,
        }
    }
}

impl Depth {
    /// Adds the next request.
    pub fn follow(&mut self, record: &Record) {
        self.requests += 1;
        let Some(latency) = record.latency.known() else { return };
        self.took.add(latency.0, 1);
        self.sum += u128::from(latency.0);
        self.longest = self.longest.max(latency.0);
        self.pass(record.time.0);
        if self.answers.len() < MOST {
            self.answers.push(Reverse(record.time.0.saturating_add(latency.0)));
            self.max = self.max.max(self.answers.len() as u64);
        }
    }

    /// Advances the time to `to`.
    fn pass(&mut self, to: u64) {
        while let Some(&Reverse(answer)) = self.answers.peek() {
            if answer > to {
                break;
            }
            self.spend(answer);
            self.answers.pop();
        }
        self.spend(to);
    }

    fn spend(&mut self, until: u64) {
        let (time, depth) = (until.saturating_sub(self.now), self.answers.len() as u64);
        if depth > 0 {
            let class = depth.next_power_of_two().ilog2() as usize;
            self.at[class.min(self.at.len() - 1)] += time;
            self.area += u128::from(time) * u128::from(depth);
        }
        self.now = self.now.max(until);
    }

    /// Latencies; `None` if none is known.
    pub fn latencies(&self) -> Option<Latencies> {
        let known = self.took.total();
        let us = |share| self.took.quantile(share) as f64 / 1e3;
        (known > 0).then(|| Latencies {
            known_pct: percent(known, self.requests),
            mean_us: self.sum as f64 / known as f64 / 1e3,
            median_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            max_us: self.longest as f64 / 1e3,
            histogram: doublings(&self.took, 1e3),
        })
    }

    /// As if requests came before, at `now` at the latest, whose completion times these are.
    pub fn resume(now: u64, answers: &[u64]) -> Depth {
        Depth { now, answers: answers.iter().copied().map(Reverse).collect(), ..Depth::default() }
    }

    /// The time of the last request of known latency, and the completion times of those in flight then.
    /// `None` if no latency is known.
    pub fn in_flight(&self) -> Option<(u64, Vec<u64>)> {
        let mut answers: Vec<u64> = self.answers.iter().map(|answer| answer.0).collect();
        answers.sort_unstable();
        (self.took.total() > 0).then_some((self.now, answers))
    }

    /// Adds the requests that follow, which were counted as if they resumed these.
    pub fn merge(&mut self, next: &Depth) {
        self.requests += next.requests;
        self.took.merge(&next.took);
        self.sum = self.sum.saturating_add(next.sum);
        self.longest = self.longest.max(next.longest);
        self.now = self.now.max(next.now);
        self.at.iter_mut().zip(next.at).for_each(|(here, time)| *here = here.saturating_add(time));
        self.area = self.area.saturating_add(next.area);
        self.max = self.max.max(next.max);
    }

    /// Queue depth; `None` if no latency is known.
    pub fn queue(&mut self) -> Option<QueueDepth> {
        self.settle();
        if self.took.total() == 0 {
            return None;
        }
        let busy = self.at.iter().fold(0, |sum: u64, &time| sum.saturating_add(time));
        let over = |time: u64| if time == 0 { 0.0 } else { self.area as f64 / time as f64 };
        let used = self.at.iter().rposition(|&time| time > 0).map_or(0, |last| last + 1);
        let share =
            |(class, &time): (usize, &u64)| DepthShare { up_to: 1 << class, share_pct: percent(time, busy) };
        Some(QueueDepth {
            mean: over(self.now),
            mean_busy: over(busy),
            max: self.max,
            busy_pct: percent(busy, self.now),
            shares: self.at[..used].iter().enumerate().map(share).collect(),
        })
    }

    /// Waits for all requests in flight, at the end of the trace.
    pub fn settle(&mut self) {
        while let Some(Reverse(answer)) = self.answers.pop() {
            // The request that is completed was in flight until now.
            self.answers.push(Reverse(answer));
            self.spend(answer);
            self.answers.pop();
        }
    }
}
