//! `seekless volume create`: initialises the metadata of a volume file's layers, on unused files and devices.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use seekless_volume::live::{self, Live};
use seekless_volume::{Description, file};

use super::serve::PROGRAM;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume create home.toml
  seekless volume create home.toml --replace

Makes an empty BOPT for each layer borg of the file. What it lies over is only read, and stays as it is. \
A BOPT that is there, file systems, partition tables and whatever else is no zeroes are refused, and so is what has \
its newest pages in another BOPT, unless --replace gives them up: then pages are lost that are in that BOPT alone.";

/// What is created.
#[derive(Args)]
pub struct Arguments {
    /// The volume
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Gives up what is there
    #[arg(long)]
    replace: bool,
}

/// Creates what is not there.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description: Description<Live> = file::read_of(&arguments.volume)?;
    let mut seed = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed)).context("/dev/urandom")?;
    let (replace, seed) = (arguments.replace, u64::from_le_bytes(seed));
    Ok(live::create(&arguments.volume, &description, replace, seed, PROGRAM)?)
}
