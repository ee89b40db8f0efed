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

Upgrades the metadata of the layers borg and lld to the format of new volumes, which distinguishes a rotten sector \
from one that was being written. No data moves; power may fail at any time. Stop the volume before. Older programs do \
not open the volume any more. A mapper of an older format is refused: copy its data to a new one.";

/// Arguments of `volume upgrade`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
}

/// Upgrades what is possible.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description: Description<Live> = file::read_of(&arguments.volume)?;
    Ok(live::upgrade(&description, PROGRAM)?)
}
