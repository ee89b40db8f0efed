//! The program: parses arguments, prints text and JSON. Results are computed in the libraries.
//!
//! A library with one call, [`main_with`], so that a program of one's own has all commands and a layer of one's own.
//!
//! Exit codes: 0 success, 1 an error (on stderr, one line and its causes), 2 invalid arguments, 3 a finding: what was
//! judged, explored or replayed is wrong.

mod advise;
mod auto;
mod comparison;
mod convert;
mod csv;
mod demo;
mod drive;
mod explore;
mod figure;
mod filling;
mod help;
mod hits;
mod info;
mod input;
mod judge;
mod junit;
mod lab;
mod lists;
mod log;
mod manual;
mod noted;
mod output;
mod parse;
mod printed;
mod progress;
mod record;
mod report;
mod scan;
mod schema;
pub mod scripted;
mod setup;
mod shipped;
mod started;
mod starts;
mod stats;
mod sweep;
mod synth;
mod table;
mod text;
mod top;
mod trace;
mod tune;
mod verdict;
mod volume;
#[cfg(feature = "web")]
mod web;
mod workload;

pub use started::Started;

pub use seekless_core as core;
pub use seekless_layers as layers;

use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};
use seekless_drive::SpecError;
use seekless_lab::LabError;
use seekless_lab::workload::keys::WorkloadError;
use seekless_layers::registry;
use seekless_trace::TraceError;
use seekless_volume::live::Level;

/// Optimises the layout of spinning disks, and predicts the savings
#[derive(Parser)]
#[command(
    version = manual::version(),
    arg_required_else_help = true,
    after_help = "\
Examples:
  seekless demo                              compare on a real trace that ships
  seekless advise data/mail                  whether anything would help
  seekless trace stats data/mail             statistics of that workload
  seekless lab compare --trace data/mail     savings by BORG on it

Sizes and times are read and written with units: 4GiB, 512KiB, 1.5ms, 30s.
Exit codes: 0 success, 1 an error, 2 invalid arguments, 3 a finding (lab judge, lab explore, lab replay)."
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare a disk with BORG and without on a real trace that ships with the project
    Demo(demo::Arguments),
    /// Say whether anything would help a disk, by a recording of it
    #[command(after_help = advise::HELP)]
    Advise(advise::Arguments),
    /// Read, characterise, record and convert traces
    #[command(subcommand, after_help = "Example:\n  seekless trace stats data/mail")]
    Trace(trace::Command),
    /// Show, validate and calibrate drives
    #[command(subcommand, after_help = "Example:\n  seekless drive show wd2500aaks")]
    Drive(drive::Command),
    /// Simulate volumes in virtual time
    #[command(subcommand, after_help = "Example:\n  seekless lab compare --trace data/mail --bopt 512MiB")]
    Lab(lab::Command),
    /// Serve volumes live
    #[command(subcommand, after_help = "Example:\n  seekless volume serve home.toml")]
    Volume(volume::Command),
    /// Show throughput and response times of a running volume
    #[command(after_help = top::HELP)]
    Top(top::Arguments),
    /// Show a running volume live in a browser, on a page that changes nothing
    #[cfg(feature = "web")]
    #[command(after_help = web::HELP)]
    Web(web::Arguments),
    /// Print the schema of a command's JSON, or list them
    #[command(after_help = schema::HELP)]
    Schema(schema::Arguments),
    /// Write the manual pages
    #[command(after_help = manual::MAN_HELP)]
    Man(manual::Man),
    /// Write a shell's completions of commands and options
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(manual::Completions),
}

/// Invalid combinations of arguments that clap does not detect.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What was looked at is wrong, which is a result rather than an error.
#[derive(Debug)]
struct Finding(String);

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Finding {}

/// Activates the bug that `SEEKLESS_MUTANT` names; an empty name is an error that lists all names. `SEEKLESS_HALT_AT`
/// names a place at which to stand still.
#[cfg(feature = "mutants")]
fn let_loose() -> Result<(), String> {
    use seekless_core::mutant;
    if let Ok(place) = std::env::var("SEEKLESS_HALT_AT") {
        mutant::choose_halt(place);
    }
    let Ok(name) = std::env::var("SEEKLESS_MUTANT") else { return Ok(()) };
    let canaries = registry::all()
        .flat_map(|layer| layer.canaries.iter().map(move |canary| format!("{}: {canary}", layer.name)));
    let all: Vec<String> = mutant::ALL.iter().map(|name| (*name).to_owned()).chain(canaries).collect();
    if !all.contains(&name) {
        return Err(format!("found no mutant '{name}', expected one of: {}", all.join("; ")));
    }
    mutant::choose(name)
}

/// Runs the program with its arguments, with these layers beside its own: in volume files, comparisons and
/// explorations, simulated and live. A program of one's own with a layer of one's own is `fn main() -> ExitCode {
/// seekless::main_with(&LAYERS) }`. Returns the exit code.
pub fn main_with(layers: &'static [registry::Entry]) -> ExitCode {
    if let Err(error) = registry::add(layers) {
        output::complain(&format!("error: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::from(run(help::command().try_get_matches()))
}

/// Runs the program as another one started it. Returns the exit code.
pub fn main_from(started: Started) -> u8 {
    let started = started::note(started);
    let name = std::ffi::OsStr::new("seekless");
    let words = std::iter::once(name).chain(started.words.iter().map(AsRef::as_ref));
    run(help::command().try_get_matches_from(words))
}

fn run(matches: Result<ArgMatches, clap::Error>) -> u8 {
    #[cfg(feature = "mutants")]
    if let Err(error) = let_loose() {
        output::complain(&format!("error: SEEKLESS_MUTANT: {error}"));
        return 2;
    }
    let parsed =
        matches.and_then(|matches| Ok((Program::from_arg_matches(&matches)?, lists::check(&matches))));
    let done = match parsed {
        Ok((program, lists)) => lists.and_then(|()| carry_out(program.command)),
        Err(unclear) => {
            // A help text, or what is wrong with the arguments; an error of printing it cannot be reported.
            let _ = unclear.print();
            return unclear.exit_code() as u8;
        }
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            log::log(Level::Error, &format!("error: {}", output::with_causes(&error)));
            // Exit as clap does after its own errors.
            match error {
                error if error.is::<Usage>() || is_of_an_option(&error) => 2,
                error if error.is::<Finding>() => 3,
                _ => 1,
            }
        }
    }
}

/// Whether a library refused the value of an option.
fn is_of_an_option(error: &anyhow::Error) -> bool {
    let setting = |error: &LabError| matches!(error, LabError::Setting { .. } | LabError::Workload(_));
    error.downcast_ref().is_some_and(setting)
        || error.is::<WorkloadError>()
        || matches!(error.downcast_ref(), Some(SpecError::Unknown { .. }))
        || matches!(error.downcast_ref(), Some(TraceError::Setting { .. }))
}

fn carry_out(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Trace(command) => trace::run(command),
        Command::Drive(command) => drive::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Volume(command) => volume::run(command),
        Command::Top(arguments) => top::run(&arguments),
        #[cfg(feature = "web")]
        Command::Web(arguments) => web::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
    }
}
