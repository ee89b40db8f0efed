//! How to play a trace, and on which volume.

use seekless_core::ProcessId;
pub use seekless_layers::replay::Pace;
use seekless_trace::Trace;
use seekless_volume::Description;

use crate::error::LabError;

/// Limit of reconfigurations in a run.
pub const MOST: u64 = 10_000;

/// A volume to measure.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name in a comparison.
    pub name: String,
    /// Its description.
    pub volume: Description,
}

/// How to play a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// When to issue requests.
    pub pace: Pace,
    /// Number of reconfigurations, after equal numbers of requests; a volume's own interval overrides it.
    pub reconfigure: u32,
    /// Whether the trace goes on during a reconfiguration.
    pub clock: Clock,
    /// Seed of all random streams.
    pub seed: u64,
    /// Whether a comparison also finds what BORG could reach at most ([`crate::bounds`]).
    pub bounds: bool,
    /// Whether a comparison also keeps what the drives did ([`crate::accesses`]).
    pub accesses: bool,
}

/// Limit of outstanding requests by default.
pub const OUTSTANDING: u32 = 8;

impl Default for Play {
    /// The defaults of `seekless lab compare`.
    fn default() -> Play {
        Play {
            pace: Pace::Closed { outstanding: OUTSTANDING as usize },
            reconfigure: 8,
            clock: Clock::Run,
            seed: 1,
            bounds: false,
            accesses: false,
        }
    }
}

/// Behaviour of the trace during a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// It goes on.
    Run,
    /// It waits, as in some of the paper's figures.
    Stop,
}

/// Progress of long work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Current step.
    pub what: &'a str,
    /// Requests done.
    pub done: u64,
    /// Requests in all.
    pub of: u64,
}

/// Whether a recording names processes.
pub fn has_processes(trace: &Trace) -> bool {
    trace.records.iter().any(|record| record.origin.process != ProcessId::default())
}

/// The pace at which a recording is played where this one is asked for: the closed one has no process to wait for in a
/// recording that names none, and becomes the queued one.
pub fn pace_of(trace: &Trace, asked: Pace) -> Pace {
    match asked {
        Pace::Closed { outstanding } if !has_processes(trace) => Pace::Queued { outstanding },
        other => other,
    }
}

impl Play {
    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), LabError> {
        let setting = |setting, found: String, expected: &str| {
            Err(LabError::Setting { setting, found, expected: expected.to_owned() })
        };
        match self.pace {
            Pace::Closed { outstanding: 0 } | Pace::Queued { outstanding: 0 } => {
                setting("outstanding", "0".to_owned(), "at least 1")
            }
            Pace::Open { speed } | Pace::Accelerated { speed } if !(0.001..=1e6).contains(&speed) => {
                setting("speed", speed.to_string(), "0.001 to 1000000")
            }
            _ if u64::from(self.reconfigure) > MOST => {
                setting("reconfigure", self.reconfigure.to_string(), "at most 10000")
            }
            _ => Ok(()),
        }
    }
}
