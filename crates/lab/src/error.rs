//! What keeps the laboratory from measuring.

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
        /// The trace's files.
        trace: String,
        /// What is wrong.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A size or number that does not fit.
    #[error("--{setting}: found {found}, expected {expected}")]
    Setting {
        /// The option.
        setting: &'static str,
        /// What was given.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The drive is none.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The volume is none.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The workload is none, or does not fit.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The simulated devices reported an error.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The simulation came to a stand: a mistake of ours.
    #[error(transparent)]
    Stalled(#[from] seekless_core::runtime::Stalled),
}
