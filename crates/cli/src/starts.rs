//! `seekless lab starts`: how long programs take to start, cold, warm, and with layers that prefetch.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::names::perhaps;
use seekless_drive::{QueueOptions, spec};
use seekless_lab::starts::{PAUSE, Start, Starts, Sums, Timed, parse, think_for};
use seekless_layers::registry;
use seekless_trace::ReadOptions;
use seekless_volume::{Component, Description};
use serde::Serialize;

use crate::Usage;
use crate::output::{self, Form};
use crate::parse::{number_or_text, option};
use crate::progress::Progress;
use crate::shipped;
use crate::table::Table;
use crate::text::number;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless lab starts data/appstart2 --starts data/appstart2.starts
  seekless lab starts data/appstart2 --starts data/appstart2.starts --json
  seekless lab starts data/appstart2 --starts data/appstart2.starts --think 1

A list of starts has a line for each: seconds from the first event, program, round. The layers learn from all of \
them as they go; the rounds from --judge on are judged. Paper and definitions: docs/book/launching.md.";

/// Arguments of `lab starts`.
#[derive(Args)]
pub struct Arguments {
    /// Files of one recording, or its name
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// List of the starts in it
    #[arg(long, value_name = "FILE")]
    starts: PathBuf,
    /// Name of a drive, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "wd6400aaks")]
    drive: String,
    /// Layers to time, each alone over the drive
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "launch")]
    layer: Vec<String>,
    /// Options of these layers
    #[arg(long = "option", value_name = "KEY=VALUE", num_args = 1.., value_parser = option)]
    options: Vec<(String, String)>,
    /// First round that is judged
    #[arg(long, value_name = "N", default_value_t = 5)]
    judge: u32,
    /// Multiply the programs' own time by this [default: such that warm starts take 0.48 of the time of cold ones, as
    /// in the paper]
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    think: Option<f64>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    form: Form,
}

/// Share of a cold start that a warm one takes: Eclipse's in the paper, 7.6 of 15.8 s.
const WARM: f64 = 0.48;

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1_000.0).contains(factor));
    factor.ok_or_else(|| format!("found '{text}', expected a factor from 0 to 1000"))
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Output {
    drive: String,
    think: f64,
    judged_from_round: u32,
    layers: Vec<OfLayer>,
}

#[derive(JsonSchema, Serialize)]
struct OfLayer {
    layer: String,
    programs: Vec<Row>,
    total: Row,
}

/// A program's judged starts, or all programs'.
#[derive(Clone, Default, JsonSchema, Serialize)]
struct Row {
    program: String,
    starts: u64,
    cold_s: f64,
    warm_s: f64,
    prefetched_s: f64,
    /// Of cold minus warm.
    saved_pct: f64,
    /// Of reads.
    hits_pct: f64,
    /// Of fetched pages.
    useless_pct: f64,
    #[serde(skip)]
    sums: Sums,
}

impl Row {
    fn add(&mut self, cold: &Timed, warm: &Timed, with: &Timed) {
        let sums = &mut self.sums;
        sums.add(cold, warm, with);
        self.starts = sums.starts;
        (self.cold_s, self.warm_s) = (sums.cold.seconds(), sums.warm.seconds());
        self.prefetched_s = sums.with.seconds();
        (self.saved_pct, self.hits_pct) = (sums.saved_pct(), sums.hits_pct());
        self.useless_pct = sums.useless_pct();
    }
}

