//! `seekless trace synth`: a workload as a trace.
//!
//! A workload that waits for answers is recorded on a simulated drive, with the time that each answer
//! took. One that arrives by itself needs none: then nobody knows how long answers take.

use clap::Args;
use seekless_drive::{Model, QueueOptions};
use seekless_lab::{LoadOutcome, arrivals, run_workload, workload};
use seekless_trace::Volumes;
use seekless_trace::write::Tables;
use seekless_volume::Component;
use seekless_volume::description::Description;
use serde::Serialize;

use crate::convert::{Told, Writing, provenance};
use crate::output;
use crate::progress::Progress;
use crate::setup::whole_sectors;
use crate::text::seconds;
use crate::workload::{Span, asked};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace synth oltp:mpl=20 --drive wd2500aaks --for 10m -o oltp.txt
  seekless trace synth random:rate=100/s --over 100GiB --requests 50000 -o random.fio
  seekless lab run --workloads      the workloads, with their options

A workload that waits for answers before it goes on needs a drive to answer: then the trace has the
times that this drive made of it. The file's name says in which format it is written: .txt is text
as blkparse prints it; `seekless trace convert --help` lists the others.";

/// Without a drive, clients see so many sectors unless `--over` says otherwise: 100 GiB.
const OVER: u64 = (100 << 30) / 512;

/// What is generated.
#[derive(Args)]
pub struct Arguments {
    /// A workload with its options: oltp, oltp:mpl=20,think=10ms, mix:3*oltp+1*seq
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    writing: Writing,
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
}

#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    told: &'a Told,
    /// The drive that answered, if one did.
    drive: Option<&'a str>,
    #[serde(flatten)]
    outcome: &'a LoadOutcome,
}

/// Generates and writes.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let load = workload::parse(&arguments.workload)?;
    arguments.writing.check()?;
    arguments.writing.forgive(synthesise(arguments, &load))
}

fn synthesise(arguments: &Arguments, load: &workload::Load) -> anyhow::Result<()> {
    let Arguments { writing, drive, over, .. } = arguments;
    // First, since the work is in vain where it cannot be written.
    let mut writer = writing.open(&provenance(Vec::new(), ""))?;
    let run = arguments.span.run(arguments.seed, true);
    let progress = Progress::spinner("running the workload");
    let (mut outcome, recorded) = match drive {
        Some(drive) => run_workload(load, &volume(drive, *over)?, &run, None)?,
        None => arrivals(load, over.unwrap_or(OVER), &run)?,
    };
    outcome.options.clone_from(&arguments.workload);
    let volumes = Volumes::default();
    for record in &recorded.records {
        writing.record(&mut writer, record, Tables { names: &recorded.names, volumes: &volumes })?;
    }
    let told = writing.finish(writer)?;
    drop(progress);
    if writing.json {
        return output::json(&Summary { told: &told, drive: drive.as_deref(), outcome: &outcome });
    }
    if writing.is_stdout() {
        return Ok(());
    }
    let on = drive.as_ref().map_or("arrivals only, on no drive".to_owned(), |drive| format!("on {drive}"));
    let (workload, asked) = (&arguments.workload, asked(&outcome));
    output::print(&format!("{}: {workload}, {on}\n  {asked} in {}\n", told.file, seconds(outcome.elapsed_s)))
}

/// The first sectors of a drive, with nothing over them.
fn volume(drive: &str, over: Option<u64>) -> anyhow::Result<Description> {
    let component = Component::new(Model::find(drive)?, QueueOptions::default());
    let sectors = over.unwrap_or(component.drive.sectors());
    Ok(Description::bare(component, sectors))
}
