//! Results as Python's own objects: the program's JSON, parsed by Python.

use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde::Serialize;

use seekless::scripted::{self, Printed};

use crate::errors::SeeklessError;

/// The text of a result, with the name of its schema.
pub fn text(value: &impl Printed) -> PyResult<String> {
    scripted::json(value).map_err(|error| SeeklessError::new_err(error.to_string()))
}

/// A result as dictionaries, lists, numbers and texts, with the name of its schema.
pub fn object<'py>(py: Python<'py>, value: &impl Printed) -> PyResult<Bound<'py, PyAny>> {
    parsed(py, &text(value)?)
}

/// A value that no command prints alone, as dictionaries, lists, numbers and texts.
pub fn part<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    parsed(py, &serde_json::to_string(value).map_err(|error| SeeklessError::new_err(error.to_string()))?)
}

fn parsed<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