/// Times the starts.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let drive = spec::find(&arguments.drive)?;
    let sectors = drive.sectors;
    let bare = Description::bare(Component::new(drive.into(), QueueOptions::default()), sectors);
    let volumes = arguments.layer.iter().map(|name| with_layer(&bare, name, &arguments.options));
    let volumes: Vec<Description> = volumes.collect::<anyhow::Result<_>>()?;
    let name = arguments.starts.display().to_string();
    let text = std::fs::read_to_string(shipped::find(&arguments.starts)).with_context(|| name.clone())?;
    let starts = parse(&text).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    if starts.iter().all(|start| start.round < arguments.judge) {
        let last = starts.iter().map(|start| start.round).max().unwrap_or(0);
        return Err(Usage(format!("--judge: found {}, expected at most {last}", arguments.judge)).into());
    }
    let trace = seekless_trace::load(
        &shipped::traces(&arguments.files)?,
        &ReadOptions { latencies: true, ..ReadOptions::default() },
    )?;
    output::warn(&trace.warnings);
    if trace.end_sector() > sectors {
        anyhow::bail!("--drive: found {sectors} sectors, expected {} or more", trace.end_sector());
    }
    let bar = Progress::measured();
    let steps = 2 + volumes.len() as u64;
    bar.at("cold starts", 0, steps);
    let think = match arguments.think {
        Some(think) => think,
        None => think_for(WARM, &trace, &starts, &bare, arguments.seed)?,
    };
    let recorded = Starts::new(&trace, &starts, think)?;
    let (cold, warm) = (recorded.on(&bare, arguments.seed)?, recorded.warm(arguments.seed)?);
    let mut layers = Vec::new();
    for (name, volume) in arguments.layer.iter().zip(&volumes) {
        bar.at(name, 2 + layers.len() as u64, steps);
        let with = recorded.on(volume, arguments.seed)?;
        layers.push(rows(name, &starts, arguments.judge, [&cold, &warm, &with]));
    }
    drop(bar);
    let drive = arguments.drive.clone();
    let output = Output { drive, think, judged_from_round: arguments.judge, layers };
    arguments.form.print(&output, "layers.programs", || text_of(&output))
}

/// Layers that fetch what programs read when they start.
const PREFETCHERS: [&str; 3] = ["launch", "cdp", "function"];

fn with_layer(bare: &Description, name: &str, options: &[(String, String)]) -> anyhow::Result<Description> {
    let entry = registry::find(name).filter(|entry| PREFETCHERS.contains(&entry.name)).ok_or_else(|| {
        let expected = "launch, cdp or function";
        Usage(format!("--layer: found '{name}', expected {expected}{}", perhaps(name, PREFETCHERS)))
    })?;
    let table: toml::Table =
        options.iter().map(|(key, value)| (key.clone(), number_or_text(value))).collect();
    entry.check(&table).map_err(|refused| Usage(format!("--option: {refused}")))?;
    Ok(bare.clone().with_layer(entry, table))
}

fn rows(layer: &str, starts: &[Start], judge: u32, [cold, warm, with]: [&[Timed]; 3]) -> OfLayer {
    let mut programs: Vec<Row> = Vec::new();
    let mut total = Row { program: "all".to_owned(), ..Row::default() };
    for (number, start) in starts.iter().enumerate().filter(|(_, start)| start.round >= judge) {
        let place = programs.iter().position(|row| row.program == start.program).unwrap_or_else(|| {
            programs.push(Row { program: start.program.clone(), ..Row::default() });
            programs.len() - 1
        });
        for row in [&mut programs[place], &mut total] {
            row.add(&cold[number], &warm[number], &with[number]);
        }
    }
    programs.sort_by(|one, other| one.program.cmp(&other.program));
    OfLayer { layer: layer.to_owned(), programs, total }
}

fn text_of(output: &Output) -> String {
    let mut text = format!(
        "Starts on {}, from round {}; programs compute {} times as long as recorded, with {} between starts.\n",
        output.drive,
        output.judged_from_round,
        number(output.think, 2),
        PAUSE
    );
    for of in &output.layers {
        let prefetched = format!(">{}, s", of.layer);
        let titles =
            ["program", ">starts", ">cold, s", ">warm, s", &prefetched, ">saved %", ">hits %", ">useless %"];
        let mut table = Table::new(&titles);
        for row in of.programs.iter().chain([&of.total]) {
            table.row([
                row.program.clone(),
                row.starts.to_string(),
                number(row.cold_s, 2),
                number(row.warm_s, 2),
                number(row.prefetched_s, 2),
                number(row.saved_pct, 1),
                number(row.hits_pct, 1),
                number(row.useless_pct, 1),
            ]);
        }
        text.extend(["\n", &table.text()]);
    }
    text
}
