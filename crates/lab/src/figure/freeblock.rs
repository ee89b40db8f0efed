//! Figures 2 to 6 of the freeblock paper (Lumb et al., OSDI 2000, section 3): use of the head's time under the *random*
//! workload, by drive, request size, locality and scheduler. The paper's statements in words are compared with ours;
//! its bars have no numbers.

use seekless_drive::{Policy, Spec};

use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::usage::{Usage, usage};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};
use crate::report::stack::Stack;

/// The drives of Table 2.
const TABLE_2: [&str; 5] = [
    "quantum-atlas-10k",
    "seagate-cheetah-4lp",
    "seagate-cheetah-9lp",
    "seagate-cheetah-18lp",
    "ibm-ultrastar-9es",
];
/// The drive of the paper's other experiments.
const ATLAS: [&str; 1] = ["quantum-atlas-10k"];
/// Tolerance of a percentage.
const NEAR: Within = Within::Points(2.0);

/// Columns of a bar.
const USAGE: [Column; 6] = [
    numbers("seek_pct", "seek %", 1),
    numbers("rotation_pct", "rotation %", 1),
    numbers("transfer_pct", "transfer %", 1),
    numbers("track_switch_pct", "between tracks %", 1),
    numbers("access_ms", "head ms", 3),
    numbers("overhead_ms", "command ms", 3),
];

const PARTS: &str = "Parts are of the head's time without command overhead. Rotation is the wait for a \
                     request's first sector, the potential free bandwidth; the time between the tracks of one \
                     transfer is a part of its own. Head and command ms are of a request.";

/// Figure 2: by drive.
pub const FIGURE_2: Entry = Entry::new(
    "requests a bar",
    "freeblock-2",
    "use of the head's time, on five drives",
    "freeblock paper (OSDI 2000), section 3.1, Figure 2",
    "rotation 27 to 36 %",
    &TABLE_2,
    figure_2,
);
/// Figure 3: by request size.
pub const FIGURE_3: Entry = Entry::new(
    "requests a bar",
    "freeblock-3",
    "use of the head's time, by request size",
    "freeblock paper (OSDI 2000), section 3.2, Figure 3",
    "256 KiB: transfer less than 55 %, rotation 15 %",
    &ATLAS,
    figure_3,
);
/// Figure 4: by locality.
pub const FIGURE_4: Entry = Entry::new(
    "requests a bar",
    "freeblock-4",
    "use of the head's time, by locality",
    "freeblock paper (OSDI 2000), section 3.2, Figure 4",
    "70 % local: rotation almost 60 %",
    &ATLAS,
    figure_4,
);
/// Figure 5: by scheduler.
pub const FIGURE_5: Entry = Entry::new(
    "requests a bar",
    "freeblock-5",
    "use of the head's time, by scheduler",
    "freeblock paper (OSDI 2000), section 3.3, Figure 5",
    "rotation 50 % under C-LOOK and SSTF, 22 % under SPTF",
    &ATLAS,
    figure_5,
);
/// Figure 6: from SPTF to SSTF.
pub const FIGURE_6: Entry = Entry::new(
    "requests a bar",
    "freeblock-6",
    "use of the head's time under SPTF-SW n %",
    "freeblock paper (OSDI 2000), section 3.3, Figure 6",
    "n = 40: rotation 36 %, for 6 % more time than SPTF",
    &ATLAS,
    figure_6,
);

/// Bars, as a table and as a picture.
struct Bars {
    grid: Grid,
    bars: Vec<(String, Vec<f64>)>,
}

impl Bars {
    fn new(first: Column, more: &[Column]) -> Bars {
        let columns: Vec<Column> = std::iter::once(first).chain(USAGE).chain(more.iter().copied()).collect();
        Bars { grid: Grid::new("", &columns), bars: Vec::new() }
    }

    fn add(&mut self, job: &Job, key: Cell, label: &str, bar: &Usage, more: impl IntoIterator<Item = Cell>) {
        let parts = [bar.seek_pct, bar.rotation_pct, bar.transfer_pct, bar.track_switch_pct];
        let cells = parts.into_iter().chain([bar.access_ms, bar.overhead_ms]).map(Cell::from);
        job.row(&mut self.grid, std::iter::once(key).chain(cells).chain(more));
        self.bars.push((label.to_owned(), parts.to_vec()));
    }

    fn shown(self, job: &Job, paper: Vec<Statement>, notes: &[&str]) -> Shown {
        let stack = Stack {
            id: job.entry.name,
            title: job.entry.title,
            caption: job.entry.source.to_owned(),
            bar_label: "",
            value_label: "per cent of the head's time",
            parts: ["seek", "rotation", "transfer", "between tracks"].map(str::to_owned).to_vec(),
            bars: self.bars,
        };
        let pictures = vec![(String::new(), Picture::Bars(stack))];
        job.shown(self.grid, paper, &[&[PARTS], notes].concat(), pictures)
    }
}

