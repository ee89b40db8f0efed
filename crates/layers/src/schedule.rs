//! When layers are reconfigured: periodically, or after equal numbers of a run's requests.

use std::rc::Rc;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, IoError, Layer, Nanos, Reconfigured};

/// When layers are reconfigured during a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// This number of times, after equal numbers of requests.
    Times(u32),
    /// With the first request after this interval, from the start of the last reconfiguration.
    Every(Nanos),
}

/// The reconfigurations of a run of known length, which asks before each of its requests.
#[derive(Debug)]
pub struct Trigger {
    schedule: Schedule,
    /// Requests of the run.
    requests: u64,
    /// Reconfigurations at most.
    most: u64,
    /// Reconfigurations started.
    started: u64,
    /// When the last one was, or the run.
    last_start: Nanos,
}

impl Trigger {
    /// For a run of `requests` requests that starts now; no more than `most` reconfigurations.
    pub fn new(schedule: Schedule, requests: u64, most: u64) -> Trigger {
        Trigger { schedule, requests, most, started: 0, last_start: runtime::now() }
    }

    /// Starts the next reconfiguration if it is due before request `index`, counted from 0: its number, from 1.
    pub fn start(&mut self, index: u64) -> Option<u64> {
        let is_due = match self.schedule {
            Schedule::Times(times) => {
                let times = u64::from(times);
                self.started < times && index >= self.requests * (self.started + 1) / (times + 1)
            }
            Schedule::Every(interval) => runtime::now().since(self.last_start) >= interval,
        };
        if !is_due || self.started == self.most {
            return None;
        }
        (self.started, self.last_start) = (self.started + 1, runtime::now());
        Some(self.started)
    }

    /// Reconfigurations started.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Reconfigurations of the schedule that were not started, at the end of the run.
    pub fn missed(&self) -> u64 {
        match self.schedule {
            Schedule::Times(times) => u64::from(times) - self.started,
            Schedule::Every(_) => 0,
        }
    }
}

/// Reconfigures `layer` each time `interval` has passed since the last reconfiguration ended, for as long as the task
/// is kept or detached. `report` gets every result, errors too.
pub fn reconfigure_every(
    layer: Rc<dyn Layer>,
    interval: Nanos,
    report: impl Fn(Result<Option<Reconfigured>, IoError>) + 'static,
) -> Task<()> {
    runtime::spawn(async move {
        loop {
            runtime::sleep(interval).await;
            report(layer.reconfigure(Account::default()).await);
        }
    })
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;

    use super::*;

    /// Requests before which a reconfiguration starts: one request a second, and reconfigurations that take no time.
    fn starts(schedule: Schedule, requests: u64, most: u64) -> (Vec<u64>, u64) {
        let run = async move {
            let mut trigger = Trigger::new(schedule, requests, most);
            let mut starts = Vec::new();
            for index in 0..requests {
                if let Some(number) = trigger.start(index) {
                    starts.push(index);
                    assert_eq!((number, trigger.started()), (starts.len() as u64, starts.len() as u64));
                }
                runtime::sleep(Nanos::from_millis(1_000)).await;
            }
            (starts, trigger.missed())
        };
        Runtime::new(1).run(run).unwrap()
    }

    #[test]
    fn reconfigurations_divide_a_run_evenly_or_come_after_intervals() {
        assert_eq!(starts(Schedule::Times(3), 100, 10), (vec![25, 50, 75], 0));
        assert_eq!(starts(Schedule::Times(0), 100, 10), (vec![], 0));
        assert_eq!(starts(Schedule::Every(Nanos::from_millis(30_500)), 100, 10), (vec![31, 62, 93], 0));
        assert_eq!(starts(Schedule::Every(Nanos::from_millis(1_000)), 100, 2), (vec![1, 2], 0));
        let many = starts(Schedule::Times(5), 3, 10);
        assert_eq!(many, (vec![0, 1, 2], 2), "one at most before each request");
    }
}
