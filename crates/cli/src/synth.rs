//! `seekless trace synth`: a workload as a trace.
//!
//! A workload that waits for answers is recorded on a simulated drive, with the time that each answer
//! took. One that arrives by itself needs none: then nobody knows how long answers take.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use seekless_drive::{QueueOptions, spec};
use seekless_lab::description::{Component, Description};
use seekless_lab::{LoadOutcome, Recorded, arrivals, blkparse, run_workload, workload};
use serde::Serialize;

use crate::output;
use crate::progress::Progress;
use crate::setup::whole_sectors;
use crate::text::seconds;
use crate::workload::{Span, asked};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace synth oltp:mpl=20 --drive wd2500aaks --for 10m -o oltp.txt
  seekless trace synth random:rate=100/s --over 100GiB --requests 50000 -o random.txt
  seekless lab run --workloads      the workloads, with their options

A workload that waits for answers before it goes on needs a drive to answer: then the trace has the
times that this drive made of it. The file is text as blkparse prints it.";

/// Without a drive, clients see so many sectors unless `--over` says otherwise: 100 GiB.
const OVER: u64 = (100 << 30) / 512;

/// What is generated.
#[derive(Args)]
pub struct Arguments {
    /// A workload with its options: oltp, oltp:mpl=20,think=10ms, mix:3*oltp+1*seq
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The drive that answers: one of `seekless drive list`, or a file that ends in .toml
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// What clients see [default: the whole drive; 100GiB without one]
    #[arg(long, value_name = "SIZE", value_parser = whole_sectors)]
    over: Option<u64>,
    #[command(flatten)]
    span: Span,
    /// All randomness follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Summary<'a> {
    file: String,
    records: u64,
    /// The drive that answered, if one did.
    drive: Option<&'a str>,
    #[serde(flatten)]
    outcome: &'a LoadOutcome,
}

/// Generates and writes.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let load = workload::parse(&arguments.workload)?;
    output::expect_folder(&arguments.output)?;
    let run = arguments.span.run(arguments.seed, true);
    let progress = Progress::spinner("running the workload");
    let (outcome, recorded) = match &arguments.drive {
        Some(drive) => run_workload(&load, &volume(drive, arguments.over)?, &run, None)?,
        None => arrivals(&load, arguments.over.unwrap_or(OVER), &run)?,
    };
    write(&arguments.output, &recorded)?;
    drop(progress);
    let file = arguments.output.display().to_string();
    if arguments.json {
        let (records, drive) = (recorded.records.len() as u64, arguments.drive.as_deref());
        return output::json(&Summary { file, records, drive, outcome: &outcome });
    }
    let on = arguments
        .drive
        .as_ref()
        .map_or("arrivals only, on no drive".to_owned(), |drive| format!("on {drive}"));
    let asked = asked(&outcome);
    output::print(&format!(
        "{file}: {}, {on}\n  {asked} in {}\n",
        arguments.workload,
        seconds(outcome.elapsed_s)
    ))
}

/// The first sectors of a drive, with nothing over them.
fn volume(drive: &str, over: Option<u64>) -> anyhow::Result<Description> {
    let component = Component { drive: spec::find(drive)?, queue: QueueOptions::default() };
    let sectors = over.unwrap_or(component.drive.sectors);
    Ok(Description::bare(component, sectors))
}

/// The one place where records become a file.
fn write(path: &Path, recorded: &Recorded) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut out = BufWriter::new(file);
    blkparse::write(&mut out, &recorded.records, &recorded.names)
        .and_then(|()| out.flush())
        .with_context(|| path.display().to_string())
}
