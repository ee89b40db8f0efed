//! Errors of a sweep.

/// Why a sweep cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct SweepError {
    /// The file and the key.
    pub place: String,
    /// Found text.
    pub found: String,
    /// Expected text.
    pub expected: String,
}

impl SweepError {
    /// An error at `place`.
    pub fn new(
        place: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> SweepError {
        SweepError { place: place.into(), found: found.into(), expected: expected.into() }
    }
}
