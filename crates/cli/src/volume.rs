//! `seekless volume`: serves volumes live.

mod attach;
mod create;
mod detach;
mod events;
mod metrics;
mod mount;
mod replace;
pub mod replay;
mod resize;
mod serve;
mod snapshot;
pub mod status;
mod tell;
pub mod tools;
mod upgrade;

use clap::Subcommand;
use schemars::JsonSchema;
use seekless_volume::live::{Replaced, Resized};
use serde::Serialize;

/// Subcommands of `volume`.
#[derive(Subcommand)]
pub enum Command {
    /// Attach a layer to a running volume, clients connected
    #[command(after_help = attach::HELP)]
    Attach(attach::Arguments),
    /// Check the layers of a volume that is not being served, without writing anything
    #[command(after_help = tools::CHECK)]
    Check(tools::Check),
    /// Take a writable copy of a running volume or of a snapshot, which shares its blocks
    #[command(after_help = snapshot::CLONE)]
    Clone(snapshot::Copied),
    /// Initialise the metadata of a volume file's layers, on unused files and devices
    #[command(after_help = create::HELP)]
    Create(create::Arguments),
    /// Damage a layer of a volume, for tests and exercises
    #[command(after_help = tools::DAMAGE)]
    Damage(tools::Damage),
    /// Detach a layer from a running volume, clients connected
    #[command(after_help = detach::HELP)]
    Detach(detach::Arguments),
    /// Print the metadata of a layer as JSON
    #[command(after_help = tools::DUMP)]
    Dump(tools::Dump),
    /// Print the events of a running volume, a line of JSON each
    #[command(after_help = events::HELP)]
    Events(events::Arguments),
    /// Print the status of a running volume as metrics for Prometheus
    #[command(after_help = metrics::HELP)]
    Metrics(metrics::Arguments),
    /// Mount the file system of an export, and serve the volume if it is not served yet
    #[command(after_help = mount::HELP)]
    Mount(mount::Arguments),
    /// Write what is readable of a damaged layer to an unused file or device
    #[command(after_help = tools::REPAIR)]
    Repair(tools::Repair),
    /// Replace a member of a running array by another file or block device
    #[command(after_help = replace::HELP)]
    Replace(replace::Arguments),
    /// Write everything that only layers hold to the devices below them, without a server
    #[command(after_help = tools::RESCUE)]
    Rescue(tools::Rescue),
    /// Have a running volume take on the size of components that grew
    #[command(after_help = resize::HELP)]
    Resize(resize::Arguments),
    /// Write the metadata of a layer from what dump printed
    #[command(after_help = tools::RESTORE)]
    Restore(tools::Restore),
    /// Serve the exports of volume files, until SIGTERM or Ctrl-C
    #[command(after_help = serve::HELP)]
    Serve(serve::Arguments),
    /// Take snapshots of a running volume; list and delete these and clones
    #[command(subcommand, after_help = snapshot::HELP)]
    Snapshot(snapshot::Command),
    /// Show the status of a running volume
    #[command(after_help = status::HELP)]
    Status(status::Arguments),
    /// Send a command to a layer of a running volume: scrub, reconfigure
    #[command(after_help = tell::HELP, visible_alias = "ctl")]
    Tell(tell::Arguments),
    /// Unmount what mount mounted, and stop the server that it started
    #[command(after_help = mount::UMOUNT)]
    Umount(mount::Umount),
    /// Upgrade the metadata of a volume file's layers to the newest format
    #[command(after_help = upgrade::HELP)]
    Upgrade(upgrade::Arguments),
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Attach(arguments) => attach::run(&arguments),
        Command::Check(arguments) => tools::check(&arguments),
        Command::Clone(arguments) => snapshot::clone(arguments),
        Command::Create(arguments) => create::run(&arguments),
        Command::Damage(arguments) => tools::damage(&arguments),
        Command::Detach(arguments) => detach::run(&arguments),
        Command::Dump(arguments) => tools::dump(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Repair(arguments) => tools::repair(&arguments),
        Command::Replace(arguments) => replace::run(&arguments),
        Command::Rescue(arguments) => tools::rescue(&arguments),
        Command::Resize(arguments) => resize::run(&arguments),
        Command::Restore(arguments) => tools::restore(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Snapshot(command) => snapshot::run(command),
        Command::Status(arguments) => status::run(&arguments),
        Command::Tell(arguments) => tell::run(&arguments),
        Command::Umount(arguments) => mount::umount(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
    }
}

/// JSON output of a command to a running volume.
#[derive(JsonSchema, Serialize)]
pub struct Done {
    /// The command that ended.
    done: String,
}

/// JSON output of `volume replace`.
#[derive(JsonSchema, Serialize)]
pub struct Exchanged {
    /// The component, and the layer that uses it.
    replaced: Replaced,
    /// Whether it is rebuilt, and in service.
    rebuilt: bool,
}

/// JSON output of `volume resize`.
#[derive(JsonSchema, Serialize)]
pub struct Grown {
    /// The components that grew.
    resized: Vec<Resized>,
}
