//! Figure 7 of the freeblock paper (Lumb et al., OSDI 2000, section 5.3): the cost of cleaning segments in a
//! log-structured disk, against its utilisation.
//!
//! `PostMark` runs on a model of a file system without a journal, over the layer `lld`, on a part of a drive with one
//! surface. The transactions are done twice, and measured the second time. Ideal is the original cleaner's run without
//! the time in which clients waited for the cleaner, as in the paper.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{ErrorKind, Extent, IoError, Layer, Nanos, Size, Slice};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{QueueOptions, Simulated, Spec, simulated};
use seekless_layers::lld;
use seekless_layers::{Bytes, Lld};

use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers};
use super::{Entry, Job};
use crate::error::LabError;
use crate::mining::head_alone;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};
use crate::workload;
use crate::workload::client::{Limit, carry_out_marked};

/// Transactions a second against utilisation.
pub const FIGURE_7: Entry = Entry {
    usual: 25_000,
    points: "live shares, in per cent",
    ..Entry::new(
        "transactions a run",
        "freeblock-7",
        "cleaning a log-structured disk",
        "freeblock paper (OSDI 2000), section 5.3, Figure 7",
        "original halves at 60 %, quarters at 85 %; freeblock near ideal to 93 %",
        &["quantum-atlas-10k-disksim"],
        figure_7,
    )
};

/// The clients' disk: three block groups, 403 MB.
const CLIENT: u64 = 384 << 20;
/// The device below it: as few additional segments as the cleaner needs.
const BELOW: u64 = 394 << 20;
/// Memory for blocks that wait for holes.
const PLUG: u64 = 16 << 20;
/// Utilisations: live data in per cent of the segments' capacity.
const FULL: [u64; 13] = [4, 8, 20, 30, 40, 50, 60, 70, 80, 85, 90, 93, 95];
/// Blocks of a file, on average, with its share of the metadata.
const BLOCKS_A_FILE: f64 = 2.55;

