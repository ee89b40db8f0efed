//! Invariants that a header states, asserted where they are established: in every build, since a violation would be
//! written to disk.
//!
//! Data read from a disk are never asserted: if wrong, they are an error.

/// Asserts the invariant of this name. For each of them a planted bug violates it, in a test that finds its name.
#[macro_export]
macro_rules! invariant {
    ($name:literal, $holds:expr) => {
        assert!($holds, concat!("found an invariant broken, expected it to hold: ", $name))
    };
}
