//! `seekless volume create`: initialises the metadata of a volume file's layers, on unused files and devices.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Args;
use seekless_core::{BlockDevice, SECTOR_BYTES, Size};
use seekless_layers::Joined;
use seekless_layers::registry::{Below, Entry};
use seekless_serve::reactor::Reactor;
use seekless_volume::description::Description;
use seekless_volume::file;
use seekless_volume::tree::{Bytes, under};

use super::component::Live;
use super::ground::Ground;
use super::pairs;
use super::serve::{components, runtime_of};
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume create home.toml
  seekless volume create home.toml --replace

Initialises an empty BOPT for each layer borg of the file. The device below the layer is only read. \
An existing BOPT, a file system, a partition table or any other data is refused, and so is a device whose newest pages \
are in another BOPT. --replace overwrites them: pages that are in that BOPT alone are lost.";

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

/// Initialises missing metadata.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description: Description<Live> = file::read_of(&arguments.volume)?;
    let (reactor, _) = Reactor::start(None).context("io")?;
    let reactor = Rc::new(reactor);
    // Each BOPT gets an identity of its own.
    let mut seed = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed)).context("/dev/urandom")?;
    runtime_of(&reactor, u64::from_le_bytes(seed))
        .run_live(create(&reactor, &description, arguments), &*reactor)?
}

async fn create(
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let pairs = pairs::of(&arguments.volume, description);
    let components = components(reactor, description)?;
    let names = below(description, |entry| entry.create.is_some());
    if names.is_empty() {
        bail!(
            "{}: found no layer borg below an export, expected one: others make what they keep",
            description.file
        );
    }
    for name in &names {
        let place = || format!("{}: layer.{name}", description.file);
        let layer = &description.layers[name];
        let Some(create) = layer.entry.create else { continue };
        let kept = layer.devices.values().flatten().flat_map(|device| description.leaves(device));
        if kept.into_iter().all(|leaf| description.components.get(&leaf).is_some_and(Live::is_new)) {
            output::complain(&format!("layer.{name}: its BOPT is in memory, and made when it is served"));
            continue;
        }
        if !arguments.replace {
            pairs.may_create(&description.file, name)?;
        }
        let below = devices(description, layer, &components).await.with_context(place)?;
        let sectors: u64 = below.devices.values().map(|device| device.geometry().sectors).sum();
        let identity = create(below, layer.options.clone(), arguments.replace).await.with_context(place)?;
        pairs.set(name, identity, false, Ground::Live);
        output::complain(&format!("layer.{name}: an empty BOPT of {}", Size(sectors * SECTOR_BYTES)));
    }
    Ok(())
}

/// Layers of some kinds below exports: from the bottom up, each once.
pub fn below(description: &Description<Live>, wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for export in &description.exports {
        for name in description.downwards(&export.top).into_iter().rev() {
            if wanted(description.layers[&name].entry) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The devices of a layer.
pub async fn devices(
    description: &Description<Live>,
    layer: &seekless_volume::description::Layer,
    components: &BTreeMap<String, Rc<dyn BlockDevice>>,
) -> anyhow::Result<Below> {
    let over = device(description, &layer.over, components).await?;
    let mut devices = BTreeMap::new();
    for (key, names) in &layer.devices {
        let mut pieces = Vec::new();
        for piece in names {
            pieces.push(device(description, piece, components).await?);
        }
        let whole = Joined::new(pieces).with_context(|| format!("{key}: found no device, expected one"))?;
        devices.insert(key.clone(), Rc::new(whole) as Rc<dyn BlockDevice>);
    }
    Ok(Below { over, devices, create: false, timing_only: false })
}

/// The device of this name.
pub async fn device(
    description: &Description<Live>,
    name: &str,
    components: &BTreeMap<String, Rc<dyn BlockDevice>>,
) -> anyhow::Result<Rc<dyn BlockDevice>> {
    let new = |name: &str| description.components.get(name).is_some_and(Live::is_new);
    Ok(under(description, name, components.clone(), Bytes::Real, &new).await?.top)
}
