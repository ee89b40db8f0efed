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

Initialises what the layers of the file keep on disk: the BOPT of borg, the cache of spindown, the members of a mirror \
or an array and its log, flash and disk of proximal, the device of lld. The disk below borg is only read. \
An existing BOPT, a file system, a partition table or any other data is refused, and so is a device whose newest pages \
are in another BOPT. --replace overwrites them: what is on them, or in that BOPT alone, is lost.";

/// Arguments of `volume create`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Overwrite existing metadata and its pages
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
