//! Figures and tables of the IOLab paper (Joo et al., IEEE Transactions on Computers 2014, section 6), from recorded
//! starts of programs and recorded boots: cold, warm, and with each function.
//!
//! Each read follows its predecessor's answer by the recorded gap, times a factor with which warm takes the share of
//! cold that it has in the paper. A function learns from all starts as they go; the last one of each program is judged.
//! What no recording has is said in a note.

mod boots;
mod hybrid;
mod lines;
mod starts;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoFuture, Nanos, SECTOR_BYTES, Slice, Zeroes};
use seekless_drive::{QueueOptions, simulated, spec};
use seekless_layers::registry::{self, Below};
use seekless_trace::Trace;
use seekless_volume::{Component, Description};

use super::shown::{Cell, Column, Grid, Picture, Statement, Within, numbers, words};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};
use crate::starts::{Start, Starts, Sums, Timed, Top, think_for};

/// A figure of a recording of starts.
const fn of_starts(recordings: &'static [&'static str], entry: &Entry) -> Entry {
    Entry { usual: 10_000_000, recordings, starts: true, ..*entry }
}

const COUNTED: &str = "requests of the recording";

/// Accesses of the disk while a program starts.
pub const FIGURE_2: Entry = of_starts(
    &["appstart2"],
    &Entry::new(
        COUNTED,
        "iolab-2",
        "disk accesses of a program's start",
        "IOLab paper (TC 2014), section 6.2, Figure 2",
        "Word: 8.3 s, 5.7 s with the Windows prefetcher, 4.4 s with IOLab's, in ascending order; hits 95.4 %",
        &["wd6400aaks"],
        starts::figure_2,
    ),
);
/// Starts of programs on Linux.
pub const FIGURE_3: Entry = of_starts(
    &["appstart2"],
    &Entry::new(
        COUNTED,
        "iolab-3",
        "starts of programs on Linux, with the launch prefetcher",
        "IOLab paper (TC 2014), section 6.2.5, Figure 3",
        "Eclipse: 15.8 s cold, 10.0 s prefetched, 7.6 s warm; hits 97.5 %",
        &["wd6400aaks"],
        starts::figure_3,
    ),
);
/// Accesses of the disk while a guest boots.
pub const FIGURE_4: Entry = of_starts(
    &["vmboot"],
    &Entry::new(
        COUNTED,
        "iolab-4",
        "disk accesses of a guest's boot",
        "IOLab paper (TC 2014), section 6.3.1, Figure 4",
        "Linux: 38.1 s, not ascending; Windows XP: 93.4 MB, idle for about 20 s",
        &["wd6400aaks"],
        boots::figure_4,
    ),
);
/// Boots with the prefetcher and with CDP.
pub const FIGURE_5: Entry = of_starts(
    &["vmboot"],
    &Entry::new(
        COUNTED,
        "iolab-5",
        "boots of a guest, with the launch prefetcher and with CDP",
        "IOLab paper (TC 2014), section 6.3.5, Figure 5",
        "Linux: 38.1 to 28.2 s, hits 95.2 %; Windows XP with CDP: 29.5 s, warm 28.6 s, hits 98.0 %",
        &["wd6400aaks"],
        boots::figure_5,
    ),
);
/// The hybrid drive.
pub const FIGURE_6: Entry = of_starts(
    &["vmboot"],
    &Entry::new(
        COUNTED,
        "iolab-6",
        "throughput and latency of the hybrid drive, and boots on it",
        "IOLab paper (TC 2014), section 6.4.3, Figure 6",
        "150 MB/s in the first 4 GB, then 50 and less; boots in 34.6 s, 49.1 s on the disk, 28.6 s warm",
        &["fujitsu-mhz2120bh"],
        hybrid::figure_6,
    ),
);
/// Lines of the prefetcher.
pub const TABLE_1: Entry = Entry {
    usual: 0,
    ..Entry::new(
        "requests",
        "iolab-table-1",
        "lines of the launch prefetcher",
        "IOLab paper (TC 2014), section 6.5.2, Table 1",
        "FAST: 6,920 lines; IOLab: 765",
        &["wd6400aaks"],
        lines::table_1,
    )
};
/// Times of the prefetcher.
pub const TABLE_2: Entry = of_starts(
    &["appstart2"],
    &Entry::new(
        COUNTED,
        "iolab-table-2",
        "the launch prefetcher: warm, its fetches alone, cold, prefetched",
        "IOLab paper (TC 2014), section 6.6.1, Table 2",
        "IOLab: 7.60, 2.77, 15.82 and 9.98 s; FAST on the host: 6.34, 2.65, 15.50 and 8.99 s",
        &["wd6400aaks"],
        starts::table_2,
    ),
);

