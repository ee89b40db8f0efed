//! The options of one workload as typed by the user, parsed with their units.
//!
//! A default is the text of the table that `--workloads` prints, parsed as if it had been typed: so the help cannot
//! differ from the behaviour. Faults: any text; an error names the workload, the key, what was found and what was
//! expected.

use std::fmt;
use std::ops::RangeInclusive;

use seekless_core::names::perhaps;
use seekless_core::{Nanos, SECTOR_BYTES, Size};

use seekless_volume::duration;

use super::Entry;

/// An invalid description of a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct WorkloadError {
    /// The workload, and the key.
    pub place: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl WorkloadError {
    /// An error at `place`.
    pub fn new(place: impl Into<String>, found: impl fmt::Display, expected: impl Into<String>) -> Self {
        WorkloadError { place: place.into(), found: found.to_string(), expected: expected.into() }
    }
}

/// A fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Numerator.
    pub part: u64,
    /// Denominator, at least 1.
    pub whole: u64,
}

/// The given options, and the table that describes them.
pub struct Keys {
    entry: &'static Entry,
    given: Vec<(String, String)>,
}

impl Keys {
    /// Parses `key=value,...`.
    pub fn parse(entry: &'static Entry, text: &str) -> Result<Keys, WorkloadError> {
        let mut keys = Keys { entry, given: Vec::new() };
        let own = entry.options.iter().map(|option| option.key);
        let all: Vec<&str> = own.chain(super::WINDOW.iter().map(|option| option.key)).collect();
        let known = || all.join(", ");
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            let place = format!("workload {}", entry.name);
            let Some((key, value)) = item.split_once('=') else {
                return Err(WorkloadError::new(
                    place,
                    quoted(item),
                    format!("key=value with a key of: {}", known()),
                ));
            };
            let key = key.trim();
            if keys.table(key).is_none() {
                let expected = known() + &perhaps(key, all.iter().copied());
                return Err(WorkloadError::new(place, format!("the key {}", quoted(key)), expected));
            }
            if keys.given(key) {
                return Err(WorkloadError::new(keys.place(key), "it twice", "it once"));
            }
            keys.given.push((key.to_owned(), value.trim().to_owned()));
        }
        Ok(keys)
    }

    /// Whether a key was given.
    pub fn given(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| given == key)
    }

    /// A size of whole sectors, in sectors; the range is in bytes.
    pub fn sectors(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, WorkloadError> {
        let expected =
            || format!("{} to {}, in whole sectors of 512 bytes", Size(*range.start()), Size(*range.end()));
        let bytes = self.bytes(key, range.clone()).map_err(|_| self.error(key, expected()))?;
        if bytes % SECTOR_BYTES == 0 { Ok(bytes / SECTOR_BYTES) } else { Err(self.error(key, expected())) }
    }

    /// A size in bytes.
    pub fn bytes(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, WorkloadError> {
        let size = self.text(key).parse::<Size>().ok().filter(|size| range.contains(&size.0));
        let expected = || format!("{} to {}", Size(*range.start()), Size(*range.end()));
        size.map(|size| size.0).ok_or_else(|| self.error(key, expected()))
    }

    /// Size of the window, in sectors; `default` if not given. `None` for everything.
    pub fn area(&self, default: &str) -> Result<Option<u64>, WorkloadError> {
        let text = if self.given("area") { self.text("area") } else { default };
        if text == "all" {
            return Ok(None);
        }
        let size: Option<Size> = text.parse().ok().filter(|size: &Size| size.sectors() > 0);
        let found = size.map(|size| Some(size.sectors()));
        found.ok_or_else(|| self.error("area", "a size such as 4GiB, or all"))
    }

    /// A whole number.
    pub fn number(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, WorkloadError> {
        let found = self.text(key).parse::<u64>().ok().filter(|number| range.contains(number));
        found.ok_or_else(|| self.error(key, format!("{} to {}", range.start(), range.end())))
    }

    /// A decimal number.
    pub fn decimal(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64, WorkloadError> {
        let found = self.text(key).parse::<f64>().ok().filter(|number| range.contains(number));
        found.ok_or_else(|| self.error(key, format!("{} to {}", range.start(), range.end())))
    }

    /// A time of at most a day.
    pub fn time(&self, key: &str) -> Result<Nanos, WorkloadError> {
        let found = duration(self.text(key)).ok().filter(|time| *time <= DAY);
        found.ok_or_else(|| self.error(key, "a time such as 30ms, 1.5s or 2m, at most a day"))
    }

    /// A fraction: `67%`, `67`, or `2:1` for two to one.
    pub fn share(&self, key: &str) -> Result<Share, WorkloadError> {
        share(self.text(key)).ok_or_else(|| self.error(key, "0 to 100 per cent, such as 67% or 2:1"))
    }

    /// Arrivals per second; `None` for `none`.
    pub fn rate(&self, key: &str) -> Result<Option<f64>, WorkloadError> {
        let text = self.text(key);
        if text == "none" {
            return Ok(None);
        }
        let number = text.strip_suffix("/s").unwrap_or(text).parse::<f64>().ok();
        let found = number.filter(|rate| (0.001..=1e6).contains(rate)).map(Some);
        found.ok_or_else(|| self.error(key, "0.001/s to 1000000/s, or none"))
    }

    /// The error for this key's value.
    pub fn error(&self, key: &str, expected: impl Into<String>) -> WorkloadError {
        WorkloadError::new(self.place(key), quoted(self.text(key)), expected)
    }

    fn place(&self, key: &str) -> String {
        format!("workload {}, {key}", self.entry.name)
    }

    fn table(&self, key: &str) -> Option<&'static super::Opt> {
        self.entry.options.iter().chain(&super::WINDOW).find(|option| option.key == key)
    }

    /// The given value, or the default.
    pub fn text(&self, key: &str) -> &str {
        let given = self.given.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str());
        given.or_else(|| self.table(key).map(|option| option.default)).unwrap_or_default()
    }
}

const DAY: Nanos = Nanos(86_400_000_000_000);

fn share(text: &str) -> Option<Share> {
    if let Some((part, rest)) = text.split_once(':') {
        let (part, rest) = (part.parse::<u32>().ok()?, rest.parse::<u32>().ok()?);
        let whole = u64::from(part) + u64::from(rest);
        return (whole > 0).then_some(Share { part: u64::from(part), whole });
    }
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok()?;
    let part = (percent * 1_000.0).round();
    (0.0..=100_000.0).contains(&part).then_some(Share { part: part as u64, whole: 100_000 })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.trim())
}
