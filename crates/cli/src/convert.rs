//! `seekless trace convert`: writes a trace in another format, one record at a time; and the output options of all
//! commands that write a trace.
//!
//! Invariant: a file is written whole or not at all, and losses of the format are reported on stderr and in the JSON.
//! Faults: errors of reading and writing; a closed pipe on standard output is not an error.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use seekless_core::Record;
use seekless_core::names::perhaps;
use seekless_trace::Reader;
use seekless_trace::write::{Losses, Output, Packing, Provenance, TARGETS, Tables, Target, Writer, Written};
use serde::Serialize;

use crate::Usage;
use crate::input::Input;
use crate::output;
use crate::progress::Progress;
use crate::started;
use crate::table::Table;
use crate::text::{count, counted, shell_word, size};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace convert data/mail -o mail.fio
  seekless trace convert data/mail -o mail.load.zst --volume 7,0
  seekless trace convert data/mail -o - --to blkparse | head

Formats, and the endings that ask for them:
  parquet    .parquet             for polars, pandas and DuckDB
  fio        .fio .iolog          fio iolog, version 3
  blkreplay  .load .blkreplay     blkreplay load
  blkparse   .blkparse .txt       what blkparse prints by default
  disksim    .disksim .dsim       DiskSim ascii

A second ending .gz, .xz or .zst compresses. Losses of the format are reported.";

/// Where to write a trace.
#[derive(Args)]
pub struct Writing {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format to write [default: by the ending of FILE]
    #[arg(long, value_name = "FORMAT", value_parser = target)]
    to: Option<&'static Target>,
    /// Overwrite FILE
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `trace convert`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    writing: Writing,
}

/// A trace that was written.
#[derive(JsonSchema, Serialize)]
pub struct WrittenTrace {
    /// Path of the file; `-` is standard output.
    pub file: String,
    /// Format.
    pub to: &'static str,
    /// Number of records.
    pub records: u64,
    /// Size in bytes, after compression.
    pub bytes: u64,
    /// What the format could not hold.
    pub lost: Losses,
    /// The losses as text, and other warnings.
    pub warnings: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub struct Summary<'a> {
    from: &'a str,
    sources: Vec<Source>,
    records_read: u64,
    #[serde(flatten)]
    written: &'a WrittenTrace,
}

#[derive(JsonSchema, Serialize)]
struct Source {
    path: String,
    /// Size in bytes; `None` for standard input.
    bytes: Option<u64>,
}

/// Error for Parquet in a build without that feature.
const NO_PARQUET: &str = "found parquet, expected another format: this program was built without its default \
     features, of which parquet is one";

fn target(name: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    match Target::named(name) {
        Some(target) => Ok(target),
        None if name == "parquet" => Err(NO_PARQUET.to_owned()),
        None => {
            let perhaps = perhaps(name, TARGETS.iter().map(|target| target.name));
            Err(format!("found '{name}', expected {}{perhaps}", known()))
        }
    }
}

