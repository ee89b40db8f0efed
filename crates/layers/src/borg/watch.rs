//! When another decision pays: after enough requests, and sooner if the layout serves them worse than at first: with
//! fewer hits or sequential requests, or with more of them divided.
//!
//! Each decision to leave all as it is doubles the requests until the next one: that is judged on more of them, and a
//! workload that cannot win is tried less and less. A course that was carried out brings that number back.
//!
//! Decisions take one per cent of a processor's time at most, on average: after one the next waits a hundred times as
//! long as it took to plan and to rehearse.

use seekless_core::{LayerTraffic, Nanos};

/// Requests after which a decision may pay.
const USUAL: u64 = 20_000;
/// The most, after decisions that changed nothing.
const MOST: u64 = 8 * USUAL;
/// Time from a decision to the next one, in times of what it took to choose.
const REST: u64 = 100;
/// Requests over which shares are measured.
const WINDOW: u64 = 5_000;

/// Requests and how they were served, since the last decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    requests: u64,
    /// Requests after which the next decision is due.
    due_after: u64,
    /// Traffic up to the current window.
    before: LayerTraffic,
    /// Shares in the first window.
    first: Option<Shares>,
    /// Whether those of a later window were much worse.
    fell: bool,
    /// No decision is due before this time.
    rests_until: Nanos,
}

/// How requests were served, in per cent.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// Pages from copies.
    hits: u64,
    /// Requests below that went on where the one before ended.
    sequential: u64,
    /// Requests that were divided among copies and origin.
    split: u64,
}

impl Default for Watch {
    fn default() -> Watch {
        let before = LayerTraffic::default();
        let (first, fell, rests_until) = Default::default();
        Watch { requests: 0, due_after: USUAL, before, first, fell, rests_until }
    }
}

impl Watch {
    /// A request; `counted` returns the traffic so far.
    pub fn request(&mut self, counted: impl FnOnce() -> LayerTraffic) {
        self.requests += 1;
        if self.requests % WINDOW != 0 {
            return;
        }
        let now = counted();
        let shares = Shares::between(&self.before, &now);
        self.before = now;
        match self.first {
            None => self.first = Some(shares),
            Some(first) => self.fell |= shares.is_much_worse_than(first),
        }
    }

    /// A decision was made at `now`, which took `took` to choose; `changed` if it changed something.
    pub fn decided(&mut self, changed: bool, now: Nanos, took: Nanos) {
        let due_after = if changed { USUAL } else { (2 * self.due_after).min(MOST) };
        let rests_until = Nanos(now.0.saturating_add(took.0.saturating_mul(REST)));
        *self = Watch { due_after, before: self.before, rests_until, ..Watch::default() };
    }

    /// Requests since the last decision, and after how many the next one is due.
    pub fn state(&self) -> (u64, u64) {
        (self.requests, self.due_after)
    }

    /// After a restart: as in this state.
    pub fn resumed(self, (requests, due_after): (u64, u64)) -> Watch {
        Watch { requests, due_after: due_after.clamp(USUAL, MOST), ..self }
    }

    /// Requests since the last decision.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Reason for a decision now, in words.
    pub fn why(&self) -> String {
        let requests = self.requests;
        if self.fell {
            format!("fewer hits, or more seeks or divided requests than before, after {requests} requests")
        } else if self.requests >= self.due_after {
            format!("{requests} requests since the last decision")
        } else {
            format!("a command or the schedule, after {requests} requests")
        }
    }

    /// Whether another decision may pay at `now`.
    pub fn pays(&self, now: Nanos) -> bool {
        now >= self.rests_until && (self.requests >= self.due_after || self.fell)
    }
}

impl Shares {
    fn between(before: &LayerTraffic, now: &LayerTraffic) -> Shares {
        let percent = |part: u64, whole: u64| 100 * part / whole.max(1);
        let below = now.below.requests - before.below.requests;
        Shares {
            hits: percent(now.hits - before.hits, now.pages - before.pages),
            sequential: percent(below.saturating_sub(now.below.seeks - before.below.seeks), below),
            split: percent(now.splits - before.splits, now.above.requests - before.above.requests),
        }
    }

    /// Whether a share that mattered fell by more than a quarter, or a tenth more of the requests is divided.
    fn is_much_worse_than(self, first: Shares) -> bool {
        let fell = |now: u64, then: u64| then >= 20 && 4 * now < 3 * then;
        let rose = self.split >= first.split + 10;
        rose || fell(self.hits, first.hits) || fell(self.sequential, first.sequential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of one page each, of which these parts of ten are hits, until a decision pays: how many.
    fn until_due(watch: &mut Watch, traffic: &mut LayerTraffic, hits: impl Fn(u64) -> u64) -> u64 {
        for number in 0.. {
            if watch.pays(Nanos::ZERO) {
                return number;
            }
            traffic.pages += 1;
            traffic.hits += u64::from(number % 10 < hits(number));
            watch.request(|| *traffic);
        }
        unreachable!()
    }

    #[test]
    fn decisions_that_change_nothing_become_rare() {
        let (mut watch, mut traffic) = (Watch::default(), LayerTraffic::default());
        let mut due = Vec::new();
        for _ in 0..6 {
            due.push(until_due(&mut watch, &mut traffic, |_| 0));
            watch.decided(false, Nanos::ZERO, Nanos::ZERO);
        }
        assert_eq!(due, [20_000, 40_000, 80_000, 160_000, 160_000, 160_000]);
        watch.decided(true, Nanos::ZERO, Nanos::ZERO);
        assert_eq!(until_due(&mut watch, &mut traffic, |_| 0), 20_000);
    }

    #[test]
    fn a_falling_share_of_hits_is_noticed() {
        let (mut watch, mut traffic) = (Watch::default(), LayerTraffic::default());
        assert_eq!(until_due(&mut watch, &mut traffic, |_| 8), 20_000);
        watch.decided(true, Nanos::ZERO, Nanos::ZERO);
        let falls = |number| if number < 10_000 { 8 } else { 5 };
        assert_eq!(until_due(&mut watch, &mut traffic, falls), 15_000);
        watch.decided(true, Nanos::ZERO, Nanos::ZERO);
        let wavers = |number| if number < 10_000 { 8 } else { 7 };
        assert_eq!(until_due(&mut watch, &mut traffic, wavers), 20_000);
        watch.decided(true, Nanos::ZERO, Nanos::ZERO);
        let hardly_any = |number| u64::from(number < 10_000);
        assert_eq!(until_due(&mut watch, &mut traffic, hardly_any), 20_000, "a tenth did not matter");
    }

    #[test]
    fn a_rising_share_of_divided_requests_is_noticed() {
        let (mut watch, mut traffic) = (Watch::default(), LayerTraffic::default());
        let mut serve = |divided: u64| {
            for request in 0..WINDOW {
                traffic.above.requests += 1;
                traffic.splits += u64::from(request % 100 < divided);
                watch.request(|| traffic);
            }
            watch.pays(Nanos::ZERO)
        };
        assert!(!serve(5) && !serve(14) && serve(15));
    }

    #[test]
    fn a_decision_that_took_long_is_followed_by_a_rest() {
        let (mut watch, mut traffic) = (Watch::default(), LayerTraffic::default());
        let ms = Nanos::from_millis;
        watch.decided(true, ms(5_000), ms(700));
        for _ in 0..USUAL {
            traffic.pages += 1;
            watch.request(|| traffic);
        }
        assert!(!watch.pays(ms(74_999)) && watch.pays(ms(75_000)));
    }
}
