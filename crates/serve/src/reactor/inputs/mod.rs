//! The inputs of a live run on file, and a run from such a file.
//!
//! All that a volume does follows from what its reactor tells it: the time, once a turn, and what became of the jobs that
//! it asked for. Both are noted in their order, with what was asked: so the same program on the same inputs asks for
//! the same jobs in the same order, and if it does not, the first that differs is known.
//!
//! Invariants: nothing is left out between the first record and the last; what is read back was written so (checksums).
//! Fault model: the file may be full, cut short (the server was killed) or damaged anywhere. A server that cannot go on
//! noting goes on serving, and says so; a file cut short is replayed to its end; a damaged one to the damage.

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
