//! `seekless volume upgrade`: upgrades the metadata of a volume file's layers to the newest format.

use std::path::PathBuf;

use clap::Args;
use seekless_volume::live::{self, Live};
use seekless_volume::{Description, file};

use super::serve::PROGRAM;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume upgrade home.toml

What the layers borg and lld of the file keep is made what new volumes have: metadata in which a sector that has rotted \
is told from one that was being written. No data moves; power may go at any time. Stop the volume before. Programs of \
before do not open it any more. A mapper of before is refused: copy its data to a new one.";

/// What is upgraded.
#[derive(Args)]
pub struct Arguments {
    /// The volume
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
}

/// Upgrades what can be.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description: Description<Live> = file::read_of(&arguments.volume)?;
    Ok(live::upgrade(&description, PROGRAM)?)
}
