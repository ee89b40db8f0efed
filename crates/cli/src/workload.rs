//! Workloads on the command line: list, length of a run, result.

use std::fmt::Write;

use clap::Args;
use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_lab::workload::client::Limit;
use seekless_lab::workload::{Opt, WINDOW, WORKLOADS};
use seekless_lab::{LoadOutcome, Run};
use seekless_volume::duration;
use serde::Serialize;

use crate::output::Form;
use crate::table::Table;
use crate::text::{count, counted, number, percent, seconds, size};

/// Length of a run.
#[derive(Args)]
pub struct Span {
    /// For a workload: stop issuing requests after this virtual time (90s, 10m, 2h)
    #[arg(long = "for", value_name = "TIME", value_parser = positive_time)]
    time: Option<Nanos>,
    /// For a workload: number of requests [default: 10000, unless --for is given or the workload ends by itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
}

impl Span {
    /// The run of this length.
    pub fn run(&self, seed: u64, keep: bool) -> Run {
        Run { limit: Limit { requests: self.requests, time: self.time }, seed, keep }
    }
}

/// Parses a time above zero, with its unit.
pub fn positive_time(text: &str) -> Result<Nanos, String> {
    let time = duration(text)?;
    if time > Nanos::ZERO { Ok(time) } else { Err(format!("found '{text}', expected more than zero")) }
}

/// A workload in the list.
#[derive(JsonSchema, Serialize)]
pub struct Known {
    name: &'static str,
    does: &'static str,
    source: &'static str,
    area: &'static str,
    options: Vec<KnownOption>,
}

#[derive(JsonSchema, Serialize)]
struct KnownOption {
    key: &'static str,
    default: &'static str,
    what: &'static str,
}

/// Lists the workloads with their options and defaults.
pub fn list(form: &Form) -> anyhow::Result<()> {
    let option = |option: &Opt| KnownOption { key: option.key, default: option.default, what: option.what };
    let known = WORKLOADS.iter().map(|entry| Known {
        name: entry.name,
        does: entry.does,
        source: entry.source,
        area: entry.area,
        options: entry.options.iter().map(option).collect(),
    });
    let known: Vec<Known> = known.collect();
    form.print_list(&known, || list_text(&known))
}

fn list_text(known: &[Known]) -> String {
    let mut out = String::new();
    for workload in known {
        let _ = writeln!(out, "{}: {}\n  from: {}", workload.name, workload.does, workload.source);
        let mut table = Table::new(&["", "", ""]);
        for option in &workload.options {
            table.row([option.key, option.default, option.what]);
        }
        if workload.area != "all" {
            table.row(["area", workload.area, WINDOW[1].what]);
        }
        out.extend([&table.text(), "\n"]);
    }
    out.push_str("Of each but mixtures, what part of the volume it uses:\n");
    let mut table = Table::new(&["", "", ""]);
    for option in &WINDOW {
        table.row([option.key, option.default, option.what]);
    }
    out.push_str(&table.text());
    out.push_str("\nTyped as NAME:KEY=VALUE,...: oltp:mpl=20,think=10ms\n");
    out
}

/// The text of a run's outcome; `setup` describes the volume.
pub fn text(setup: &str, workload: &str, outcome: &LoadOutcome) -> String {
    let mut table = Table::new(&["", ">"]);
    let per_request = &outcome.head_ms_per_request;
    let ms = |value: f64| number(value, 3) + " ms";
    table.row(["requests".to_owned(), count(outcome.requests)]);
    if outcome.failed > 0 {
        table.row(["failed besides".to_owned(), count(outcome.failed)]);
    }
    if outcome.reconfigurations_failed > 0 {
        table.row(["reconfigurations failed".to_owned(), count(outcome.reconfigurations_failed)]);
    }
    table.row(["elapsed".to_owned(), seconds(outcome.elapsed_s)]);
    table.row(["requests a second".to_owned(), number(outcome.requests_per_s, 1)]);
    table.row(["mean response".to_owned(), ms(outcome.mean_response_ms)]);
    if (1..outcome.requests).contains(&outcome.reads) {
        table.row(["mean response of reads".to_owned(), ms(outcome.mean_read_response_ms)]);
    }
    table.row(["half within".to_owned(), ms(outcome.response_ms.p50)]);
    table.row(["90 % within".to_owned(), ms(outcome.response_ms.p90)]);
    table.row(["99 % within".to_owned(), ms(outcome.response_ms.p99)]);
    table.row(["longest response".to_owned(), ms(outcome.max_response_ms)]);
    table.row(["disk busy".to_owned(), seconds(outcome.head.busy_s)]);
    table.row(["disk idle".to_owned(), seconds(outcome.idle_s)]);
    table.row(["seek, per request".to_owned(), ms(per_request.seek)]);
    table.row(["rotation, per request".to_owned(), ms(per_request.rotation)]);
    table.row(["transfer, per request".to_owned(), ms(per_request.transfer)]);
    table.row(["overhead, per request".to_owned(), ms(per_request.overhead)]);
    table.row(["seeks".to_owned(), count(outcome.seeks)]);
    if let Some(joules) = outcome.energy_j {
        let watts = joules / outcome.elapsed_s.max(1e-9);
        table.row(["energy".to_owned(), format!("{} J", number(joules, 1))]);
        table.row(["on average".to_owned(), format!("{} W", number(watts, 2))]);
    }
    if outcome.drive_wakes > 0 {
        table.row(["woken".to_owned(), count(outcome.drive_wakes)]);
    }
    if outcome.reconfigurations > 0 {
        table.row(["reconfigurations".to_owned(), count(outcome.reconfigurations)]);
    }
    if outcome.served_from_bopt_pct > 0.0 {
        table.row(["from the BOPT".to_owned(), percent(outcome.served_from_bopt_pct)]);
    }
    for (layer, counters) in &outcome.layers {
        for (counter, number) in counters {
            table.row([format!("{layer}: {counter}"), count(*number)]);
        }
    }
    let first = |what: &str, error: &Option<String>| {
        error
            .as_ref()
            .map_or_else(String::new, |error| format!("\n  the first {what} that failed: {error}\n"))
    };
    let failures = first("request", &outcome.first_failure)
        + &first("reconfiguration", &outcome.first_reconfiguration_failure);
    format!(
        "{setup}\n{workload}: {}\n\n{}{}\n  event log: hash {}\n",
        requests_line(outcome),
        table.text(),
        failures,
        outcome.event_hash
    )
}

/// Numbers of requests, in a line.
pub fn requests_line(outcome: &LoadOutcome) -> String {
    let mut kinds = vec![
        format!("{} of {}", counted(outcome.reads, "read"), size(outcome.bytes_read)),
        format!("{} of {}", counted(outcome.writes, "write"), size(outcome.bytes_written)),
    ];
    if outcome.flushes > 0 {
        kinds.push(counted(outcome.flushes, "flush"));
    }
    format!("{}: {}", counted(outcome.requests, "request"), kinds.join(", "))
}
