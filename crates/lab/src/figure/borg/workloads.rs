//! Statistics of the recordings beside those of the paper's: Table 1.

use seekless_core::SECTOR_BYTES;
use seekless_trace::{StatsOptions, Trace, characterise};

use super::{COUNTED, GIB, bars, of_recording};
use crate::error::LabError;
use crate::figure::shown::{Cell, Column, Grid, Shown, Statement, Within, numbers, words};
use crate::figure::{Entry, Job};
use crate::report::plot::Series;

/// Summary statistics.
pub const TABLE_1: Entry = of_recording(
    &["appstart2", "mail", "svnserver2"],
    &Entry::new(
        COUNTED,
        "borg-table-1",
        "summary statistics of recordings",
        "BORG paper (FAST 2009), section 2, Table 1",
        "4.5 to 22.2 % of the data accessed, 46 to 60 % of the accesses to a fifth of it, determinism 16 to 65 %",
        &["wd2500aaks"],
        table_1,
    ),
);

const COLUMNS: [Column; 9] = [
    words("recording", "recording"),
    numbers("size_gib", "size, GiB", 2),
    numbers("read_gib_total", "read, GiB", 2),
    numbers("read_gib_unique", "unique", 2),
    numbers("write_gib_total", "written, GiB", 2),
    numbers("write_gib_unique", "unique", 2),
    numbers("accessed_pct", "accessed, %", 2),
    numbers("top20_share_pct", "top 20 %, %", 2),
    numbers("partial_determinism_pct", "determinism, %", 2),
];

/// A row of the paper: its workload, the beginning of the names of recordings of that kind, and its columns.
type Theirs = (&'static str, &'static str, [f64; 8]);
const THEIRS: [Theirs; 4] = [
    ("office", "office", [8.29, 6.49, 1.63, 0.32, 0.22, 22.22, 51.40, 65.42]),
    ("developer", "developer", [45.59, 3.82, 2.57, 10.46, 3.96, 14.32, 60.27, 61.56]),
    ("SVN server", "svnserver", [2.39, 0.29, 0.17, 0.62, 0.18, 14.60, 45.79, 50.73]),
    ("web server", "webserver", [169.54, 21.07, 7.32, 2.24, 0.33, 4.51, 59.50, 15.55]),
];

fn table_1(job: &Job) -> Result<Shown, LabError> {
    if job.traces.is_empty() {
        job.recording()?;
    }
    let (mut grid, mut paper) = (Grid::new("", &COLUMNS), Vec::new());
    let (mut along, mut shares) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (done, trace) in job.traces.iter().enumerate() {
        job.progress(done, job.traces.len());
        let (name, ours) = (name(trace), of(&job.first_of(trace)));
        grid.row([name.as_str().into()].into_iter().chain(ours.map(Cell::from)));
        let theirs = THEIRS.iter().find(|(_, kind, _)| name.starts_with(kind));
        paper.extend(theirs.into_iter().flat_map(|theirs| stated(theirs, &ours)));
        along.push((done as f64, name));
        shares[0].push(Some(ours[6]));
        shares[1].push(Some(ours[7]));
    }
    let series = ["accesses to the top fifth", "partial determinism"].into_iter().zip(shares);
    let series = series.map(|(name, values)| Series { name: name.to_owned(), values }).collect();
    let notes = [
        "Recordings are minutes on a machine of today, not weeks. The size is that of the volume, in whole GiB up to the \
         last access; no drive is simulated. A workload of the kind office has no recording.",
        "Partial determinism is the share of non-sequential pairs of requests that occur at least twice, whichever the \
         process.",
    ];
    let shown = job.shown(grid, paper, &notes, vec![("shares".to_owned(), bars(along, "per cent", series))]);
    let mut theirs = Grid::new("Table 1 of the paper", &COLUMNS);
    for (name, _, values) in THEIRS {
        theirs.row([name.into()].into_iter().chain(values.map(Cell::from)));
    }
    Ok(Shown { more: if job.others { Vec::new() } else { vec![theirs] }, ..shown })
}

/// The name of a recording: of its first file, up to the first dot.
fn name(trace: &Trace) -> String {
    let file = trace.sources.first().and_then(|path| path.file_name()).unwrap_or_default();
    file.to_string_lossy().split('.').next().unwrap_or_default().to_owned()
}

/// The columns of a recording.
fn of(trace: &Trace) -> [f64; 8] {
    let sectors = trace.end_sector().next_multiple_of(GIB / SECTOR_BYTES);
    let options = StatsOptions { device_sectors: Some(sectors), ..StatsOptions::default() };
    let stats = characterise(&trace.records, &trace.names, &trace.volumes, &options);
    [
        stats.device_gib,
        stats.read_gib_total,
        stats.read_gib_unique,
        stats.write_gib_total,
        stats.write_gib_unique,
        stats.device_accessed_pct,
        stats.top20_share_pct,
        stats.partial_determinism_pct,
    ]
}

/// What the paper states of a recording of this kind.
fn stated((_, kind, theirs): &Theirs, ours: &[f64; 8]) -> [Statement; 2] {
    let says = match *kind {
        "developer" => ["developer: accesses to the top 20 %", "developer: partial determinism"],
        "svnserver" => ["SVN server: accesses to the top 20 %", "SVN server: partial determinism"],
        _ => ["web server: accesses to the top 20 %", "web server: partial determinism"],
    };
    [6, 7]
        .map(|at| Statement::about("Table 1", says[at - 6], "%", theirs[at], ours[at], Within::Points(15.0)))
}
