//! `seekless trace`: reads, characterises, records and converts traces.

use std::path::PathBuf;

use clap::Subcommand;
use seekless_trace::{ReadOptions, Stats, StatsOptions, Trace, TraceError, characterise};

use crate::input::Input;
use crate::progress::Progress;
use crate::shipped;

/// Subcommands of `trace`.
#[derive(Subcommand)]
pub enum Command {
    /// Show the format and content of trace files
    #[command(after_help = crate::info::HELP)]
    Info(crate::info::Arguments),
    /// Characterise a workload: reuse, working sets, partial determinism
    #[command(after_help = crate::stats::HELP)]
    Stats(crate::stats::Arguments),
    /// Draw a page of pictures: requests over time, heat map, reuse; two traces side by side
    #[command(after_help = crate::report::HELP)]
    Report(crate::report::Arguments),
    /// Record the requests to a block device of this machine
    #[command(after_help = crate::record::HELP)]
    Record(crate::record::Arguments),
    /// Convert a trace to another format
    #[command(after_help = crate::convert::HELP)]
    Convert(crate::convert::Arguments),
    /// Generate a trace: a workload, recorded on a simulated drive
    #[command(after_help = crate::synth::HELP)]
    Synth(crate::synth::Arguments),
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(arguments) => crate::info::run(&arguments),
        Command::Record(arguments) => crate::record::run(&arguments),
        Command::Synth(arguments) => crate::synth::run(&arguments),
        Command::Convert(arguments) => crate::convert::run(&arguments),
        Command::Report(arguments) => crate::report::run(&arguments),
        Command::Stats(arguments) => crate::stats::run(&arguments),
    }
}

/// Reads a recording, with detected formats.
pub fn load(files: &[PathBuf]) -> anyhow::Result<Trace> {
    let _progress = Progress::spinner("reading the trace");
    seekless_trace::load(&shipped::traces(files)?, &ReadOptions::default())
        .map_err(|error| convert_first(error).into())
}

/// The same error of a command that has no options that describe a trace.
pub fn convert_first(mut error: TraceError) -> TraceError {
    if let TraceError::Unknown { otherwise, .. } = &mut error {
        *otherwise = "what trace convert FILE --columns SPEC --to blkparse -o NEW makes of it";
    }
    error
}

/// Reads a recording as the options of a command tell.
pub fn load_as(input: &Input) -> anyhow::Result<Trace> {
    let _progress = Progress::spinner("reading the trace");
    Ok(seekless_trace::load(&input.found()?, &input.reading.options(false))?)
}

/// The statistics of a trace.
pub fn characterised(trace: &Trace, options: &StatsOptions) -> Stats {
    let _progress = Progress::spinner("characterising the workload");
    characterise(&trace.records, &trace.names, &trace.volumes, options)
}
