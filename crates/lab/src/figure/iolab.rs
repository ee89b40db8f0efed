//! Figures and tables of the IOLab paper (Joo et al., IEEE Transactions on Computers 2014, section 6), from recorded
//! starts of programs and recorded boots: cold, warm, and with each function.
//!
//! Each read follows its predecessor's answer by the recorded gap, times a factor with which warm takes the share of cold
//! that it has in the paper. A function learns from all starts as they go; the last one of each program is judged. What no
//! recording has is said in a note.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::join_all;
use seekless_core::device::io;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{
    BlockDevice, Buffer, Extent, Hints, IoError, IoFuture, Lba, Nanos, PAGE_BYTES, Record, SECTOR_BYTES,
    Slice, Zeroes,
};
use seekless_drive::{QueueOptions, Spec, simulated, spec};
use seekless_layers::dispatcher;
use seekless_layers::registry::{self, Below};
use seekless_trace::Trace;
use seekless_volume::{Component, Description};

use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};
use crate::starts::{Start, Starts, Sums, Timed, Top, think_for};

/// A figure of a recording of starts.
const fn of_starts(recording: &'static str, entry: &Entry) -> Entry {
    Entry { usual: 10_000_000, recording: Some(recording), starts: true, ..*entry }
}

const COUNTED: &str = "requests of the recording";

/// Accesses of the disk while a program starts.
pub const FIGURE_2: Entry = of_starts(
    "appstart2",
    &Entry::new(
        COUNTED,
        "iolab-2",
        "disk accesses of a program's start",
        "IOLab paper (TC 2014), section 6.2, Figure 2",
        "Word: 8.3 s, 5.7 s with the Windows prefetcher, 4.4 s with IOLab's, in ascending order; hits 95.4 %",
        &["wd6400aaks"],
        figure_2,
    ),
);
/// Starts of programs on Linux.
pub const FIGURE_3: Entry = of_starts(
    "appstart2",
    &Entry::new(
        COUNTED,
        "iolab-3",
        "starts of programs on Linux, with the launch prefetcher",
        "IOLab paper (TC 2014), section 6.2.5, Figure 3",
        "Eclipse: 15.8 s cold, 10.0 s prefetched, 7.6 s warm; hits 97.5 %",
        &["wd6400aaks"],
        figure_3,
    ),
);
/// Accesses of the disk while a guest boots.
pub const FIGURE_4: Entry = of_starts(
    "vmboot",
    &Entry::new(
        COUNTED,
        "iolab-4",
        "disk accesses of a guest's boot",
        "IOLab paper (TC 2014), section 6.3.1, Figure 4",
        "Linux: 38.1 s, not ascending; Windows XP: 93.4 MB, idle for about 20 s",
        &["wd6400aaks"],
        figure_4,
    ),
);
/// Boots with the prefetcher and with CDP.
pub const FIGURE_5: Entry = of_starts(
    "vmboot",
    &Entry::new(
        COUNTED,
        "iolab-5",
        "boots of a guest, with the launch prefetcher and with CDP",
        "IOLab paper (TC 2014), section 6.3.5, Figure 5",
        "Linux: 38.1 to 28.2 s, hits 95.2 %; Windows XP with CDP: 29.5 s, warm 28.6 s, hits 98.0 %",
        &["wd6400aaks"],
        figure_5,
    ),
);
/// The hybrid drive.
pub const FIGURE_6: Entry = of_starts(
    "vmboot",
    &Entry::new(
        COUNTED,
        "iolab-6",
        "throughput and latency of the hybrid drive, and boots on it",
        "IOLab paper (TC 2014), section 6.4.3, Figure 6",
        "150 MB/s in the first 4 GB, then 50 and less; boots in 34.6 s, 49.1 s on the disk, 28.6 s warm",
        &["fujitsu-mhz2120bh"],
        figure_6,
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
        table_1,
    )
};
/// Times of the prefetcher.
pub const TABLE_2: Entry = of_starts(
    "appstart2",
    &Entry::new(
        COUNTED,
        "iolab-table-2",
        "the launch prefetcher: warm, its fetches alone, cold, prefetched",
        "IOLab paper (TC 2014), section 6.6.1, Table 2",
        "IOLab: 7.60, 2.77, 15.82 and 9.98 s; FAST on the host: 6.34, 2.65, 15.50 and 8.99 s",
        &["wd6400aaks"],
        table_2,
    ),
);

