//! `seekless volume tell`: sends a command to a layer of a running volume, over its control socket.

use std::path::PathBuf;

use clap::Args;

use seekless_volume::live::Question;

use super::status::{parsed, query, status};
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume tell home.toml scrub scrub
  seekless volume tell home.toml borg reconfigure
  seekless volume tell home.toml borg verify
  seekless volume tell home.toml cache size=256MiB

Waits until the command is done; the command goes on if this is interrupted. A layer's page lists its commands; \
seekless volume status shows the results.";

/// Arguments of `volume tell`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the layer in that file
    #[arg(value_name = "LAYER")]
    layer: String,
    /// Command, as on the layer's page, with its value if it takes one
    #[arg(value_name = "COMMAND")]
    command: String,
}

/// Sends the command, and waits until it is done; prints what a reconfiguration decided.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (layer, command) = (arguments.layer.clone(), arguments.command.clone());
    query(&arguments.volume, &Question::Tell { layer, command }, None)?;
    if arguments.command != "reconfigure" {
        return Ok(());
    }
    let status = parsed(status(&arguments.volume)?)?;
    let layer = status.layers.iter().find(|layer| layer.name == arguments.layer);
    match layer.and_then(|layer| layer.history.last()) {
        Some(last) => output::print(&(last.line() + "\n")),
        None => Ok(()),
    }
}