/// Share of a cold start that a warm one takes: Eclipse's, 7.6 of 15.8 s.
const WARM_START: f64 = 0.48;
/// That of a boot: 28.6 of 41.6 s, Windows XP.
const WARM_BOOT: f64 = 0.69;
/// That on the disk of the hybrid drive: 28.6 of 49.1 s.
const WARM_BOOT_SLOW: f64 = 0.58;
/// The flash drive of the hybrid drive, and the size of its part: 4 GB.
const FLASH: &str = "intel-x25-v";
const FAST_BYTES: u64 = 4_000_000_000;

const THINK: &str = "Each read follows its predecessor's answer by the recorded gap, times a factor with which warm starts take \
                     the paper's share of the time of cold ones: it is a row of the table.";
const LEARNED: &str =
    "Sequences are mined from the starts before the one that is judged; the paper's were captured by hand.";
const BOOTS: &str = "There is one recording of boots: Debian, twice. Windows XP, Mac OS and a BSD have none.";

/// What a start is played with.
#[derive(Clone)]
enum With {
    /// The disk alone.
    Nothing,
    /// A layer over it, with these options.
    Layer(&'static str, toml::Table),
    /// A hybrid drive of the flash drive and it, with this placement.
    Hybrid(&'static str),
}

fn launch(text: &str) -> With {
    With::Layer("launch", text.parse().unwrap_or_default())
}

/// A read that reached the disk.
#[derive(Clone, Copy)]
struct Access {
    issued: Nanos,
    answered: Nanos,
    at: Extent,
}

/// Notes what reaches a device.
struct Observed {
    device: Rc<dyn BlockDevice>,
    seen: Rc<RefCell<Vec<Access>>>,
}

impl BlockDevice for Observed {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let issued = runtime::now();
            let read = self.device.read(at, into, how).await;
            self.seen.borrow_mut().push(Access { issued, answered: runtime::now(), at });
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.device.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.device.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.device)
    }
}

/// Starts that were played, and the accesses of the disk.
struct Played {
    timed: Vec<Timed>,
    seen: Vec<Access>,
}

impl Played {
    /// The accesses of a start.
    fn accesses(&self, start: usize) -> Vec<Access> {
        let Timed { began, took, .. } = self.timed[start];
        let within = |access: &&Access| access.issued >= began && access.issued <= began + took;
        let mut accesses: Vec<Access> = self.seen.iter().filter(within).copied().collect();
        accesses.sort_by_key(|access| (access.issued, access.at.start));
        accesses
    }
}

/// Per cent of accesses that are behind the one that was answered before.
fn ascending_pct(accesses: &[Access]) -> f64 {
    let mut order = accesses.to_vec();
    order.sort_by_key(|access| access.answered);
    let ascends = order.windows(2).filter(|pair| pair[1].at.start >= pair[0].at.start).count();
    100.0 * ascends as f64 / order.len().saturating_sub(1).max(1) as f64
}

fn lacks(setting: &'static str) -> LabError {
    LabError::Setting { setting, found: "none".to_owned(), expected: "that of the figure".to_owned() }
}

/// The starts of a recording, with the factor of think times.
struct Recording<'a> {
    job: &'a Job<'a>,
    starts: Vec<Start>,
    recorded: Starts,
    think: f64,
    warm: Vec<Timed>,
}

