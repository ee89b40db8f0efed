//! The laboratory: what a layer saves on a trace and a drive, measured in virtual time.

pub mod compare;
pub mod experiment;
pub mod outcome;
mod phases;
mod random;
mod replay;
pub mod report;
mod volume;

pub use compare::{EventSink, compare, event_lines, run_trace};
pub use experiment::{Clock, Experiment, LabError, LayerSetup, Pace, Places, Progress};
pub use random::{RandomLoad, RandomOutcome, run_random};
pub use volume::Volume;
