//! The laboratory: what a layer saves on a trace and a drive, measured in virtual time.

pub mod outcome;
pub mod report;
