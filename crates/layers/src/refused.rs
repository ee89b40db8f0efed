//! Why options cannot be a layer's.

use std::fmt;

/// An option that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which; nothing where it is not a matter of one.
    pub key: &'static str,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Refused {
    /// At `key` something was found, and something else expected.
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
