//! A trace's report in words and tables. Traces are shown side by side, a column each.

use std::fmt::Write;

use seekless_trace::Stats;
use seekless_trace::stats::Sampling;

use super::Subject;
use super::accesses_figure::span;
use crate::report::sections;
use crate::report::table::Table;
use crate::report::text::{escape, number, percent, whole};

/// A figure of the headline: its name, its value, and its meaning.
type Tile = (&'static str, fn(&Stats) -> String, &'static str);

const TILES: [Tile; 6] = [
    ("requests", |stats| whole(stats.requests), "that cover bytes"),
    ("time", |stats| span(stats.seconds), "from the first request to the last"),
    ("touched", |stats| gib(stats.total_gib_unique), "of different pages of 4 KiB"),
    ("reads", |stats| part(stats.reads, stats.requests), "of the requests"),
    (
        "busiest fifth",
        |stats| percent(stats.top20_share_pct),
        "of all page accesses go to a fifth of the pages",
    ),
    (
        "jumps",
        |stats| percent(stats.nonsequential_pct),
        "of the requests do not start where the one before ended",
    ),
];

fn gib(value: f64) -> String {
    format!("{}\u{a0}GiB", number(value))
}

fn part(part: u64, whole: u64) -> String {
    if whole == 0 { number(f64::NAN) } else { percent(100.0 * part as f64 / whole as f64) }
}

/// What the page is about, its most important figures, and caveats.
pub fn headline(subjects: &[Subject]) -> String {
    let mut out = String::from("<header><p class=\"brand\">seekless: what a workload is like</p>");
    let names: Vec<String> = subjects.iter().map(|subject| escape(&subject.name)).collect();
    let _ = write!(out, "<h1>{}</h1>", names.join(" <small>and</small> "));
    let several = subjects.len() > 1;
    for subject in subjects {
        let name = if several { subject.name.as_str() } else { "" };
        out.extend(subject.verdict.iter().map(|verdict| verdict.html(name, subject.warnings)));
    }
    out.extend([&in_short(subjects).html(), "<dl class=\"tiles\">"]);
    for (name, value, meaning) in TILES {
        let _ = write!(out, "<div><dt>{name}</dt>");
        for subject in subjects {
            let _ = write!(out, "<dd class=\"figure\">{}", escape(&value(subject.stats)));
            if subjects.len() > 1 {
                let _ = write!(out, " <small>{}</small>", escape(&subject.name));
            }
            out.push_str("</dd>");
        }
        let _ = write!(out, "<dd>{}</dd></div>", escape(meaning));
    }
    out.push_str("</dl>");
    let notes: Vec<String> = subjects.iter().flat_map(|subject| notes(subject, subjects.len() > 1)).collect();
    if !notes.is_empty() {
        out.push_str("<aside aria-label=\"Notes\"><h2>Before you believe it</h2><ul>");
        out.extend(notes.iter().map(|note| format!("<li>{}</li>", escape(note))));
        out.push_str("</ul></aside>");
    }
    out.push_str("</header>");
    out
}

/// The lines that matter.
fn in_short(subjects: &[Subject]) -> Table {
    let lines = |stats: &Stats| {
        let mut table = Table::new("In short", &["", "figures"]);
        stats.summary.iter().for_each(|line| table.pair(line.name, line.value.clone()));
        table
    };
    Table { wordy: true, ..side_by_side(subjects, lines) }
}

/// Warnings, and the accuracy of the figures.
fn notes(subject: &Subject, named: bool) -> Vec<String> {
    let mut notes: Vec<String> = subject.warnings.to_vec();
    let sampled = |what: &str, shares: &str, sampling: &Sampling| {
        (sampling.kept < 1.0).then(|| {
            format!(
                "Figures of {what} are from a sample of {}: numbers of {what} are within {} of the true ones, \
                 {shares} within {} points, in 95 of 100 cases. More --memory keeps more.",
                percent(100.0 * sampling.kept),
                percent(sampling.error_pct),
                number(sampling.share_error_pct)
            )
        })
    };
    notes.extend(sampled("pages", "shares of the top 20 %", &subject.stats.page_sampling));
    notes.extend(sampled("pairs of requests", "partial determinism", &subject.stats.pair_sampling));
    if named {
        notes = notes.into_iter().map(|note| format!("{}: {note}", subject.name)).collect();
    }
    notes
}

