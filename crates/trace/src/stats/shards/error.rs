//! Errors of shards and their files.

/// What is wrong with shards, or with a file of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Two shards hold the same time.
    #[error(
        "{second}: found a first request at {begin} s, expected {end} s or later, the end of {first}: shards follow each other in time"
    )]
    Overlap {
        /// The earlier shard.
        first: String,
        /// When it ends, in seconds of the trace's clock.
        end: String,
        /// The later shard.
        second: String,
        /// When that begins.
        begin: String,
    },
    /// Shards that are not there.
    #[error("found no partial of {missing}, expected one of each of the {shards} shards")]
    Missing {
        /// Their names.
        missing: String,
        /// All shards of the trace.
        shards: usize,
    },
    /// A shard is there twice.
    #[error("found two partials of {shard}, expected one")]
    Twice {
        /// Its name.
        shard: String,
    },
    /// A trace that its outline does not have, or no longer.
    #[error("{shard}: found {found}, expected {expected}, as in its outline; has the trace changed since?")]
    Changed {
        /// The shard.
        shard: String,
        /// What it has.
        found: String,
        /// What the outline has.
        expected: String,
    },
    /// Partials, or outlines, that do not belong together.
    #[error("found {what} {found}, expected {expected}, as in the partial before")]
    Differs {
        /// In what they differ.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// More than memory may hold.
    #[error("found more {what} than --memory holds, expected fewer, by a lower --sample such as 1/{rate}")]
    Memory {
        /// Pages, or pairs of requests.
        what: &'static str,
        /// A rate that may fit, as its denominator.
        rate: u64,
    },
    /// An option that does not fit.
    #[error("{option}: found {found}, expected {expected}")]
    Setting {
        /// The option.
        option: &'static str,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// Not a file of this kind and version.
    #[error("found {found}, expected {expected}")]
    File {
        /// What the file has.
        found: String,
        /// What it should have.
        expected: String,
    },
}
