//! How a trace is played, and on what.

pub use seekless_layers::replay::Pace;
use seekless_volume::Description;

use crate::error::LabError;

/// Reconfigurations of a run at most.
pub const MOST: u64 = 10_000;

/// A volume to be measured.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name in a comparison.
    pub name: String,
    /// What it is made of.
    pub volume: Description,
}

/// How a trace is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// When requests are issued.
    pub pace: Pace,
    /// How often layouts are reconfigured, after equal numbers of requests; a volume that says how often itself goes by
    /// that.
    pub reconfigure: u32,
    /// Whether the trace goes on meanwhile.
    pub clock: Clock,
    /// All random streams follow from it.
    pub seed: u64,
}

impl Default for Play {
    /// The defaults of `seekless lab compare`.
    fn default() -> Play {
        Play { pace: Pace::Closed { outstanding: 8 }, reconfigure: 4, clock: Clock::Run, seed: 1 }
    }
}

/// What the trace does while a reconfiguration runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Goes on.
    Run,
    /// Waits, as in some of the paper's figures.
    Stop,
}

/// How far long work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Which part of the work.
    pub what: &'a str,
    /// Requests done.
    pub done: u64,
    /// Of so many.
    pub of: u64,
}

impl Play {
    /// Checks what no type can hold.
    pub fn check(&self) -> Result<(), LabError> {
        let setting = |setting, found: String, expected: &str| {
            Err(LabError::Setting { setting, found, expected: expected.to_owned() })
        };
        match self.pace {
            Pace::Closed { outstanding: 0 } => setting("outstanding", "0".to_owned(), "at least 1"),
            Pace::Open { speed } if !(0.001..=1e6).contains(&speed) => {
                setting("speed", speed.to_string(), "0.001 to 1000000")
            }
            _ if u64::from(self.reconfigure) > MOST => {
                setting("reconfigure", self.reconfigure.to_string(), "at most 10000")
            }
            _ => Ok(()),
        }
    }
}
