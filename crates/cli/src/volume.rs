//! `seekless volume`: volumes that programs use, live.

mod component;
mod ground;
pub mod inputs;
mod serve;
mod status;

use clap::Subcommand;

/// What can be done with a volume.
#[derive(Subcommand)]
pub enum Command {
    /// Serves the exports of a volume file, until it is told to stop (SIGTERM, Ctrl-C)
    #[command(after_help = serve::HELP)]
    Serve(serve::Arguments),
    /// What a server of a volume file does, asked of it
    #[command(after_help = status::HELP)]
    Status(status::Arguments),
}

/// Runs a command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
    }
}
