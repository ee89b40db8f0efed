//! Volumes compared, and run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use seekless::scripted;
use seekless_lab::Candidate;
use seekless_lab::outcome::Comparison;
use seekless_lab::report::html;
use seekless_trace::{StatsOptions, Survey};
use seekless_volume::file;

use crate::errors::{UsageError, VolumeError};
use crate::own::Own;
use crate::page::Page;
use crate::{json, signals, trace, words};

/// A volume as Python gives it.
enum Given {
    /// The name of a layer, or `none`.
    Layer(String),
    /// The path of a volume file.
    File(String),
    /// The keys of a volume file, as TOML.
    Keys(String),
}

/// Whether a text is the path of a volume file.
fn is_file(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension == "toml")
}

impl Given {
    fn of(volume: &Bound<'_, PyAny>) -> PyResult<Given> {
        if let Ok(name) = volume.cast::<PyString>() {
            let name: String = name.extract()?;
            return Ok(if is_file(&name) { Given::File(name) } else { Given::Layer(name) });
        }
        if volume.is_instance_of::<PyDict>() {
            let text: String = volume.py().import("json")?.call_method1("dumps", (volume,))?.extract()?;
            let bad = |error: String| VolumeError::new_err(format!("a volume: {error}"));
            let keys: toml::Table = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
            return toml::to_string(&keys).map(Given::Keys).map_err(|error| bad(error.to_string()));
        }
        Ok(Given::File(words::path(volume.extract::<PathBuf>()?)?))
    }
}

/// The volumes of a call: words of a command line, and the descriptions if they are not those of files.
fn volumes(given: Vec<Given>) -> PyResult<(Vec<String>, Option<Vec<Candidate>>)> {
    let layers: Vec<&str> = given
        .iter()
        .filter_map(|one| if let Given::Layer(name) = one { Some(&**name) } else { None })
        .collect();
    if layers.len() == given.len() {
        return Ok((vec![format!("--layer={}", layers.join(","))], None));
    }
    if let Some(layer) = layers.first() {
        let expected = "volume files or dictionaries only, or layers only";
        return Err(UsageError::new_err(format!(
            "volumes: found the layer {layer} beside others, expected {expected}"
        )));
    }
    let mut words = Vec::new();
    let mut candidates = Vec::new();
    let all_files = given.iter().all(|one| matches!(one, Given::File(_)));
    for (number, one) in given.into_iter().enumerate() {
        let name = format!("volume-{}", number + 1);
        match one {
            Given::Keys(text) => {
                let parsed = file::parse(&name, &text);
                let volume = parsed.map_err(|error| VolumeError::new_err(error.to_string()))?;
                words.push(name.clone());
                candidates.push(Candidate { name, volume });
            }
            Given::File(path) if !all_files => {
                let read = file::read(Path::new(&path));
                let volume = read.map_err(|error| VolumeError::new_err(error.to_string()))?;
                words.push(path.clone());
                candidates.push(Candidate { name: path, volume });
            }
            Given::File(path) => words.push(path),
            Given::Layer(_) => {}
        }
    }
    Ok((words, Some(candidates).filter(|candidates| !candidates.is_empty())))
}

/// The result of a comparison.
#[pyclass(frozen, module = "seekless")]
pub struct Compared {
    comparison: Comparison,
    trace: Arc<seekless_trace::Trace>,
}

#[pymethods]
impl Compared {
    /// As the JSON of `seekless lab compare --json`.
    fn json(&self) -> PyResult<String> {
        json::text(&self.comparison)
    }

    /// The page of `seekless lab compare --report`.
    fn report(&self, py: Python<'_>) -> PyResult<Page> {
        signals::detached(py, |signals| {
            let survey = Survey::of(&self.trace.records);
            let options = StatsOptions::default();
            let stats = trace::characterised(&self.trace, survey, &options, signals, |_| {});
            Ok(Page(html(&stats, &self.comparison, "seekless.compare()")))
        })
    }
}

