//! Why certificates and keys cannot be used.

/// See the file's header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{which}: found {found}, expected a file in PEM that can be used")]
pub struct KeysError {
    /// Which of them.
    pub which: &'static str,
    /// What was found.
    pub found: String,
}
