//! Invalid options.

use std::fmt;

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Key; empty if it does not concern a single one.
    pub key: &'static str,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Refused {
    /// The option `key`, what was found, and what was expected.
    pub fn new(key: &'static str, found: impl Into<String>, expected: impl Into<String>) -> Refused {
        Refused { key, found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { key, found, expected } = self;
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        write!(f, "{key}found {found}, expected {expected}")
    }
}
