//! I/O errors are values: kind, component, extent, and a message for people.

use std::borrow::Cow;
use std::fmt;

use crate::units::Extent;

/// What went wrong, as far as a layer can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The medium could not be read or written.
    Medium,
    /// Data were read, and are known to be wrong.
    Corrupt,
    /// Timeout.
    Timeout,
    /// The component is gone.
    Gone,
    /// Out of space.
    NoSpace,
    /// The device is read-only.
    ReadOnly,
    /// The device does not support this.
    Unsupported,
    /// Invalid request: empty, past the end, overflowing, or larger than allowed.
    Invalid,
    /// Aborted by its ticket before it was issued.
    Aborted,
}

/// An I/O error. Eight bytes, so that the success path carries little.
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
    /// An error of `kind`, by `component`; `why` is the message for people.
    pub fn new(
        kind: ErrorKind,
        component: impl Into<Cow<'static, str>>,
        extent: Option<Extent>,
        why: impl Into<Cow<'static, str>>,
    ) -> IoError {
        IoError(Box::new(Inner { kind, component: component.into(), extent, why: why.into() }))
    }

    /// The same error with more to say.
    #[must_use]
    pub fn and(mut self, more: &str) -> IoError {
        self.0.why = format!("{}; {more}", self.0.why).into();
        self
    }

    /// Kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether sectors are lost while the device still works: another copy can repair them.
    pub fn is_medium_error(&self) -> bool {
        matches!(self.kind(), ErrorKind::Medium | ErrorKind::Corrupt)
    }

    /// Whether a write that failed so may still take effect: it was issued, not refused.
    pub fn may_take_effect(&self) -> bool {
        use ErrorKind::{Corrupt, Gone, Medium, Timeout};
        matches!(self.kind(), Medium | Corrupt | Timeout | Gone)
    }

    /// The component that reported it.
    pub fn component(&self) -> &str {
        &self.0.component
    }

    /// The extent on that component.
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
