//! The laboratory: what a layer saves on a trace and a drive, measured in virtual time.

pub mod check;
pub mod compare;
pub mod description;
pub mod experiment;
pub mod explore;
pub mod figure;
mod instant;
pub mod load;
pub mod mining;
mod nearest;
pub mod outcome;
mod phases;
mod replay;
pub mod report;
pub mod volume;
pub mod volume_file;
pub mod workload;

pub use compare::{EventSink, compare, event_lines, run_trace};
pub use description::Description;
pub use experiment::{Clock, Experiment, LabError, LayerSetup, Pace, Places, Progress};
pub use load::{LoadOutcome, Recorded, Run, arrivals, run_workload};
pub use volume::Volume;
