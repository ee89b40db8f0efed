//! `seekless volume upgrade`: upgrades the metadata of a volume file's layers to the newest format.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Args;
use seekless_serve::reactor::Reactor;
use seekless_volume::description::Description;
use seekless_volume::file;

use super::component::Live;
use super::create::{below, devices};
use super::serve::{components, runtime};
use crate::output;

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
    let (reactor, _) = Reactor::start(None).context("io")?;
    let reactor = Rc::new(reactor);
    runtime(&reactor).run_live(upgrade(&reactor, &description), &*reactor)?
}

async fn upgrade(reactor: &Rc<Reactor>, description: &Description<Live>) -> anyhow::Result<()> {
    let components = components(reactor, description)?;
    let names = below(description, |entry| entry.upgrade.is_some());
    if names.is_empty() {
        bail!(
            "{}: found no layer that keeps something, expected borg or lld below an export",
            description.file
        );
    }
    for name in &names {
        let place = || format!("{}: layer.{name}", description.file);
        let layer = &description.layers[name];
        let Some(upgrade) = layer.entry.upgrade else { continue };
        let below = devices(description, layer, &components).await.with_context(place)?;
        upgrade(below, layer.options.clone()).await.with_context(place)?;
        output::complain(&format!("layer.{name}: of the newest format"));
    }
    Ok(())
}
