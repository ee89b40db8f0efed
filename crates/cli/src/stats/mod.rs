//! `seekless trace stats`: characterises a workload.

mod behaviour;
mod figures;
pub mod fleet;
pub mod shards;
mod text;

use anyhow::bail;
use clap::Args;
use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_trace::stats::MAX_INTERVALS;
use seekless_trace::stats::Survey;
use seekless_trace::{Analysis, Intervals, Stats, StatsOptions, Surveyed};

use crate::Usage;
use crate::input::Input;
use crate::output::{self, Form};
use crate::progress::Progress;

pub use text::compact;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace stats data/svnserver2
  seekless trace stats data/svnserver2 --json | jq .partial_determinism_pct
  seekless trace stats week.csv.gz --interval 1d --volume web_0
  seekless trace stats fleet.csv --by volume --csv=distribution

A trace in shards that follow each other, each of which may be on another machine:
  seekless trace stats mon.csv --outline mon.outline
  seekless trace stats --merge *.outline --outline week
  seekless trace stats mon.csv --partial mon.partial --of week --sample 1/64
  seekless trace stats --merge *.partial

The first figures are those of Table 1 and Figure 1 of the BORG paper (FAST 2009). Everything is
exact while it fits into --memory; above it pages and pairs of requests are sampled, and the error is given.";

/// How to characterise a trace.
#[derive(Args, Clone)]
pub struct Characterising {
    /// Limit of memory, about
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    memory: Size,
    /// Number of intervals of equal request counts, for working sets [default: 7]
    #[arg(long, value_name = "N", conflicts_with = "interval", value_parser = interval_count)]
    intervals: Option<u32>,
    /// Use intervals of this length instead, such as 1d
    #[arg(long, value_name = "TIME")]
    interval: Option<Nanos>,
    /// Size of the device [default: the end of the last access]
    #[arg(long, value_name = "SIZE")]
    device_size: Option<Size>,
}

/// Less does not suffice for any tables.
const LEAST_MEMORY: u64 = 16 << 20;

fn memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: seekless_core::units::UnitError| error.to_string())?;
    if size.0 >= LEAST_MEMORY { Ok(size) } else { Err(format!("found {size}, expected 16 MiB or more")) }
}

fn interval_count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_INTERVALS).contains(count));
    count.ok_or_else(|| format!("found '{text}', expected 1 to {MAX_INTERVALS}"))
}

impl Characterising {
    /// Options that do not fit a trace.
    fn warnings(&self, survey: &Survey) -> Vec<String> {
        let Some(device_size) = self.device_size else { return Vec::new() };
        let ends: Vec<u64> = survey.volumes().map(|(_, end)| end).collect();
        let end = Size(ends.iter().max().copied().unwrap_or(0).saturating_mul(SECTOR_BYTES));
        match ends.len() {
            0 | 1 if end > device_size => {
                vec![format!(
                    "--device-size: found {device_size}, expected at least {end}, where the last access ends"
                )]
            }
            0 | 1 => Vec::new(),
            volumes => vec![format!(
                "--device-size: found {volumes} volumes, expected one (--volume picks it); each counts as far as it is accessed"
            )],
        }
    }

    /// Limit of memory in bytes.
    pub fn memory(&self) -> u64 {
        self.memory.0
    }

    /// Options for the trace crate.
    pub fn options(&self) -> anyhow::Result<StatsOptions> {
        if self.interval == Some(Nanos::ZERO) {
            bail!(Usage("--interval: found zero, expected a time such as 1d".to_owned()));
        }
        Ok(StatsOptions {
            device_sectors: self.device_size.map(|size| size.0.div_ceil(SECTOR_BYTES)),
            intervals: self.interval.map_or(Intervals::Count(self.intervals.unwrap_or(7)), Intervals::Every),
            // The remainder is for the records that are kept.
            memory: self.memory.0 / 4 * 3,
            ..StatsOptions::default()
        })
    }
}

/// Arguments of `trace stats`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    how: Characterising,
    /// Characterise each volume by itself, and show the distribution over all
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["outline", "partial", "merge", "interval", "intervals", "device_size"])]
    by: Option<fleet::By>,
    #[command(flatten)]
    shards: shards::Shards,
    #[command(flatten)]
    form: Form,
}

/// Characterises a trace and prints the result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.shards.are_meant() {
        return shards::run(&arguments.shards, &arguments.input, &arguments.how, &arguments.form);
    }
    let options = arguments.how.options()?;
    let trace = survey(&arguments.input, &arguments.how)?;
    output::warn(&trace.warnings);
    if let Some(fleet::By::Volume) = arguments.by {
        let fleet = fleet::characterised(&trace, &arguments.how)?;
        return arguments.form.print(&fleet, "volumes", || fleet::text(&fleet));
    }
    let stats = characterise(&trace, &options)?;
    arguments.form.print(&stats, "top_processes", || text(&stats))
}

/// First pass over a trace.
pub fn survey(input: &Input, how: &Characterising) -> anyhow::Result<Surveyed> {
    let progress = Progress::spinner("reading the trace");
    let device_size =
        |records| progress.step(&format!("reading the trace: {} records", crate::text::count(records)));
    let mut trace = Surveyed::open(&input.found()?, &input.reading.options(true), how.memory(), device_size)?;
    trace.warnings.extend(how.warnings(&trace.survey));
    Ok(trace)
}

/// The statistics of a trace.
pub fn characterise(trace: &Surveyed, options: &StatsOptions) -> anyhow::Result<Stats> {
    options.check(trace.survey.end).map_err(|many| Usage(many.to_string()))?;
    let progress = Progress::measured();
    let mut analysis = Analysis::new(trace.survey.clone(), options);
    let (mut done, all) = (0_u64, trace.survey.records);
    trace.each(|record| {
        if done % 65_536 == 0 {
            progress.at("characterising", done, all);
        }
        done += 1;
        analysis.follow(record);
    })?;
    Ok(analysis.finish(&trace.names, &trace.volumes))
}

/// The whole text.
fn text(stats: &Stats) -> String {
    text::paper(stats) + &behaviour::text(stats)
}
