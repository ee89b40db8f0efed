//! `seekless volume detach`: takes a layer out of a volume that is being served.

use std::path::PathBuf;

use clap::Args;
use seekless_volume::live::Question;

use super::Done;
use super::status::query;
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume detach home.toml borg
  seekless volume status home.toml --watch

Writes everything that only the layer holds to the device below it, while clients go on; they are held back for the last \
part. Then the volume file is changed: the layer is gone from it, and so are its devices. The device below can be used \
without this program from then on, once the server has stopped. If this is interrupted, the server goes on; after a crash of \
the server the layer is still there, with its data, or it is gone.";

/// Arguments of `volume detach`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the layer in that file
    #[arg(value_name = "LAYER")]
    layer: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Detaches the layer, and waits until it is gone.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answer = query(&arguments.volume, &Question::Detach { layer: arguments.layer.clone() }, None)?;
    if arguments.json { output::json_as::<Done>(&answer) } else { Ok(()) }
}
