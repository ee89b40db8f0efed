//! Text output of a comparison, and of one variant.

use std::fmt::Write;

use seekless_lab::outcome::{Bounds, Comparison, Reconfiguration, Settings, Side, TrafficFigures, Variant};
use seekless_lab::workload::answers::Response;

use crate::table::Table;
use crate::text::{count, counted, factor, number, percent, seconds, size};

/// A figure: its name, its value of a variant, and an explanation where the name needs one.
type Figure<T> = (&'static str, fn(&T) -> String, &'static str);

/// The figures shown side by side.
const FIGURES: [Figure<Variant>; 15] = [
    ("disk busy", |one| seconds(one.work.head.busy_s), "the sum of the next four"),
    ("  seek", |one| seconds(one.work.head.seek_s), "moving the arm"),
    ("  rotation", |one| seconds(one.work.head.rotation_s), "waiting for the sector"),
    ("  transfer", |one| seconds(one.work.head.transfer_s), "sectors under the head"),
    ("  overhead", |one| seconds(one.work.head.overhead_s), "handling commands"),
    ("disk idle", |one| seconds(one.idle_s), "up to the last answer"),
    ("foreground", |one| seconds(one.work.foreground_s), "of the busy time, for clients' requests"),
    ("background", |one| seconds(one.work.background_s), "of it, for the layer's copies"),
    (
        "  in idle time",
        |one| seconds(one.work.background_in_idle_time_s),
        "of that, begun while no client's request waited",
    ),
    ("seeks", |one| count(one.work.seeks), ""),
    ("mean seek", |one| number(one.work.mean_seek_cylinders, 0), "cylinders"),
    ("non-sequential", |one| number(one.work.nonsequential_pct, 2) + " %", "seeks per 512-byte block read"),
    ("mean queue", |one| number(one.mean_queue, 2), "waiting or in service, while the disk is busy"),
    ("merge ratio", |one| number(one.merge_ratio, 2), "requests per media access; 1 is no merging"),
    ("elapsed", |one| seconds(one.elapsed_s), "from the first request to the last answer"),
];

/// The figures of layers that copy pages to a BOPT.
const COPY_FIGURES: [Figure<Variant>; 3] = [
    ("from the BOPT", |one| percent(one.served_from_bopt_pct), "of the pages asked for"),
    (
        "map memory",
        |one| if one.map_bytes == 0 { "none".to_owned() } else { size(one.map_bytes) },
        "to know where copies are",
    ),
    (
        "wait for moves",
        |one| number(one.longest_mover_wait_ms, 1) + " ms",
        "the longest of a request for pages that were being moved",
    ),
];

/// Whether a layer of this variant copies pages to a BOPT.
fn copies(variant: &Variant) -> bool {
    variant.map_bytes > 0 || !variant.reconfigurations.is_empty()
}

/// Figures of both sides, and of background work.
const SIDE_FIGURES: [Figure<Side>; 6] = [
    ("requests", |side| count(side.requests), "reads and writes"),
    ("read", |side| size(side.blocks_read * 512), ""),
    ("written", |side| size(side.blocks_written * 512), ""),
    ("seeks", |side| count(side.seeks), "requests not where the last one ended"),
    ("mean seek", |side| size(side.mean_seek_bytes as u64), "how far they go, on one component"),
    ("non-sequential", |side| number(side.nonsequential_pct, 2) + " %", "seeks per 512-byte block read"),
];

/// The text of a comparison.
pub fn text(comparison: &Comparison) -> String {
    let mut out = settings(comparison);
    let variants = &comparison.variants;
    out.extend(["\n", &figures(variants), &responses(variants)]);
    let (Some(base), others) = (variants.first(), variants.get(1..).unwrap_or_default()) else {
        return out + &notes(&comparison.notes);
    };
    if !others.is_empty() {
        out.extend(["\nDisk busy time saved (below zero is a loss)\n", &reductions(others)]);
    }
    for variant in others {
        let of = if others.len() > 1 { format!("{}: ", variant.name) } else { String::new() };
        let during = percent(variant.reconfiguring_requests_pct);
        if !variant.reconfigurations.is_empty() {
            let _ = writeln!(out, "  {of}{during} of all requests came while a reconfiguration ran.");
        }
    }
    out.push_str(&bounds(others));
    for variant in others {
        out.push_str(&traffic(variant));
        if !variant.reconfigurations.is_empty() {
            out.push_str(&phases(variant, Some(&base.name)));
        }
    }
    out.push_str(&notes(&comparison.notes));
    out
}

