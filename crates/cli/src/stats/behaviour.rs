//! Statistics of a trace beyond the paper's figures, as text: arrivals, idle time, queue depth, reuse, cache misses,
//! and their course over time.

use seekless_core::PAGE_BYTES;
use seekless_trace::Stats;
use seekless_trace::stats::{Doubling, Sampling, Slice};

use crate::table::Table;
use crate::text::{count, number, percent, size, span};

/// Rows of a table over time, or by cache size.
const LINES: usize = 12;

/// The whole text.
pub fn text(stats: &Stats) -> String {
    let sections = [
        ("Pairs of requests that are not sequential, by how often they occur", repeats(stats)),
        ("Sequential runs", runs(stats)),
        ("Arrivals", arrivals(stats)),
        ("Idle periods: when a reconfiguration would fit", idle(stats)),
        ("Latencies and queue depth", depth(stats)),
        ("Reuse distances: different pages since a page was accessed", reuse(stats)),
        ("What an LRU cache would miss", misses(stats)),
        ("Time between two writes of a page", overwrites(stats)),
        ("Over time", over_time(stats)),
        ("Volumes, by requests", volumes(stats)),
        ("How exact this is", exactness(stats)),
    ];
    let mut out = String::new();
    for (title, section) in sections.iter().filter(|(_, section)| !section.is_empty()) {
        out.extend(["\n", title, "\n", section]);
    }
    out
}

fn part(part: u64, whole: u64) -> String {
    percent(100.0 * part as f64 / whole.max(1) as f64)
}

fn repeats(stats: &Stats) -> String {
    let all: u64 = stats.pair_repeats.iter().map(|class| class.occurrences).sum();
    let mut table = Table::new(&[">times, up to", ">pairs", ">occurrences", ">share"]);
    for class in &stats.pair_repeats {
        let share = part(class.occurrences, all);
        table.row([count(class.up_to_times), count(class.pairs), count(class.occurrences), share]);
    }
    shown(&table, all)
}

fn runs(stats: &Stats) -> String {
    let all: u64 = stats.sequential_runs.iter().map(|class| class.requests).sum();
    let mut table = Table::new(&[">requests, up to", ">runs", ">requests", ">share"]);
    for class in &stats.sequential_runs {
        let share = part(class.requests, all);
        table.row([count(class.up_to_requests), count(class.runs), count(class.requests), share]);
    }
    shown(&table, all)
}

/// The text of a table; empty if it has no rows.
fn shown(table: &Table, of: u64) -> String {
    if of == 0 { String::new() } else { table.text() }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => number(us / 1e6, 2) + " s",
        us if us >= 1e3 => number(us / 1e3, 2) + " ms",
        us => number(us, 1) + " us",
    }
}

fn arrivals(stats: &Stats) -> String {
    let here = &stats.arrivals;
    let mut table = Table::new(&["", ">", ""]);
    table.row(["between two, mean", &time(here.mean_us), ""]);
    table.row(["median", &time(here.median_us), "half of them are shorter"]);
    table.row(["90 %", &time(here.p90_us), ""]);
    table.row(["99 %", &time(here.p99_us), ""]);
    table.row(["variation", &number(here.variation, 2), "deviation over mean; 1 if they come at random"]);
    table.row(["requests a second", &number(here.mean_per_s, 1), "on average"]);
    table.row(["busiest second", &count(here.peak_per_s), ""]);
    table.row([
        "burstiness",
        &number(here.burstiness, 1),
        "variance over mean of a second's requests; 1 at random",
    ]);
    shown(&table, stats.requests)
}

fn idle(stats: &Stats) -> String {
    let mut table = Table::new(&[">at least", ">periods", ">in all", ">of the time"]);
    for class in &stats.idle_periods {
        let least = time(class.at_least_ms as f64 * 1e3);
        table.row([least, count(class.periods), span(class.seconds), percent(class.share_pct)]);
    }
    shown(&table, stats.idle_periods.len() as u64)
}

fn depth(stats: &Stats) -> String {
    let (Some(took), Some(queue)) = (&stats.latencies, &stats.queue_depth) else { return String::new() };
    let mut table = Table::new(&["", ">", ""]);
    table.row(["known", &percent(took.known_pct), "of requests"]);
    table.row(["mean", &time(took.mean_us), "from arrival to answer"]);
    for (name, value) in
        [("median", took.median_us), ("90 %", took.p90_us), ("99 %", took.p99_us), ("longest", took.max_us)]
    {
        table.row([name, &time(value), ""]);
    }
    table.row(["under way, mean", &number(queue.mean_busy, 2), "while there were any"]);
    table.row(["at most", &count(queue.max), ""]);
    table.row(["busy", &percent(queue.busy_pct), "of the time"]);
    table.text()
}