impl<'a> Recording<'a> {
    fn new(job: &'a Job<'a>, share: f64) -> Result<Recording<'a>, LabError> {
        Recording::changed(job, share, |trace| trace)
    }

    /// The recording after a change.
    fn changed(
        job: &'a Job<'a>,
        share: f64,
        change: impl FnOnce(Trace) -> Trace,
    ) -> Result<Recording<'a>, LabError> {
        let starts = job.starts.ok_or_else(|| lacks("starts"))?;
        let trace = change(job.recording()?);
        let end = trace.records.last().map_or(Nanos::ZERO, |record| record.time);
        let starts: Vec<Start> = starts.iter().filter(|start| start.at <= end).cloned().collect();
        let drive = job.drive();
        if trace.end_sector() > drive.sectors {
            let (found, expected) =
                (format!("{} sectors", drive.sectors), format!("{} or more", trace.end_sector()));
            return Err(LabError::Setting { setting: "drive", found, expected });
        }
        let component = Component::new(drive.clone().into(), QueueOptions::default());
        let bare = Description::bare(component, drive.sectors);
        let think = think_for(share, &trace, &starts, &bare, job.seed)?;
        let recorded = Starts::new(&trace, &starts, think)?;
        let warm = recorded.warm(job.seed)?;
        Ok(Recording { job, starts, recorded, think, warm })
    }

    /// Plays all starts.
    fn play(&self, with: &With) -> Result<Played, LabError> {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let timed = self.recorded.on_devices(self.job.seed, async || {
            let disk = simulated(0, &self.job.drive().clone().into(), QueueOptions::default()).device();
            let disk = Rc::new(Observed { device: disk, seen: seen.clone() });
            match with {
                With::Nothing => Ok(Top { device: disk, layer: None }),
                With::Layer(name, options) => layer(name, options, disk, BTreeMap::new()).await,
                With::Hybrid(placement) => on_both(placement, disk).await,
            }
        })?;
        Ok(Played { timed, seen: seen.take() })
    }

    /// The last start of each program.
    fn judged(&self) -> Vec<usize> {
        let last = |start: &Start| {
            let rounds = self.starts.iter().filter(|other| other.program == start.program);
            rounds.map(|start| start.round).max() == Some(start.round)
        };
        (0..self.starts.len()).filter(|number| last(&self.starts[*number])).collect()
    }

    fn sums(&self, starts: &[usize], cold: &Played, with: &Played) -> Sums {
        let mut sums = Sums::default();
        for number in starts {
            sums.add(&cold.timed[*number], &self.warm[*number], &with.timed[*number]);
        }
        sums
    }

    /// A table row for the factor of think times.
    fn think_row(&self, grid: &mut Grid) {
        let columns = grid.columns.len();
        let cells = [Cell::from("factor of think times"), self.think.into()];
        grid.row(cells.into_iter().chain(vec![Cell::Nothing; columns - 2]));
    }
}

async fn layer(
    name: &str,
    options: &toml::Table,
    over: Rc<dyn BlockDevice>,
    devices: BTreeMap<String, Vec<Rc<dyn BlockDevice>>>,
) -> Result<Top, LabError> {
    let entry = registry::find(name).ok_or_else(|| lacks("layer"))?;
    let below = Below { over: vec![over], devices, create: true, timing_only: true };
    let built = entry.build(below, options).await?;
    Ok(Top { device: built.device, layer: Some(built.layer) })
}

async fn on_both(placement: &str, disk: Rc<dyn BlockDevice>) -> Result<Top, LabError> {
    let flash = simulated(1, &spec::Model::find(FLASH)?, QueueOptions::default()).device();
    let fast = Slice::new(flash, Extent::new(0, FAST_BYTES / SECTOR_BYTES)).ok_or_else(|| lacks("drive"))?;
    let devices = BTreeMap::from([("fast".to_owned(), vec![Rc::new(fast) as Rc<dyn BlockDevice>])]);
    let options = toml::Table::from_iter([("placement".to_owned(), placement.into())]);
    layer("hybrid", &options, disk, devices).await
}