impl Writing {
    /// Whether the trace goes to standard output, which then carries nothing else.
    pub fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    /// The format to write: from `--to`, or by the ending of the file.
    fn target(&self) -> anyhow::Result<&'static Target> {
        let name = self.output.display().to_string();
        let (packing, plain) = Packing::of(&name);
        let found = self.to.or_else(|| Target::of_file(&name));
        let Some(target) = found else {
            if plain.ends_with(".parquet") {
                anyhow::bail!("{name}: {NO_PARQUET}");
            }
            let endings: Vec<&str> = TARGETS.iter().flat_map(|target| target.endings).copied().collect();
            let expected = format!("expected --to FORMAT, or a name that ends in {}", endings.join(", "));
            return Err(Usage(format!("{name}: found no format in the name, {expected}")).into());
        };
        if packing != Packing::Plain && !target.packs {
            let why = format!("{name}: found a compression around {}, expected none", target.name);
            return Err(Usage(format!("{why}: it compresses by itself")).into());
        }
        Ok(target)
    }

    /// Checks beforehand, as far as possible, whether the file can be written.
    pub fn check(&self) -> anyhow::Result<()> {
        self.target()?;
        if self.is_stdout() {
            let why = "--json: found -o -, expected a file: standard output is the trace";
            return if self.json { Err(Usage(why.to_owned()).into()) } else { Ok(()) };
        }
        output::expect_folder(&self.output)
    }

    /// Opens the writer.
    pub fn open(&self, provenance: &Provenance) -> anyhow::Result<Writer> {
        let target = self.target()?;
        let output = if self.is_stdout() {
            Output::stream(io::stdout(), Packing::Plain)
        } else {
            Output::file(&self.output, self.force)
        };
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => output::exists(&self.output),
            _ => self.error(error),
        })?;
        Writer::new(target, output, provenance).map_err(|error| self.error(error))
    }

    /// Writes one record.
    pub fn record(&self, writer: &mut Writer, record: &Record, tables: Tables) -> anyhow::Result<()> {
        writer.record(record, tables).map_err(|error| self.error(error))
    }

    /// Writes what is buffered, and warns of losses.
    pub fn finish(&self, writer: Writer) -> anyhow::Result<WrittenTrace> {
        let written = self.end(writer)?;
        output::warn(&written.warnings);
        Ok(written)
    }

    /// Writes what is buffered.
    pub fn end(&self, writer: Writer) -> anyhow::Result<WrittenTrace> {
        let Written { records, bytes, losses, warnings } =
            writer.finish().map_err(|error| self.error(error))?;
        let (file, to) = (self.output.display().to_string(), self.target()?.name);
        Ok(WrittenTrace { file, to, records, bytes, lost: losses, warnings })
    }

    fn error(&self, error: io::Error) -> anyhow::Error {
        anyhow::Error::new(error).context(self.output.display().to_string())
    }

    /// Turns a closed pipe into success.
    pub fn forgive(&self, done: anyhow::Result<()>) -> anyhow::Result<()> {
        let gone = |error: &anyhow::Error| {
            error.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
        };
        match done {
            Err(error) if self.is_stdout() && gone(&error) => Ok(()),
            done => done,
        }
    }
}

/// The program's version and command line, for the trace's metadata.
pub fn provenance(sources: Vec<(String, Option<u64>)>, format: &str) -> Provenance {
    let words: Vec<String> =
        started::words().into_iter().map(|word| shell_word(&word.to_string_lossy())).collect();
    Provenance {
        sources,
        format: format.to_owned(),
        program: concat!("seekless ", env!("CARGO_PKG_VERSION")).to_owned(),
        options: words.join(" "),
    }
}

/// Converts.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { input, writing } = arguments;
    writing.check()?;
    writing.forgive(convert(input, writing))
}

fn convert(input: &Input, writing: &Writing) -> anyhow::Result<()> {
    let mut reader = Reader::open(&input.found()?, &input.reading.options(true))?;
    let size_of = |path: &PathBuf| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let source = |path: &PathBuf| (path.display().to_string(), size_of(path).map(|file| file.len()));
    let sources: Vec<(String, Option<u64>)> = reader.sources().iter().map(source).collect();
    let from = reader.format().name;
    let mut writer = writing.open(&provenance(sources.clone(), from))?;
    let progress = Progress::spinner("converting the trace");
    let mut records_read = 0;
    while let Some(record) = reader.next() {
        let tables = Tables { names: reader.names(), volumes: reader.volumes() };
        writing.record(&mut writer, &record?, tables)?;
        records_read += 1;
        if records_read % 65_536 == 0 {
            progress.step(&format!("converting the trace: {} records", count(records_read)));
        }
    }
    drop(progress);
    output::warn(reader.warnings());
    if records_read == 0 {
        output::warn(&["the trace holds no requests".to_owned()]);
    }
    let mut written = writing.finish(writer)?;
    written.warnings.splice(0..0, reader.warnings().iter().cloned());
    if writing.json {
        let sources = sources.into_iter().map(|(path, bytes)| Source { path, bytes }).collect();
        return output::json(&Summary { from, sources, records_read, written: &written });
    }
    if writing.is_stdout() { Ok(()) } else { output::print(&text(from, records_read, &written)) }
}

fn text(from: &str, records_read: u64, written: &WrittenTrace) -> String {
    let mut table = Table::new(&["", ""]);
    table.row(["read".to_owned(), format!("{} ({from})", counted(records_read, "record"))]);
    table.row(["written".to_owned(), format!("{} ({})", counted(written.records, "record"), written.to)]);
    table.row(["file".to_owned(), format!("{} ({})", written.file, size(written.bytes))]);
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_all_formats_with_their_endings() {
        for target in TARGETS {
            let line = HELP.lines().find(|line| line.trim().starts_with(&format!("{} ", target.name)));
            let line = line.unwrap_or_else(|| panic!("{} is not in the help", target.name));
            assert!(line.contains(&target.endings.join(" ")), "{line}");
        }
    }
}
