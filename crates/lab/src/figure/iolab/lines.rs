//! Lines of the prefetcher: Table 1.

use super::{about, by_name};
use crate::error::LabError;
use crate::figure::Job;
use crate::figure::shown::{Cell, Grid, Shown, numbers, words};

/// Lines of code: not blank, not a comment, and not of tests.
fn lines(source: &str) -> u64 {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count() as u64
}

/// A component: its name, its lines in FAST and in IOLab, and our source.
type Component = (&'static str, Option<f64>, Option<f64>, &'static [&'static str]);

/// Components of the prefetcher.
const COMPONENTS: [Component; 6] = [
    (
        "launch manager",
        Some(538.0),
        Some(410.0),
        &[
            include_str!("../../../../layers/src/launch/mod.rs"),
            include_str!("../../../../layers/src/launch/options.rs"),
            include_str!("../../../../layers/src/launch/start.rs"),
        ],
    ),
    (
        "launch sequence extractor",
        Some(353.0),
        Some(286.0),
        &[include_str!("../../../../layers/src/pattern/sequences.rs")],
    ),
    ("LBA-to-inode reverse mapping", Some(5_608.0), None, &[]),
    (
        "prefetcher generator",
        Some(421.0),
        Some(69.0),
        &[
            include_str!("../../../../layers/src/dispatcher/mod.rs"),
            include_str!("../../../../layers/src/dispatcher/ahead.rs"),
        ],
    ),
    (
        "beside it: kept over restarts",
        None,
        None,
        &[
            include_str!("../../../../layers/src/launch/kept.rs"),
            include_str!("../../../../layers/src/pattern/sequences/encoding.rs"),
        ],
    ),
    ("beside it: CDP", None, None, &[include_str!("../../../../layers/src/cdp/mod.rs")]),
];

// As all figures.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn table_1(job: &Job) -> Result<Shown, LabError> {
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
