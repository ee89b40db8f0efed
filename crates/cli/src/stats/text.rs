//! A workload as text: Table 1 and Figure 1 of the BORG paper, in numbers.

use seekless_trace::Stats;

use super::figures;
use crate::table::Table;
use crate::text::{count, number, percent, size, span};

/// Processes shown in the demo.
const FEW: usize = 5;

/// The lines that matter, Table 1 and Figure 1.
pub fn paper(stats: &Stats) -> String {
    let mut out = format!("{}\nRequests\n{}", summary(stats), requests(stats));
    out.extend(["\nData\n", &data(stats), "\nReuse and order\n", &order(stats)]);
    if stats.processes > 0 {
        out.extend(["\nProcesses, by requests\n", &processes(stats, usize::MAX)]);
    }
    if !stats.working_sets.is_empty() {
        out.extend(["\nWorking sets by interval: pages, and those that the first and the\nprevious interval had too; the same of the 20 % accessed most\n", &working_sets(stats)]);
    }
    out.push_str(&figures::text(stats));
    if !stats.request_sizes.is_empty() {
        out.extend(["\nRequest sizes\n", &request_sizes(stats)]);
    }
    out
}

/// The five lines that matter.
fn summary(stats: &Stats) -> String {
    let mut table = Table::new(&["", ""]);
    stats.summary.iter().for_each(|line| table.row([line.name, &line.value]));
    table.text()
}

/// A short form, to show before a comparison.
pub fn compact(stats: &Stats) -> String {
    let mut table = Table::new(&["", ">", "", ""]);
    let requests = |part: u64| percent_of(part, stats.requests);
    table.row(["requests", &count(stats.requests), "", &format!("in {}", span(stats.seconds))]);
    table.row(["reads", &count(stats.reads), "", &requests(stats.reads)]);
    table.row(["writes", &count(stats.writes), "", &requests(stats.writes)]);
    table.row(["touched", &gib(stats.total_gib_unique), "GiB", "of different 4 KiB pages"]);
    for (name, value, meaning) in figures(stats) {
        table.row([name, &number(value, 1), "%", meaning]);
    }
    if stats.processes == 0 {
        return table.text();
    }
    let busiest: Vec<&str> = stats.top_processes.iter().take(FEW).map(|one| one.name.as_str()).collect();
    table.row(["processes", &count(stats.processes), "", &format!("most requests: {}", busiest.join(", "))]);
    table.text()
}

fn percent_of(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { percent(100.0 * part as f64 / whole as f64) }
}

fn requests(stats: &Stats) -> String {
    let mut table = Table::new(&["", ">", "", ""]);
    table.row(["requests", &count(stats.requests), "", "that cover bytes"]);
    table.row(["reads", &count(stats.reads), "", &percent_of(stats.reads, stats.requests)]);
    table.row(["writes", &count(stats.writes), "", &percent_of(stats.writes, stats.requests)]);
    table.row(["discards", &count(stats.discards), "", &percent_of(stats.discards, stats.requests)]);
    table.row(["flushes", &count(stats.flushes), "", "counted apart: they cover no bytes"]);
    table.row(["time", &number(stats.seconds, 2), "s", "from the first request to the last"]);
    if stats.processes > 0 {
        table.row(["processes", &count(stats.processes), "", "different process numbers"]);
    } else {
        table.row(["processes", "-", "", "not in the trace"]);
    }
    table.text()
}

fn data(stats: &Stats) -> String {
    let mut table = Table::new(&["", ">", "", ""]);
    let rows = [
        ("read, total", stats.read_gib_total, "over all reads"),
        ("read, unique", stats.read_gib_unique, "4 KiB pages that were read, each once"),
        ("written, total", stats.write_gib_total, "over all writes"),
        ("written, unique", stats.write_gib_unique, "pages that were written, each once"),
        ("unique", stats.total_gib_unique, "pages that were read or written, each once"),
    ];
    for (name, value, meaning) in rows {
        table.row([name, &gib(value), "GiB", meaning]);
    }
    let all = size(stats.accessed_pages.saturating_mul(seekless_core::PAGE_BYTES));
    table.row(["pages", &count(stats.accessed_pages), "", &format!("of 4 KiB: {all}")]);
    let device = size((stats.device_gib * f64::from(1 << 30)).round() as u64);
    let meaning = format!("of {device}: the size of the device, as given or as far as it was accessed");
    table.row(["accessed", &number(stats.device_accessed_pct, 2), "%", &meaning]);
    table.text()
}

/// Figures of reuse and order, with their meanings.
fn figures(stats: &Stats) -> [(&'static str, f64, &'static str); 3] {
    [
        ("top 20 % of pages", stats.top20_share_pct, "of all page accesses go to them"),
        ("non-sequential", stats.nonsequential_pct, "of requests do not start where the one before ended"),
        (
            "partial determinism",
            stats.partial_determinism_pct,
            "of these jumps occur at least twice: what BORG lives on",
        ),
    ]
}

fn order(stats: &Stats) -> String {
    let [top, nonsequential, determinism] = figures(stats);
    let mut rows = vec![
        top,
        ("top 20 % of those read", stats.top20_read_share_pct, "of all reads of pages"),
        ("top 20 % of those written", stats.top20_write_share_pct, "of all writes of pages"),
        nonsequential,
        determinism,
    ];
    if stats.processes > 0 {
        let value = stats.partial_determinism_per_process_pct;
        rows.push(("the same, per process", value, "jumps from the request before of the same process"));
    }
    let mut table = Table::new(&["", ">", "", ""]);
    for (name, value, meaning) in rows {
        table.row([name, &number(value, 1), "%", meaning]);
    }
    table.text()
}

fn processes(stats: &Stats, most: usize) -> String {
    let mut table = Table::new(&["name", ">requests", ">share", ">reads", ">writes", ">read", ">written"]);
    for one in stats.top_processes.iter().take(most) {
        table.row([
            one.name.clone(),
            count(one.requests),
            percent(one.share_pct),
            count(one.reads),
            count(one.writes),
            gib(one.read_gib) + " GiB",
            gib(one.write_gib) + " GiB",
        ]);
    }
    table.text()
}

fn working_sets(stats: &Stats) -> String {
    let mut table = Table::new(&[
        ">from",
        ">requests",
        ">pages",
        ">in first",
        ">in previous",
        ">top 20 %",
        ">in first",
        ">in previous",
    ]);
    for set in &stats.working_sets {
        table.row([
            span(set.from_s),
            count(set.requests),
            count(set.pages),
            percent(set.overlap_first_pct),
            percent(set.overlap_previous_pct),
            count(set.top20_pages),
            percent(set.top20_overlap_first_pct),
            percent(set.top20_overlap_previous_pct),
        ]);
    }
    table.text()
}

fn request_sizes(stats: &Stats) -> String {
    let mut table = Table::new(&[">up to", ">reads", ">writes"]);
    for bucket in &stats.request_sizes {
        let up_to = size(bucket.up_to_kib.saturating_mul(1024));
        table.row([up_to, count(bucket.reads), count(bucket.writes)]);
    }
    table.text()
}

fn gib(value: f64) -> String {
    number(value, 3)
}
