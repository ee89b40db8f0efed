//! Figures of the papers.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seekless::scripted;

use crate::{json, signals, trace, words};

/// Computes a figure; its JSON and its picture.
#[pyfunction]
#[pyo3(signature = (name, *, trace=None, **options))]
pub fn figure(
    py: Python<'_>,
    name: String,
    trace: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(String, String)> {
    let mut line = words::options(options)?;
    line.push(name);
    if let Some(trace) = trace {
        line.push("--trace".to_owned());
        line.extend(trace::files(trace)?);
    }
    signals::detached(py, move |_| {
        let shown = scripted::figure(&line)?;
        Ok((json::text(&shown.json())?, shown.svg()))
    })
}