/// Places of accesses over time.
fn picture(accesses: &[Access], began: Nanos) -> Picture {
    let times = accesses.iter().map(|access| access.issued.since(began).seconds()).collect();
    let gib = |access: &Access| Some((access.at.start.0 * SECTOR_BYTES) as f64 / f64::from(1 << 30));
    let values = accesses.iter().map(gib).collect();
    Picture::Lines(Plot {
        along: Along::Linear(times),
        along_label: "time, s",
        value_label: "address, GiB",
        form: Form::Points,
        series: vec![Series { name: "reads of the disk".to_owned(), values }],
        ..Plot::default()
    })
}

fn about(
    place: &'static str,
    says: &'static str,
    unit: &'static str,
    theirs: f64,
    ours: f64,
    off: f64,
) -> Statement {
    let within = if unit == "%" { Within::Points(off) } else { Within::Percent(off) };
    Statement::about(place, says, unit, theirs, ours, within)
}

/// Rows by function.
const BY_FUNCTION: [Column; 8] = [
    words("function", "function"),
    numbers("start_s", "time, s", 2),
    numbers("disk_reads", "disk reads", 0),
    numbers("ascending_pct", "ascending, %", 1),
    numbers("saved_pct", "saved, %", 1),
    numbers("hits_pct", "hits, %", 1),
    numbers("useless_pct", "useless, %", 1),
    numbers("paper_s", "paper, s", 1),
];

/// A table, its pictures, and the sums of each function.
type ByFunction = (Grid, Vec<(String, Picture)>, Vec<Sums>);

/// A figure of one start by functions, the first of which is nothing.
fn by_function(
    recording: &Recording,
    judged: usize,
    functions: &[(&'static str, With, Option<f64>)],
    warm: Option<f64>,
) -> Result<ByFunction, LabError> {
    let job = recording.job;
    let (mut grid, mut pictures, mut all) = (Grid::new("", &BY_FUNCTION), Vec::new(), Vec::new());
    let mut cold: Option<Played> = None;
    for (done, (name, with, paper)) in functions.iter().enumerate() {
        job.progress(done, functions.len());
        let played = recording.play(with)?;
        let accesses = played.accesses(judged);
        let sums = recording.sums(&[judged], cold.as_ref().unwrap_or(&played), &played);
        let is_layer = !matches!(with, With::Nothing);
        let of_layer = |value: f64| Cell::from(Some(value).filter(|_| is_layer));
        grid.row([
            Cell::from(*name),
            sums.with.seconds().into(),
            (accesses.len() as u64).into(),
            ascending_pct(&accesses).into(),
            of_layer(sums.saved_pct()),
            of_layer(sums.hits_pct()),
            of_layer(sums.useless_pct()),
            job.theirs(*paper),
        ]);
        pictures.push(((*name).to_owned(), picture(&accesses, played.timed[judged].began)));
        all.push(sums);
        cold = cold.or(Some(played));
    }
    let warm_s = recording.warm[judged].took.seconds();
    let row = [Cell::from("warm start"), warm_s.into(), 0_u64.into()].into_iter();
    grid.row(row.chain(vec![Cell::Nothing; 4]).chain([job.theirs(warm)]));
    recording.think_row(&mut grid);
    Ok((grid, pictures, all))
}

/// The judged start that reads most.
fn largest(recording: &Recording) -> Result<usize, LabError> {
    let judged = recording.judged();
    let reads = |number: &usize| recording.warm[*number].requests;
    judged
        .into_iter()
        .max_by_key(|number| (reads(number), usize::MAX - number))
        .ok_or_else(|| lacks("starts"))
}

fn saved_of_cold(sums: &Sums) -> f64 {
    100.0 * (1.0 - sums.with.seconds() / sums.cold.seconds())
}

/// Bars by name.
fn by_name<'a>(
    names: &[&str],
    value_label: &'static str,
    series: impl Iterator<Item = (&'a str, Vec<Option<f64>>)>,
) -> Picture {
    let along = Along::names((0..).zip(names).map(|(at, name)| (f64::from(at), (*name).to_owned())));
    let series = series.map(|(name, values)| Series { name: name.to_owned(), values }).collect();
    Picture::Lines(Plot { along, value_label, form: Form::Bars, series, ..Plot::default() })
}
