//! Use of the drive's head under a workload: the bars of the freeblock paper (section 3).
//!
//! A bar is the time of the head alone: seek, rotation and transfer are 100 %, command overhead is left out. The
//! drive's cache is off, so that the head goes for every request. *Rotation* is the wait for a request's first sector,
//! which freeblock scheduling could use; the time between two tracks of one transfer (the switch, and the wait due to
//! skews) is a part of its own. It follows from the layout alone, so it is computed without running the drive. Fault
//! model: none of its own.

use seekless_core::{Extent, Nanos, Op, PAGE_SECTORS};
use seekless_drive::disk::Drive;
use seekless_drive::disk::mechanics::Head;
use seekless_drive::{Policy, QueueOptions, Spec};

use crate::error::LabError;
use crate::load::{Run, run_workload};
use crate::workload;
use crate::workload::client::Limit;
use seekless_volume::Component;
use seekless_volume::description::Description;

/// A bar. The four parts add up to 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seek to the first sector's track, in per cent.
    pub seek_pct: f64,
    /// Wait for the first sector, in per cent: the potential free bandwidth.
    pub rotation_pct: f64,
    /// Transfer, in per cent.
    pub transfer_pct: f64,
    /// Switches between tracks of a transfer, in per cent.
    pub track_switch_pct: f64,
    /// Head time of a request, in milliseconds.
    pub access_ms: f64,
    /// Command overhead, in milliseconds.
    pub overhead_ms: f64,
}

/// The bar of a drive, a scheduler and a workload.
pub fn usage(drive: &Spec, policy: Policy, load: &str, requests: u64, seed: u64) -> Result<Usage, LabError> {
    let queue =
        QueueOptions { policy, merge: false, starvation_limit: Nanos::ZERO, ..QueueOptions::default() };
    let mut drive = drive.clone();
    drive.cache.enabled = false;
    drive.set_write_cache(false);
    let known = Drive::new(&drive);
    let sectors = drive.sectors / PAGE_SECTORS * PAGE_SECTORS;
    let volume = Description::bare(Component::new(drive.into(), queue), sectors);
    let limit = Limit { requests: Some(requests), time: None };
    let run = Run { limit, seed, keep: true };
    let (outcome, recorded) = run_workload(&workload::parse(load)?, &volume, &run, None)?;
    let (mut seek, mut rotation) = (0, 0);
    for record in &recorded.records {
        let between = between_tracks(&known, record.extent, record.op == Op::Write);
        (seek, rotation) = (seek + between.0, rotation + between.1);
    }
    let (seek, rotation) = (Nanos(seek).seconds(), Nanos(rotation).seconds());
    let head = &outcome.head;
    let all = head.seek_s + head.rotation_s + head.transfer_s;
    let percent = |part: f64| 100.0 * part.max(0.0) / all;
    Ok(Usage {
        seek_pct: percent(head.seek_s - seek),
        rotation_pct: percent(head.rotation_s - rotation),
        transfer_pct: percent(head.transfer_s),
        track_switch_pct: percent(seek + rotation),
        access_ms: 1e3 * all / requests.max(1) as f64,
        overhead_ms: 1e3 * head.overhead_s / requests.max(1) as f64,
    })
}

/// Nanoseconds of seek and of rotation between the tracks of a transfer.
fn between_tracks(drive: &Drive, at: Extent, write: bool) -> (u64, u64) {
    let (layout, mechanics) = (drive.layout(), drive.mechanics());
    let (mut seek, mut rotation) = (0, 0);
    let mut last = layout.piece(at);
    while last.at.end() < at.end() {
        let rest = Extent { start: last.at.end(), sectors: at.end().0 - last.at.end().0 };
        let next = layout.piece(rest);
        let reach = mechanics.reach(Head { cylinder: last.cylinder, head: last.head }, &next, write);
        let there = last.angle + mechanics.pass(last.at.sectors, last.per_track) + reach;
        rotation += mechanics.wait(next.angle, there);
        seek += reach;
        last = next;
    }
    (seek, rotation)
}

#[cfg(test)]
mod tests {
    use seekless_drive::spec::find;

    use super::*;

    /// The computed time agrees with the drive's.
    #[test]
    fn between_tracks_is_what_a_transfer_takes_beyond_its_sectors() {
        for name in ["quantum-atlas-10k", "seagate-cheetah-15k5", "ibm-ultrastar-9es"] {
            let drive = Drive::new(&find(name).unwrap());
            for (start, write) in [(0, false), (1_000_003, true), (3_000_333, false)] {
                let at = Extent::new(start, 2_000);
                let first = drive.layout().piece(at);
                let on_track = Head { cylinder: first.cylinder, head: first.head };
                let begin = Nanos(first.angle);
                let (took, _) = drive.mechanics().access(drive.layout(), on_track, begin, at, write);
                let found = between_tracks(&drive, at, write);
                assert_eq!((took.seek.0, took.rotation.0), found, "{name} {start}");
                assert!(found.0 > 0);
            }
        }
    }
}
