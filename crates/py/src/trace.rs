//! Traces: read, characterised, drawn, converted.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use seekless::scripted;
use seekless_core::Record;
use seekless_lab::report::escape;
use seekless_lab::report::trace::{Accesses, Subject, TEXT_BYTES, report};
use seekless_trace::{Analysis, Stats, StatsOptions, Survey, load_while};

use crate::arrow::{self, Batches};
use crate::page::Page;
use crate::signals::{self, Signals};
use crate::{json, rows, words};

/// Records between two checks for signals.
const CHECKED: usize = 1 << 15;

/// A trace in memory: requests in the order of their times, from any format.
///
/// It is an Arrow table for every library that takes one (`polars.DataFrame(trace)`, `pyarrow.table(trace)`,
/// `pandas.DataFrame.from_arrow(trace)`, `DuckDB`'s `from trace`), with these columns:
///
/// - `time_ns`: nanoseconds from the first request
/// - `volume`, `device`: name and number of the device
/// - `op`: read, write, flush, discard or `write_zeroes`
/// - `offset`, `size`: bytes
/// - `sync`, `meta`, `ahead`, `fua`, `preflush`: flags
/// - `pid`, `process`, `stream`: the process, and the client of a workload
/// - `latency_ns`: nanoseconds from arrival to answer, null if unknown
#[pyclass(frozen, module = "seekless")]
pub struct Trace(pub Arc<seekless_trace::Trace>);

/// Reads a trace: files of one recording, or its name. The format is detected.
#[pyfunction]
#[pyo3(signature = (paths, *, format=None, columns=None, record=None, time_unit=None, sector_size=None, volume=None, skip_bad=false, latencies=true))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn read(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    format: Option<&str>,
    columns: Option<&str>,
    record: Option<&str>,
    time_unit: Option<&str>,
    sector_size: Option<&str>,
    volume: Option<&str>,
    skip_bad: bool,
    latencies: bool,
) -> PyResult<Trace> {
    let given = [
        words::option("format", format),
        words::option("columns", columns),
        words::option("record", record),
        words::option("time-unit", time_unit),
        words::option("sector-size", sector_size),
        words::option("volume", volume),
        skip_bad.then(|| "--skip-bad".to_owned()),
        Some("--".to_owned()),
    ];
    let mut line: Vec<String> = given.into_iter().flatten().collect();
    line.extend(words::paths(paths)?);
    read_words(py, &line, latencies)
}

fn read_words(py: Python<'_>, line: &[String], latencies: bool) -> PyResult<Trace> {
    let trace = signals::detached(py, |signals| {
        Ok(load_while(scripted::reader(line, latencies)?, |_| signals.go_on())?)
    })?;
    Ok(Trace(Arc::new(trace)))
}

/// The trace that is meant: one that was read, or one to read.
pub fn given(trace: &Bound<'_, PyAny>) -> PyResult<Arc<seekless_trace::Trace>> {
    if let Ok(trace) = trace.cast::<Trace>() {
        return Ok(trace.get().0.clone());
    }
    let mut line = vec!["--".to_owned()];
    line.extend(words::paths(trace)?);
    // As `lab compare` reads it.
    Ok(read_words(trace.py(), &line, false)?.0)
}

/// The files of a trace that was read, or of one to read.
pub fn files(trace: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match trace.cast::<Trace>() {
        Ok(trace) => trace.get().0.sources.iter().cloned().map(words::path).collect(),
        Err(_) => words::paths(trace),
    }
}

/// The statistics of a trace; `also` is called for each of its records in their order.
pub fn characterised(
    trace: &seekless_trace::Trace,
    survey: Survey,
    options: &StatsOptions,
    signals: &Signals,
    mut also: impl FnMut(&Record),
) -> Stats {
    let mut analysis = Analysis::new(survey, options);
    for records in trace.records.chunks(CHECKED) {
        if !signals.go_on() {
            break;
        }
        for record in records {
            analysis.follow(record);
            also(record);
        }
    }
    analysis.finish(&trace.names, &trace.volumes)
}

