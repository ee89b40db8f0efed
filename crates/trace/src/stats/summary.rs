//! The five lines that matter of a workload: how much is moved, how busy the device is, how random the requests are,
//! how much comes again, and who causes it. Each is made of figures that [`Stats`] has too.
//!
//! What a trace does not hold is said to be unknown.

use std::fmt::Write;

use schemars::JsonSchema;
use seekless_core::Size;
use seekless_core::units::thousands;
use serde::Serialize;

use super::Stats;
use super::processes::ByName;

/// Processes named.
const NAMED: usize = 3;

/// A line of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SummaryLine {
    /// What it is about: `moved`, `busy`, `order`, `reuse` or `causes`.
    pub name: &'static str,
    /// The figures, with their units, in words.
    pub value: String,
}

/// The lines, of statistics that are complete otherwise.
pub(super) fn lines(stats: &Stats, processes: &ByName) -> Vec<SummaryLine> {
    let lines = [
        ("moved", moved(stats)),
        ("busy", busy(stats)),
        ("order", order(stats)),
        ("reuse", reuse(stats)),
        ("causes", causes(stats, processes)),
    ];
    lines.into_iter().map(|(name, value)| SummaryLine { name, value }).collect()
}

/// An amount given in GiB, in a suitable unit.
fn size(gib: f64) -> Size {
    Size((gib * f64::from(1 << 30)).round() as u64)
}

fn moved(stats: &Stats) -> String {
    let part = |gib: f64| {
        let rate = (stats.seconds > 0.0).then(|| format!(" at {}/s", size(gib / stats.seconds)));
        format!("{}{}", size(gib), rate.unwrap_or_default())
    };
    format!("reads {}, writes {}", part(stats.read_gib_total), part(stats.write_gib_total))
}

fn busy(stats: &Stats) -> String {
    if stats.requests == 0 {
        return "no requests".to_owned();
    }
    let rate = match stats.seconds {
        time if time > 0.0 => format!("{} requests a second", rounded(stats.requests as f64 / time)),
        _ => format!("{} at once", thousands(stats.requests)),
    };
    match &stats.queue_depth {
        Some(queue) => format!(
            "{rate}; some under way {:.1} % of the time, then {:.1} on average",
            queue.busy_pct, queue.mean_busy
        ),
        None => format!("{rate}; unknown how long they take"),
    }
}

/// A number of three digits or more as a whole one.
fn rounded(number: f64) -> String {
    if number < 100.0 { format!("{number:.1}") } else { thousands(number.round() as u64) }
}

fn order(stats: &Stats) -> String {
    if stats.requests < 2 {
        return "unknown: there are not two requests".to_owned();
    }
    let mut text = format!("{:.1} % of requests are sequential", 100.0 - stats.nonsequential_pct);
    if stats.nonsequential_pct > 0.0 {
        // Cannot fail.
        let _ = write!(text, ", the others jump {} (median)", size(stats.jump_median_gib));
    }
    text
}

fn reuse(stats: &Stats) -> String {
    let Some(last) = stats.miss_ratio_curve.points.last() else {
        let sampled = stats.page_sampling.kept < 1.0;
        return if sampled { "unknown: no page is in the sample" } else { "no page is accessed" }.to_owned();
    };
    format!(
        "{:.1} % of accesses repeat one; {} of {} are touched ({:.2} %)",
        100.0 * (1.0 - last.miss_ratio),
        size(stats.total_gib_unique),
        size(stats.device_gib),
        stats.device_accessed_pct
    )
}

fn causes(stats: &Stats, processes: &ByName) -> String {
    let (most, all) = processes.by_bytes();
    let named = most.iter().any(|(name, _)| !name.is_empty());
    if stats.requests == 0 || all == 0 || (stats.processes == 0 && !named) {
        return "unknown: no processes in the trace".to_owned();
    }
    let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / all as f64);
    let name = |name: &str| if name.is_empty() { "(no name)".to_owned() } else { name.to_owned() };
    let mut parts: Vec<String> =
        most.iter().take(NAMED).map(|(who, bytes)| format!("{} {}", name(who), share(*bytes))).collect();
    let rest = most.iter().skip(NAMED).map(|(_, bytes)| bytes).sum();
    if rest > 0 {
        parts.push(format!("others {}", share(rest)));
    }
    format!("{} of the bytes", parts.join(", "))
}
