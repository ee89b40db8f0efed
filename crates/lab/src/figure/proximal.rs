//! Figures 1 to 4 and Table 1 of the proximal paper (Schindler et al., FAST 2011, section 2), and its Appendix A:
//! response times of strands of small requests on a drive with SPTF.
//!
//! Times of strands are simulated; the appendix is computed. Table 1 and the statements of the text are compared with
//! ours; the figures themselves have no numbers.

use seekless_core::{Nanos, Op};
use seekless_drive::Spec;

use super::appendix;
use super::freeblock::short;
use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::strand::{Arrival, Kind, Order, Strand, mean, response_ms, track_read_ms};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::{Along, align};
use crate::report::plot::{Form, Plot, Series};

/// The drive of the paper's explanations.
const CHEETAH: [&str; 1] = ["seagate-cheetah-15k5"];
/// That drive, and a nearline drive: the one of its prototype.
const BOTH: [&str; 2] = ["seagate-cheetah-15k5", "wd-re3-1tb"];
/// The longest strand of the paper.
const LONGEST: usize = 8;

/// Figure 1: by length.
pub const FIGURE_1: Entry = Entry::new(
    "strands a number",
    "proximal-1",
    "cost of a request, by strand length",
    "proximal paper (FAST 2011), section 2.3, Figure 1",
    "8 requests: 0.39 OP each, semi-sequential 0.23 OP",
    &CHEETAH,
    figure_1,
);
/// Figure 2: by queue depth.
pub const FIGURE_2: Entry = Entry::new(
    "strands a number",
    "proximal-2",
    "cost of a request, by queue depth",
    "proximal paper (FAST 2011), section 2.4, Figure 2",
    "8 at a time cost 32 % less than one at a time",
    &CHEETAH,
    figure_2,
);
/// Figure 3: distribution of times, and the model.
pub const FIGURE_3: Entry = Entry::new(
    "strands a number",
    "proximal-3",
    "response times of strands of 8, and the model",
    "proximal paper (FAST 2011), section 2.4, Figure 3, and Appendix A",
    "17.14 ms measured, 17.26 ms by the model, 3.4 revolutions",
    &CHEETAH,
    appendix::figure_3,
);
/// Figure 4: by the order of submission.
pub const FIGURE_4: Entry = Entry::new(
    "strands a number",
    "proximal-4",
    "strands of 8 sent sorted and unsorted",
    "proximal paper (FAST 2011), section 2.5, Figure 4",
    "nothing in numbers",
    &BOTH,
    figure_4,
);
/// Table 1: times of all kinds of strands.
pub const TABLE_1: Entry = Entry::new(
    "strands a number",
    "proximal-table-1",
    "response times of strands",
    "proximal paper (FAST 2011), section 2.3, Table 1",
    "strands of 2, 4, 6 and 8 requests, in ms",
    &CHEETAH,
    table_1,
);

/// A row of Table 1.
struct Row {
    name: &'static str,
    kind: Kind,
    op: Op,
    /// In milliseconds, by strands of 2, 4, 6 and 8; of a single request where the caption says so.
    paper_ms: [f64; 4],
    single_ms: Option<f64>,
    /// Tolerance in per cent.
    within: f64,
    /// Text of a statement about its largest deviation.
    says: &'static str,
}

const ROWS: [Row; 4] = [
    Row {
        name: "semi-sequential",
        kind: Kind::SemiSequential,
        op: Op::Read,
        paper_ms: [5.9, 7.3, 8.6, 9.9],
        single_ms: None,
        within: 12.0,
        says: "semi-sequential strands, the farthest off",
    },
    Row {
        name: "track-approximate",
        kind: Kind::TrackApproximate,
        op: Op::Read,
        paper_ms: [7.4, 10.8, 13.9, 17.0],
        single_ms: None,
        within: 12.0,
        says: "track-approximate strands, the farthest off",
    },
    Row {
        name: "proximal read",
        kind: Kind::Proximal,
        op: Op::Read,
        paper_ms: [7.4, 11.2, 14.2, 17.1],
        single_ms: Some(5.6),
        within: 5.0,
        says: "proximal strands of reads, the farthest off",
    },
    Row {
        name: "proximal write",
        kind: Kind::Proximal,
        op: Op::Write,
        paper_ms: [8.6, 12.9, 16.8, 20.4],
        single_ms: Some(5.8),
        within: 12.0,
        says: "proximal strands of writes, the farthest off",
    },
];

