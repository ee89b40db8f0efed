//! Errors of certificates and keys.

/// See the file's header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{which}: found {found}, expected a usable PEM file")]
pub struct KeysError {
    /// Which file.
    pub which: &'static str,
    /// What was found.
    pub found: String,
}
