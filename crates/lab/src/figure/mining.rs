//! Figures 8 to 10 of the freeblock paper (Lumb et al., OSDI 2000, section 6.3): a full scan of a disk for free, during
//! a busy foreground.
//!
//! The paper's algorithm is compared with the weighted one. Every run is repeated without free work: neither the sum of
//! the foreground's waits may differ, nor the time of any of its requests and answers.

use seekless_core::PAGE_SECTORS;
use seekless_drive::Policy;
use seekless_drive::freeblock::{FreeOptions, FreePolicy};

use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::{Entry, Job};
use crate::error::LabError;
use crate::mining::{Foreground, Mined, Mining, head_alone, mine};
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};

/// The paper's drive, as `DiskSim` has it.
const ATLAS: [&str; 1] = ["quantum-atlas-10k-disksim"];

const BOTH: [FreePolicy; 2] = [FreePolicy::Paper, FreePolicy::Weighted];

const ALONE: &str = "Only the drive's head is simulated: no cache, and no bus time, as in the paper.";

const BUFFERS: &str =
    "A scan has 8 MiB of buffers, in which blocks across the ends of tracks wait for their remainder.";

const NO_BOUND: &str = "Blocks across the ends of tracks wait for their remainder in buffers, which the paper does \
                        not bound: its figures are compared with a scan without a bound. Elsewhere there are 8 MiB.";

/// Kinds of scans in the figures about their progress: the policy, and whether buffers are bounded.
const KINDS: [(FreePolicy, bool); 4] = [
    (FreePolicy::Paper, false),
    (FreePolicy::Paper, true),
    (FreePolicy::Weighted, false),
    (FreePolicy::Weighted, true),
];

fn options((policy, bounded): (FreePolicy, bool)) -> FreeOptions {
    let usual = FreeOptions { policy, ..FreeOptions::default() };
    if bounded { usual } else { FreeOptions { buffers: u64::MAX, ..usual } }
}

/// Description of a kind's buffers, and its name.
fn buffers((policy, bounded): (FreePolicy, bool)) -> (&'static str, String) {
    let buffers = if bounded { "8 MiB" } else { "no bound" };
    (buffers, format!("{policy}, {buffers}"))
}

/// Figure 8: scans against the multiprogramming level.
pub const FIGURE_8: Entry = Entry {
    usual: 1,
    points: "multiprogramming levels",
    rows: "points",
    ..Entry::new(
        "scans a number",
        "freeblock-8",
        "free data mining against the load",
        "freeblock paper (OSDI 2000), section 6.3, Figure 8",
        "4.9 MB/s and 47 scans a day from level 7 on, half of the potential",
        &ATLAS,
        figure_8,
    )
};

/// Figure 9: progress of a scan.
pub const FIGURE_9: Entry = Entry {
    usual: 10,
    ..Entry::new(
        "scans",
        "freeblock-9",
        "progress of a free scan at level 7",
        "freeblock paper (OSDI 2000), section 6.3, Figure 9",
        "the last 5 % take 30 % of the time",
        &ATLAS,
        figure_9,
    )
};

/// Figure 10: scans of a part of the data.
pub const FIGURE_10: Entry = Entry {
    usual: 10,
    ..Entry::new(
        "scans",
        "freeblock-10",
        "free scans of a part of the data at level 7",
        "freeblock paper (OSDI 2000), section 6.3, Figure 10",
        "any 95 %: 40 % more samples a day; 80 %: 90 % efficient",
        &ATLAS,
        figure_10,
    )
};

/// A run with free work, and by how many nanoseconds it delayed the foreground.
struct Pair {
    mined: Mined,
    delta: i128,
}

fn pair(job: &Job, policy: Policy, level: u64, free: FreeOptions) -> Result<Pair, LabError> {
    let mining = Mining {
        drive: head_alone(job.drive()),
        policy,
        foreground: Foreground::Load(format!("oltp:mpl={level}")),
        free,
        block: PAGE_SECTORS,
        scans: job.requests,
        scrub: None,
        time: None,
        seed: job.seed,
    };
    let mined = mine(&mining, None)?;
    let alone = mine(&mining, Some(mined.requests))?;
    let delta = i128::from(mined.waited.0) - i128::from(alone.waited.0);
    let same = mined.hash == alone.hash;
    // A sum may hide differences of single events.
    let delta = if same || delta != 0 { delta } else { i128::MAX };
    Ok(Pair { mined, delta })
}

/// Throughput of free work, in the waits and in passing, in MB/s (10^6 bytes).
fn free_mb_s(mined: &Mined) -> f64 {
    (mined.freed.bytes + mined.freed.foreground_bytes) as f64 / 1e6 / mined.elapsed.seconds()
}

fn potential_mb_s(mined: &Mined) -> f64 {
    mined.freed.potential_bytes as f64 / 1e6 / mined.elapsed.seconds()
}

