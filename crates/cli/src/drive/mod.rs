//! `seekless drive`: known drives, and their accuracy.

pub mod calibrate;
mod calibrated;
pub mod check;
pub mod fit;
pub mod flash;
pub mod import;
pub mod show;
pub mod validate;
mod words;

use clap::Subcommand;

/// Subcommands of `drive`.
#[derive(Subcommand)]
pub enum Command {
    /// List the known drives, one a line
    #[command(after_help = "Example:\n  seekless drive list")]
    List(show::List),
    /// Show a drive: its figures with their sources, zones and seek curve
    #[command(after_help = show::HELP)]
    Show(show::Show),
    /// Convert DiskSim's files to a drive
    #[command(after_help = import::HELP)]
    Import(import::Import),
    /// Compare a drive with service times measured on the real one
    #[command(after_help = validate::HELP)]
    Validate(validate::Validate),
    /// Compare drives with figures that were measured on real ones and published
    #[command(after_help = check::HELP)]
    Check(check::Check),
    /// Fit a drive to service times measured on the real one
    #[command(after_help = fit::HELP)]
    Fit(fit::Fit),
    /// Measure a disk by timed reads
    #[command(after_help = calibrate::HELP)]
    Calibrate(calibrate::Calibrate),
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(list) => show::list(&list),
        Command::Show(show) => show::show(&show),
        Command::Import(import) => import::run(&import),
        Command::Validate(validate) => validate::run(&validate),
        Command::Check(check) => check::run(&check),
        Command::Fit(fit) => fit::run(&fit),
        Command::Calibrate(calibrate) => calibrate::run(&calibrate),
    }
}
