//! `--drive auto`: which of the known drives is taken for a trace, and why.

use seekless_core::{SECTOR_BYTES, Size};
use seekless_drive::{Model, spec};
use seekless_trace::Trace;

use crate::noted::Noted;

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

/// Of these drives, those that are as large as the disk that was recorded, if that is noted; if there are none, the
/// largest disk of usual speed.
pub fn as_large(drives: Vec<(&'static str, Model)>, noted: Option<&Noted>) -> Vec<(&'static str, Model)> {
    let usual = drives.iter().filter(|(_, drive)| drive.disk().is_some_and(spec::is_usual));
    let largest = usual.map(|(_, drive)| drive.sectors()).max().unwrap_or(0);
    let wanted = sectors(noted);
    let least = if drives.iter().any(|(_, drive)| drive.sectors() >= wanted) { wanted } else { largest };
    drives.into_iter().filter(|(_, drive)| drive.sectors() >= least).collect()
}

/// Sectors of the disk that was recorded, less what makers round; 0 if that is not noted.
pub fn sectors(noted: Option<&Noted>) -> u64 {
    noted.and_then(|noted| noted.disk.size_bytes).unwrap_or(0) / SECTOR_BYTES / 1_000 * 999
}

/// Why this drive was taken, if `asked` left the choice.
pub fn because(asked: &str, taken: &Model, trace: &Trace, noted: Option<&Noted>) -> Option<String> {
    let reached = Size(trace.end_sector().saturating_mul(SECTOR_BYTES));
    let recorded = noted.and_then(|noted| {
        let model = noted.disk.model.as_deref().unwrap_or("a disk");
        Some(format!("{model} of {}", Size(noted.disk.size_bytes?)))
    });
    let why = match recorded {
        _ if taken.name() == USUAL => {
            format!("the usual drive: it has room for {reached}, which the trace reaches")
        }
        Some(disk) if taken.sectors() >= sectors(noted) => {
            format!("the smallest known disk as large as the recorded one: {disk}")
        }
        Some(disk) => format!("the largest known disk; the recorded one is larger: {disk}"),
        None => format!("the smallest known disk with room for {reached}, which the trace reaches"),
    };
    (asked == AUTO).then_some(why)
}
