//! `seekless trace synth`: writes a workload as a trace.
//!
//! A workload that waits for answers is run on a simulated drive, and response times are recorded. One with arrival
//! times of its own needs no drive: then response times are unknown.

use clap::Args;
use schemars::JsonSchema;
use seekless_drive::{Model, QueueOptions};
use seekless_lab::{LoadOutcome, arrivals, run_workload, workload};
use seekless_trace::Volumes;
use seekless_trace::write::Tables;
use seekless_volume::Component;
use seekless_volume::description::Description;
use serde::Serialize;

use crate::convert::{Writing, WrittenTrace, provenance};
use crate::output;
use crate::parse::whole_sectors;
use crate::progress::Progress;
use crate::text::seconds;
use crate::workload::{Span, requests_line};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace synth oltp:mpl=20 --drive wd2500aaks --for 10m -o oltp.txt
  seekless trace synth random:rate=100/s --over 100GiB --for 1h -o random.fio
  seekless lab run --workloads      the workloads, with their options

A workload that waits for answers needs a drive: then the trace has the times of that drive. The
ending of the file's name selects its format: .txt is text as blkparse prints it; `seekless
trace convert --help` lists the others.";

/// Default size of the volume without a drive, in sectors: 100 GiB.
const OVER: u64 = (100 << 30) / 512;

/// Arguments of `trace synth`.
#[derive(Args)]
pub struct Arguments {
    /// Workload with its options: oltp, oltp:mpl=20,think=10ms, mix:3*oltp+1*seq
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    writing: Writing,
    /// Drive to run it on: a name or a TOML file
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// Size of the clients' volume [default: the whole drive; 100GiB without one]
    #[arg(long, value_name = "SIZE", value_parser = whole_sectors)]
    over: Option<u64>,
    #[command(flatten)]
    span: Span,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(JsonSchema, Serialize)]
pub struct Summary<'a> {
    #[serde(flatten)]
    written: &'a WrittenTrace,
    /// The drive, if there was one.
    drive: Option<&'a str>,
    #[serde(flatten)]
    outcome: &'a LoadOutcome,
}

/// Generates and writes the trace.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let load = workload::parse(&arguments.workload)?;
    arguments.writing.check()?;
    arguments.writing.forgive(synthesise(arguments, &load))
}

fn synthesise(arguments: &Arguments, load: &workload::Load) -> anyhow::Result<()> {
    let Arguments { writing, drive, over, .. } = arguments;
    // First: the work is in vain if the output cannot be written.
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
    let written = writing.finish(writer)?;
    drop(progress);
    if writing.json {
        return output::json(&Summary { written: &written, drive: drive.as_deref(), outcome: &outcome });
    }
    if writing.is_stdout() {
        return Ok(());
    }
    let on = drive.as_ref().map_or("arrivals only, on no drive".to_owned(), |drive| format!("on {drive}"));
    let (workload, requests) = (&arguments.workload, requests_line(&outcome));
    output::print(&format!(
        "{}: {workload}, {on}\n  {requests} in {}\n",
        written.file,
        seconds(outcome.elapsed_s)
    ))
}

/// The first sectors of a drive, without layers.
fn volume(drive: &str, over: Option<u64>) -> anyhow::Result<Description> {
    let component = Component::new(Model::find(drive)?, QueueOptions::default());
    let sectors = over.unwrap_or(component.drive.sectors());
    Ok(Description::bare(component, sectors))
}
