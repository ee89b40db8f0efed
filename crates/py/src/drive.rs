//! Drives as arithmetic: where sectors are, how long requests take, and what measured times say about a drive.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seekless::scripted;
use seekless_core::{Lba, Nanos, SECTOR_BYTES};
use seekless_drive::Spec;
use seekless_drive::disk::Drive as Disk;
use seekless_drive::disk::mechanics::Access;
use seekless_drive::fit::phase::think_side;
use seekless_drive::fit::{Fitted, fit};
use seekless_drive::spec::{disks, parse};
use seekless_drive::validate::{Measured, compare, drive_as_measured};
use seekless_lab::measured::measured;

use crate::errors::{SeeklessError, UsageError};
use crate::rows::{self, Table};
use crate::{json, signals, trace};

/// Requests between two checks for signals.
const CHECKED: usize = 1 << 15;

/// Names of the disks that ship with the package.
#[pyfunction]
pub fn drives() -> Vec<&'static str> {
    disks().collect()
}

/// A disk: one that ships, of a TOML file, or of a `.parv` file of DiskSim.
#[pyclass(frozen, module = "seekless")]
pub struct Drive {
    spec: Arc<Spec>,
    changes: Vec<String>,
}

/// A time in a column: within 292 years.
fn nanos(time: Nanos) -> i64 {
    time.0.try_into().unwrap_or(i64::MAX)
}

/// The requests with measured times of a validation trace.
fn measured_of(trace: &seekless_trace::Trace, spec: &Spec) -> anyhow::Result<Vec<Measured>> {
    let name =
        trace.sources.first().map_or_else(|| "the trace".to_owned(), |path| path.display().to_string());
    Ok(measured(&name, &trace.records, spec)?)
}

#[pymethods]
impl Drive {
    #[new]
    fn new(name: PathBuf) -> PyResult<Drive> {
        let spec = scripted::drive(&name.to_string_lossy()).map_err(|error| crate::errors::raised(&error))?;
        Ok(Drive { spec: Arc::new(spec), changes: Vec::new() })
    }

    fn __repr__(&self) -> String {
        format!("<seekless.Drive {}: {}>", self.spec.name, self.spec.title)
    }

    /// Name of the drive.
    #[getter]
    fn name(&self) -> &str {
        &self.spec.name
    }

    /// Title for people.
    #[getter]
    fn title(&self) -> &str {
        &self.spec.title
    }

    /// Number of its sectors of 512 bytes.
    #[getter]
    fn sectors(&self) -> u64 {
        self.spec.sectors
    }

    /// Its capacity in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.spec.sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Time of a revolution in nanoseconds.
    #[getter]
    fn revolution_ns(&self) -> u64 {
        Disk::new(&self.spec).mechanics().revolution().0
    }

    /// What the fit changed, if the drive was fitted: figure, before, after.
    #[getter]
    fn changes(&self) -> Vec<String> {
        self.changes.clone()
    }

