//! Results as Python's own objects: the program's JSON, parsed by Python.

use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde::Serialize;

use crate::errors::SeeklessError;

/// The text of a value.
pub fn text(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| SeeklessError::new_err(error.to_string()))
}

/// A value as dictionaries, lists, numbers and texts.
pub fn object<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text(value)?,))
}
