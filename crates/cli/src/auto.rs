//! `--drive auto`: which of the known drives is taken for a trace, and why.

use seekless_core::{SECTOR_BYTES, Size};
use seekless_drive::{Model, spec};
use seekless_trace::Trace;

/// Stands for the usual drive, or a larger one if needed.
pub const AUTO: &str = "auto";
/// The drive to try first.
pub const USUAL: &str = "wd2500aaks";

/// The smallest of these disks that is of usual speed; without one, the smallest.
pub fn smallest(drives: Vec<(&'static str, Model)>) -> Option<(&'static str, Model)> {
    let disks = drives.into_iter().filter_map(|(name, drive)| {
        let is_unusual = !spec::is_usual(drive.disk()?);
        Some(((is_unusual, drive.sectors(), name), drive))
    });
    disks.min_by_key(|(order, _)| *order).map(|((.., name), drive)| (name, drive))
}

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