/// Share of a cold start that a warm one takes: Eclipse's, 7.6 of 15.8 s.
const WARM_START: f64 = 0.48;
/// The same of a boot: 28.6 of 41.6 s, Windows XP.
const WARM_BOOT: f64 = 0.69;
/// The same on the disk of the hybrid drive: 28.6 of 49.1 s.
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

/// Time in which a disk had nothing to do, in a start that took so long.
fn idle(accesses: &[Access], began: Nanos, took: Nanos) -> Nanos {
    let (mut idle, mut until) = (Nanos::ZERO, began);
    for access in accesses {
        idle += access.issued.since(until);
        until = until.max(access.answered);
    }
    idle + (began + took).since(until)
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
        let (trace, starts) =
            (job.trace.ok_or_else(|| lacks("trace"))?, job.starts.ok_or_else(|| lacks("starts"))?);
        let many = usize::try_from(job.requests).unwrap_or(usize::MAX).min(trace.records.len());
        let trace = change(Trace { records: trace.records[..many].to_vec(), ..trace.clone() });
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
                With::Hybrid(placement) => hybrid(placement, disk).await,
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

async fn hybrid(placement: &str, disk: Rc<dyn BlockDevice>) -> Result<Top, LabError> {
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

/// A figure of one start by functions, the first of which is nothing.
fn by_function(
    recording: &Recording,
    judged: usize,
    functions: &[(&'static str, With, Option<f64>)],
    warm: Option<f64>,
) -> Result<(Grid, Vec<(String, Picture)>, Vec<Sums>), LabError> {
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

fn figure_2(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let judged = largest(&recording)?;
    let functions = [
        ("no prefetcher", With::Nothing, Some(8.3)),
        ("prefetcher, launch control", launch("class = 'urgent'"), Some(4.4)),
        ("prefetcher", launch(""), None),
    ];
    let (grid, pictures, sums) = by_function(&recording, judged, &functions, None)?;
    let paper = vec![
        about("6.2.4", "hits", "%", 95.4, sums[1].hits_pct(), 5.0),
        about("6.2.4", "time of a cold start saved", "%", 47.0, saved_of_cold(&sums[1]), 15.0),
    ];
    let program = format!(
        "The program that reads most: {}; the paper's is Word 2007. The Windows prefetcher (5.7 s) has no recording.",
        recording.starts[judged].program
    );
    Ok(job.shown(grid, paper, &[&program, LEARNED, THINK], pictures))
}

fn saved_of_cold(sums: &Sums) -> f64 {
    100.0 * (1.0 - sums.with.seconds() / sums.cold.seconds())
}

fn figure_3(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let mut plays = Vec::new();
    for (done, with) in [With::Nothing, launch("class = 'urgent'"), launch("")].iter().enumerate() {
        job.progress(done, 3);
        plays.push(recording.play(with)?);
    }
    let [cold, paused, usual] = &plays[..] else { return Err(lacks("layer")) };
    let columns = [
        words("program", "program"),
        numbers("cold_s", "cold, s", 2),
        numbers("warm_s", "warm, s", 2),
        numbers("control_s", "launch control, s", 2),
        numbers("control_saved_pct", "saved, %", 1),
        numbers("launch_s", "launch, s", 2),
        numbers("launch_saved_pct", "saved, %", 1),
        numbers("hits_pct", "hits, %", 1),
        numbers("useless_pct", "useless, %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let mut add = |name: &str, starts: &[usize]| {
        let (control, launch) = (recording.sums(starts, cold, paused), recording.sums(starts, cold, usual));
        grid.row([
            Cell::from(name),
            launch.cold.seconds().into(),
            launch.warm.seconds().into(),
            control.with.seconds().into(),
            control.saved_pct().into(),
            launch.with.seconds().into(),
            launch.saved_pct().into(),
            launch.hits_pct().into(),
            launch.useless_pct().into(),
        ]);
        (control, launch)
    };
    let mut judged = recording.judged();
    judged.sort_by_key(|number| &recording.starts[*number].program);
    let mut bars = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for number in &judged {
        let name = &recording.starts[*number].program;
        let (_, launch) = add(name, &[*number]);
        bars.0.push(name.clone());
        for (values, time) in bars.1.iter_mut().zip([launch.cold, launch.with, launch.warm]) {
            values.push(Some(time.seconds()));
        }
    }
    let (control, launch) = add("all", &judged);
    if !job.others {
        let row = [15.8, 7.6, 10.0, 71.0].map(|value| Cell::from(Some(value)));
        grid.row([Cell::from("the paper's Eclipse")].into_iter().chain(row).chain([
            Cell::Nothing,
            Cell::Nothing,
            97.5.into(),
            Cell::Nothing,
        ]));
    }
    recording.think_row(&mut grid);
    let paper = vec![
        about("6.2.5", "saved of cold minus warm, with launch control", "%", 71.0, control.saved_pct(), 10.0),
        about("6.2.5", "time of a cold start saved", "%", 37.0, saved_of_cold(&control), 10.0),
        about("6.2.5", "hits", "%", 97.5, launch.hits_pct(), 3.0),
    ];
    let names: Vec<&str> = bars.0.iter().map(String::as_str).collect();
    let bars = by_name(&names, "time, s", ["cold", "launch", "warm"].into_iter().zip(bars.1));
    let notes = [
        "With launch control fetches are in class urgent, as in the paper; otherwise in class background, and a read has \
         the page that it waits for fetched first.",
        LEARNED,
        THINK,
    ];
    Ok(job.shown(grid, paper, &notes, vec![("time of starts".to_owned(), bars)]))
}

fn figure_4(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_BOOT)?;
    let cold = recording.play(&With::Nothing)?;
    let columns = [
        words("boot", "boot"),
        numbers("boot_s", "time, s", 2),
        numbers("read_mb", "read, MB", 1),
        numbers("disk_reads", "disk reads", 0),
        numbers("ascending_pct", "ascending, %", 1),
        numbers("idle_s", "disk idle, s", 2),
        numbers("paper_s", "paper, s", 1),
    ];
    let (mut grid, mut pictures, mut last_s) = (Grid::new("", &columns), Vec::new(), 0.0);
    for (number, timed) in cold.timed.iter().enumerate() {
        let accesses = cold.accesses(number);
        let bytes: u64 = accesses.iter().map(|access| access.at.bytes()).sum();
        let name = format!("{} {}", recording.starts[number].program, recording.starts[number].round + 1);
        last_s = timed.took.seconds();
        grid.row([
            Cell::from(name.as_str()),
            last_s.into(),
            (bytes as f64 / 1e6).into(),
            (accesses.len() as u64).into(),
            ascending_pct(&accesses).into(),
            idle(&accesses, timed.began, timed.took).seconds().into(),
            job.theirs(Some(38.1)),
        ]);
        pictures.push((name, picture(&accesses, timed.began)));
    }
    recording.think_row(&mut grid);
    let paper = vec![about("6.3.5", "time of a cold boot, Linux", "s", 38.1, last_s, 50.0)];
    Ok(job.shown(grid, paper, &[BOOTS, THINK], pictures))
}

fn figure_5(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_BOOT)?;
    let judged = largest(&recording)?;
    // One boot is there to learn from; and a boot loader waits for some seconds.
    let cdp = With::Layer("cdp", "starts = 1\nquiet = '5s'".parse().unwrap_or_default());
    let functions = [
        ("no prefetcher", With::Nothing, Some(38.1)),
        ("prefetcher, launch control", launch("starts = 1\nquiet = '5s'\nclass = 'urgent'"), Some(28.2)),
        ("prefetcher", launch("starts = 1\nquiet = '5s'"), None),
        ("CDP (the paper: Windows XP)", cdp, Some(29.5)),
    ];
    let (grid, pictures, sums) = by_function(&recording, judged, &functions, Some(28.6))?;
    let paper = vec![
        about("6.3.5", "prefetcher: time of a cold boot saved", "%", 26.0, saved_of_cold(&sums[1]), 10.0),
        about("6.3.5", "prefetcher: hits", "%", 95.2, sums[1].hits_pct(), 5.0),
        about("6.3.5", "CDP: saved of cold minus warm", "%", 93.0, sums[3].saved_pct(), 10.0),
        about("6.3.5", "CDP: hits", "%", 98.0, sums[3].hits_pct(), 5.0),
    ];
    let learned = "Learned from one boot, the one before, which ends when no read comes for 5 s, since the boot loader waits \
                   for less; the paper's sequence was captured by hand.";
    Ok(job.shown(grid, paper, &[learned, BOOTS, THINK], pictures))
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
        let top = hybrid("static", disk).await?;
        Ok(tune(&*top.device).await?)
    })?;
    tuned
}

fn figure_6(job: &Job) -> Result<Shown, LabError> {
    let Tuned { throughput, mut latencies } = tuned(job.drive(), job.seed)?;
    let columns = [numbers("location_gb", "location, GB", 1), numbers("read_mb_s", "read, MB/s", 1)];
    let mut grid = Grid::new("", &columns);
    throughput.iter().for_each(|(at, speed)| grid.row([(at / 1e9).into(), (*speed).into()]));
    let columns = [
        numbers("distance_gb", "distance up to, GB", 1),
        numbers("reads", "reads", 0),
        numbers("near_zero_pct", "below 1 ms, %", 1),
        numbers("least_ms", "least of others, ms", 2),
        numbers("mean_ms", "mean of others, ms", 2),
        numbers("most_ms", "most, ms", 2),
    ];
    let mut by_distance = Grid::new("Access latency by seek distance", &columns);
    latencies.sort_by(|one, other| one.0.total_cmp(&other.0));
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

/// Lines of code: not blank, not a comment, and not of tests.
fn lines(source: &str) -> u64 {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count() as u64
}

/// Components of the prefetcher: lines of FAST, of IOLab's, and our source.
const COMPONENTS: [(&str, Option<f64>, Option<f64>, &[&str]); 6] = [
    (
        "launch manager",
        Some(538.0),
        Some(410.0),
        &[
            include_str!("../../../layers/src/launch/mod.rs"),
            include_str!("../../../layers/src/launch/options.rs"),
            include_str!("../../../layers/src/launch/start.rs"),
        ],
    ),
    (
        "launch sequence extractor",
        Some(353.0),
        Some(286.0),
        &[include_str!("../../../layers/src/pattern/sequences.rs")],
    ),
    ("LBA-to-inode reverse mapping", Some(5_608.0), None, &[]),
    (
        "prefetcher generator",
        Some(421.0),
        Some(69.0),
        &[include_str!("../../../layers/src/dispatcher/mod.rs")],
    ),
    (
        "beside it: kept over restarts",
        None,
        None,
        &[
            include_str!("../../../layers/src/launch/kept.rs"),
            include_str!("../../../layers/src/pattern/sequences/encoding.rs"),
        ],
    ),
    ("beside it: CDP", None, None, &[include_str!("../../../layers/src/cdp/mod.rs")]),
];

fn table_1(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        words("component", "component"),
        numbers("paper_fast_lines", "FAST", 0),
        numbers("paper_iolab_lines", "IOLab", 0),
        numbers("lines", "here", 0),
    ];
    let mut grid = Grid::new("", &columns);
    let (mut total, mut bars) = (0, [Vec::new(), Vec::new(), Vec::new()]);
    for (name, fast, theirs, sources) in COMPONENTS {
        let ours: u64 = sources.iter().map(|source| lines(source)).sum();
        total += if theirs.is_some() { ours } else { 0 };
        let ours = Some(ours as f64).filter(|_| !sources.is_empty());
        grid.row([Cell::from(name), job.theirs(fast), job.theirs(theirs), ours.into()]);
        bars.iter_mut().zip([fast, theirs, ours]).for_each(|(values, value)| values.push(value));
    }
    let (fast, theirs) = (job.theirs(Some(6_920.0)), job.theirs(Some(765.0)));
    grid.row([Cell::from("total of the prefetcher"), fast, theirs, total.into()]);
    let names = COMPONENTS.map(|(name, ..)| name);
    let picture = by_name(&names, "lines", ["FAST", "IOLab", "here"].into_iter().zip(bars));
    let paper = vec![about("6.5.2", "lines of the prefetcher", "lines", 765.0, total as f64, 50.0)];
    let notes = [
        "Lines of this build's source without blank ones, comments and tests. Ours mine the sequences by themselves, of \
         several programs, in bounded memory.",
        "The months that it took have no counterpart.",
    ];
    Ok(Shown { requests: 0, ..job.shown(grid, paper, &notes, vec![("lines".to_owned(), picture)]) })
}

fn table_2(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let judged = recording.judged();
    let (cold, prefetched) = (recording.play(&With::Nothing)?, recording.play(&launch("class = 'urgent'"))?);
    let sums = recording.sums(&judged, &cold, &prefetched);
    let fetches = fetches_alone(&recording, &judged)?;
    let columns = [
        words("scenario", "scenario"),
        numbers("paper_fast_s", "FAST, s", 2),
        numbers("paper_iolab_s", "IOLab, s", 2),
        numbers("ours_s", "here, s", 2),
        numbers("paper_iolab_of_cold_pct", "IOLab, % of cold", 1),
        numbers("of_cold_pct", "here, % of cold", 1),
    ];
    let (mut grid, mut paper, mut bars) = (Grid::new("", &columns), Vec::new(), [Vec::new(), Vec::new()]);
    let rows = [
        ("warm start", 6.34, 7.60, sums.warm),
        ("prefetcher alone", 2.65, 2.77, fetches),
        ("cold start, no prefetcher", 15.50, 15.82, sums.cold),
        ("cold start, prefetcher", 8.99, 9.98, sums.with),
    ];
    for (name, fast, theirs, time) in rows {
        let share = |time: f64, cold: f64| 100.0 * time / cold;
        let (theirs_pct, ours_pct) = (share(theirs, 15.82), share(time.seconds(), sums.cold.seconds()));
        grid.row([
            Cell::from(name),
            job.theirs(Some(fast)),
            job.theirs(Some(theirs)),
            time.seconds().into(),
            job.theirs(Some(theirs_pct)),
            ours_pct.into(),
        ]);
        bars.iter_mut().zip([theirs_pct, ours_pct]).for_each(|(values, value)| values.push(Some(value)));
        if name != "warm start" && name != "cold start, no prefetcher" {
            paper.push(about("Table 2", name, "%", theirs_pct, ours_pct, 10.0));
        }
    }
    recording.think_row(&mut grid);
    let notes = [
        "Sums over the last start of each program of the recording, with launch control; the paper's is one start of Eclipse. \
         FAST runs on the host: the recording has no start by it.",
        LEARNED,
        THINK,
    ];
    let names = rows.map(|(name, ..)| name);
    let picture = by_name(&names, "per cent of a cold start", ["IOLab", "here"].into_iter().zip(bars));
    Ok(job.shown(grid, paper, &notes, vec![("times".to_owned(), picture)]))
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

/// Time to read all that these starts read in one sweep each, without a program.
fn fetches_alone(recording: &Recording, judged: &[usize]) -> Result<Nanos, LabError> {
    let reads: Vec<Vec<Extent>> = recording.recorded.reads().map(Iterator::collect).collect();
    let (drive, gap) = (recording.job.drive().clone(), (16 << 10) / PAGE_BYTES);
    let took: Result<Nanos, IoError> = Runtime::new(recording.job.seed).run(async {
        let disk = simulated(0, &drive.into(), QueueOptions::default()).device();
        let mut all = Nanos::ZERO;
        for number in judged {
            let mut pages: Vec<u64> = reads[*number].iter().flat_map(|at| at.pages()).collect();
            pages.sort_unstable();
            pages.dedup();
            let begin = runtime::now();
            let read = |at: Extent| disk.read(at, Buffer::hollow_sectors(at.sectors), Hints::default());
            let read = join_all(dispatcher::runs(pages, 256, gap).into_iter().map(read)).await;
            read.into_iter().collect::<Result<Vec<Buffer>, IoError>>()?;
            all += runtime::now().since(begin);
        }
        Ok(all)
    })?;
    Ok(took?)
}
