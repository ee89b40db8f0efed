//! Errors of the laboratory.

use seekless_core::IoError;
use seekless_drive::SpecError;
use seekless_trace::TraceError;
use seekless_volume::VolumeError;

use crate::workload::keys::WorkloadError;

/// Why an experiment cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not fit the experiment.
    #[error("{trace}: found {found}, expected {expected}")]
    Unfit {
        /// Files of the trace.
        trace: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// An option's value does not fit.
    #[error("--{setting}: found {found}, expected {expected}")]
    Setting {
        /// Name of the option.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The drive's description is invalid.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The volume's description is invalid.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The workload's description is invalid, or does not fit.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A simulated device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The simulation stalled: a bug.
    #[error(transparent)]
    Stalled(#[from] seekless_core::runtime::Stalled),
}