/// A run.
struct Run {
    seconds: f64,
    counters: Vec<(&'static str, u64)>,
    before: Vec<(&'static str, u64)>,
}

impl Run {
    /// Growth of a counter in the measured transactions.
    fn grown(&self, name: &str) -> f64 {
        let of = |counters: &[(&str, u64)]| {
            counters.iter().find(|(key, _)| *key == name).map_or(0.0, |&(_, value)| value as f64)
        };
        of(&self.counters) - of(&self.before)
    }

    fn full_pct(&self) -> f64 {
        let of = |name: &str| self.counters.iter().find(|(key, _)| *key == name).map_or(0, |found| found.1);
        of("utilisation_permille") as f64 / 10.0
    }
}

/// A cleaner, where it writes moved data, and the memory for blocks that wait for holes.
type Cleaning = (lld::Cleaner, lld::Moved, u64);
/// The kinds of cleaning: all but the first use the drive's rotational waits.
const CLEANINGS: [Cleaning; 4] = [
    (lld::Cleaner::Original, lld::Moved::Joined, 0),
    (lld::Cleaner::Freeblock, lld::Moved::Joined, 0),
    (lld::Cleaner::Freeblock, lld::Moved::Apart, 0),
    (lld::Cleaner::Freeblock, lld::Moved::Apart, PLUG),
];

/// Runs two rounds of transactions on `files` files.
fn run(job: &Job, drive: &Spec, files: u64, (cleaner, moved, plug): Cleaning) -> Result<Run, LabError> {
    let load = workload::parse(&format!(
        "postmark:files={files},transactions={},rounds=2,cpu=500us,cache=32MiB,dirty=4MiB,commit=30s,journal=0,\
         discard=1",
        job.requests
    ))?;
    let free = cleaner == lld::Cleaner::Freeblock;
    let queue = QueueOptions { freeblock: free.then(FreeOptions::default), ..QueueOptions::default() };
    let runtime = Runtime::new(job.seed);
    let result: Result<Result<Run, IoError>, LabError> = runtime
        .run(async {
            let component = simulated(0, &drive.clone().into(), queue);
            let Some(part) = Slice::new(component.clone().device(), Extent::new(0, BELOW / 512)) else {
                let found = format!("{}: {} of one surface", drive.name, Size(drive.sectors * 512));
                return Err(LabError::Setting {
                    setting: "drive",
                    found,
                    expected: format!("at least {}", Size(BELOW)),
                });
            };
            let size = Some(Bytes(CLIENT));
            let usual = lld::Options { size, cleaner, moved, plug: Bytes(plug), ..lld::Options::default() };
            // The more is pending, the more of it lies on the head's way.
            let options =
                if free { lld::Options { at_once: 32, free_threshold: 32, ..usual } } else { usual };
            Ok(on(&load, component, Rc::new(part), options).await)
        })
        .map_err(LabError::from)?;
    result?.map_err(LabError::from)
}

/// Time and counters at the beginning and end of rounds.
type Marks = Rc<RefCell<Vec<(Nanos, Vec<(&'static str, u64)>)>>>;

async fn on(
    load: &workload::Load,
    drive: Rc<dyn Simulated>,
    part: Rc<Slice>,
    options: lld::Options,
) -> Result<Run, IoError> {
    let lld = Lld::open(part, options, true).await?;
    let marks = Marks::default();
    let (seen, device) = (marks.clone(), lld.clone());
    let mark = Box::new(move |_| {
        let mut counters = device.counters();
        counters.extend(passed(&*drive));
        seen.borrow_mut().push((runtime::now(), counters));
    });
    let rounds = marks.clone();
    // Polled after each mark. Deletions at the end do not count.
    let over = poll_fn(|_| if rounds.borrow().len() == 3 { Poll::Ready(()) } else { Poll::Pending });
    carry_out_marked(load, lld, Limit::default(), false, over, mark).await.whole()?;
    let mut marks = marks.take();
    let (Some((end, counters)), Some((begin, before))) = (marks.pop(), marks.pop()) else {
        return Err(IoError::new(ErrorKind::Invalid, "postmark", None, "it ended before its transactions"));
    };
    Ok(Run { seconds: (end - begin).seconds(), counters, before })
}

/// Bytes that passed in the rotational waits of a drive so far, and these waits in microseconds.
fn passed(drive: &dyn Simulated) -> [(&'static str, u64); 2] {
    let stats: Vec<_> = drive.freeblock().iter().map(|arm| arm.stats()).collect();
    [
        ("passed_bytes", stats.iter().map(|stats| stats.potential_bytes).sum()),
        ("passed_us", stats.iter().map(|stats| stats.potential.0 / 1_000).sum()),
    ]
}

const COLUMNS: [Column; 15] = [
    numbers("files", "files", 0),
    numbers("utilisation_pct", "full %", 1),
    numbers("original_per_s", "original", 1),
    numbers("freeblock_per_s", "freeblock", 1),
    numbers("apart_per_s", "apart", 1),
    numbers("holes_per_s", "holes", 1),
    numbers("ideal_per_s", "ideal", 1),
    numbers("original_of_ideal_pct", "original %", 1),
    numbers("freeblock_of_ideal_pct", "freeblock %", 1),
    numbers("apart_of_ideal_pct", "apart %", 1),
    numbers("holes_of_ideal_pct", "holes %", 1),
    numbers("cleaned", "cleaned", 0),
    numbers("cleaned_free", "for free", 0),
    numbers("moved", "moved", 0),
    numbers("waited_s", "waited s", 1),
];

/// Where the blocks go that clients write while holes are plugged.
const HOLES: [Column; 10] = [
    numbers("utilisation_pct", "full %", 1),
    numbers("blocks", "blocks", 0),
    numbers("plugged_pct", "in holes %", 1),
    numbers("appended_pct", "appended %", 1),
    numbers("superseded_pct", "superseded %", 1),
    numbers("bound_pct", "bound %", 1),
    numbers("ideal_written_per_s", "reads free", 1),
    numbers("holes_of_ideal_written_pct", "holes %", 1),
    numbers("cleaned", "cleaned", 0),
    numbers("waited_s", "waited s", 1),
];

/// A row of these: of the run that plugs holes, at this utilisation; `ideal` is the paper's time, in seconds, and
/// `moved` are the blocks that the original cleaner moves.
fn holes(job: &Job, run: &Run, ideal: f64, moved: f64) -> [Cell; 10] {
    let blocks = run.grown("blocks_asked_for").max(1.0);
    let plugged = run.grown("blocks_plugged");
    // Blocks written without holes, but for summaries, checkpoints, and what the cleaner moved.
    let other = run.grown("summaries_written") + run.grown("checkpoint_blocks_written");
    let joined = run.grown("blocks_moved") - run.grown("blocks_moved_apart");
    let appended = run.grown("blocks_written") - other - joined;
    let live = run.full_pct() / 100.0;
    let bound = run.grown("passed_bytes") * (1.0 - live) / 4_096.0;
    let rate = run.grown("passed_bytes") / run.grown("passed_us").max(1.0);
    let written = job.requests as f64 / (ideal + moved * 4_096.0 / rate.max(1e-9) / 1e6);
    let of = |part: f64| 100.0 * part / blocks;
    [
        run.full_pct().into(),
        blocks.into(),
        of(plugged).into(),
        of(appended).into(),
        of(blocks - plugged - appended).into(),
        of(bound).min(100.0).into(),
        written.into(),
        (100.0 * job.requests as f64 / run.seconds / written).into(),
        run.grown("segments_cleaned").into(),
        (run.grown("waited_for_the_cleaner_us") / 1e6).into(),
    ]
}

fn figure_7(job: &Job) -> Result<Shown, LabError> {
    let Some(drive) = head_alone(job.drive()).one_surface() else {
        return Err(LabError::Setting {
            setting: "drive",
            found: job.drive().name.clone(),
            expected: "a disk that has something on each surface".to_owned(),
        });
    };
    let mut grid = Grid::new("", &COLUMNS);
    let mut plugs = Grid::new("blocks that clients write, with holes", &HOLES);
    let names = ["original", "freeblock", "apart", "holes", "ideal"];
    let mut values = [const { Vec::new() }; 5];
    let mut along = Vec::new();
    let points = job.points(&FULL, |full| full.to_string())?;
    for (done, full) in points.iter().copied().enumerate() {
        job.progress(done, points.len());
        let all = BELOW / (512 << 10) * 127;
        let files = (full as f64 / 100.0 * all as f64 / BLOCKS_A_FILE) as u64;
        let [original, free, apart, plugged] = CLEANINGS.map(|cleaning| run(job, &drive, files, cleaning));
        let (original, free, apart, plugged) = (original?, free?, apart?, plugged?);
        let rate = |seconds: f64| job.requests as f64 / seconds.max(1e-9);
        let idle = original.seconds - original.grown("waited_for_the_cleaner_us") / 1e6;
        let ideal = rate(idle);
        let [a, b, c, d] = [&original, &free, &apart, &plugged].map(|run| rate(run.seconds));
        let rates = [a, b, c, d, ideal];
        let shares = rates.map(|rate| 100.0 * rate / ideal);
        for (values, rate) in values.iter_mut().zip(rates) {
            values.push(Some(rate));
        }
        along.push(apart.full_pct());
        let cleaned =
            ["segments_cleaned", "segments_cleaned_free", "blocks_moved"].map(|key| apart.grown(key));
        let waited = apart.grown("waited_for_the_cleaner_us") / 1e6;
        let numbers = [files as f64, apart.full_pct()].into_iter().chain(rates).chain(shares[..4].to_vec());
        let cells = numbers.chain(cleaned).chain([waited]).map(Cell::from);
        plugs.row(holes(job, &plugged, idle, original.grown("blocks_moved")));
        job.row(&mut grid, cells);
    }
    let paper = stated(&grid);
    let shares =
        ["original_of_ideal_pct", "freeblock_of_ideal_pct", "apart_of_ideal_pct", "holes_of_ideal_pct"]
            .map(|key| grid.column(key));
    let pictures = vec![
        ("speed".to_owned(), plot(&along, "transactions a second", names.into_iter().zip(values).collect())),
        ("of ideal".to_owned(), plot(&along, "per cent of ideal", names.into_iter().zip(shares).collect())),
    ];
    let notes = [
        "Only the drive's head is simulated, with one surface, and of that the outermost 394 MiB. A transaction \
         computes for 0.5 ms (the paper does not say); the file system caches 32 MiB, of which at most 4 MiB is \
         dirty. The freeblock cleaner begins with fewer than 32 free segments, 32 at once.",
        "Freeblock is the paper's: moved data joins the clients' writes. Apart also writes moved data for free, to \
         segments of its own. Holes is apart, and blocks that clients write wait in 16 MiB of memory until the head \
         passes a dead slot of a segment in use.",
        "Full is the live share of the segments' capacity, at the end of the second round. Cleaned, moved and \
         waited are those of apart: segments, of which so many for free; blocks moved; seconds in which \
         clients waited for the cleaner.",
        "In holes, appended and superseded (written or deleted again while in memory) are shares of the blocks that \
         clients write. The bound is what passes in the waits, times the share of slots that are dead. With reads \
         free is an ideal that pays, beside the clients' writes, for those of the blocks that the original cleaner \
         moves.",
    ];
    let mut shown = job.shown(grid, paper, &notes, pictures);
    shown.more.push(plugs);
    Ok(shown)
}

/// A plot of lines against utilisation.
fn plot(full: &[f64], value_label: &'static str, lines: Vec<(&str, Vec<Option<f64>>)>) -> Picture {
    let named = |(name, values): (&str, _)| Series { name: name.to_owned(), values };
    Picture::Lines(Plot {
        along: Along::Linear(full.to_vec()),
        along_label: "per cent of the disk live",
        value_label,
        series: lines.into_iter().map(named).collect(),
        ..Plot::default()
    })
}

/// The paper's statements, at the utilisations nearest to those that it names.
fn stated(grid: &Grid) -> Vec<Statement> {
    let full = grid.column("utilisation_pct");
    let at = |target: f64, key: &str| {
        let off = |row: &usize| full[*row].map_or(f64::MAX, |full| (full - target).abs());
        let row = (0..full.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
        row.and_then(|row| grid.column(key)[row]).unwrap_or_default()
    };
    let about = |says, theirs, ours, within| {
        Statement::about("section 5.3", says, "%", theirs, ours, Within::Points(within))
    };
    vec![
        about("original of ideal at 60 %", 50.0, at(60.0, "original_of_ideal_pct"), 10.0),
        about("original of ideal at 85 %", 25.0, at(85.0, "original_of_ideal_pct"), 10.0),
        about("freeblock of ideal at 93 %", 97.0, at(93.0, "freeblock_of_ideal_pct"), 3.0),
    ]
}