impl Trace {
    fn name(&self) -> String {
        let first = self.0.sources.first();
        let name = first.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "trace".to_owned())
    }

    fn source_names(&self) -> Vec<String> {
        self.0.sources.iter().map(|path| path.display().to_string()).collect()
    }
}

#[pymethods]
impl Trace {
    /// Number of requests.
    fn __len__(&self) -> usize {
        self.0.records.len()
    }

    fn __repr__(&self) -> String {
        format!("<seekless.Trace of {} requests ({}): {}>", self.0.records.len(), self.0.format, self.name())
    }

    /// What the trace is, in a few lines.
    fn _repr_html_(&self) -> String {
        let trace = &self.0;
        let rows = [
            ("trace", self.source_names().join(", ")),
            ("format", trace.format.to_owned()),
            ("reads", trace.reads().to_string()),
            ("writes", trace.writes().to_string()),
            ("flushes", trace.flushes().to_string()),
            ("discards", trace.discards().to_string()),
            ("seconds", format!("{:.3}", self.duration_ns() as f64 / 1e9)),
        ];
        let row =
            |(name, value): (&str, String)| format!("<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
        format!("<table>{}</table>", rows.map(row).concat())
    }

    /// Name of the files' format.
    #[getter]
    fn format(&self) -> &'static str {
        self.0.format
    }

    /// The files.
    #[getter]
    fn sources(&self) -> Vec<PathBuf> {
        self.0.sources.clone()
    }

    /// Warnings about the trace.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// Time of the last request, in nanoseconds from the first.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.0.records.last().map_or(0, |record| record.time.0)
    }

    /// The schema, by the Arrow `PyCapsule` interface.
    #[allow(clippy::unused_self)] // all traces have the same
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        rows::schema(py, &arrow::schema())
    }

    /// The requests, by the Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish, which a producer may leave unfulfilled.
        let _ = requested_schema;
        let trace = self.0.clone();
        let batches = py.detach(|| Batches::new(trace));
        rows::stream(py, Box::new(batches))
    }

    /// Statistics of the workload, as `seekless trace stats --json` prints them, with its options. `by="volume"` gives
    /// those of each volume, and their distribution.
    #[pyo3(signature = (**options))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let line = words::options(options)?;
        if scripted::is_divided(&line) {
            let divided =
                signals::detached(py, |signals| scripted::fleet(&self.0, &line, || signals.go_on()))?;
            return json::object(py, &divided);
        }
        let stats = signals::detached(py, |signals| {
            let survey = Survey::of(&self.0.records);
            let options = scripted::statistics(&line, survey.end)?;
            Ok(characterised(&self.0, survey, &options, signals, |_| {}))
        })?;
        json::object(py, &stats)
    }

    /// The page of `seekless trace report`, with the options of [`Trace::stats`].
    #[pyo3(signature = (**options))]
    fn report(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Page> {
        let line = words::options(options)?;
        signals::detached(py, |signals| {
            let survey = Survey::of(&self.0.records);
            let options = scripted::statistics(&line, survey.end)?;
            let mut accesses = Accesses::new(&survey);
            let also = |record: &Record| accesses.follow(record, &self.0.names);
            let stats = characterised(&self.0, survey, &options, signals, also);
            let accesses = accesses.finish(&self.0.volumes, TEXT_BYTES);
            let subject = Subject {
                verdict: None,
                name: self.name(),
                sources: self.source_names(),
                format: self.0.format,
                warnings: &self.0.warnings,
                stats: &stats,
                accesses: &accesses,
            };
            Ok(Page(report(&[subject], "seekless.Trace.report()").html))
        })
    }

    /// Writes the trace in another format, as `seekless trace convert` does; what was written, and what was lost.
    #[pyo3(signature = (path, *, to=None, force=false))]
    fn convert<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        to: Option<&str>,
        force: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let line = [
            words::option("output", Some(&words::path(path)?)),
            words::option("to", to),
            force.then(|| "--force".to_owned()),
        ];
        let line: Vec<String> = line.into_iter().flatten().collect();
        let written = signals::detached(py, |signals| scripted::convert(&self.0, &line, || signals.go_on()))?;
        json::part(py, &written)
    }
}
