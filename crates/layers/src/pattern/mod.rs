//! The pattern analyser (section 5.2 of the IOLab paper): pieces that layers build on to learn from the requests that
//! they see. Online, deterministic, and bounded in memory.

mod sequences;

pub use sequences::{Bounds, Lasts, MOST_READS, Programs, Sequences, Touched};
