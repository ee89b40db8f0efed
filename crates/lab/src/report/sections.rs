//! The report in words and tables: savings, command, settings, workload.

use std::fmt::Write;

use seekless_layers::registry;
use seekless_trace::Stats;

use super::table::Table;
use super::text::{bytes, escape, number, percent, seconds, whole};
use super::verdict::Verdict;
use crate::outcome::{Bounds, Comparison, Phase, Settings, Side, TrafficFigures, Variant};
use crate::workload::answers::Response;

/// A figure: its name, and its value of a variant or side.
type Figure<T> = (&'static str, fn(&T) -> String);

/// A figure of a phase.
type PhaseFigure = fn(&Phase) -> String;

/// A variant's name for readers.
pub fn display_name(name: &str) -> String {
    registry::find(name).map_or(name, |entry| entry.title).to_owned()
}

/// The first sentence: the paper's figure, and the one with all of the layer's own work.
fn verdict(layer: &str, reduction_pct: f64, net_pct: f64) -> String {
    // What is shown as 0.0 % is neither.
    const LEAST_PCT: f64 = 0.05;
    if reduction_pct < -LEAST_PCT {
        return format!("{layer} costs {} more disk time", percent(-reduction_pct));
    }
    let saves = format!("{layer} saves {} of the disk\u{2019}s time", percent(reduction_pct));
    if net_pct < -LEAST_PCT {
        format!("{saves}, but costs {} more with its own work counted", percent(-net_pct))
    } else {
        format!("{saves}, {} with its own work counted", percent(net_pct))
    }
}

/// The title: the result in a sentence.
fn title(comparison: &Comparison) -> String {
    match comparison.variants.as_slice() {
        [] => "Nothing was compared".to_owned(),
        [one] => {
            format!("{} keeps its disks busy for {}", display_name(&one.name), seconds(one.work.head.busy_s))
        }
        [_, one] => verdict(&display_name(&one.name), one.reduction_pct, one.net_reduction_pct),
        [base, others @ ..] => {
            let names: Vec<String> = others.iter().map(|one| display_name(&one.name)).collect();
            format!("{} beside {}", names.join(", "), display_name(&base.name))
        }
    }
}

/// A kind of saving: its name, its value, and its meaning.
type Saving = (&'static str, fn(&Variant) -> f64, &'static str);

const SAVINGS: [Saving; 3] = [
    (
        "between reconfigurations",
        |each| each.reduction_pct,
        "Disk busy time saved against the base with the same requests, in the phases without a \
         reconfiguration, from the first one on. This is the BORG paper\u{2019}s figure.",
    ),
    (
        "net",
        |each| each.net_reduction_pct,
        "As above, from the start of the first reconfiguration to the end, with every copy and the final write-back \
         counted as a cost. This is the actual benefit.",
    ),
    (
        "foreground",
        |each| each.foreground_reduction_pct,
        "As above, but only the head\u{2019}s time for the clients\u{2019} own requests: what they notice while \
         background work gives way to them.",
    ),
];

/// The savings of each variant, where there are several.
pub fn savings(comparison: &Comparison) -> Option<Table> {
    let (base, others) = comparison.variants.split_first().filter(|(_, others)| others.len() > 1)?;
    let title = format!("Disk busy time saved against {}; below zero is a loss", display_name(&base.name));
    let mut table = Table::new(&title, &["variant"]);
    table.head.extend(SAVINGS.map(|(name, ..)| name.to_owned()));
    for one in others {
        let values = SAVINGS.map(|(_, value, _)| percent(value(one)));
        table.row(std::iter::once(display_name(&one.name)).chain(values));
    }
    Some(table)
}

/// How that was measured, which may differ from the pace of a verdict.
fn played(settings: &Settings) -> &'static str {
    match settings.pace.as_str() {
        "closed" => {
            "Measured with the requests in their recorded order, as fast as the disk answers: the disk never rests."
        }
        "paper" => "Measured at the BORG paper\u{2019}s pace, many times as fast as recorded.",
        _ if (settings.speed - 1.0).abs() < 1e-9 => "Measured with the requests at their recorded times.",
        _ => "Measured with the requests at their recorded times, speeded up as the settings say.",
    }
}

