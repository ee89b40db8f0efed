//! The report of one trace, or of two side by side: its figures as one page, and each as a file.
//!
//! Invariants: the page shows the given statistics, and no others; the same input gives the same bytes; a page is
//! smaller than [`PAGE_BYTES`] for traces of any length, and the names in them are text wherever they appear.

mod accesses;
pub(super) mod accesses_figure;
mod cells;
pub(super) mod charts;
mod families;
mod pack;
mod still;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

use seekless_trace::Stats;

pub use accesses::{Accesses, Picture, TEXT_BYTES};

use super::along::align;
use super::charts::{interval_table, rank_frequency, request_sizes, working_sets};
use super::figure::Figure;
use super::heat::{self, Heat};
use super::page::{Extra, Page};
use super::plot::Plot;
use super::standalone;
pub use super::verdict::Verdict;
use accesses_figure::Words;
pub(super) use timeline::Timeline;

/// Limit of a page, in bytes.
pub const PAGE_BYTES: usize = 8_000_000;
/// All possible figures: each one's identifier in the page, and its file's name.
pub const FIGURES: [&str; 13] = [
    "accesses",
    "heat-map",
    "over-time",
    "throughput",
    "jumps",
    "queue-depth",
    "latency-bands",
    "rank-frequency",
    "working-sets",
    "miss-ratio",
    "request-sizes",
    "inter-arrivals",
    "latencies",
];

/// A trace as its report sees it.
pub struct Subject<'a> {
    /// Name for readers.
    pub name: String,
    /// Its files.
    pub sources: Vec<String>,
    /// Their format.
    pub format: &'a str,
    /// Warnings about it.
    pub warnings: &'a [String],
    /// Its statistics.
    pub stats: &'a Stats,
    /// Whether anything would help its disk, where that was asked for.
    pub verdict: Option<&'a Verdict>,
    /// Its addresses over time.
    pub accesses: &'a Picture,
}

/// A written report.
pub struct Report {
    /// The page.
    pub html: String,
    /// Each figure's name and the content of its SVG file.
    pub pictures: Vec<(&'static str, String)>,
}

/// The report of one trace or more; `command` is the command line that made it.
pub fn report(subjects: &[Subject], command: &str) -> Report {
    let figures = figures(subjects);
    let pictures = figures.iter().map(|figure| (figure.id, standalone::svg(figure))).collect();
    let mut page = Page::default();
    page.html(&summary::headline(subjects));
    page.contents();
    page.section("The pictures");
    page.charts(figures);
    page.section("All figures");
    page.tables(&summary::tables(subjects));
    page.section("The traces");
    page.table(&summary::sources(subjects));
    page.command(command);
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    let extra = interactive(&pictures_of(subjects), &accesses_figure::OF_A_TRACE);
    let html = page.finish(&format!("seekless: {}", names.join(", ")), Some(&extra));
    Report { html, pictures }
}

/// What a page needs to zoom into addresses over time.
pub(super) fn interactive(pictures: &[(&str, &Picture)], words: &Words) -> Extra {
    Extra {
        style: include_str!("../assets/accesses.css"),
        script: concat!(include_str!("../assets/accesses_marks.js"), include_str!("../assets/accesses.js")),
        name: "accesses-data",
        data: accesses_figure::data(pictures, words),
    }
}

fn pictures_of<'a>(subjects: &'a [Subject]) -> Vec<(&'a str, &'a Picture)> {
    subjects.iter().map(|subject| (subject.name.as_str(), subject.accesses)).collect()
}

/// All figures with content, in the order of [`FIGURES`].
fn figures(subjects: &[Subject]) -> Vec<Figure> {
    let maps: Vec<_> = subjects
        .iter()
        .zip(panel_names(subjects))
        .map(|(subject, name)| (name, Heat(&subject.stats.heat_map)))
        .collect();
    let longest = subjects.iter().map(|subject| subject.stats.seconds).fold(0.0, f64::max);
    let sets = side_by_side(subjects, working_sets).map(|mut figure| {
        let tables = subjects
            .iter()
            .map(|subject| interval_table(subject.stats))
            .filter(|table| !table.rows.is_empty());
        figure.tables.extend(tables);
        figure
    });
    let figures = [
        accesses_figure::figure(&pictures_of(subjects), &accesses_figure::OF_A_TRACE),
        heat::figure(&maps),
        side_by_side(subjects, |stats| charts::over_time(stats, longest)),
        in_time(subjects, |line| charts::throughput(line, longest)),
        in_time(subjects, |line| charts::jumps(line, longest)),
        in_time(subjects, |line| charts::queue_depth(line, longest)),
        in_time(subjects, |line| charts::latency_bands(line, longest)),
        side_by_side(subjects, rank_frequency),
        sets,
        side_by_side(subjects, charts::miss_ratio),
        side_by_side(subjects, request_sizes),
        side_by_side(subjects, charts::inter_arrivals),
        side_by_side(subjects, charts::latencies),
    ];
    figures.into_iter().flatten().collect()
}

/// The same chart of every trace, with the same axes.
fn side_by_side(subjects: &[Subject], chart: impl Fn(&Stats) -> Option<Plot>) -> Option<Figure> {
    panels(subjects, subjects.iter().map(|subject| chart(subject.stats)).collect())
}

/// The same chart of every trace over its time, with the same axes.
fn in_time(subjects: &[Subject], chart: impl Fn(&Timeline) -> Option<Plot>) -> Option<Figure> {
    panels(subjects, subjects.iter().map(|subject| chart(&subject.accesses.timeline)).collect())
}

fn panels(subjects: &[Subject], mut plots: Vec<Option<Plot>>) -> Option<Figure> {
    if plots.len() > 1 {
        align(&mut plots.iter_mut().flatten().collect::<Vec<_>>());
    }
    Figure::of_plots(panel_names(subjects).zip(plots).collect())
}

/// Names of the pictures of each trace in a figure: empty for a single one.
fn panel_names<'a>(subjects: &'a [Subject]) -> impl Iterator<Item = String> + 'a {
    subjects.iter().map(|subject| if subjects.len() > 1 { subject.name.clone() } else { String::new() })
}
