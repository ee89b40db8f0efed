//! `seekless volume tell`: has a layer of a volume that is served do something, over its control socket.

use std::path::PathBuf;

use clap::Args;

use seekless_volume::live::Question;

use super::status::asked;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume tell home.toml scrub scrub
  seekless volume tell home.toml borg reconfigure
  seekless volume tell home.toml borg verify

It ends when that is done; what was begun goes on if this is interrupted. What a layer can be told is on its page; \
what came of it, seekless volume status tells.";

/// Who is told what.
#[derive(Args)]
pub struct Arguments {
    /// The volume file that is served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// The layer's name in that file
    #[arg(value_name = "LAYER")]
    layer: String,
    /// What it is to do
    #[arg(value_name = "COMMAND")]
    command: String,
}

/// Tells it, and waits until that is done.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (layer, command) = (arguments.layer.clone(), arguments.command.clone());
    asked(&arguments.volume, &Question::Tell { layer, command }, None).map(drop)
}