/// Compares volumes on a trace, as `seekless lab compare` does.
#[pyfunction]
#[pyo3(signature = (volumes, *, trace, policies=None, layers=None, **options))]
pub fn compare(
    py: Python<'_>,
    volumes: &Bound<'_, PyAny>,
    trace: &Bound<'_, PyAny>,
    policies: Option<&Bound<'_, PyDict>>,
    layers: Option<&Bound<'_, PyDict>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Compared> {
    let given = if volumes.is_instance_of::<PyString>() || volumes.is_instance_of::<PyDict>() {
        vec![Given::of(volumes)?]
    } else {
        volumes.try_iter()?.map(|one| Given::of(&one?)).collect::<PyResult<_>>()?
    };
    let mut line = words::options(options)?;
    let trace = trace::given(trace)?;
    Own::of(policies, layers)?.with(|| {
        let (of_volumes, candidates) = self::volumes(given)?;
        line.extend(of_volumes);
        line.extend(names(&trace));
        let comparison = signals::detached(py, |_| scripted::compare(&trace, candidates, &line))?;
        Ok(Compared { comparison, trace })
    })
}

/// The words for a trace, which was read already.
fn names(trace: &seekless_trace::Trace) -> Vec<String> {
    let names = trace.sources.iter().map(|path| path.display().to_string());
    std::iter::once("--trace".to_owned()).chain(names).collect()
}

/// Plays a trace through caches without a disk, as `seekless lab hits` does; a dictionary for each policy and size.
#[pyfunction]
#[pyo3(signature = (trace, *, policies=None, **options))]
pub fn hits<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    policies: Option<&Bound<'py, PyDict>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let line = words::options(options)?;
    let trace = trace::given(trace)?;
    let hits = Own::of(policies, None)?
        .with(|| signals::detached(py, |signals| scripted::hits(&trace, &line, || signals.go_on())))?;
    hits.iter().map(|hits| json::object(py, hits)).collect()
}

/// Runs a trace or a workload on a volume, as `seekless lab run` does; the JSON of its results.
#[pyfunction]
#[pyo3(signature = (volume, *, trace=None, workload=None, policies=None, layers=None, **options))]
pub fn run(
    py: Python<'_>,
    volume: &Bound<'_, PyAny>,
    trace: Option<&Bound<'_, PyAny>>,
    workload: Option<&str>,
    policies: Option<&Bound<'_, PyDict>>,
    layers: Option<&Bound<'_, PyDict>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let line = words::options(options)?;
    let volume = Given::of(volume)?;
    Own::of(policies, layers)?.with(|| run_on(py, volume, trace, workload, line))
}

fn run_on(
    py: Python<'_>,
    volume: Given,
    trace: Option<&Bound<'_, PyAny>>,
    workload: Option<&str>,
    mut line: Vec<String>,
) -> PyResult<String> {
    let (of_volume, candidates) = volumes(vec![volume])?;
    line.extend(of_volume);
    let candidate = candidates.and_then(|mut candidates| candidates.pop());
    match (trace, workload) {
        (Some(trace), None) => {
            let trace = trace::given(trace)?;
            line.extend(names(&trace));
            let variant = signals::detached(py, |_| scripted::run_trace(&trace, candidate, &line))?;
            json::text(&variant)
        }
        (None, Some(workload)) => {
            line.push(format!("--workload={workload}"));
            let volume = candidate.map(|candidate| candidate.volume);
            let outcome = signals::detached(py, |_| scripted::run_workload(volume, &line))?;
            json::text(&outcome)
        }
        (given, _) => {
            let found = if given.is_some() { "a trace and a workload" } else { "no trace and no workload" };
            Err(UsageError::new_err(format!("run: found {found}, expected one of them")))
        }
    }
}

/// Cuts the power of a volume again and again, as `seekless lab explore` does; the JSON of what was found.
#[pyfunction]
#[pyo3(signature = (volume, *, policies=None, layers=None, **options))]
pub fn explore(
    py: Python<'_>,
    volume: &Bound<'_, PyAny>,
    policies: Option<&Bound<'_, PyDict>>,
    layers: Option<&Bound<'_, PyDict>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let mut line = words::options(options)?;
    let given = Given::of(volume)?;
    if let Given::Layer(name) = given {
        let why = format!("explore: found the layer {name}, expected a volume file or a dictionary");
        return Err(UsageError::new_err(why));
    }
    Own::of(policies, layers)?.with(|| {
        let (of_volume, candidates) = volumes(vec![given])?;
        line.extend(of_volume);
        let volume = candidates.and_then(|mut candidates| candidates.pop()).map(|candidate| candidate.volume);
        json::text(&signals::detached(py, |_| scripted::explore(volume, &line))?)
    })
}