impl Row {
    /// The paper's time for strands of `requests` requests.
    fn theirs(&self, requests: usize) -> Option<f64> {
        match requests {
            1 => self.single_ms,
            2 | 4 | 6 | 8 => Some(self.paper_ms[requests / 2 - 1]),
            _ => None,
        }
    }
}

const HOW: &str = "Requests are of 4 KiB, sent sorted and all at once while the drive is at work on another \
                   one anywhere; a strand's time counts from the end of that one. The drive schedules by SPTF; its \
                   write \
                   cache is off.";

/// Mean time of a strand, in milliseconds.
pub fn mean_ms(job: &Job, drive: &Spec, strand: Strand) -> Result<f64, LabError> {
    Ok(mean(&response_ms(drive, strand, job.requests, job.seed)?))
}

fn table_1(job: &Job) -> Result<Shown, LabError> {
    const REQUESTS: [usize; 5] = [1, 2, 4, 6, 8];
    let columns = [
        words("kind", "strand"),
        numbers("requests", "requests", 0),
        numbers("strand_ms", "ms", 2),
        numbers("paper_strand_ms", "paper: ms", 1),
        numbers("off_pct", "off by %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let mut paper = Vec::new();
    for (number, row) in ROWS.iter().enumerate() {
        let mut farthest: Option<Statement> = None;
        for (done, requests) in REQUESTS.into_iter().enumerate() {
            job.progress(number * REQUESTS.len() + done, ROWS.len() * REQUESTS.len());
            let ours = mean_ms(job, job.drive(), Strand::new(row.kind, requests, row.op))?;
            let theirs = row.theirs(requests).filter(|_| !job.others);
            let off = theirs.map(|theirs| 100.0 * (ours / theirs - 1.0));
            let cells = [(requests as u64).into(), ours.into(), theirs.into(), off.into()];
            grid.row(std::iter::once(Cell::from(row.name)).chain(cells));
            let Some(theirs) = theirs else { continue };
            let within = Within::Percent(row.within);
            let statement = Statement::about("Table 1", row.says, "ms", theirs, ours, within);
            if farthest.as_ref().is_none_or(|far| far.off().abs() < statement.off().abs()) {
                farthest = Some(statement);
            }
        }
        paper.extend(farthest);
    }
    let plots = |key| grid.column(key).chunks(REQUESTS.len()).map(<[_]>::to_vec).collect::<Vec<_>>();
    let (ours, theirs) = (plots("strand_ms"), plots("paper_strand_ms"));
    let pictures = side_by_side(job, &REQUESTS, "requests", "ms a strand", [ours, theirs]);
    let single = "The paper's caption gives single requests; a single write is there 0.2 ms slower than a \
                  read, in strands the same drive writes as if that were 0.4 ms.";
    let notes = [HOW, single];
    Ok(job.shown(grid, paper, &notes[..if job.others { 1 } else { 2 }], pictures))
}

/// A picture of lines over whole numbers.
fn lines(along: &[usize], along_label: &'static str, value_label: &'static str, series: Vec<Series>) -> Plot {
    let along = Along::Linear(along.iter().map(|&number| number as f64).collect());
    Plot { along, along_label, value_label, series, ..Plot::default() }
}

/// Two pictures of the rows with the same axes: ours and, for the paper's drive, the paper's.
fn side_by_side(
    job: &Job,
    along: &[usize],
    along_label: &'static str,
    value_label: &'static str,
    values: [Vec<Vec<Option<f64>>>; 2],
) -> Vec<(String, Picture)> {
    let mut plots = values.map(|values| {
        let series = ROWS.iter().zip(values);
        let series = series.map(|(row, values)| Series { name: row.name.to_owned(), values });
        lines(along, along_label, value_label, series.collect())
    });
    let [ours, theirs] = &mut plots;
    align(&mut [ours, theirs]);
    let named = ["ours", "the paper's, of Table 1"].into_iter().zip(plots);
    let shown = if job.others { 1 } else { 2 };
    named.take(shown).map(|(name, plot)| (name.to_owned(), Picture::Lines(plot))).collect()
}

const FIGURE_1_COLUMNS: [Column; 11] = [
    numbers("requests", "requests", 0),
    numbers("semi_sequential_ms", "semi-seq. ms", 2),
    numbers("track_approximate_ms", "track-appr. ms", 2),
    numbers("proximal_ms", "proximal ms", 2),
    numbers("proximal_write_ms", "write ms", 2),
    numbers("semi_sequential_op", "semi-seq. OP", 2),
    numbers("proximal_op", "proximal OP", 2),
    numbers("paper_semi_sequential_ms", "paper: semi-seq.", 2),
    numbers("paper_track_approximate_ms", "track-appr.", 2),
    numbers("paper_proximal_ms", "proximal", 2),
    numbers("paper_proximal_write_ms", "write", 2),
];

fn figure_1(job: &Job) -> Result<Shown, LabError> {
    let mut grid = Grid::new("", &FIGURE_1_COLUMNS);
    let (mut op, mut series) = (1.0, vec![Vec::new(); ROWS.len()]);
    for requests in 1..=LONGEST {
        let mut each = [0.0; ROWS.len()];
        for (at, row) in ROWS.iter().enumerate() {
            job.progress((requests - 1) * ROWS.len() + at, LONGEST * ROWS.len());
            let strand = Strand::new(row.kind, requests, row.op);
            each[at] = mean_ms(job, job.drive(), strand)? / requests as f64;
            series[at].push(Some(each[at]));
        }
        if requests == 1 {
            op = each[2];
        }
        let theirs =
            ROWS.iter().map(|row| job.theirs(row.theirs(requests).map(|strand| strand / requests as f64)));
        let ours = each.into_iter().chain([each[0] / op, each[2] / op]).map(Cell::from);
        grid.row(std::iter::once(Cell::from(requests as u64)).chain(ours).chain(theirs));
    }
    let last = |key| grid.column(key).last().copied().flatten().unwrap_or_default();
    let (semi, proximal) = (last("semi_sequential_op"), last("proximal_op"));
    let about = |says, unit, theirs, ours| {
        Statement::about("section 2.3", says, unit, theirs, ours, Within::Percent(12.0))
    };
    let paper = vec![
        about("a single read", "ms", 5.6, op),
        about("8 requests, proximal: of a single one", "OP", 0.39, proximal),
        about("8 requests, semi-sequential: of a single one", "OP", 0.23, semi),
        about("proximal: better than single by a factor of", "", 2.5, 1.0 / proximal),
        about("semi-sequential: better than proximal by a factor of", "", 1.7, proximal / semi),
    ];
    let along: Vec<usize> = (1..=LONGEST).collect();
    let theirs = |row: &Row| along.iter().map(|&n| row.theirs(n).map(|strand| strand / n as f64)).collect();
    let theirs: Vec<Vec<Option<f64>>> = ROWS.iter().map(theirs).collect();
    let pictures = side_by_side(job, &along, "requests in a strand", "ms a request", [series, theirs]);
    let op = "1 OP is a single random read (section 2.2). The paper's milliseconds are those of its Table 1, \
              by request, which are 0.38 OP for 8 proximal ones where the text says 0.39; between them it has \
              only the picture.";
    Ok(job.shown(grid, paper, &[HOW, op], pictures))
}

fn figure_2(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("depth", "at a time", 0),
        numbers("request_ms", "ms a request", 3),
        numbers("improvement_pct", "less than FIFO %", 1),
        numbers("paper_improvement_pct", "paper: %", 0),
    ];
    let mut grid = Grid::new("", &columns);
    let mut fifo = 0.0;
    for depth in 1..=LONGEST {
        job.progress(depth - 1, LONGEST);
        let strand = Strand { depth, ..Strand::new(Kind::Proximal, LONGEST, Op::Read) };
        let each = mean_ms(job, job.drive(), strand)? / LONGEST as f64;
        if depth == 1 {
            fifo = each;
        }
        let less = 100.0 * (1.0 - each / fifo);
        let theirs = job.theirs((depth == LONGEST).then_some(32.0));
        grid.row([(depth as u64).into(), each.into(), less.into(), theirs]);
    }
    let less = grid.column("improvement_pct").last().copied().flatten().unwrap_or_default();
    let says = "8 at a time: less than one at a time by";
    let paper = vec![Statement::about("section 2.4", says, "%", 32.0, less, Within::Points(2.0))];
    let along: Vec<usize> = (1..=LONGEST).collect();
    let series = vec![Series { name: "proximal".to_owned(), values: grid.column("request_ms") }];
    let plot = lines(&along, "requests at a time", "ms a request", series);
    let picture = (String::new(), Picture::Lines(plot));
    let notes = ["Requests are sent sorted; the next one when one is answered. One at a time is FIFO."];
    Ok(job.shown(grid, paper, &notes, vec![picture]))
}

/// Interval between two requests sent one by one: about the time that a host and a bus of that era need for each.
const APART: Nanos = Nanos::from_micros(50);

fn figure_4(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        words("drive", "drive"),
        words("arrival", "requests come"),
        numbers("sorted_ms", "sorted: ms", 2),
        numbers("unsorted_ms", "unsorted: ms", 2),
        numbers("more_pct", "unsorted: more %", 1),
        numbers("fifo_ms", "one at a time: ms", 2),
        numbers("track_read_ms", "a track: ms", 2),
    ];
    let arrivals = [
        ("together, to a busy drive", Arrival { busy: true, apart: Nanos::ZERO }),
        ("one by one, to a busy drive", Arrival { busy: true, apart: APART }),
        ("together, to an idle drive", Arrival { busy: false, apart: Nanos::ZERO }),
        ("one by one, to an idle drive", Arrival { busy: false, apart: APART }),
    ];
    let mut grid = Grid::new("", &columns);
    let mut bars: Vec<(String, [f64; 4])> = Vec::new();
    for (number, drive) in job.drives.iter().enumerate() {
        let track = track_read_ms(drive, job.requests, job.seed)?;
        for (at, (name, arrival)) in arrivals.into_iter().enumerate() {
            job.progress(number * arrivals.len() + at, job.drives.len() * arrivals.len());
            let strand = Strand { arrival, ..Strand::new(Kind::Proximal, LONGEST, Op::Read) };
            let sorted = mean_ms(job, drive, strand)?;
            let unsorted = mean_ms(job, drive, Strand { order: Order::Unsorted, ..strand })?;
            let fifo = mean_ms(job, drive, Strand { depth: 1, ..strand })?;
            let more = 100.0 * (unsorted / sorted - 1.0);
            let values = [sorted, unsorted, more, fifo, track];
            let words = [drive.name.as_str(), name].map(Cell::from);
            grid.row(words.into_iter().chain(values.map(Cell::from)));
            if at == 0 {
                bars.push((short(drive).to_owned(), [sorted, unsorted, fifo, track]));
            }
        }
    }
    let names = ["sorted", "unsorted", "one at a time", "a full track"];
    let series = names.iter().enumerate().map(|(at, name)| Series {
        name: (*name).to_owned(),
        values: bars.iter().map(|(_, values)| Some(values[at])).collect(),
    });
    let plot = Plot {
        along: Along::names(bars.iter().zip(0_u32..).map(|((name, _), at)| (f64::from(at), name.clone()))),
        along_label: "drive",
        value_label: "ms",
        form: Form::Bars,
        series: series.collect(),
        ..Plot::default()
    };
    let notes = [
        "Our scheduler sees the whole queue at each decision, so the order of submission does not matter. The \
         paper's drives wanted requests in ascending order; it names too little computing power in the firmware \
         and a mistake in it (section 2.5), which its makers acknowledged and one of them mended. The figure has \
         no numbers, so nothing stands for theirs.",
        "The figure shows why a strand should arrive at a busy drive: an idle drive begins with the first request \
         that arrives, whichever that is, and considers the others only after it.",
    ];
    Ok(job.shown(grid, Vec::new(), &notes, vec![(String::new(), Picture::Lines(plot))]))
}
