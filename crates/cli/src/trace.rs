//! `seekless trace`: what a trace is, and what its workload is like.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use seekless_trace::{FORMATS, Format, Intervals, ReadOptions, Stats, StatsOptions, Trace, characterise};
use serde::Serialize;

use crate::input::{Input, Reading};
use crate::output;
use crate::progress::Progress;
use crate::stats;
use crate::table::Table;
use crate::text::{count, counted, sectors, size, span};

/// What can be asked of a trace.
#[derive(Subcommand)]
pub enum Command {
    /// What the files are, and what is in them
    #[command(after_help = "\
Examples:
  seekless trace info data/mail
  seekless trace info --formats

A recording is given by its name (data/mail), or by its files (data/mail.blktrace.*.xz).")]
    Info(InfoArgs),
    /// What the workload is like: reuse, working sets, partial determinism
    #[command(after_help = "\
Examples:
  seekless trace stats data/svnserver2
  seekless trace stats data/svnserver2 --json | jq .partial_determinism_pct

The figures are those of Table 1 and Figure 1 of the BORG paper (FAST 2009).")]
    Stats(Files),
    /// Record what a block device of this machine is asked for
    #[command(after_help = crate::record::HELP)]
    Record(crate::record::Arguments),
    /// Make up a trace: a workload, recorded on a simulated drive
    #[command(after_help = crate::synth::HELP)]
    Synth(crate::synth::Arguments),
}

/// A recording.
#[derive(Args)]
pub struct Files {
    #[command(flatten)]
    input: Input,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What `trace info` is asked.
#[derive(Args)]
pub struct InfoArgs {
    /// The files of one recording, or its name (data/mail for data/mail.blktrace.0.xz and so on); - is
    /// standard input
    #[arg(required_unless_present = "formats")]
    files: Vec<PathBuf>,
    /// How they are read
    #[command(flatten)]
    reading: Reading,
    /// List the formats that can be read, instead
    #[arg(long, conflicts_with = "files")]
    formats: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Does what `command` says.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(asked) if asked.formats => formats(asked.json),
        Command::Info(asked) => info(&asked),
        Command::Record(asked) => crate::record::run(&asked),
        Command::Synth(asked) => crate::synth::run(&asked),
        Command::Stats(files) => {
            let trace = load_as(&files.input.files, &files.input.reading.options(true))?;
            output::warn(&trace.warnings);
            let stats = characterised(&trace, &StatsOptions::default());
            if files.json { output::json(&stats) } else { output::print(&stats::text(&stats)) }
        }
    }
}

/// Reads a recording as its content says.
pub fn load(files: &[PathBuf]) -> anyhow::Result<Trace> {
    load_as(files, &ReadOptions::default())
}

/// Reads a recording.
pub fn load_as(files: &[PathBuf], options: &ReadOptions) -> anyhow::Result<Trace> {
    let _progress = Progress::spinner("reading the trace");
    Ok(seekless_trace::load(files, options)?)
}

/// What the workload of `trace` is like.
pub fn characterised(trace: &Trace, options: &StatsOptions) -> Stats {
    let _progress = Progress::spinner("characterising the workload");
    characterise(&trace.records, &trace.names, &trace.volumes, options)
}

/// What `trace info` tells.
#[derive(Serialize)]
struct Info<'a> {
    format: &'static str,
    files: Vec<File>,
    records: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    seconds: f64,
    processes: u64,
    /// The sector after the last one that was accessed.
    end_sector: u64,
    devices: Vec<Device>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct File {
    path: String,
    bytes: u64,
}

#[derive(Serialize)]
struct Device {
    number: String,
    records: u64,
    end_sector: u64,
}

/// A format, as `trace info --formats` tells of it.
#[derive(Serialize)]
struct Known {
    name: &'static str,
    summary: &'static str,
    /// How well its reader is known to work.
    reader: &'static str,
}

#[derive(Serialize)]
struct Formats {
    formats: Vec<Known>,
}

fn formats(json: bool) -> anyhow::Result<()> {
    let known = |format: &&'static Format| Known {
        name: format.name,
        summary: format.summary,
        reader: format.sample.words(),
    };
    let formats: Vec<Known> = FORMATS.iter().map(known).collect();
    if json {
        return output::json(&Formats { formats });
    }
    let mut table = Table::new(&["format", "reader", "what it is"]);
    for format in &formats {
        table.row([format.name, format.reader, format.summary]);
    }
    output::print(&table.text())
}

fn info(files: &InfoArgs) -> anyhow::Result<()> {
    let trace = load_as(&files.files, &files.reading.options(false))?;
    // No pictures, hence neither a heat map nor working sets.
    let few = StatsOptions {
        heat_columns: 0,
        heat_rows: 0,
        intervals: Intervals::Count(0),
        ..StatsOptions::default()
    };
    let stats = characterised(&trace, &few);
    let file = |path: &PathBuf| {
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        File { path: path.display().to_string(), bytes }
    };
    let device = |used: seekless_trace::DeviceUse| Device {
        number: trace.volumes.name(used.device),
        records: used.records,
        end_sector: used.end_sector,
    };
    let info = Info {
        format: trace.format,
        files: trace.sources.iter().map(file).collect(),
        records: trace.records.len() as u64,
        reads: trace.reads() as u64,
        writes: trace.writes() as u64,
        flushes: trace.flushes() as u64,
        discards: trace.discards() as u64,
        seconds: stats.seconds,
        processes: stats.processes,
        end_sector: trace.end_sector(),
        devices: trace.devices().into_iter().map(device).collect(),
        warnings: &trace.warnings,
    };
    if files.json { output::json(&info) } else { output::print(&info_text(&info)) }
}

fn info_text(info: &Info) -> String {
    let mut files = Table::new(&["file", ">size"]);
    for file in &info.files {
        files.row([file.path.clone(), size(file.bytes)]);
    }
    let mut table = Table::new(&["", ""]);
    table.row([
        "format".to_owned(),
        format!("{} ({})", info.format, counted(info.files.len() as u64, "file")),
    ]);
    let kinds = [
        counted(info.reads, "read"),
        counted(info.writes, "write"),
        counted(info.flushes, "flush"),
        counted(info.discards, "discard"),
    ];
    table.row(["records".to_owned(), format!("{}: {}", count(info.records), kinds.join(", "))]);
    table.row(["time span".to_owned(), span(info.seconds)]);
    table.row(["processes".to_owned(), count(info.processes)]);
    table.row(["up to sector".to_owned(), sectors(info.end_sector)]);
    let mut devices = Table::new(&["device", ">records", ">up to sector"]);
    for device in &info.devices {
        devices.row([device.number.clone(), count(device.records), sectors(device.end_sector)]);
    }
    let mut out = format!("{}\n{}\n{}", table.text(), files.text(), devices.text());
    if !info.warnings.is_empty() {
        let mut warnings = Table::new(&[""]);
        info.warnings.iter().for_each(|warning| warnings.row([warning.as_str()]));
        out.extend(["\nWarnings\n", &warnings.text()]);
    }
    out
}
