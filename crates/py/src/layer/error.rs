//! Errors of devices as exceptions, which a method may catch, and back.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use seekless_core::{ErrorKind, Extent, IoError};

/// The kinds, with their names in Python.
const KINDS: [(ErrorKind, &str); 9] = [
    (ErrorKind::Medium, "medium"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Timeout, "timeout"),
    (ErrorKind::Gone, "gone"),
    (ErrorKind::NoSpace, "no-space"),
    (ErrorKind::ReadOnly, "read-only"),
    (ErrorKind::Unsupported, "unsupported"),
    (ErrorKind::Invalid, "invalid"),
    (ErrorKind::Aborted, "aborted"),
];

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "seekless._layer", "IoError")
}

/// The exception of an error.
pub fn object<'py>(py: Python<'py>, error: &IoError) -> PyResult<Bound<'py, PyAny>> {
    let name = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or("medium", |(_, name)| *name);
    class(py)?.call1((error.to_string(), name))
}

/// The error of an exception, if it is one of a device: of a request to the layer `name`.
pub fn back(name: &'static str, at: Option<Extent>, raised: &PyErr) -> Option<IoError> {
    Python::attach(|py| {
        let value = raised.value(py);
        let kind: String =
            value.is_instance(class(py).ok()?).ok()?.then(|| value.getattr("kind"))?.ok()?.extract().ok()?;
        let kind = KINDS.iter().find(|(_, name)| *name == kind).map(|(kind, _)| *kind)?;
        Some(IoError::new(kind, name, at, value.str().ok()?.to_string()))
    })
}
