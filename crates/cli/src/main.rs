//! The program: arguments in, text and JSON out, nothing else. Results are computed in the libraries.
//!
//! Exit codes: 0 done, 1 an error (on stderr, one line and its causes), 2 arguments that make no sense.

mod comparison;
mod convert;
mod demo;
mod drive;
mod explore;
mod figure;
mod filling;
mod info;
mod input;
mod judge;
mod lab;
mod output;
mod progress;
mod record;
mod report;
mod scan;
mod setup;
mod stats;
mod synth;
mod table;
mod text;
mod trace;
mod volume;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Optimises the layout of spinning disks, and says what that would save
#[derive(Parser)]
#[command(
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  seekless demo                                      the comparison on a real trace that ships
  seekless trace stats data/mail                     what that workload is like
  seekless lab compare --trace data/mail --json      what BORG would save on it

Sizes and times are read and written with units: 4GiB, 512KiB, 1.5ms, 30s."
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The comparison on a real trace that ships
    Demo(demo::Arguments),
    /// What a trace is, and what its workload is like
    #[command(subcommand, after_help = "Example:\n  seekless trace stats data/mail")]
    Trace(trace::Command),
    /// The drives that are known
    #[command(subcommand, after_help = "Example:\n  seekless drive show wd2500aaks")]
    Drive(drive::Command),
    /// A drive with a layer and without, in virtual time
    #[command(subcommand, after_help = "Example:\n  seekless lab compare --trace data/mail --bopt 512MiB")]
    Lab(lab::Command),
    /// A volume that programs use, live
    #[command(subcommand, after_help = "Example:\n  seekless volume serve home.toml")]
    Volume(volume::Command),
}

/// Arguments that clap cannot see to be wrong together.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Lets the bug loose that `SEEKLESS_MUTANT` names; an empty name is refused with all names.
#[cfg(feature = "mutants")]
fn let_loose() -> Result<(), String> {
    use seekless_core::mutant;
    use seekless_layers::registry::LAYERS;
    let Ok(name) = std::env::var("SEEKLESS_MUTANT") else { return Ok(()) };
    let canaries = LAYERS
        .iter()
        .flat_map(|layer| layer.canaries.iter().map(move |canary| format!("{}: {canary}", layer.name)));
    let all: Vec<String> = mutant::ALL.iter().map(|name| (*name).to_owned()).chain(canaries).collect();
    if !all.contains(&name) {
        return Err(format!("found no mutant '{name}', expected one of: {}", all.join("; ")));
    }
    mutant::choose(name)
}

fn main() -> ExitCode {
    #[cfg(feature = "mutants")]
    if let Err(error) = let_loose() {
        output::complain(&format!("error: SEEKLESS_MUTANT: {error}"));
        return ExitCode::from(2);
    }
    let done = match Program::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Trace(command) => trace::run(command),
        Command::Drive(command) => drive::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Volume(command) => volume::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("error: {}", output::with_causes(&error)));
            // As clap leaves after its own.
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
