//! Options of reading a trace, where a user knows better than the file.

use std::fmt;
use std::str::FromStr;

use crate::format::{Columns, Fixed, Format};

/// Options of reading a trace.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format of the files; `None`: detected.
    pub format: Option<&'static Format>,
    /// The columns of a text.
    pub columns: Option<Columns>,
    /// The fields of a binary record.
    pub record: Option<Fixed>,
    /// The unit of times, for formats that do not define it.
    pub time_unit: Option<TimeUnit>,
    /// Bytes per sector, for formats that do not define it: 512, 1024, 2048 or 4096.
    pub sector_bytes: Option<u64>,
    /// Whether malformed records are counted and skipped, rather than ending the trace.
    pub skip_bad: bool,
    /// Whether requests are held until they have completed, to get their latencies, where a format has completions
    /// apart.
    pub latencies: bool,
    /// The name of the only volume to read.
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
    /// All units.
    pub const ALL: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Milli, TimeUnit::Micro, TimeUnit::Nano];

    /// Length in nanoseconds.
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

/// The units that a format does not define, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenUnits {
    /// The unit of times.
    pub time: Option<TimeUnit>,
    /// Bytes per sector.
    pub sector: Option<u64>,
}

impl OpenUnits {
    /// All units are defined by the format.
    pub const NONE: OpenUnits = OpenUnits { time: None, sector: None };
}