fn reuse(stats: &Stats) -> String {
    let all = stats.reuse_distances.iter().map(|class| class.count).sum();
    let mut table = Table::new(&[">pages, below", ">cache of", ">accesses", ">share"]);
    for class in &stats.reuse_distances {
        let bytes = size((class.up_to as u64).saturating_mul(PAGE_BYTES));
        table.row([count(class.up_to as u64), bytes, count(class.count), part(class.count, all)]);
    }
    shown(&table, all)
}

/// At most `most` of `all`, evenly spaced, including the last.
fn some<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let step = all.len().div_ceil(most).max(1);
    let last = all.len().wrapping_sub(1);
    all.iter().enumerate().filter(move |(at, _)| at % step == last % step).map(|(_, one)| one)
}

fn misses(stats: &Stats) -> String {
    let curve = &stats.miss_ratio_curve;
    let mut table = Table::new(&[">cache", ">misses"]);
    for point in some(&curve.points, LINES) {
        table.row([size(point.pages.saturating_mul(PAGE_BYTES)), percent(100.0 * point.miss_ratio)]);
    }
    let mut text = shown(&table, curve.points.len() as u64);
    if !curve.exact && !text.is_empty() {
        text.extend([
            "  from a sample: the standard deviation is at most ",
            &percent(100.0 * curve.error),
            "\n",
        ]);
    }
    text
}

fn overwrites(stats: &Stats) -> String {
    let all = stats.overwrite_intervals.iter().map(|class| class.count).sum();
    let mut table = Table::new(&[">up to", ">writes", ">share"]);
    // All below a millisecond is one class.
    let (short, long): (Vec<&Doubling>, Vec<&Doubling>) =
        stats.overwrite_intervals.iter().partition(|class| class.up_to < 1e-3);
    let below: u64 = short.iter().map(|class| class.count).sum();
    if below > 0 {
        table.row([time(1e3), count(below), part(below, all)]);
    }
    for class in long {
        table.row([time(class.up_to * 1e6), count(class.count), part(class.count, all)]);
    }
    shown(&table, all)
}

/// An amount of GiB, in a suitable unit.
fn data(gib: f64) -> String {
    size((gib * f64::from(1 << 30)).round() as u64)
}

fn over_time(stats: &Stats) -> String {
    let slices = &stats.over_time;
    if slices.len() < 2 {
        return String::new();
    }
    let mut table =
        Table::new(&[">from", ">reads", ">writes", ">others", ">read", ">written", ">touched so far"]);
    for group in slices.chunks(slices.len().div_ceil(LINES)) {
        let sum = |value: fn(&Slice) -> u64| count(group.iter().map(value).sum());
        let gib = |value: fn(&Slice) -> f64| data(group.iter().map(value).sum());
        table.row([
            span(group[0].from_s),
            sum(|slice| slice.reads),
            sum(|slice| slice.writes),
            sum(|slice| slice.others),
            gib(|slice| slice.read_gib),
            gib(|slice| slice.write_gib),
            data(group.last().map_or(0.0, |slice| slice.footprint_gib)),
        ]);
    }
    table.text()
}

fn volumes(stats: &Stats) -> String {
    if stats.volumes.len() < 2 {
        return String::new();
    }
    let mut table =
        Table::new(&["name", ">requests", ">share", ">reads", ">writes", ">read", ">written", ">unique"]);
    for one in &stats.volumes {
        table.row([
            one.name.clone(),
            count(one.requests),
            percent(one.share_pct),
            count(one.reads),
            count(one.writes),
            data(one.read_gib),
            data(one.write_gib),
            data(one.unique_gib),
        ]);
    }
    table.text()
}

fn exactness(stats: &Stats) -> String {
    let mut table = Table::new(&["", ">kept", ">of them", ">error", ">of shares", ""]);
    let mut sampled = |name: &str, sampling: &Sampling, meaning: &str| {
        if sampling.kept < 1.0 {
            let kept = percent(100.0 * sampling.kept);
            let [error, of_shares] = [sampling.error_pct, sampling.share_error_pct].map(percent);
            table.row([name, kept.as_str(), &count(sampling.keys), &error, &of_shares, meaning]);
        }
    };
    sampled(
        "pages",
        &stats.page_sampling,
        "of numbers of pages, and of the shares of the top 20 %, in 95 of 100 cases; more --memory keeps more",
    );
    sampled(
        "pairs",
        &stats.pair_sampling,
        "of numbers of pairs, and of partial determinism, in 95 of 100 cases",
    );
    let any = stats.page_sampling.kept < 1.0 || stats.pair_sampling.kept < 1.0;
    shown(&table, u64::from(any))
}
