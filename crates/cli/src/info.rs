//! `seekless trace info`: format and content of trace files. One pass, in constant memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use seekless_core::{Nanos, Op, Record};
use seekless_trace::{DESCRIBED, FORMATS, Format, Reader};
use serde::Serialize;

use crate::input::Reading;
use crate::output::Form;
use crate::progress::Progress;
use crate::shipped;
use crate::table::Table;
use crate::text::{count, counted, sectors, size, span};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace info data/mail
  seekless trace info --formats
  zcat load.gz | seekless trace info -

A recording is given by its name (data/mail), or by its files (data/mail.blktrace.*.xz).";

/// Arguments of `trace info`.
#[derive(Args)]
pub struct Arguments {
    /// Files of one recording, or its name (data/mail for data/mail.blktrace.0.xz and so on); - is standard input
    #[arg(required_unless_present = "formats")]
    files: Vec<PathBuf>,
    /// How to read them.
    #[command(flatten)]
    reading: Reading,
    /// List the formats that can be read instead
    #[arg(long, conflicts_with = "files")]
    formats: bool,
    #[command(flatten)]
    form: Form,
}

/// JSON output of `trace info`.
#[derive(JsonSchema, Serialize)]
pub struct Info<'a> {
    format: &'static str,
    files: Vec<File>,
    records: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    seconds: f64,
    processes: u64,
    /// The sector after the last one accessed.
    end_sector: u64,
    devices: Vec<Device>,
    warnings: &'a [String],
}

#[derive(JsonSchema, Serialize)]
struct File {
    path: String,
    bytes: u64,
}

#[derive(Default, JsonSchema, Serialize)]
struct Device {
    number: String,
    records: u64,
    end_sector: u64,
}

/// A format in `trace info --formats`.
#[derive(JsonSchema, Serialize)]
struct Known {
    name: &'static str,
    summary: &'static str,
    /// How well its reader is tested.
    reader: &'static str,
    /// Units that options can set, with their defaults.
    #[serde(rename = "leaves_open")]
    open_units: String,
}

#[derive(JsonSchema, Serialize)]
pub struct Formats {
    formats: Vec<Known>,
}

fn formats(form: &Form) -> anyhow::Result<()> {
    let known = |format: &&'static Format| Known {
        name: format.name,
        summary: format.summary,
        reader: format.sample.words(),
        open_units: open_units(format),
    };
    let formats: Vec<Known> = FORMATS.iter().chain(DESCRIBED).map(known).collect();
    let known = Formats { formats };
    form.print(&known, "formats", || {
        let mut table = Table::new(&["format", "reader", "options", "what it is"]);
        for format in &known.formats {
            table.row([format.name, format.reader, &format.open_units, format.summary]);
        }
        table.text()
    })
}

/// The units that a format leaves open, with their defaults.
fn open_units(format: &Format) -> String {
    let time = format.open_units.time.map(|unit| format!("--time-unit {unit}"));
    let sector = format.open_units.sector.map(|bytes| format!("--sector-size {bytes}B"));
    let described = DESCRIBED.iter().any(|described| described.name == format.name);
    let option = if format.name == "record" { "--record SPEC" } else { "--columns SPEC" };
    [described.then(|| option.to_owned()), time, sector].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.formats {
        return formats(&arguments.form);
    }
    let progress = Progress::spinner("reading the trace");
    let mut reader = Reader::open(&shipped::traces(&arguments.files)?, &arguments.reading.options(false))?;
    let mut seen = Seen::default();
    for record in reader.by_ref() {
        seen.note(&record?);
        if seen.records % 65_536 == 0 {
            progress.step(&format!("reading the trace: {} records", count(seen.records)));
        }
    }
    drop(progress);
    let file = |path: &PathBuf| {
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        File { path: path.display().to_string(), bytes }
    };
    let mut devices: Vec<(u32, Device)> = seen.devices.into_iter().collect();
    devices.sort_by_key(|(number, device)| (std::cmp::Reverse(device.records), *number));
    let name = |(number, device): (u32, Device)| Device { number: reader.volumes().name(number), ..device };
    let info = Info {
        format: reader.format().name,
        files: reader.sources().iter().map(file).collect(),
        records: seen.records,
        reads: seen.reads,
        writes: seen.writes,
        flushes: seen.flushes,
        discards: seen.discards,
        seconds: seen.first.map_or(0.0, |first| seen.latest.since(first).seconds()),
        // Process 0 stands for a trace without processes.
        processes: if seen.processes.iter().all(|&one| one == 0) { 0 } else { seen.processes.len() as u64 },
        end_sector: seen.end_sector,
        devices: devices.into_iter().map(name).collect(),
        warnings: reader.warnings(),
    };
    arguments.form.print(&info, "devices", || info_text(&info))
}

/// Statistics of a trace.
#[derive(Default)]
struct Seen {
    records: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    first: Option<Nanos>,
    latest: Nanos,
    end_sector: u64,
    processes: BTreeSet<u32>,
    devices: BTreeMap<u32, Device>,
}

impl Seen {
    fn note(&mut self, record: &Record) {
        self.records += 1;
        match record.op {
            Op::Read => self.reads += 1,
            Op::Write | Op::WriteZeroes => self.writes += 1,
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
        }
        let end = record.extent.end().0;
        let device = self.devices.entry(record.device).or_default();
        device.records += 1;
        device.end_sector = device.end_sector.max(end);
        self.end_sector = self.end_sector.max(end);
        // As elsewhere, flushes count neither for the time span nor for processes.
        if record.extent.sectors > 0 {
            self.first.get_or_insert(record.time);
            self.latest = record.time;
            self.processes.insert(record.origin.process.0);
        }
    }
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
    let processes = if info.processes > 0 { count(info.processes) } else { "-".to_owned() };
    table.row(["processes".to_owned(), processes]);
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