/// The text of one variant; `setup` describes it.
pub fn variant_text(setup: &str, variant: &Variant) -> String {
    let one = std::slice::from_ref(variant);
    let figures = figures(one) + &responses(one) + &traffic(variant) + &counters(variant);
    let phases = if variant.reconfigurations.is_empty() { String::new() } else { phases(variant, None) };
    let notes = notes(&variant.notes);
    format!("{setup}\n\n{figures}{phases}{notes}\n  event log: hash {}\n", variant.event_hash)
}

fn settings(comparison: &Comparison) -> String {
    let settings = &comparison.settings;
    let merge = if settings.merge { "adjacent requests merged" } else { "no merging" };
    let pace = match settings.pace.as_str() {
        "open" => format!("open, at {} times the recorded speed", factor(settings.speed)),
        "paper" => format!(
            "{} times the recorded speed, and the recorded one during reconfigurations",
            factor(settings.speed)
        ),
        other => format!("{other}, {} outstanding at most", counted(settings.outstanding, "request")),
    };
    let clock = match settings.reconfigure_clock.as_str() {
        "stop" => "the trace waits meanwhile",
        _ => "the trace goes on meanwhile",
    };
    let mut table = Table::new(&["", ""]);
    table.row(["trace", &settings.trace.join(" ")]);
    let on_one_drive = settings.volumes.is_empty();
    if on_one_drive {
        table.row(["drive", &format!("{}, {}, {merge}", settings.drive, settings.scheduler)]);
        if let Some(why) = &settings.drive_chosen_because {
            table.row(["", why]);
        }
    }
    table.row(["pace", &pace]);
    if settings.bopt_bytes > 0 {
        table.row(["BOPT", &bopt(settings)]);
    }
    let reconfigured = comparison.variants.iter().any(|variant| !variant.reconfigurations.is_empty());
    if settings.bopt_bytes > 0 || reconfigured {
        table.row(["reconfigured", &format!("{}; {clock}", settings.schedule)]);
    }
    if !on_one_drive {
        comparison.variants.iter().for_each(|variant| table.row([&variant.name, &variant.volume]));
    }
    table.text()
}

fn bopt(settings: &Settings) -> String {
    let first = settings.bopt_at_sector;
    let place = match &settings.bopt_drive {
        Some(drive) => format!(" of {drive}, beside"),
        None if first * 512 < settings.over_bytes => ", within".to_owned(),
        None => ", behind".to_owned(),
    };
    let writes = share(settings.write_buffer * 100.0);
    let writes =
        if settings.write_buffer > 0.0 { format!("; {writes} of it for writes") } else { String::new() };
    let (bopt, over) = (size(settings.bopt_bytes), size(settings.over_bytes));
    format!("{bopt} from sector {}{place} {over} for clients{writes}", count(first))
}

/// A percentage given by the user: `40 %`, `12.5 %`. Rounded where binary fractions are not exact.
fn share(value: f64) -> String {
    factor((value * 1e6).round() / 1e6) + " %"
}

fn figures(variants: &[Variant]) -> String {
    let columns: Vec<&'static str> =
        std::iter::once("").chain(variants.iter().map(|_| ">")).chain([""]).collect();
    let mut table = Table::new(&columns);
    let names = variants.iter().map(|one| one.name.clone());
    table.row(std::iter::once(String::new()).chain(names));
    let copies: &[_] = if variants.iter().any(copies) { &COPY_FIGURES } else { &[] };
    for (name, value, meaning) in FIGURES.iter().chain(copies) {
        let values = variants.iter().map(value);
        table.row(std::iter::once((*name).to_owned()).chain(values).chain([(*meaning).to_owned()]));
    }
    if variants.iter().any(|one| one.failed > 0) {
        let values = variants.iter().map(|one| count(one.failed));
        let meaning = "requests, which are in no response time".to_owned();
        table.row(std::iter::once("failed".to_owned()).chain(values).chain([meaning]));
    }
    table.text()
}

