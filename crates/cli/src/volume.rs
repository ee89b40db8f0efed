//! `seekless volume`: volumes that programs use, live.

mod component;
mod create;
mod ground;
pub mod inputs;
mod known;
mod pairs;
mod serve;
mod status;
mod tell;
mod upgrade;

use clap::Subcommand;

/// What can be done with a volume.
#[derive(Subcommand)]
pub enum Command {
    /// Makes what the layers of a volume file keep on files and devices that nobody needs
    #[command(after_help = create::HELP)]
    Create(create::Arguments),
    /// Serves the exports of a volume file, until it is told to stop (SIGTERM, Ctrl-C)
    #[command(after_help = serve::HELP)]
    Serve(serve::Arguments),
    /// What a server of a volume file does, asked of it
    #[command(after_help = status::HELP)]
    Status(status::Arguments),
    /// Has a layer of a volume that is served do something: scrub, reconfigure itself
    #[command(after_help = tell::HELP, visible_alias = "ctl")]
    Tell(tell::Arguments),
    /// Gives what the layers of a volume file keep the newest format
    #[command(after_help = upgrade::HELP)]
    Upgrade(upgrade::Arguments),
}

/// Runs a command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create(arguments) => create::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Tell(arguments) => tell::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
    }
}
