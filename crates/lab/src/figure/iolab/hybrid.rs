//! The hybrid drive: Figure 6, and boots on it.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, Nanos, Record, SECTOR_BYTES};
use seekless_drive::{QueueOptions, Spec, simulated};
use seekless_trace::Trace;

use super::{BOOTS, FAST_BYTES, Played, Recording, THINK, WARM_BOOT_SLOW, With, about, largest, on_both};
use crate::error::LabError;
use crate::figure::Job;
use crate::figure::shown::{Cell, Grid, Picture, Shown, numbers, words};
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};

/// Sectors of a part of the recording that is moved as one: 1 MiB.
const PART: u64 = 2_048;

/// The recording with the parts that it touches next to each other, in order, as on the guest's own disk.
fn packed(trace: Trace) -> Trace {
    let parts = |at: Extent| at.start.0 / PART..at.end().0.div_ceil(PART);
    let touched: BTreeSet<u64> = trace.records.iter().flat_map(|record| parts(record.extent)).collect();
    let places: BTreeMap<u64, u64> = touched.into_iter().zip(0..).collect();
    let moved = |record: &Record| {
        let place = places.get(&(record.extent.start.0 / PART)).copied().unwrap_or(0);
        let start = Lba(place * PART + record.extent.start.0 % PART);
        Record { extent: Extent { start, ..record.extent }, ..*record }
    };
    Trace { records: trace.records.iter().map(moved).collect(), ..trace }
}

/// Locations at which throughput is measured, bytes read at each, and bytes of a read.
const LOCATIONS: u64 = 54;
const READ_THERE: u64 = 8 << 20;
const READ: u64 = 64 << 10;
/// Random reads for the latencies.
const RANDOM: u64 = 4_000;
/// Ranges of seek distances.
const DISTANCES: usize = 12;

/// What HD Tune measures: MB/s by location, and latencies by distance, both in bytes of the volume.
struct Tuned {
    throughput: Vec<(f64, f64)>,
    latencies: Vec<(f64, Nanos)>,
}