/// Response times, by operation.
fn responses(variants: &[Variant]) -> String {
    let columns = ["", "", ">requests", ">mean", ">50 % within", ">90 %", ">99 %", ">99.9 %", ">longest"];
    let mut table = Table::new(&columns);
    let ms = |value: f64| number(value, 3);
    for variant in variants {
        let mut name = variant.name.clone();
        let responses = &variant.response_ms;
        for (op, of) in [("reads", &responses.reads), ("writes", &responses.writes)] {
            if of.requests == 0 {
                continue;
            }
            let Response { requests, mean, spread, longest, .. } = of;
            let times = [*mean, spread.p50, spread.p90, spread.p99, spread.p999, *longest].map(ms);
            let row = [std::mem::take(&mut name), op.to_owned(), count(*requests)];
            table.row(row.into_iter().chain(times));
        }
    }
    format!("\nResponse times in ms, from issue to answer\n{}", table.text())
}

/// Counters of a variant's layers.
fn counters(variant: &Variant) -> String {
    let mut table = Table::new(&["", ">"]);
    for (layer, counters) in &variant.layers {
        for (counter, number) in counters {
            table.row([format!("{layer}: {counter}"), count(*number)]);
        }
    }
    if variant.layers.is_empty() { String::new() } else { format!("\n{}", table.text()) }
}

/// Traffic above and below a layer; empty where nothing was counted.
fn traffic(variant: &Variant) -> String {
    let Some(traffic) = &variant.traffic else { return String::new() };
    let TrafficFigures { above, below, background, layer, .. } = traffic;
    let of = if *layer == variant.name { layer.clone() } else { format!("{}, layer {layer}", variant.name) };
    let mut table = Table::new(&["", ">above", ">below", ">background", ""]);
    for (name, value, meaning) in SIDE_FIGURES {
        table.row([name.to_owned(), value(above), value(below), value(background), meaning.to_owned()]);
    }
    let mut pages = Table::new(&["", ">", ""]);
    let rows = [
        ("pages asked for", traffic.pages, "read or written"),
        ("hits", traffic.hits, "of them from or into the BOPT"),
        ("absorbed", traffic.absorbed_pages, "of the hits, written to the log, not to the origin"),
        ("drained", traffic.drained_pages, "dirty pages written to the origin in the background"),
        ("requests split", traffic.splits, "over several places"),
    ];
    for (name, value, meaning) in rows {
        pages.row([name, &count(value), meaning]);
    }
    format!(
        "\n{of}: requests of clients above it, requests to origin and BOPT below it, and in the background\n{}\n{}",
        table.text(),
        pages.text()
    )
}

fn reductions(others: &[Variant]) -> String {
    let columns: Vec<&'static str> =
        std::iter::once("").chain(others.iter().map(|_| ">")).chain([""]).collect();
    let mut table = Table::new(&columns);
    if others.len() > 1 {
        table.row(std::iter::once(String::new()).chain(others.iter().map(|one| one.name.clone())));
    }
    let rows: [Figure<Variant>; 3] = [
        (
            "between reconfigurations",
            |one| percent(one.reduction_pct),
            "in the phases without one, from the first one on: the BORG paper's figure",
        ),
        (
            "net",
            |one| percent(one.net_reduction_pct),
            "from the first one's start to the end, all copies and the final write-back counted",
        ),
        (
            "foreground",
            |one| percent(one.foreground_reduction_pct),
            "the same stretch, but only the head's time for clients' own requests",
        ),
    ];
    // Without reconfigurations, net is all.
    let first = usize::from(!others.iter().any(|one| !one.reconfigurations.is_empty()));
    for (name, value, meaning) in rows.into_iter().skip(first) {
        let values = others.iter().map(value);
        table.row(std::iter::once(name.to_owned()).chain(values).chain([meaning.to_owned()]));
    }
    table.text()
}