/// Tables with the same rows as one, a column for each trace.
fn side_by_side(subjects: &[Subject], table: impl Fn(&Stats) -> Table) -> Table {
    let mut tables = subjects.iter().map(|subject| table(subject.stats));
    let mut first = tables.next().unwrap_or_default();
    if subjects.len() > 1 {
        first.head.truncate(1);
        first.head.extend(subjects.iter().map(|subject| subject.name.clone()));
    }
    for table in tables {
        for (row, other) in first.rows.iter_mut().zip(table.rows) {
            row.extend(other.into_iter().skip(1));
        }
    }
    first
}

/// Statistics of the workloads.
pub fn tables(subjects: &[Subject]) -> Vec<Table> {
    let mut tables = vec![side_by_side(subjects, sections::workload), side_by_side(subjects, arrivals)];
    if subjects.iter().any(|subject| subject.stats.latencies.is_some()) {
        tables.push(side_by_side(subjects, answers));
    }
    for subject in subjects {
        let whose = |table: Table| {
            let caption = format!("{}: {}", table.caption, subject.name);
            if subjects.len() > 1 { Table { caption, ..table } } else { table }
        };
        if subject.accesses.knows_processes() {
            tables.push(whose(sections::processes(subject.stats)));
        }
        if subject.stats.volumes.len() > 1 {
            tables.push(whose(volumes(subject.stats)));
        }
    }
    tables
}

/// A time given in microseconds.
fn time(us: f64) -> String {
    span(us / 1e6)
}

/// Arrivals of requests.
fn arrivals(stats: &Stats) -> Table {
    let arrivals = &stats.arrivals;
    let mut table = Table::new("Arrivals", &["figure", "value"]);
    table.pair("between two requests, mean", time(arrivals.mean_us));
    table.pair("median", time(arrivals.median_us));
    table.pair("90 % are shorter than", time(arrivals.p90_us));
    table.pair("99 % are shorter than", time(arrivals.p99_us));
    table.pair("deviation over mean; 1 at random", number(arrivals.variation));
    table.pair("requests a second", number(arrivals.mean_per_s));
    table.pair("in the busiest second", whole(arrivals.peak_per_s));
    table.pair("variance over mean of a second\u{2019}s requests; 1 at random", number(arrivals.burstiness));
    for idle in &stats.idle_periods {
        let name = format!("time in idle periods of {} or more", time(idle.at_least_ms as f64 * 1e3));
        table.pair(&name, percent(idle.share_pct));
    }
    table
}

/// Response times, and numbers of requests in flight; a dash where the trace lacks them.
fn answers(stats: &Stats) -> Table {
    let took = |value: fn(&seekless_trace::stats::Latencies) -> String| {
        stats.latencies.as_ref().map_or_else(|| number(f64::NAN), value)
    };
    let queue = |value: fn(&seekless_trace::stats::QueueDepth) -> String| {
        stats.queue_depth.as_ref().map_or_else(|| number(f64::NAN), value)
    };
    let mut table = Table::new("Latencies and queue depth", &["figure", "value"]);
    table.pair("requests whose latency is known", took(|took| percent(took.known_pct)));
    table.pair("mean", took(|took| time(took.mean_us)));
    table.pair("median", took(|took| time(took.median_us)));
    table.pair("90 % took less than", took(|took| time(took.p90_us)));
    table.pair("99 % took less than", took(|took| time(took.p99_us)));
    table.pair("longest", took(|took| time(took.max_us)));
    table.pair("under way while there were any, mean", queue(|queue| number(queue.mean_busy)));
    table.pair("at most", queue(|queue| whole(queue.max)));
    table.pair("time with a request under way", queue(|queue| percent(queue.busy_pct)));
    table
}

/// Requests of each volume.
fn volumes(stats: &Stats) -> Table {
    let head =
        ["volume", "requests", "share", "reads", "writes", "read, GiB", "written, GiB", "touched, GiB"];
    let mut table = Table::new("The busiest volumes", &head);
    for each in &stats.volumes {
        let (requests, share) = (whole(each.requests), percent(each.share_pct));
        let counts = [each.reads, each.writes].map(whole);
        let sizes = [each.read_gib, each.write_gib, each.unique_gib].map(number);
        table.row([each.name.clone(), requests, share].into_iter().chain(counts).chain(sizes));
    }
    table
}

/// Files of the traces.
pub fn sources(subjects: &[Subject]) -> Table {
    let mut table = Table::new("Read from", &["trace"]);
    table.wordy = true;
    table.head.extend(["files".to_owned(), "format".to_owned()]);
    for subject in subjects {
        table.row([subject.name.clone(), subject.sources.join("\n"), subject.format.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_its_unit() {
        assert_eq!(time(12.0), "12\u{a0}\u{b5}s");
        assert_eq!(time(2_500.0), "2.5\u{a0}ms");
    }
}
