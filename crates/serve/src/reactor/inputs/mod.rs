//! Recording the inputs of a live run to a file, and replaying a run from such a file.
//!
//! All that a volume does follows from its reactor's inputs: the time, once a turn, and the completions of its jobs.
//! Both are recorded in order, with the jobs: so the same program on the same inputs submits the same jobs in the same
//! order, and otherwise the first difference is found.
//!
//! Invariants: nothing is left out between the first record and the last; records are read back as written
//! (checksums). Fault model: the disk may be full, the file cut short (the server was killed) or damaged anywhere. A
//! server that cannot record any more goes on serving, and warns; a truncated file is replayed to its end, a damaged
//! one to the damage.

mod handles;
mod record;
mod recorder;
mod replayer;

pub use record::{OpCode, Record};
pub use recorder::Recorder;
pub(super) use replayer::Step;
pub use replayer::{Replayed, Replayer, placeholder};

#[cfg(test)]
mod tests;
