//! Invariants that a header states, asserted where they are established: in every build, since what breaks one would be
//! written to disk.
//!
//! What was read from a disk is never asserted, whatever it should have been: it is an error.

/// Asserts that an invariant holds, which has this name. A planted bug breaks each of them, in a test that finds its name.
#[macro_export]
macro_rules! invariant {
    ($name:literal, $holds:expr) => {
        assert!($holds, concat!("found an invariant broken, expected it to hold: ", $name))
    };
}
