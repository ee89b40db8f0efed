//! Errors as exceptions: the program's words, and a kind for each part that can be at fault.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use seekless::scripted;
use seekless_drive::SpecError;
use seekless_lab::LabError;
use seekless_lab::workload::keys::WorkloadError as BadWorkload;
use seekless_trace::TraceError as BadTrace;
use seekless_volume::VolumeError as BadVolume;

use crate::layer;

create_exception!(seekless, SeeklessError, PyException, "Base of all errors of this package.");
create_exception!(seekless, UsageError, SeeklessError, "Invalid arguments or options.");
create_exception!(seekless, TraceError, SeeklessError, "A trace that cannot be read, or does not fit.");
create_exception!(
    seekless,
    DriveError,
    SeeklessError,
    "A drive that does not exist, or an invalid description."
);
create_exception!(seekless, VolumeError, SeeklessError, "An invalid description of a volume.");
create_exception!(
    seekless,
    WorkloadError,
    SeeklessError,
    "A workload that does not exist, or invalid options."
);

create_exception!(
    seekless,
    PolicyError,
    SeeklessError,
    "An eviction policy in Python that raises, or chooses what cannot be evicted."
);

create_exception!(
    seekless,
    LayerError,
    SeeklessError,
    "A layer in Python that raises, does not answer, or answers what does not fit."
);

/// Adds the exceptions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("SeeklessError", py.get_type::<SeeklessError>())?;
    module.add("UsageError", py.get_type::<UsageError>())?;
    module.add("TraceError", py.get_type::<TraceError>())?;
    module.add("DriveError", py.get_type::<DriveError>())?;
    module.add("VolumeError", py.get_type::<VolumeError>())?;
    module.add("WorkloadError", py.get_type::<WorkloadError>())?;
    module.add("PolicyError", py.get_type::<PolicyError>())?;
    module.add("LayerError", py.get_type::<LayerError>())
}

/// The exception of an error.
pub fn raised(error: &anyhow::Error) -> PyErr {
    let message = scripted::message(error);
    if scripted::is_usage(error) {
        return UsageError::new_err(message);
    }
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<LabError>() {
            return of_lab(error, message);
        }
        if cause.is::<BadTrace>() {
            return TraceError::new_err(message);
        }
        if cause.is::<SpecError>() {
            return DriveError::new_err(message);
        }
        if cause.is::<BadVolume>() {
            return VolumeError::new_err(message);
        }
        if cause.is::<BadWorkload>() {
            return WorkloadError::new_err(message);
        }
    }
    SeeklessError::new_err(message)
}

fn of_lab(error: &LabError, message: String) -> PyErr {
    match error {
        LabError::Trace(_) | LabError::Unfit { .. } => TraceError::new_err(message),
        LabError::Setting { .. } => UsageError::new_err(message),
        LabError::Drive(_) => DriveError::new_err(message),
        LabError::Volume(_) => VolumeError::new_err(message),
        LabError::Workload(_) => WorkloadError::new_err(message),
        LabError::Stalled(_) => match layer::left() {
            Some(which) => LayerError::new_err(format!("{which}: found no answer: {message}")),
            None => SeeklessError::new_err(message),
        },
        LabError::Io(_) => SeeklessError::new_err(message),
    }
}
