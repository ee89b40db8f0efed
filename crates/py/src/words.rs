//! Keyword arguments as words of a command line: `bopt="1GiB"` is `--bopt=1GiB`, `bounds=True` is `--bounds`, and
//! `option={"size": "64MiB"}` is `--option=size=64MiB`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use crate::errors::UsageError;

/// Options that are about output or are arguments of their own.
const REFUSED: [&str; 18] = [
    "help",
    "version",
    "json",
    "report",
    "events",
    "page",
    "svg",
    "force",
    "workloads",
    "list",
    "trace",
    "output",
    "layer",
    "script",
    "save",
    "history",
    "junit",
    "for",
];

/// The words of keyword arguments.
pub fn options(options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    let mut words = Vec::new();
    for (key, value) in options.into_iter().flatten() {
        let key: String = key.extract()?;
        let name = key.replace('_', "-");
        if REFUSED.contains(&name.as_str()) {
            return Err(UsageError::new_err(format!(
                "{key}: found an option of the program, expected none of it here"
            )));
        }
        add(&name, &value, &mut words)?;
    }
    Ok(words)
}

fn add(name: &str, value: &Bound<'_, PyAny>, words: &mut Vec<String>) -> PyResult<()> {
    if value.is_none() {
        return Ok(());
    }
    if value.is_instance_of::<PyBool>() {
        words.extend(value.is_truthy()?.then(|| format!("--{name}")));
    } else if let Ok(pairs) = value.cast::<PyDict>() {
        for (key, value) in pairs.iter() {
            words.push(format!("--{name}={}={}", key.str()?, value.str()?));
        }
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        for each in value.try_iter()? {
            words.push(format!("--{name}={}", each?.str()?));
        }
    } else {
        words.push(format!("--{name}={}", value.str()?));
    }
    Ok(())
}

/// A word with a value, if there is one.
pub fn option(name: &str, value: Option<&str>) -> Option<String> {
    value.map(|value| format!("--{name}={value}"))
}

/// A path as a word.
pub fn path(path: PathBuf) -> PyResult<String> {
    let shown = path.display().to_string();
    let text = path.into_os_string().into_string();
    text.map_err(|_| UsageError::new_err(format!("{shown}: found a name that is no text, expected UTF-8")))
}

/// One path or several.
pub fn paths(given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(one) = given.extract::<PathBuf>() {
        return Ok(vec![path(one)?]);
    }
    given.extract::<Vec<PathBuf>>()?.into_iter().map(path).collect()
}
