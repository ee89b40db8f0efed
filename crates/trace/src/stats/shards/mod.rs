//! Statistics of a trace in shards that follow each other in time, each on a machine of its own.
//!
//! Two rounds. An [`Outline`] of each shard has what the others need of it: its length, the ends of its volumes, and
//! what goes on at its end (the last requests, those in flight). Merged, the outlines are that of the whole trace. With
//! it, each shard is characterised as if the ones before had just been read, which gives a [`Partial`]: sums, and the
//! order of first and of last accesses of its pages. Two partials of shards that follow each other merge into one of
//! both; that of all shards has the statistics.
//!
//! Invariant: the statistics are those of one pass over the whole trace, whatever the shards and the order of merging;
//! of a sample, those of one pass over the same sample. Merging distances of reuse is exact (as in PARDA, Niu et al.,
//! 2012): the first accesses of a shard are resolved in the stack of the pages before it.
//!
//! Faults: files that are damaged, cut, or of another trace, rate or version are errors; a shard that changed since its
//! outline was made, too. Names of processes pass from shard to shard; a completion that another shard
//! holds is unknown.

mod carry;
mod error;
mod file;
mod outline;
mod pages;
mod part;
mod partial;

pub use error::ShardError;
pub use file::{Kind, read, write};
pub use outline::{Outline, Outlining};
pub use part::PartAnalysis;
pub use partial::Partial;

#[cfg(test)]
mod tests;
