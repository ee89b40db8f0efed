//! `seekless trace`: what a trace is, and what its workload is like.

use std::path::PathBuf;

use clap::Subcommand;
use seekless_trace::{ReadOptions, Stats, StatsOptions, Trace, characterise};

use crate::progress::Progress;

/// What can be asked of a trace.
#[derive(Subcommand)]
pub enum Command {
    /// What the files are, and what is in them
    #[command(after_help = crate::info::HELP)]
    Info(crate::info::Arguments),
    /// What the workload is like: reuse, working sets, partial determinism
    #[command(after_help = crate::stats::HELP)]
    Stats(crate::stats::Arguments),
    /// A page of pictures: where requests go over time, heat map, reuse; two traces side by side
    #[command(after_help = crate::report::HELP)]
    Report(crate::report::Arguments),
    /// Record what a block device of this machine is asked for
    #[command(after_help = crate::record::HELP)]
    Record(crate::record::Arguments),
    /// Write a trace in another format
    #[command(after_help = crate::convert::HELP)]
    Convert(crate::convert::Arguments),
    /// Make up a trace: a workload, recorded on a simulated drive
    #[command(after_help = crate::synth::HELP)]
    Synth(crate::synth::Arguments),
}

/// Does what `command` says.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(asked) => crate::info::run(&asked),
        Command::Record(asked) => crate::record::run(&asked),
        Command::Synth(asked) => crate::synth::run(&asked),
        Command::Convert(asked) => crate::convert::run(&asked),
        Command::Report(asked) => crate::report::run(&asked),
        Command::Stats(asked) => crate::stats::run(&asked),
    }
}

/// Reads a recording as its content says.
pub fn load(files: &[PathBuf]) -> anyhow::Result<Trace> {
    let _progress = Progress::spinner("reading the trace");
    Ok(seekless_trace::load(files, &ReadOptions::default())?)
}

/// What the workload of `trace` is like.
pub fn characterised(trace: &Trace, options: &StatsOptions) -> Stats {
    let _progress = Progress::spinner("characterising the workload");
    characterise(&trace.records, &trace.names, &trace.volumes, options)
}
