//! Sweeps: the same traces on many volumes, drives and options, as one table.
//!
//! A sweep's file ([`file`]) describes grids of values. [`expand()`] makes of them self-contained tasks ([`Task`]),
//! each with a hash of its content as its identity. Running a task is a pure function ([`task::run`]) of the task and
//! its trace. The rows, in the order of the tasks, are a data set ([`table`]) and a report ([`report`]). Files, threads
//! and progress are the caller's.
//!
//! Invariants: the same tasks give the same rows and the same bytes, wherever and in whatever order they ran. Faults: a
//! task that fails is a row with its error; what makes a whole sweep meaningless (an unknown key, an empty list, two
//! tasks with one identity) is an error before the first task runs.

mod effects;
mod error;
pub mod expand;
pub mod file;
pub mod fleet;
mod hash;
mod overrides;
pub mod report;
pub mod row;
pub mod table;
pub mod task;
mod values;

pub use error::SweepError;
pub use expand::expand;
pub use file::Sweep;
pub use hash::{Hash, hash_file};
pub use report::Report;
pub use row::{Figure, Row};
pub use task::Task;
