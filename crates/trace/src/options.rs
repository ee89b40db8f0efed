//! How a trace is to be read, where a person knows better than the file.

use std::fmt;
use std::str::FromStr;

use crate::format::{Columns, Format};

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format of the files; `None`: what their content says.
    pub format: Option<&'static Format>,
    /// What the columns of a text are, as `blkparse -f` was told to write them.
    pub columns: Option<Columns>,
    /// The unit of times, for formats that leave it open.
    pub time_unit: Option<TimeUnit>,
    /// Bytes in a sector, for formats that leave it open: 512, 1024, 2048 or 4096.
    pub sector_bytes: Option<u64>,
    /// Whether records that make no sense are counted and passed over, rather than ending the trace.
    pub skip_bad: bool,
    /// Whether requests are held back until they have completed, to know how long they took, where
    /// a format notes completions apart.
    pub latencies: bool,
    /// The name of the only volume of interest.
    pub volume: Option<String>,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Milli,
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

impl TimeUnit {
    /// All of them.
    pub const ALL: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Milli, TimeUnit::Micro, TimeUnit::Nano];

    /// Its length in nanoseconds.
    pub fn nanos(self) -> u64 {
        match self {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Milli => 1_000_000,
            TimeUnit::Micro => 1_000,
            TimeUnit::Nano => 1,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeUnit::Second => "s",
            TimeUnit::Milli => "ms",
            TimeUnit::Micro => "us",
            TimeUnit::Nano => "ns",
        })
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeUnit, String> {
        let known = TimeUnit::ALL.into_iter().find(|unit| unit.to_string() == text);
        known.ok_or_else(|| format!("found '{text}', expected s, ms, us or ns"))
    }
}

/// What a format does not say of its own units, with what is taken if nobody else says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeavesOpen {
    /// The unit of its times.
    pub time: Option<TimeUnit>,
    /// How many bytes a sector has.
    pub sector: Option<u64>,
}

impl LeavesOpen {
    /// All its units are its own.
    pub const NOTHING: LeavesOpen = LeavesOpen { time: None, sector: None };
}