/// The headline: the result, the meaning of its figures, and caveats.
pub fn headline(comparison: &Comparison, verdict: Option<&Verdict>) -> String {
    let mut out = String::from("<header><p class=\"brand\">seekless: a comparison in virtual time</p>");
    let _ = write!(out, "<h1>{}</h1>", escape(&title(comparison)));
    let _ = write!(out, "<p>{}</p>", escape(played(&comparison.settings)));
    if let Some(verdict) = verdict {
        out.push_str(&verdict.html("", &comparison.notes));
    }
    if let [_, one] = comparison.variants.as_slice() {
        out.push_str("<dl class=\"tiles\">");
        for (name, value, meaning) in SAVINGS {
            let _ = write!(
                out,
                "<div><dt>{name}</dt><dd class=\"figure\">{}</dd><dd>{}</dd></div>",
                escape(&percent(value(one))),
                escape(meaning)
            );
        }
        let _ = write!(
            out,
            "</dl><p>Per cent of disk busy time saved; below zero is a loss. {} of all requests arrived while a \
             reconfiguration ran.</p>",
            escape(&percent(one.reconfiguring_requests_pct))
        );
    }
    if comparison.variants.len() > 2 {
        out.push_str("<dl>");
        for (name, _, meaning) in SAVINGS {
            let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(meaning));
        }
        out.push_str("</dl>");
    }
    if !comparison.notes.is_empty() {
        out.push_str("<aside aria-label=\"Notes\"><h2>Before you believe it</h2><ul>");
        for note in &comparison.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul></aside>");
    }
    out.push_str("</header>");
    out
}

/// How the trace was played.
pub fn settings(comparison: &Comparison) -> Table {
    let settings = &comparison.settings;
    let mut table = Table::new("Settings", &["setting", "value"]);
    table.wordy = true;
    table.pair("trace", settings.trace.join("\n"));
    for (file, variant) in settings.volumes.iter().zip(&comparison.variants) {
        table.pair(&format!("{}, from {file}", variant.name), &variant.volume);
    }
    let pace = match settings.pace.as_str() {
        "closed" => format!("closed: at most {} requests outstanding", whole(settings.outstanding)),
        "open" => format!("open: at the recorded times, {} times as fast", number(settings.speed)),
        "paper" => format!(
            "the BORG paper's: {} times as fast as recorded, and as recorded during reconfigurations",
            number(settings.speed)
        ),
        other => other.to_owned(),
    };
    table.pair("pace", pace);
    if settings.volumes.is_empty() {
        of_the_drive(settings, &mut table);
    }
    table.pair("reconfigured", settings.schedule.clone());
    let clock = match settings.reconfigure_clock.as_str() {
        "run" => "the trace goes on",
        "stop" => "the trace is held",
        other => other,
    };
    table.pair("while a reconfiguration runs", clock);
    table
}

/// Settings of the drive that all variants are on.
fn of_the_drive(settings: &Settings, table: &mut Table) {
    table.pair("drive", &settings.drive);
    if let Some(why) = &settings.drive_chosen_because {
        table.pair("why this drive", why);
    }
    table.pair("scheduler", &settings.scheduler);
    if let Some(depth) = settings.depth {
        table.pair("commands in the drive", depth.to_string());
    }
    table.pair("write cache", if settings.write_cache { "on" } else { "off" });
    table.pair("adjacent requests merged", if settings.merge { "yes" } else { "no" });
    table.pair("what clients see", bytes(settings.over_bytes));
    if settings.bopt_bytes > 0 {
        let at = whole(settings.bopt_at_sector);
        let of = settings.bopt_drive.as_ref().map(|drive| format!(" of {drive}")).unwrap_or_default();
        table.pair("BOPT", format!("{}, from sector {at}{of}", bytes(settings.bopt_bytes)));
        if settings.write_buffer > 0.0 {
            table.pair("of it for writes", percent(settings.write_buffer * 100.0));
        }
    }
    table.pair("background\u{2019}s guaranteed share", percent(settings.background_share_pct));
}

/// Statistics of the workload.
pub fn workload(stats: &Stats) -> Table {
    let mut table = Table::new("The workload", &["figure", "value"]);
    table.pair("requests", whole(stats.requests));
    table.pair("of them reads", whole(stats.reads));
    table.pair("of them writes", whole(stats.writes));
    table.pair("of them discards", whole(stats.discards));
    table.pair("flushes", whole(stats.flushes));
    table.pair("time from first to last", seconds(stats.seconds));
    let processes = if stats.processes > 0 { whole(stats.processes) } else { number(f64::NAN) };
    table.pair("processes", processes);
    let gib = |value: f64| format!("{}\u{a0}GiB", number(value));
    table.pair("read", gib(stats.read_gib_total));
    table.pair("read, each page once", gib(stats.read_gib_unique));
    table.pair("written", gib(stats.write_gib_total));
    table.pair("written, each page once", gib(stats.write_gib_unique));
    table.pair("accessed, each page once", gib(stats.total_gib_unique));
    table.pair("pages accessed", whole(stats.accessed_pages));
    table.pair("the device, as far as it is known", gib(stats.device_gib));
    table.pair("of it accessed", percent(stats.device_accessed_pct));
    table.pair("accesses to the busiest fifth of the pages", percent(stats.top20_share_pct));
    table.pair("reads to the busiest fifth of those read", percent(stats.top20_read_share_pct));
    table.pair("writes to the busiest fifth of those written", percent(stats.top20_write_share_pct));
    table.pair("requests that do not follow the one before on disk", percent(stats.nonsequential_pct));
    table.pair("of them, in a pair that occurs again", percent(stats.partial_determinism_pct));
    table.pair("the same, pairs of one process", percent(stats.partial_determinism_per_process_pct));
    table
}