/// Phases and reconfigurations, compared with the base of this name if there is one.
fn phases(variant: &Variant, base: Option<&str>) -> String {
    let mut columns = vec!["phase", ">requests", ">busy", ">from BOPT", ">seeks", ">mean seek"];
    let base_busy = base.map(|base| format!(">{base} busy"));
    columns.extend(base_busy.iter().map(String::as_str));
    columns.extend(base.map(|_| ">saved"));
    let mut phases = Table::new(&columns);
    for phase in &variant.phases {
        let mut row = vec![
            phase.name.clone(),
            count(phase.requests),
            seconds(phase.work.head.busy_s),
            percent(phase.served_from_bopt_pct),
            count(phase.work.seeks),
            number(phase.work.mean_seek_cylinders, 0) + " cyl",
        ];
        if base.is_some() {
            let saved =
                if phase.vanilla_busy_s > 0.0 { percent(phase.reduction_pct) } else { "-".to_owned() };
            row.extend([seconds(phase.vanilla_busy_s), saved]);
        }
        phases.row(row);
    }
    let mut out = format!(
        "\n{} by phase (N: between reconfigurations, R: during one; final: dirty pages are written back)\n{}",
        variant.name,
        phases.text()
    );
    out.push_str(&beside(variant));
    out.push_str(&bounds_by_phase(variant));
    if !variant.reconfigurations.is_empty() {
        let table = reconfigurations(&variant.reconfigurations);
        out.extend(["\nReconfigurations: time in each stage, and pages looked at or moved\n", &table]);
    }
    out
}

/// Response times and copies, by phase.
fn beside(variant: &Variant) -> String {
    let columns = ["phase", ">mean response", ">99 % within", ">background", ">in idle time"];
    let mut table = Table::new(&columns);
    let ms = |value: f64| number(value, 3) + " ms";
    for phase in &variant.phases {
        let times = [phase.mean_response_ms, phase.p99_response_ms].map(ms);
        let copies = [phase.work.background_s, phase.work.background_in_idle_time_s].map(seconds);
        table.row(std::iter::once(phase.name.clone()).chain(times).chain(copies));
    }
    format!(
        "\nResponse times by phase, and copies: all, and those begun while no client's request waited\n{}",
        table.text()
    )
}

/// What each variant could have reached, where that was asked for.
fn bounds(others: &[Variant]) -> String {
    let mut table = Table::new(&["", "", ">saved", ">oracle-seen", ">oracle", ">transfer-only"]);
    for variant in others {
        let Some(Bounds { between, whole, .. }) = &variant.bounds else { continue };
        let rows = [("between", variant.reduction_pct, between), ("net", variant.net_reduction_pct, whole)];
        let mut name = variant.name.clone();
        for (of, saved, bound) in rows {
            let each = [saved, bound.oracle_seen_pct, bound.oracle_pct, bound.transfer_only_pct];
            table.row([std::mem::take(&mut name), of.to_owned()].into_iter().chain(each.map(percent)));
        }
    }
    let Some(runs) = others.iter().find_map(|one| Some(one.bounds.as_ref()?.runs)) else {
        return String::new();
    };
    format!(
        "\nWhat could have been saved at most, with no copy counted: the best of {runs} runs in each phase\n{}",
        table.text()
    )
}

/// Bounds by phase, where they were asked for.
fn bounds_by_phase(variant: &Variant) -> String {
    if variant.bounds.is_none() {
        return String::new();
    }
    let columns =
        ["phase", ">foreground", ">oracle-seen", ">oracle", ">transfer-only", "best for what was seen"];
    let mut table = Table::new(&columns);
    for phase in &variant.phases {
        let Some(bound) = &phase.bounds else { continue };
        let each = [phase.work.foreground_s, bound.oracle_seen_s, bound.oracle_s, bound.transfer_only_s];
        let row = std::iter::once(phase.name.clone()).chain(each.map(seconds));
        table.row(row.chain([bound.oracle_seen_policy.clone()]));
    }
    format!("\nBounds by phase: the head's time for clients' requests\n{}", table.text())
}

fn reconfigurations(all: &[Reconfiguration]) -> String {
    let mut table =
        Table::new(&["", ">start", ">vertices", ">edges", ">planned", "stage", ">time", ">pages"]);
    for one in all {
        let mut start = vec![
            one.name.clone(),
            seconds(one.start_s),
            count(one.vertices),
            count(one.edges),
            counted(one.planned_pages, "page"),
        ];
        for stage in &one.stages {
            let stage = [stage.name.clone(), seconds(stage.seconds), count(stage.pages)];
            table.row(start.iter().cloned().chain(stage));
            start = vec![String::new(); start.len()];
        }
    }
    table.text()
}

/// Caveats about the figures.
fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["", ""]);
    for note in notes {
        table.row(["-", note]);
    }
    format!("\nBefore you believe it\n{}", table.text())
}