async fn tune(device: &dyn BlockDevice) -> Result<Tuned, IoError> {
    let sectors = device.geometry().sectors;
    let read = async |at: Extent| {
        let begin = runtime::now();
        device.read(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
        Ok::<Nanos, IoError>(runtime::now().since(begin))
    };
    let mut throughput = Vec::new();
    for location in 0..LOCATIONS {
        let start = sectors / LOCATIONS * location / 128 * 128;
        let (mut took, mut bytes) = (Nanos::ZERO, 0);
        for at in Extent::new(start, READ_THERE / SECTOR_BYTES).split(READ / SECTOR_BYTES) {
            // What precedes the first read is its seek.
            let time = read(at).await?;
            if bytes > 0 {
                took += time;
            }
            bytes += at.bytes();
        }
        throughput.push(((start * SECTOR_BYTES) as f64, (bytes - READ) as f64 / took.seconds() / 1e6));
    }
    let (mut rng, mut latencies, mut last) = (runtime::rng("figure"), Vec::new(), 0_u64);
    for _ in 0..RANDOM {
        let at = rng.below(sectors - 8) / 8 * 8;
        let took = read(Extent::new(at, 8)).await?;
        latencies.push(((at.abs_diff(last) * SECTOR_BYTES) as f64, took));
        last = at;
    }
    Ok(Tuned { throughput, latencies })
}

fn tuned(drive: &Spec, seed: u64) -> Result<Tuned, LabError> {
    let tuned: Result<Tuned, LabError> = Runtime::new(seed).run(async {
        let disk = simulated(0, &drive.clone().into(), QueueOptions::default()).device();
        let top = on_both("static", disk).await?;
        Ok(tune(&*top.device).await?)
    })?;
    tuned
}

pub(super) fn figure_6(job: &Job) -> Result<Shown, LabError> {
    let Tuned { throughput, mut latencies } = tuned(job.drive(), job.seed)?;
    let columns = [numbers("location_gb", "location, GB", 1), numbers("read_mb_s", "read, MB/s", 1)];
    let mut grid = Grid::new("", &columns);
    for (at, speed) in &throughput {
        grid.row([(at / 1e9).into(), (*speed).into()]);
    }
    latencies.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (by_distance, near_zero_rows) = by_distance(&latencies);
    let (boots, [fixed, moved]) = boots_on_hybrid(job)?;
    let speeds: Vec<f64> = throughput.iter().map(|(_, speed)| *speed).collect();
    let disk = throughput.iter().find(|(at, _)| *at > FAST_BYTES as f64).map_or(0.0, |found| found.1);
    let paper = vec![
        about("6.4.3", "throughput in the first 4 GB", "MB/s", 150.0, speeds[0], 25.0),
        about("6.4.3", "throughput behind them", "MB/s", 50.0, disk, 25.0),
        about("6.4.3", "static: saved of cold minus warm, a boot", "%", 71.0, fixed, 15.0),
        about(
            "6.4.3",
            "ranges of distances with latencies near zero, of 12",
            "",
            12.0,
            near_zero_rows as f64,
            10.0,
        ),
    ];
    let points = |all: &[(f64, f64)], name: &str, along_label, value_label, form| {
        let along = Along::Linear(all.iter().map(|(at, _)| at / 1e9).collect());
        let values = all.iter().map(|(_, value)| Some(*value)).collect();
        let series = vec![Series { name: name.to_owned(), values }];
        Picture::Lines(Plot { along, along_label, value_label, form, series, ..Plot::default() })
    };
    let latencies: Vec<(f64, f64)> =
        latencies.into_iter().map(|(at, took)| (at, took.seconds() * 1e3)).collect();
    let pictures = vec![
        (
            "throughput".to_owned(),
            points(&throughput, "reads of 64 KiB", "location, GB", "MB/s", Form::Lines),
        ),
        ("latency".to_owned(), points(&latencies, "reads of 4 KiB", "seek distance, GB", "ms", Form::Points)),
    ];
    let moves = format!(
        "By address {fixed:.1} % of cold minus warm are saved; by heat {moved:.1} %, where one boot was seen before and none of \
         the guest is in the first 4 GB."
    );
    let place = "The guest's image lies in a file, in pieces: these are put together, at the beginning of the volume, as on \
                 a disk of the guest's own; and for the hybrid drive by heat behind the first 4 GB.";
    let mut shown = job.shown(grid, paper, &[&moves, place, BOOTS, THINK], pictures);
    shown.more = vec![by_distance, boots];
    Ok(shown)
}

/// Latencies by distance, in the order of which they are; and in how many ranges of it there are latencies near zero.
fn by_distance(latencies: &[(f64, Nanos)]) -> (Grid, usize) {
    let columns = [
        numbers("distance_gb", "distance up to, GB", 1),
        numbers("reads", "reads", 0),
        numbers("near_zero_pct", "below 1 ms, %", 1),
        numbers("least_ms", "least of others, ms", 2),
        numbers("mean_ms", "mean of others, ms", 2),
        numbers("most_ms", "most, ms", 2),
    ];
    let mut by_distance = Grid::new("Access latency by seek distance", &columns);
    let end = latencies.last().map_or(1.0, |last| last.0);
    let mut near_zero_rows = 0;
    for part in 0..DISTANCES {
        let to = end * (part + 1) as f64 / DISTANCES as f64;
        let from = end * part as f64 / DISTANCES as f64;
        let within = latencies.iter().filter(|(distance, _)| *distance > from && *distance <= to);
        let all: Vec<f64> = within.map(|(_, took)| took.seconds() * 1e3).collect();
        let others: Vec<f64> = all.iter().copied().filter(|ms| *ms >= 1.0).collect();
        near_zero_rows += usize::from(others.len() < all.len());
        let some = |value: f64| Cell::from(Some(value).filter(|_| !others.is_empty()));
        by_distance.row([
            (to / 1e9).into(),
            (all.len() as u64).into(),
            (100.0 * (all.len() - others.len()) as f64 / all.len().max(1) as f64).into(),
            some(others.iter().copied().fold(f64::MAX, f64::min)),
            some(others.iter().sum::<f64>() / others.len().max(1) as f64),
            some(others.iter().copied().fold(0.0, f64::max)),
        ]);
    }
    (by_distance, near_zero_rows)
}

/// Boots on the disk and on the hybrid drive, and what is saved by address and by heat.
fn boots_on_hybrid(job: &Job) -> Result<(Grid, [f64; 2]), LabError> {
    let recording = Recording::changed(job, WARM_BOOT_SLOW, packed)?;
    let judged = largest(&recording)?;
    let columns = [
        words("device", "device"),
        numbers("boot_s", "boot, s", 2),
        numbers("saved_pct", "saved, %", 1),
        numbers("disk_reads", "disk reads", 0),
        numbers("paper_s", "paper, s", 1),
    ];
    let mut grid = Grid::new("Boots", &columns);
    let cold = recording.play(&With::Nothing)?;
    let cold_s = cold.timed[judged].took.seconds();
    let reads = |played: &Played| Cell::from(played.accesses(judged).len() as u64);
    grid.row([Cell::from("the disk"), cold_s.into(), Cell::Nothing, reads(&cold), job.theirs(Some(49.1))]);
    // Behind the first 4 GB, so that what is saved by heat was moved.
    let behind = |trace: Trace| {
        let mut trace = packed(trace);
        let by = FAST_BYTES.div_ceil(PART * SECTOR_BYTES) * PART;
        trace.records.iter_mut().for_each(|record| record.extent.start = record.extent.start + by);
        trace
    };
    let behind = Recording::changed(job, WARM_BOOT_SLOW, behind)?;
    let mut saved = [0.0; 2];
    let ways = [
        ("hybrid, first 4 GB", "static", Some(34.6), &recording),
        ("hybrid, by heat", "heat", None, &behind),
    ];
    for (saved, (name, placement, paper, recording)) in saved.iter_mut().zip(ways) {
        let played = recording.play(&With::Hybrid(placement))?;
        let cold = recording.play(&With::Nothing)?;
        let sums = recording.sums(&[judged], &cold, &played);
        *saved = sums.saved_pct();
        let row = [Cell::from(name), sums.with.seconds().into(), (*saved).into(), reads(&played)];
        grid.row(row.into_iter().chain([job.theirs(paper)]));
    }
    let warm = [Cell::from("warm boot"), recording.warm[judged].took.seconds().into(), Cell::Nothing];
    grid.row(warm.into_iter().chain([Cell::Nothing, job.theirs(Some(28.6))]));
    recording.think_row(&mut grid);
    Ok((grid, saved))
}
