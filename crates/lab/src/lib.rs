//! The laboratory: measures in virtual time what a layer saves on a trace and a drive.

pub mod accesses;
pub mod advise;
pub mod bounds;
pub mod check;
pub mod compare;
pub mod error;
pub mod events;
pub mod experiment;
pub mod explore;
pub mod figure;
pub mod hits;
pub mod load;
pub mod measured;
pub mod mining;
mod null_device;
pub mod outcome;
mod phased_answers;
mod phases;
pub mod play;
pub mod report;
pub mod setup;
pub mod starts;
pub mod sweep;
pub mod tune;
mod variant;
pub mod workload;

pub use compare::{compare, compare_experiments, compare_volumes, run_trace, run_volume};
pub use error::LabError;
pub use events::{EventSink, event_lines};
pub use experiment::{Experiment, LayerSetup, Partition, Places};
pub use load::{LoadOutcome, Recorded, Run, arrivals, run_workload};
pub use setup::{Candidate, Clock, Pace, Play, Progress, has_processes, pace_of};