/// Processes, by requests.
pub fn processes(stats: &Stats) -> Table {
    let head = ["process", "requests", "share", "reads", "writes", "read, GiB", "written, GiB"];
    let mut table = Table::new("The busiest processes", &head);
    for each in &stats.top_processes {
        let (requests, share) = (whole(each.requests), percent(each.share_pct));
        let counts = [each.reads, each.writes].map(whole);
        let sizes = [each.read_gib, each.write_gib].map(number);
        table.row([each.name.clone(), requests, share].into_iter().chain(counts).chain(sizes));
    }
    table
}

/// Every figure of every variant, side by side.
pub fn variants(comparison: &Comparison) -> Table {
    let figures: [Figure<Variant>; 25] = [
        ("busy", |each| seconds(each.work.head.busy_s)),
        ("seeking", |each| seconds(each.work.head.seek_s)),
        ("waiting for the sector", |each| seconds(each.work.head.rotation_s)),
        ("transferring", |each| seconds(each.work.head.transfer_s)),
        ("commands", |each| seconds(each.work.head.overhead_s)),
        ("idle", |each| seconds(each.idle_s)),
        ("for the foreground", |each| seconds(each.work.foreground_s)),
        ("for the background", |each| seconds(each.work.background_s)),
        ("seeks", |each| whole(each.work.seeks)),
        ("mean seek, cylinders", |each| number(each.work.mean_seek_cylinders)),
        ("seeks per block read", |each| percent(each.work.nonsequential_pct)),
        ("blocks read", |each| whole(each.work.blocks_read)),
        ("blocks written", |each| whole(each.work.blocks_written)),
        ("pages served from the BOPT", |each| percent(each.served_from_bopt_pct)),
        ("saved between reconfigurations", |each| percent(each.reduction_pct)),
        ("saved, net", |each| percent(each.net_reduction_pct)),
        ("saved, foreground", |each| percent(each.foreground_reduction_pct)),
        ("requests during reconfigurations", |each| percent(each.reconfiguring_requests_pct)),
        ("mean queue at the drive", |each| number(each.mean_queue)),
        ("requests per media access", |each| number(each.merge_ratio)),
        ("elapsed", |each| seconds(each.elapsed_s)),
        ("requests that failed", |each| whole(each.failed)),
        ("memory of the map", |each| bytes(each.map_bytes)),
        ("longest wait for pages being moved", |each| format!("{} ms", number(each.longest_mover_wait_ms))),
        ("hash of the event log", |each| each.event_hash.clone()),
    ];
    let mut table = Table::new("All figures, variant by variant", &["figure"]);
    table.head.extend(comparison.variants.iter().map(|each| display_name(&each.name)));
    for (name, value) in figures {
        table.row(std::iter::once(name.to_owned()).chain(comparison.variants.iter().map(value)));
    }
    table
}

/// Response times, by variant and operation.
pub fn responses(comparison: &Comparison) -> Table {
    let head = ["variant", "requests", "mean, ms", "50 %", "90 %", "99 %", "99.9 %", "longest, ms"];
    let mut table = Table::new("Response times, from issue to answer", &head);
    for variant in &comparison.variants {
        let responses = &variant.response_ms;
        for (op, of) in [("reads", &responses.reads), ("writes", &responses.writes)] {
            let Response { requests, mean, spread, longest, .. } = of;
            let times = [*mean, spread.p50, spread.p90, spread.p99, spread.p999, *longest].map(number);
            let row = [format!("{}, {op}", display_name(&variant.name)), whole(*requests)];
            table.row(row.into_iter().chain(times));
        }
    }
    table
}

/// Explanation of the figures of both sides.
pub const BOTH_SIDES: &str = "<p>Above: requests of clients. Below: requests to origin and BOPT for \
     them. Background: copies and draining. A seek is a request that does not start where the last one of its side \
     ended.</p>";

