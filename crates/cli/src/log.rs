//! Messages of a program that runs for long: plain, with time and level, or as a service manager's journal reads them.

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use seekless_volume::live::Level;

use crate::output::complain;

/// How messages look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The message alone
    Plain,
    /// UTC time, level and message
    Times,
    /// With a level that a systemd journal understands
    Journal,
}

static FORMAT: OnceLock<Format> = OnceLock::new();

/// Chooses how messages look from now on; by default as stderr suggests.
pub fn choose(format: Option<Format>) {
    let _ = FORMAT.set(format.unwrap_or_else(suggested));
}

/// For the journal if stderr is connected to it; plain for a terminal; with times for a file or pipe.
fn suggested() -> Format {
    let stderr = std::fs::metadata("/proc/self/fd/2").map(|found| (found.dev(), found.ino()));
    let journal = std::env::var("JOURNAL_STREAM").ok().and_then(|text| {
        let (device, inode) = text.split_once(':')?;
        Some((device.parse().ok()?, inode.parse().ok()?))
    });
    match stderr {
        Ok(stderr) if journal == Some(stderr) => Format::Journal,
        _ if io::stderr().is_terminal() => Format::Plain,
        _ => Format::Times,
    }
}

/// Prints a message.
pub fn log(level: Level, line: &str) {
    let (number, name) = match level {
        Level::Info => (6, "info"),
        Level::Warning => (4, "warning"),
        Level::Error => (3, "error"),
    };
    match FORMAT.get() {
        None | Some(Format::Plain) => complain(line),
        Some(Format::Journal) => complain(&format!("<{number}>{line}")),
        Some(Format::Times) => {
            let named = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
            let line = named.filter(|_| level != Level::Info).unwrap_or(line);
            complain(&format!("{} {name}: {line}", time()));
        }
    }
}

/// The time now, in UTC as RFC 3339 has it.
fn time() -> String {
    // For people who read messages; nothing depends on it.
    #[allow(clippy::disallowed_methods)]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the Gregorian calendar, given days since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        // From `date -u -d @$((DAYS * 86400)) +%F`.
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_782, (2026, 11, 25)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
