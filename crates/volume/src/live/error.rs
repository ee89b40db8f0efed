//! Errors of a live volume: a place, what was found there, and what was expected, in one line.

use std::fmt::Display;

use seekless_core::IoError;
use seekless_serve::server::ListenError;

use crate::description::VolumeError;

/// Why a volume could not be created, served, upgraded or replayed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LiveError(String);

impl LiveError {
    /// An error of this text.
    pub fn new(text: impl Into<String>) -> LiveError {
        LiveError(text.into())
    }
}

impl From<VolumeError> for LiveError {
    fn from(error: VolumeError) -> LiveError {
        LiveError(error.to_string())
    }
}

impl From<IoError> for LiveError {
    fn from(error: IoError) -> LiveError {
        LiveError(error.to_string())
    }
}

impl From<ListenError> for LiveError {
    fn from(error: ListenError) -> LiveError {
        LiveError(error.to_string())
    }
}

/// Says where an error occurred.
pub trait At<T> {
    /// The error, after the place where it occurred.
    fn at<P: Display>(self, place: impl FnOnce() -> P) -> Result<T, LiveError>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at<P: Display>(self, place: impl FnOnce() -> P) -> Result<T, LiveError> {
        self.map_err(|error| LiveError(format!("{}: {error}", place())))
    }
}

impl<T> At<T> for Option<T> {
    fn at<P: Display>(self, place: impl FnOnce() -> P) -> Result<T, LiveError> {
        self.ok_or_else(|| LiveError(place().to_string()))
    }
}
