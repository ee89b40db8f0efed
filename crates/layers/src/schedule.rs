//! When layers are reconfigured: periodically, after equal numbers of a run's requests, in pauses of the clients, or
//! when the layer finds that another decision may pay.

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, IoError, Layer, Nanos, Readiness, Reconfigured};

/// A pause of the clients in which a layer may be reconfigured.
pub const PAUSE: Nanos = Nanos::from_millis(10_000);
/// After fewer requests a pause is not used.
const FEWEST: u64 = 1_000;
/// How often a layer is asked whether it should be reconfigured.
const INTERVAL: Nanos = Nanos::from_millis(1_000);

/// When layers are reconfigured during a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// This number of times, after equal numbers of requests of a run whose length is known.
    Times(u32),
    /// After this interval, from one start to the next; in a run of known length with the first request after it.
    Every(Nanos),
    /// In a pause of the clients, once enough was learnt.
    Idle,
    /// When the layer finds that enough has changed ([`Readiness::pays`]).
    WhenItPays,
    /// By a command only.
    OnCommand,
}

/// The shortest interval of a schedule.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// What a schedule may be.
pub const SCHEDULES: &str =
    "\"when it pays\", \"idle\", \"every 42h\" (1ms at least), \"4 times\" or the like, or \"on command\"";

impl FromStr for Schedule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Schedule, &'static str> {
        let times = |text: &str| text.strip_suffix(" times")?.parse().ok();
        let every = |text: &str| text.strip_prefix("every ")?.parse().ok().filter(|time| *time >= SHORTEST);
        match text {
            "when it pays" => Ok(Schedule::WhenItPays),
            "idle" => Ok(Schedule::Idle),
            "on command" => Ok(Schedule::OnCommand),
            "1 time" => Ok(Schedule::Times(1)),
            _ => {
                times(text).map(Schedule::Times).or_else(|| every(text).map(Schedule::Every)).ok_or(SCHEDULES)
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Times(1) => f.write_str("1 time"),
            Schedule::Times(times) => write!(f, "{times} times"),
            Schedule::Every(interval) => write!(f, "every {interval}"),
            Schedule::Idle => f.write_str("idle"),
            Schedule::WhenItPays => f.write_str("when it pays"),
            Schedule::OnCommand => f.write_str("on command"),
        }
    }
}

impl Schedule {
    /// Whether it says so now, if the layer is asked from time to time.
    fn is_due(self, layer: &Readiness) -> bool {
        match self {
            Schedule::WhenItPays => layer.pays,
            Schedule::Idle => layer.requests >= FEWEST && runtime::now().since(layer.last_request) >= PAUSE,
            Schedule::Times(_) | Schedule::Every(_) | Schedule::OnCommand => false,
        }
    }

    /// Waits until a layer should be reconfigured that was last at `last_start`, or opened then; false if it is gone,
    /// if the schedule needs a run of known length, or leaves it to commands. `readiness` is asked from time to time;
    /// `None` if the layer is gone.
    pub async fn due(self, last_start: Nanos, readiness: impl Fn() -> Option<Readiness>) -> bool {
        match self {
            Schedule::Times(_) | Schedule::OnCommand => false,
            Schedule::Every(interval) => {
                runtime::sleep_until(last_start + interval).await;
                readiness().is_some()
            }
            Schedule::Idle | Schedule::WhenItPays => loop {
                runtime::sleep(INTERVAL).await;
                match readiness() {
                    None => return false,
                    Some(layer) if self.is_due(&layer) => return true,
                    Some(_) => {}
                }
            },
        }
    }
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
    /// `layers` are asked if the schedule depends on them.
    pub fn start(&mut self, index: u64, layers: &[impl AsRef<dyn Layer>]) -> Option<u64> {
        let is_due = match self.schedule {
            Schedule::Times(times) => {
                let times = u64::from(times);
                self.started < times && index >= self.requests * (self.started + 1) / (times + 1)
            }
            Schedule::Every(interval) => runtime::now().since(self.last_start) >= interval,
            Schedule::OnCommand => false,
            Schedule::Idle | Schedule::WhenItPays => {
                layers.iter().any(|layer| self.schedule.is_due(&layer.as_ref().readiness()))
            }
        };
        if !is_due || self.started == self.most {
            return None;
        }
        (self.started, self.last_start) = (self.started + 1, runtime::now());
        Some(self.started)
    }

    /// Whether pauses of the clients start reconfigurations.
    pub fn uses_pauses(&self) -> bool {
        self.schedule == Schedule::Idle
    }

    /// Reconfigurations started.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Reconfigurations of the schedule that were not started, at the end of the run.
    pub fn missed(&self) -> u64 {
        match self.schedule {
            Schedule::Times(times) => u64::from(times) - self.started,
            _ => 0,
        }
    }
}

/// Reconfigures `layer` each time its schedule says so, for as long as the task is kept or detached. `report` gets
/// every result, errors too.
pub fn reconfigure_when(
    layer: Rc<dyn Layer>,
    schedule: Schedule,
    report: impl Fn(Result<Option<Reconfigured>, IoError>) + 'static,
) -> Task<()> {
    runtime::spawn(async move {
        let mut start = runtime::now();
        while schedule.due(start, || Some(layer.readiness())).await {
            start = runtime::now();
            report(layer.reconfigure(Account::default()).await);
        }
    })
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;

    use super::*;

    const NOTHING: &[Rc<dyn Layer>] = &[];

    /// Requests before which a reconfiguration starts: one request a second, and reconfigurations that take no time.
    fn starts(schedule: Schedule, requests: u64, most: u64) -> (Vec<u64>, u64) {
        let run = async move {
            let mut trigger = Trigger::new(schedule, requests, most);
            let mut starts = Vec::new();
            for index in 0..requests {
                if let Some(number) = trigger.start(index, NOTHING) {
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

    #[test]
    fn an_interval_is_from_start_to_start_and_none_is_made_up_for() {
        let run = async {
            let (mut start, mut starts) = (Nanos::ZERO, Vec::new());
            let schedule = Schedule::Every(Nanos::from_millis(10_000));
            for takes in [4_000, 25_000, 0] {
                assert!(schedule.due(start, || Some(Readiness::default())).await);
                start = runtime::now();
                starts.push(start.0 / 1_000_000_000);
                runtime::sleep(Nanos::from_millis(takes)).await;
            }
            starts
        };
        assert_eq!(Runtime::new(1).run(run).unwrap(), [10, 20, 45]);
    }

    #[test]
    fn schedules_are_written_as_they_are_read() {
        for text in ["when it pays", "idle", "every 42h", "every 90s", "4 times", "1 time"] {
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule.to_string().parse(), Ok(schedule), "{text}");
        }
        for text in ["", "times", "-1 times", "4", "every", "every 0s", "every day", "when it pays off"] {
            assert_eq!(text.parse::<Schedule>(), Err(SCHEDULES), "{text}");
        }
    }
}