/// `cheetah-9lp` of `seagate-cheetah-9lp`.
pub fn short(drive: &Spec) -> &str {
    drive.name.split_once('-').map_or(drive.name.as_str(), |(_, model)| model)
}

fn figure_2(job: &Job) -> Result<Shown, LabError> {
    let mut bars = Bars::new(words("drive", "drive"), &[]);
    for (done, drive) in job.drives.iter().enumerate() {
        job.progress(done, job.drives.len());
        let bar = usage(drive, Policy::Fcfs, "random", job.requests, job.seed)?;
        bars.add(job, drive.name.as_str().into(), short(drive), &bar, []);
    }
    let shares = bars.grid.column("rotation_pct");
    let shares = shares.into_iter().flatten();
    let (least, most) = shares.fold((f64::MAX, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let range = |says, ours| Statement {
        from: Some(27.0),
        to: Some(36.0),
        ..Statement::about("section 3.1", says, "%", 27.0, ours, NEAR)
    };
    let paper = vec![
        range("rotation, the drive with the least of it", least),
        range("rotation, the drive with the most of it", most),
    ];
    Ok(bars.shown(job, paper, &[]))
}

fn figure_3(job: &Job) -> Result<Shown, LabError> {
    const KIB: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];
    let mut bars = Bars::new(numbers("size_kib", "KiB", 0), &[]);
    let mut largest = Usage::default();
    for (done, kib) in KIB.into_iter().enumerate() {
        job.progress(done, KIB.len());
        let load = format!("random:size={kib}KiB");
        largest = usage(job.drive(), Policy::Fcfs, &load, job.requests, job.seed)?;
        bars.add(job, kib.into(), &format!("{kib} KiB"), &largest, []);
    }
    let below = Statement::about(
        "section 3.2",
        "256 KiB: transfer (utilisation), less than",
        "%",
        55.0,
        largest.transfer_pct,
        NEAR,
    );
    let paper = vec![
        Statement { from: None, ..below },
        Statement::about("section 3.2", "256 KiB: rotation", "%", 15.0, largest.rotation_pct, NEAR),
    ];
    let together = largest.transfer_pct + largest.track_switch_pct;
    let disksim = format!(
        "DiskSim, with which the paper was made, counts what passes between tracks as transfer: so counted, \
         256 KiB are {together:.1} % here."
    );
    Ok(bars.shown(job, paper, &[&disksim]))
}

/// Deviation of local requests: 4 MB as the caption says, and as in `DiskSim`'s parameter file, where 8,192 sectors are
/// the *variance* of the distance: 90.5 sectors, in bytes.
const CAPTION: &str = "4MiB";
const DISKSIM: &str = "46341";

fn figure_4(job: &Job) -> Result<Shown, LabError> {
    let caption = [
        numbers("caption_seek_pct", "4 MB: seek %", 1),
        numbers("caption_rotation_pct", "4 MB: rotation %", 1),
        numbers("paper_rotation_pct", "paper: rotation %", 0),
    ];
    let mut bars = Bars::new(numbers("local_pct", "local %", 0), &caption);
    let mut at_70 = [0.0; 2];
    for (done, local) in (0..=100_u64).step_by(10).enumerate() {
        job.progress(done, 11);
        let bar = |sigma: &str| {
            let load = format!("random:local={local}%,sigma={sigma}");
            usage(job.drive(), Policy::Fcfs, &load, job.requests, job.seed)
        };
        let (disksim, wide) = (bar(DISKSIM)?, bar(CAPTION)?);
        let theirs = (local == 70).then(|| {
            at_70 = [disksim.rotation_pct, wide.rotation_pct];
            60.0
        });
        let more = [wide.seek_pct.into(), wide.rotation_pct.into(), job.theirs(theirs)];
        bars.add(job, local.into(), &format!("{local} %"), &disksim, more);
    }
    let about = |says, ours| Statement::about("section 3.2", says, "%", 60.0, ours, NEAR);
    let paper = vec![
        about("70 % local: rotation, almost 60 (variance of 8,192 sectors)", at_70[0]),
        about("70 % local: rotation, almost 60 (deviation of 4 MB)", at_70[1]),
    ];
    let notes = [
        "Local requests are normally distributed around the last one. The caption says: with a deviation of \
         4 MB. That cannot give 60 %: 4 MB are some 5 cylinders of the Atlas 10K, and the shortest way to \
         another cylinder takes 1.157 ms, so that 70 % local leaves some 2.5 ms of seek to 3 ms of rotation.",
        "DiskSim asks for the variance of such a distribution, in sectors, and takes its root. 4 MB are 8,192 \
         sectors; as a variance they are a deviation of 90.5 sectors (45 KiB), with which most local requests \
         stay on the cylinder. The parts here are of that; the columns behind, as the caption says.",
    ];
    Ok(bars.shown(job, paper, if job.others { &notes[1..] } else { &notes }))
}

const OUTSTANDING: &str = "20 requests are always outstanding.";

/// Usage of a scheduler with 20 outstanding requests.
fn queued(job: &Job, policy: Policy) -> Result<Usage, LabError> {
    usage(job.drive(), policy, "random:outstanding=20", job.requests, job.seed)
}

fn figure_5(job: &Job) -> Result<Shown, LabError> {
    let policies = [
        (Policy::Fcfs, None),
        (Policy::CLook, Some(50.0)),
        (Policy::Sstf, Some(50.0)),
        (Policy::Sptf, Some(22.0)),
    ];
    let theirs = [numbers("paper_rotation_pct", "paper: rotation %", 0)];
    let mut bars = Bars::new(words("scheduler", "scheduler"), &theirs);
    let mut paper = Vec::new();
    for (done, (policy, theirs)) in policies.into_iter().enumerate() {
        job.progress(done, policies.len());
        let (name, bar) = (policy.to_string(), queued(job, policy)?);
        bars.add(job, name.as_str().into(), &name, &bar, [job.theirs(theirs)]);
        let says = match policy {
            Policy::CLook => "C-LOOK: rotation",
            Policy::Sstf => "SSTF: rotation",
            _ => "SPTF: rotation",
        };
        paper.extend(
            theirs.map(|theirs| Statement::about("section 3.3", says, "%", theirs, bar.rotation_pct, NEAR)),
        );
    }
    Ok(bars.shown(job, paper, &[OUTSTANDING]))
}

fn figure_6(job: &Job) -> Result<Shown, LabError> {
    const WINDOWS: [u32; 10] = [0, 5, 10, 20, 30, 40, 50, 60, 80, 100];
    let more = [
        numbers("more_access_pct", "more head time %", 1),
        numbers("paper_rotation_pct", "paper: rotation %", 0),
        numbers("paper_more_access_pct", "paper: more %", 0),
    ];
    let mut bars = Bars::new(words("scheduler", "scheduler"), &more);
    let policies: Vec<Policy> =
        WINDOWS.iter().map(|&window| Policy::SptfSw(window)).chain([Policy::Sstf]).collect();
    let (mut sptf, mut paper, mut times) = (0.0, Vec::new(), Vec::new());
    for (done, &policy) in policies.iter().enumerate() {
        job.progress(done, policies.len());
        let bar = queued(job, policy)?;
        if policy == Policy::SptfSw(0) {
            sptf = bar.access_ms;
        }
        let more = 100.0 * (bar.access_ms / sptf - 1.0);
        let theirs = match policy {
            Policy::SptfSw(0) => (Some(22.0), None),
            Policy::SptfSw(40) => (Some(36.0), Some(6.0)),
            Policy::Sstf => (Some(50.0), Some(25.0)),
            _ => (None, None),
        };
        let says = match policy {
            Policy::SptfSw(0) => ["SPTF: rotation", ""],
            Policy::Sstf => ["SSTF: rotation", "SSTF: more access time than SPTF"],
            _ => ["SPTF-SW40%: rotation", "SPTF-SW40%: more access time than SPTF"],
        };
        let about = |says, theirs: Option<f64>, ours| {
            theirs.map(|theirs| Statement::about("section 3.3", says, "%", theirs, ours, NEAR))
        };
        paper.extend(about(says[0], theirs.0, bar.rotation_pct));
        paper.extend(about(says[1], theirs.1, more));
        let name = policy.to_string();
        bars.add(
            job,
            name.as_str().into(),
            &name,
            &bar,
            [more.into(), job.theirs(theirs.0), job.theirs(theirs.1)],
        );
        if policy != Policy::Sstf {
            times.push(Some(bar.access_ms));
        }
    }
    let mut shown = bars.shown(job, paper, &[OUTSTANDING, "SPTF-SW0% is SPTF, and SSTF where n has no end."]);
    let plot = Plot {
        along: Along::Linear(WINDOWS.iter().map(|&window| f64::from(window)).collect()),
        along_label: "n of SPTF-SW n %",
        value_label: "head ms a request",
        series: vec![Series { name: "access time".to_owned(), values: times }],
        ..Plot::default()
    };
    shown.pictures.push(("access time".to_owned(), Picture::Lines(plot)));
    Ok(shown)
}