    /// The description as a dictionary, as `seekless drive show --json` has it.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::part(py, &*self.spec)
    }

    /// The description as the text of a TOML file.
    fn toml(&self) -> PyResult<String> {
        toml::to_string(&*self.spec).map_err(|error| SeeklessError::new_err(error.to_string()))
    }

    /// Where a sector of 512 bytes is: cylinder, head and sector of its track, sectors of the track, and `angle_ns`,
    /// nanoseconds from the index mark until it passes under the head.
    fn position<'py>(&self, py: Python<'py>, lba: u64) -> PyResult<Bound<'py, PyDict>> {
        if lba >= self.spec.sectors {
            let found = format!("lba: found sector {lba}, expected less than {}", self.spec.sectors);
            return Err(UsageError::new_err(found));
        }
        let disk = Disk::new(&self.spec);
        let position = disk.layout().position(Lba(lba));
        let piece = disk.layout().piece(seekless_core::Extent { start: Lba(lba), sectors: 1 });
        let out = PyDict::new(py);
        out.set_item("cylinder", position.cylinder)?;
        out.set_item("head", position.head)?;
        out.set_item("sector", position.sector)?;
        out.set_item("sectors_per_track", piece.per_track)?;
        out.set_item("angle_ns", piece.angle)?;
        Ok(out)
    }

    /// The time of each request of a trace, one after the other in their order: a request begins at its time or when
    /// the one before ends. A table with a row for each request; all columns are in nanoseconds.
    fn service_times(&self, py: Python<'_>, trace: &Bound<'_, PyAny>) -> PyResult<Table> {
        let trace = trace::given(trace)?;
        let spec = self.spec.clone();
        let (starts, served) = signals::detached(py, |signals| {
            let end = trace.end_sector();
            if end > spec.sectors {
                let found = format!("requests up to sector {end}");
                let expected = format!("at most {}, the end of {}", spec.sectors, spec.name);
                let trace = trace.sources.first().map_or_else(String::new, |path| path.display().to_string());
                return Err(seekless_lab::LabError::Unfit { trace, found, expected }.into());
            }
            let (mut disk, mut now) = (Disk::new(&spec), Nanos::ZERO);
            let (mut starts, mut served) = (Vec::new(), Vec::with_capacity(trace.records.len()));
            for (number, record) in trace.records.iter().enumerate() {
                if number % CHECKED == 0 && !signals.go_on() {
                    break;
                }
                now = now.max(record.time);
                let took = disk.serve(record.op, record.extent, now, false);
                starts.push(nanos(now));
                served.push(took);
                now += took.total();
            }
            Ok((starts, served))
        })?;
        let part = |part: fn(&Access) -> Nanos| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(served.iter().map(|access| nanos(part(access)))))
        };
        let columns: [(&str, ArrayRef); 6] = [
            ("start_ns", Arc::new(Int64Array::from(starts))),
            ("service_ns", part(Access::total)),
            ("seek_ns", part(|access| access.seek)),
            ("rotation_ns", part(|access| access.rotation)),
            ("transfer_ns", part(|access| access.transfer)),
            ("overhead_ns", part(|access| access.overhead)),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, false)).collect();
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        batch.map(Table::new).map_err(|error| rows::raised(&error))
    }

    /// A drive with the figures that fit measured times best. The trace is one of DiskSim's validation traces
    /// (`format="disksim-validate"`); all of its requests are used.
    #[pyo3(signature = (trace, *, name=None))]
    fn fit(&self, py: Python<'_>, trace: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<Drive> {
        let trace = trace::given(trace)?;
        let spec = self.spec.clone();
        let name = name.unwrap_or_else(|| format!("{}-fitted", spec.name));
        signals::detached(py, |signals| {
            let measured = measured_of(&trace, &spec)?;
            let Fitted { spec: mut fitted, changes, .. } = fit(&spec, &measured, &mut |_| signals.go_on());
            fitted.name = name;
            // The drive as written, as another program would read it.
            let fitted = parse(&fitted.name, &toml::to_string(&fitted)?)?;
            Ok(Drive { spec: Arc::new(fitted), changes })
        })
    }

    /// Errors of the drive against measured times, as `seekless drive validate --json` has them, in milliseconds.
    fn validate<'py>(&self, py: Python<'py>, trace: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let trace = trace::given(trace)?;
        let spec = self.spec.clone();
        let fidelity = signals::detached(py, |_| {
            let measured = measured_of(&trace, &spec)?;
            let think = think_side(&spec, &measured);
            Ok(compare(&drive_as_measured(&mut Disk::new(&spec), &measured, think), &measured))
        })?;
        json::part(py, &fidelity)
    }

    /// The seek curve and the zones, as SVG.
    fn _repr_svg_(&self) -> String {
        seekless_lab::report::drive(&self.spec)
    }
}
