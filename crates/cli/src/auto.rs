//! `--drive auto`: which of the known drives is taken for a trace, and why.

use seekless_core::{SECTOR_BYTES, Size};
use seekless_trace::Trace;

/// Stands for the usual drive, or a larger one if needed.
pub const AUTO: &str = "auto";
/// The drive to try first.
pub const USUAL: &str = "wd2500aaks";

/// Why this drive was taken, if `asked` left the choice.
pub fn because(asked: &str, taken: &str, trace: &Trace) -> Option<String> {
    let reached = Size(trace.end_sector().saturating_mul(SECTOR_BYTES));
    let why = if taken == USUAL {
        format!("the usual drive: it has room for {reached}, which the trace reaches")
    } else {
        format!("the smallest known disk with room for {reached}, which the trace reaches")
    };
    (asked == AUTO).then_some(why)
}
