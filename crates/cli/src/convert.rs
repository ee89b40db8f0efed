//! `seekless trace convert`: a trace in another format, one record at a time; and where any command that
//! makes a trace writes it to.
//!
//! Invariant: a file is there whole or not at all, and what the format could not hold is told, on stderr
//! and in the JSON. Faults: those of reading and of writing; a reader of standard output that went away is
//! none.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args;
use seekless_core::Record;
use seekless_trace::Reader;
use seekless_trace::write::{Losses, Output, Packing, Provenance, TARGETS, Tables, Target, Writer, Written};
use serde::Serialize;

use crate::Usage;
use crate::input::Input;
use crate::output;
use crate::progress::Progress;
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

A second ending .gz, .xz or .zst compresses. What the format cannot hold is told.";

/// Where a trace is written to.
#[derive(Args)]
pub struct Writing {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The format to write [default: what the file's name ends in]
    #[arg(long, value_name = "FORMAT", value_parser = target)]
    to: Option<&'static Target>,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// What `trace convert` is asked.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    writing: Writing,
}

/// What became of a trace that was written.
#[derive(Serialize)]
pub struct Told {
    /// The file; `-` is standard output.
    pub file: String,
    /// Its format.
    pub to: &'static str,
    /// Records in it.
    pub records: u64,
    /// Its size, after compression.
    pub bytes: u64,
    /// What the format could not hold.
    pub lost: Losses,
    /// The same in words, and what else a person should know.
    pub warnings: Vec<String>,
}

#[derive(Serialize)]
struct Summary<'a> {
    from: &'a str,
    sources: Vec<Source>,
    records_read: u64,
    #[serde(flatten)]
    told: &'a Told,
}

#[derive(Serialize)]
struct Source {
    path: String,
    /// None for what is no file.
    bytes: Option<u64>,
}

/// Without its feature the program knows of Parquet only how to get it.
const NO_PARQUET: &str = "found parquet, expected another format: this program was built without its default \
     features, of which parquet is one";

fn target(name: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    match Target::named(name) {
        Some(target) => Ok(target),
        None if name == "parquet" => Err(NO_PARQUET.to_owned()),
        None => Err(format!("found '{name}', expected {}", known())),
    }
}

impl Writing {
    /// Whether the trace goes to standard output, which then says nothing else.
    pub fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    /// The format to write: the one that was asked for, or the one that the file's name asks for.
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
            let told = format!("{name}: found a compression around {}, expected none", target.name);
            return Err(Usage(format!("{told}: it compresses by itself")).into());
        }
        Ok(target)
    }

    /// Whether it can be written as asked, as far as that can be said beforehand.
    pub fn check(&self) -> anyhow::Result<()> {
        self.target()?;
        if self.is_stdout() {
            let told = "--json: found -o -, expected a file: standard output is the trace";
            return if self.json { Err(Usage(told.to_owned()).into()) } else { Ok(()) };
        }
        output::expect_folder(&self.output)
    }

    /// What writes it.
    pub fn open(&self, provenance: &Provenance) -> anyhow::Result<Writer> {
        let target = self.target()?;
        let output = if self.is_stdout() {
            Output::stream(io::stdout(), Packing::Plain)
        } else {
            Output::file(&self.output, self.force)
        };
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow::anyhow!(
                "{}: found a file of that name, expected none; --force replaces it",
                self.output.display()
            ),
            _ => self.error(error),
        })?;
        Writer::new(target, output, provenance).map_err(|error| self.error(error))
    }

    /// Writes one record.
    pub fn record(&self, writer: &mut Writer, record: &Record, tables: Tables) -> anyhow::Result<()> {
        writer.record(record, tables).map_err(|error| self.error(error))
    }

    /// Writes what is left, and warns of what the format could not hold.
    pub fn finish(&self, writer: Writer) -> anyhow::Result<Told> {
        let Written { records, bytes, losses, warnings } =
            writer.finish().map_err(|error| self.error(error))?;
        output::warn(&warnings);
        let (file, to) = (self.output.display().to_string(), self.target()?.name);
        Ok(Told { file, to, records, bytes, lost: losses, warnings })
    }

    fn error(&self, error: io::Error) -> anyhow::Error {
        anyhow::Error::new(error).context(self.output.display().to_string())
    }

    /// A reader that went away is no error of ours.
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

/// This program, and how it was called.
pub fn provenance(sources: Vec<(String, Option<u64>)>, format: &str) -> Provenance {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy())).collect();
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
    let mut reader = Reader::open(&input.files, &input.reading.options(true))?;
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
            progress.tell(&format!("converting the trace: {} records", count(records_read)));
        }
    }
    drop(progress);
    output::warn(reader.warnings());
    if records_read == 0 {
        output::warn(&["the trace holds no requests".to_owned()]);
    }
    let mut told = writing.finish(writer)?;
    told.warnings.splice(0..0, reader.warnings().iter().cloned());
    if writing.json {
        let sources = sources.into_iter().map(|(path, bytes)| Source { path, bytes }).collect();
        return output::json(&Summary { from, sources, records_read, told: &told });
    }
    if writing.is_stdout() { Ok(()) } else { output::print(&text(from, records_read, &told)) }
}

fn text(from: &str, records_read: u64, told: &Told) -> String {
    let mut table = Table::new(&["", ""]);
    table.row(["read".to_owned(), format!("{} ({from})", counted(records_read, "record"))]);
    table.row(["written".to_owned(), format!("{} ({})", counted(told.records, "record"), told.to)]);
    table.row(["file".to_owned(), format!("{} ({})", told.file, size(told.bytes))]);
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
