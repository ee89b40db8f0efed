//! `seekless drive`: the drives that are known, and how well they are known.

mod calibrate;
mod calibrated;
mod fit;
mod flash;
mod import;
mod show;
mod validate;
mod words;

use clap::Subcommand;

/// What can be asked about drives.
#[derive(Subcommand)]
pub enum Command {
    /// All of them, a line each
    #[command(after_help = "Example:\n  seekless drive list")]
    List(show::List),
    /// One of them: its figures with their sources, its zones, its seek curve
    #[command(after_help = show::HELP)]
    Show(show::Show),
    /// Make a drive of DiskSim's files
    #[command(after_help = import::HELP)]
    Import(import::Import),
    /// Compare a drive with service times that were measured on the real one
    #[command(after_help = validate::HELP)]
    Validate(validate::Validate),
    /// Improve a drive by service times that were measured on the real one
    #[command(after_help = fit::HELP)]
    Fit(fit::Fit),
    /// Find out what a disk is like, by timed reads
    #[command(after_help = calibrate::HELP)]
    Calibrate(calibrate::Calibrate),
}

/// Does what `command` says.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(list) => show::list(&list),
        Command::Show(show) => show::show(&show),
        Command::Import(import) => import::run(&import),
        Command::Validate(validate) => validate::run(&validate),
        Command::Fit(fit) => fit::run(&fit),
        Command::Calibrate(calibrate) => calibrate::run(&calibrate),
    }
}
