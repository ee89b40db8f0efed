//! The schedulers by name.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seekless_core::names::perhaps;
use serde::{Deserialize, Serialize};

use super::{AgedSptf, CLook, Fcfs, Look, Scheduler, Sptf, SptfSw, Sstf};

/// A scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Policy {
    /// In order of arrival.
    Fcfs,
    /// In ascending order of address while there are requests, then in descending order, and so on.
    Look,
    /// In ascending order of address, then from the lowest again.
    #[default]
    CLook,
    /// The shortest seek first.
    Sstf,
    /// The shortest positioning time first.
    Sptf,
    /// The shortest seek among positioning times within this many per cent of the shortest.
    SptfSw(u32),
    /// The shortest positioning time first, less this many thousandths of the waiting time.
    Asptf(u32),
}

/// The largest number in a name.
const MOST: u32 = 1_000_000;

impl Policy {
    /// All names, for messages.
    pub const NAMES: &str = "fcfs, look, c-look, sstf, sptf, sptf-swN (within N per cent of the shortest \
         positioning time, the shortest seek) or asptfN (less N ms for each second of waiting)";

    /// Creates the scheduler.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Policy::Fcfs => Box::new(Fcfs),
            Policy::Look => Box::<Look>::default(),
            Policy::CLook => Box::new(CLook),
            Policy::Sstf => Box::new(Sstf),
            Policy::Sptf => Box::new(Sptf),
            Policy::SptfSw(percent) => Box::new(SptfSw::new(percent)),
            Policy::Asptf(weight) => Box::new(AgedSptf::new(weight)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fcfs => f.write_str("fcfs"),
            Policy::Look => f.write_str("look"),
            Policy::CLook => f.write_str("c-look"),
            Policy::Sstf => f.write_str("sstf"),
            Policy::Sptf => f.write_str("sptf"),
            Policy::SptfSw(percent) => write!(f, "sptf-sw{percent}"),
            Policy::Asptf(weight) => write!(f, "asptf{weight}"),
        }
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.to_string()
    }
}

impl TryFrom<String> for Policy {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |prefix| {
            let digits = text.strip_prefix(prefix)?;
            let number: u32 = digits.parse().ok()?;
            // As it is written back: no sign, no leading zeros.
            (number <= MOST && number.to_string() == digits).then_some(number)
        };
        [Policy::Fcfs, Policy::Look, Policy::CLook, Policy::Sstf, Policy::Sptf]
            .into_iter()
            .find(|policy| policy.to_string() == text)
            .or_else(|| number("sptf-sw").map(Policy::SptfSw))
            .or_else(|| number("asptf").map(Policy::Asptf))
            .ok_or_else(|| {
                let perhaps = perhaps(text, ["fcfs", "look", "c-look", "sstf", "sptf"]);
                format!("found '{text}', expected {}{perhaps}", Policy::NAMES)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        for name in
            ["fcfs", "look", "c-look", "sstf", "sptf", "sptf-sw0", "sptf-sw40", "asptf6", "asptf1000000"]
        {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        for wrong in ["", "SPTF", "sptf-sw", "sptf-sw-1", "sptf-sw040", "sptf-sw40%", "asptf", "asptf1000001"]
        {
            let error = wrong.parse::<Policy>().unwrap_err();
            assert!(error.contains(&format!("'{wrong}'")) && error.contains("c-look"), "{error}");
        }
    }
}