/// Traffic above and below a layer.
pub fn traffic(traffic: &TrafficFigures) -> [Table; 2] {
    let figures: [Figure<Side>; 7] = [
        ("requests", |each| whole(each.requests)),
        ("read", |each| bytes(each.blocks_read * 512)),
        ("written", |each| bytes(each.blocks_written * 512)),
        ("seeks", |each| whole(each.seeks)),
        ("of them to another component", |each| whole(each.crossings)),
        ("mean seek of the others", |each| bytes(each.mean_seek_bytes as u64)),
        ("seeks per block read", |each| percent(each.nonsequential_pct)),
    ];
    let layer = display_name(&traffic.layer);
    let head = ["figure", "above", "below", "background"];
    let mut table = Table::new(
        &format!(
            "Above {layer}: requests of clients; below it: requests to origin and BOPT for them; and in the background"
        ),
        &head,
    );
    for (name, value) in figures {
        let values = [&traffic.above, &traffic.below, &traffic.background].map(value);
        table.row(std::iter::once(name.to_owned()).chain(values));
    }
    let mut pages = Table::new(&format!("What {layer} did between"), &["figure", "value"]);
    pages.pair("pages asked for", whole(traffic.pages));
    pages.pair("of them hits: from or into the BOPT", whole(traffic.hits));
    pages.pair("pages absorbed into the write buffer", whole(traffic.absorbed_pages));
    pages.pair("dirty pages drained to the origin", whole(traffic.drained_pages));
    pages.pair("requests split over several places", whole(traffic.splits));
    [table, pages]
}

/// Every figure of every phase; `base` is the name of the variant that it is compared with.
pub fn phases(variant: &Variant, base: &str) -> Table {
    let base_busy = format!("{base} busy, s");
    let figures: [(&str, PhaseFigure); 18] = [
        ("first request", |each| whole(each.first_request)),
        ("requests", |each| whole(each.requests)),
        ("busy, s", |each| number(each.work.head.busy_s)),
        (&base_busy, |each| number(each.vanilla_busy_s)),
        ("saved", |each| percent(each.reduction_pct)),
        ("from the BOPT", |each| percent(each.served_from_bopt_pct)),
        ("foreground, s", |each| number(each.work.foreground_s)),
        ("background, s", |each| number(each.work.background_s)),
        ("in idle time, s", |each| number(each.work.background_in_idle_time_s)),
        ("mean response, ms", |each| number(each.mean_response_ms)),
        ("99 % within, ms", |each| number(each.p99_response_ms)),
        ("seek, s", |each| number(each.work.head.seek_s)),
        ("rotation, s", |each| number(each.work.head.rotation_s)),
        ("seeks", |each| whole(each.work.seeks)),
        ("mean seek, cylinders", |each| number(each.work.mean_seek_cylinders)),
        ("seeks per block read", |each| percent(each.work.nonsequential_pct)),
        ("blocks read", |each| whole(each.work.blocks_read)),
        ("blocks written", |each| whole(each.work.blocks_written)),
    ];
    let mut table =
        Table::new(&format!("All figures of {}, by phase", display_name(&variant.name)), &["phase"]);
    table.head.extend(figures.iter().map(|(name, _)| (*name).to_owned()));
    for phase in &variant.phases {
        table.row(std::iter::once(phase.name.clone()).chain(figures.iter().map(|(_, value)| value(phase))));
    }
    table
}

/// What a variant could have reached at most, by phase; `None` unless that was asked for.
pub fn bounds(variant: &Variant) -> Option<Table> {
    let Bounds { between, whole, runs } = variant.bounds.as_ref()?;
    let title = format!(
        "What {} could have reached at most: head time for clients\u{2019} requests, the least of {runs} runs with the \
         future known, no copy counted",
        display_name(&variant.name)
    );
    let head =
        ["phase", "foreground", "oracle-seen", "oracle", "transfer-only", "best for what was seen", "best"];
    let mut table = Table { wordy: true, ..Table::new(&title, &head) };
    for phase in &variant.phases {
        let Some(bound) = &phase.bounds else { continue };
        let each = [phase.work.foreground_s, bound.oracle_seen_s, bound.oracle_s, bound.transfer_only_s];
        let policies = [&bound.oracle_seen_policy, &bound.oracle_policy].map(Clone::clone);
        table.row(std::iter::once(phase.name.clone()).chain(each.map(seconds)).chain(policies));
    }
    let rows = [
        ("saved between", variant.reduction_pct, between),
        ("saved in all, net", variant.net_reduction_pct, whole),
    ];
    for (name, saved, bound) in rows {
        let each = [saved, bound.oracle_seen_pct, bound.oracle_pct, bound.transfer_only_pct].map(percent);
        let nothing = [String::new(), String::new()];
        table.row(std::iter::once(name.to_owned()).chain(each).chain(nothing));
    }
    Some(table)
}
