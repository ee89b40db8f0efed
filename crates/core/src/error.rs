//! I/O errors are values: what kind, of which component, where, and a word to a person.

use std::borrow::Cow;
use std::fmt;

use crate::units::Extent;

/// What went wrong, in the words that a layer can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The medium could not be read or written.
    Medium,
    /// Data came back, and is known to be wrong.
    Corrupt,
    /// No answer in time.
    Timeout,
    /// The component is not there any more.
    Gone,
    /// No room.
    NoSpace,
    /// Writes are not taken.
    ReadOnly,
    /// This device cannot do that.
    Unsupported,
    /// The request makes no sense: empty, past the end, overflowing, or larger than allowed.
    Invalid,
    /// Withdrawn by its ticket before it was issued.
    Aborted,
}

/// An I/O error. Eight bytes, so that the good path carries little.
#[derive(Clone, PartialEq, Eq)]
pub struct IoError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    component: Cow<'static, str>,
    extent: Option<Extent>,
    why: Cow<'static, str>,
}

impl IoError {
    /// An error of `kind`, by `component`, with what a person should know in `why`.
    pub fn new(
        kind: ErrorKind,
        component: impl Into<Cow<'static, str>>,
        extent: Option<Extent>,
        why: impl Into<Cow<'static, str>>,
    ) -> IoError {
        IoError(Box::new(Inner { kind, component: component.into(), extent, why: why.into() }))
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether sectors are lost, and the device still works: what another copy repairs.
    pub fn is_of_the_medium(&self) -> bool {
        matches!(self.kind(), ErrorKind::Medium | ErrorKind::Corrupt)
    }

    /// The component that reported it.
    pub fn component(&self) -> &str {
        &self.0.component
    }

    /// Where on that component.
    pub fn extent(&self) -> Option<Extent> {
        self.0.extent
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.0.component, self.0.kind)?;
        if let Some(extent) = self.0.extent {
            write!(f, " at {extent}")?;
        }
        write!(f, ": {}", self.0.why)
    }
}

impl fmt::Debug for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for IoError {}