const COLUMNS_8: [Column; 15] = [
    numbers("mpl", "level", 0),
    words("scheduler", "scheduler"),
    words("policy", "free policy"),
    numbers("free_mb_s", "free MB/s", 2),
    numbers("potential_mb_s", "potential", 2),
    numbers("scans_per_day", "scans a day", 1),
    numbers("tail_pct", "last 5 %", 1),
    numbers("foreground_delta_ns", "foreground ns", 0),
    numbers("seek_pct", "seek %", 1),
    numbers("rotation_pct", "rotation %", 1),
    numbers("transfer_pct", "transfer %", 1),
    numbers("idle_pct", "idle %", 1),
    numbers("free_transfer_pct", "of it free %", 1),
    numbers("share_pct", "of potential %", 1),
    numbers("paper_scans_per_day", "paper: scans", 0),
];

fn figure_8(job: &Job) -> Result<Shown, LabError> {
    const LEVELS: [u64; 5] = [1, 4, 7, 10, 20];
    let schedulers = [Policy::Fcfs, Policy::CLook, Policy::SptfSw(40)];
    let mut grid = Grid::new("", &COLUMNS_8);
    let levels = job.points(&LEVELS, |level| level.to_string())?;
    let (mut pictures, mut paper, mut done) = (Vec::new(), Vec::new(), 0);
    for free in BOTH {
        let mut series = Vec::new();
        for policy in schedulers {
            let mut values = Vec::new();
            for &level in &levels {
                job.progress(done, levels.len() * schedulers.len() * BOTH.len());
                done += 1;
                let options = FreeOptions { policy: free, ..FreeOptions::default() };
                let Pair { mined, delta } = pair(job, policy, level, options)?;
                let scans = 86_400.0 / mined.scan_s();
                let theirs = policy == Policy::Fcfs && free == FreePolicy::Paper && level >= 7;
                if theirs && level == 7 {
                    let about = |says, unit, theirs, ours, within| {
                        Statement::about("section 6.3", says, unit, theirs, ours, Within::Percent(within))
                    };
                    let share = 100.0 * mined.freed.share();
                    paper.push(about("level 7, FCFS: free bandwidth", "MB/s", 4.9, free_mb_s(&mined), 6.0));
                    paper.push(about("level 7, FCFS: scans a day", "", 47.0, scans, 6.0));
                    paper.push(about("level 7, FCFS: of the potential, half", "%", 50.0, share, 20.0));
                }
                let theirs = job.theirs(theirs.then_some(47.0));
                job.row(&mut grid, row_8(&mined, delta, level, policy, free, theirs));
                values.push(Some(scans));
            }
            series.push(Series { name: policy.to_string(), values });
        }
        let plot = Plot {
            along: Along::Linear(levels.iter().map(|&level| level as f64).collect()),
            along_label: "multiprogramming level",
            value_label: "scans a day",
            series,
            ..Plot::default()
        };
        pictures.push((format!("scans a day, policy {free}"), Picture::Lines(plot)));
    }
    let notes = [
        ALONE,
        BUFFERS,
        "Free MB/s includes pending blocks that the foreground itself reads or writes. The potential is what passes \
         under the head on its track during waits; its share is that of the free bytes in these and what passes in \
         unused waits. Seek, rotation and transfer are shares of all time, free work \
         included.",
        "Foreground ns is the increase of the sum of its response times over the same run without free work.",
    ];
    Ok(job.shown(grid, paper, &notes, pictures))
}

fn row_8(
    mined: &Mined,
    delta: i128,
    level: u64,
    policy: Policy,
    free: FreePolicy,
    theirs: Cell,
) -> Vec<Cell> {
    let (work, freed) = (&mined.work, &mined.freed);
    let percent = |nanos: u64| 100.0 * nanos as f64 / mined.elapsed.0 as f64;
    let rotation = work.rotation.0.saturating_sub(freed.seek.0 + freed.transfer.0);
    vec![
        level.into(),
        policy.to_string().as_str().into(),
        free.to_string().as_str().into(),
        free_mb_s(mined).into(),
        potential_mb_s(mined).into(),
        (86_400.0 / mined.scan_s()).into(),
        (100.0 * (1.0 - mined.at(95) / mined.at(100))).into(),
        (delta as f64).into(),
        percent(work.seek.0 + freed.seek.0).into(),
        percent(rotation).into(),
        percent(work.transfer.0 + freed.transfer.0).into(),
        percent(mined.elapsed.0.saturating_sub(work.busy().0)).into(),
        percent(freed.transfer.0).into(),
        (100.0 * mined.freed.share()).into(),
        theirs,
    ]
}

fn figure_9(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        words("policy", "free policy"),
        words("buffers", "buffers"),
        numbers("done_pct", "done %", 0),
        numbers("time_pct", "of the time %", 1),
        numbers("free_mb_s", "free MB/s", 2),
        numbers("transfer_pct", "transfer %", 1),
        numbers("seek_pct", "extra seek %", 1),
        numbers("unused_pct", "unused %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let (mut series, mut paper) = (Vec::new(), Vec::new());
    for (done, kind) in KINDS.into_iter().enumerate() {
        job.progress(done, KINDS.len());
        let ((free, bounded), (buffers, name)) = (kind, buffers(kind));
        let Pair { mined, .. } = pair(job, Policy::Fcfs, 7, options(kind))?;
        for to in (5..=100).step_by(5) {
            // From five hundredths before to this one.
            let seconds = mined.at(to) - mined.at(to - 5);
            let part = |of: fn(&seekless_drive::freeblock::FreeStats) -> u64| {
                mined.mean(|scan| (of(&mined.freed_at[scan][to]) - of(&mined.freed_at[scan][to - 5])) as f64)
            };
            let bytes = part(|freed| freed.bytes + freed.foreground_bytes);
            let potential = part(|freed| freed.potential.0);
            let (transfer, seek) = (part(|freed| freed.transfer.0), part(|freed| freed.seek.0));
            let percent = |part: f64| 100.0 * part / potential;
            let cells = [
                free.to_string().as_str().into(),
                buffers.into(),
                (to as u64).into(),
                (100.0 * mined.at(to) / mined.scan_s()).into(),
                (bytes / 1e6 / seconds).into(),
                percent(transfer).into(),
                percent(seek).into(),
                percent(potential - transfer - seek).into(),
            ];
            job.row(&mut grid, cells);
        }
        let tail = 100.0 * (1.0 - mined.at(95) / mined.at(100));
        if free == FreePolicy::Paper && !bounded {
            let about = |says, theirs, ours, within| {
                Statement::about("section 6.3", says, "%", theirs, ours, Within::Points(within))
            };
            let lost = 100.0 * mined.freed.seek.seconds() / mined.freed.potential.seconds();
            paper.push(about("the last 5 % of a scan: of the time", 30.0, tail, 2.0));
            paper.push(about("lost to extra seeks: of the potential", 18.0, lost, 4.0));
        }
        let values = (0..=100).step_by(5).map(|to| Some(mined.at(to) / 60.0)).collect();
        series.push(Series { name, values });
    }
    let plot = Plot {
        along: Along::Linear((0..=100).step_by(5).map(f64::from).collect()),
        along_label: "per cent of the scan done",
        value_label: "minutes",
        series,
        ..Plot::default()
    };
    let notes =
        [ALONE, NO_BOUND, "Transfer, extra seek and unused are of the waits in that twentieth of the scan."];
    Ok(job.shown(grid, paper, &notes, vec![("progress".to_owned(), Picture::Lines(plot))]))
}

fn figure_10(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        words("policy", "free policy"),
        words("buffers", "buffers"),
        numbers("wanted_pct", "of the data %", 0),
        numbers("samples_per_day", "samples a day", 1),
        numbers("free_mb_s", "free MB/s", 2),
        numbers("efficiency_pct", "of potential %", 1),
        numbers("more_pct", "more than of all %", 1),
        numbers("bias_pct", "bias %", 2),
    ];
    let mut grid = Grid::new("", &columns);
    let (mut series, mut paper) = (Vec::new(), Vec::new());
    for (done, kind) in KINDS.into_iter().enumerate() {
        job.progress(done, KINDS.len());
        let ((free, bounded), (buffers, name)) = (kind, buffers(kind));
        let Pair { mined, .. } = pair(job, Policy::Fcfs, 7, options(kind))?;
        let efficiency = |to: usize| 100.0 * mined.mean(|scan| mined.freed_at[scan][to].share());
        for to in (5..=100).step_by(5) {
            let bytes = mined.mean(|scan| {
                (mined.freed_at[scan][to].bytes + mined.freed_at[scan][to].foreground_bytes) as f64
            });
            let cells = [
                free.to_string().as_str().into(),
                buffers.into(),
                (to as u64).into(),
                (86_400.0 / mined.at(to)).into(),
                (bytes / 1e6 / mined.at(to)).into(),
                efficiency(to).into(),
                (100.0 * (mined.at(100) / mined.at(to) - 1.0)).into(),
                mined.mean(|scan| mined.biases[scan][to]).into(),
            ];
            job.row(&mut grid, cells);
        }
        if free == FreePolicy::Paper && !bounded {
            let about = |says, unit, theirs, ours, within| {
                Statement::about("section 6.3", says, unit, theirs, ours, Within::Percent(within))
            };
            let more = 100.0 * (mined.at(100) / mined.at(95) - 1.0);
            paper.push(about("any 95 %: more samples a day than of all", "%", 40.0, more, 10.0));
            paper.push(about("80 %: efficiency", "%", 90.0, efficiency(80), 10.0));
            paper.push(about("80 %: samples a day, over", "", 90.0, 86_400.0 / mined.at(80), 15.0));
        }
        let values = (5..=100).step_by(5).map(|to| Some(efficiency(to))).collect();
        series.push(Series { name, values });
    }
    let plot = Plot {
        along: Along::Linear((5..=100).step_by(5).map(f64::from).collect()),
        along_label: "per cent of the data that is enough",
        value_label: "per cent of the potential",
        series,
        ..Plot::default()
    };
    let notes = [
        ALONE,
        NO_BOUND,
        "Bias is the largest difference, over all places of the disk, between the share of the blocks before the \
         place among those read and on the disk: 0 is a fair sample, which the paper assumes.",
    ];
    Ok(job.shown(grid, paper, &notes, vec![("efficiency".to_owned(), Picture::Lines(plot))]))
}
