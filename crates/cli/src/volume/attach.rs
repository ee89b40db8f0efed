//! `seekless volume attach`: puts a layer into a volume that is being served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use seekless_layers::registry;
use seekless_volume::edit;
use seekless_volume::live::{Attach, Question};

use super::Done;
use super::status::query;
use crate::output;
use crate::parse::option;
use crate::setup::typed;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume attach home.toml borg --device bopt=/dev/disk/by-id/fast
  seekless volume attach home.toml scrub --option every=168h
  seekless volume attach home.toml fast --is borg --over disk \\
    --device bopt=bopt.img --option write_buffer=0.5

The layer goes between the device and whatever uses it: clients stay connected, and the volume file names the layer before \
it holds any data. Without --over it goes to the top. Devices of a layer must be unused: a file system, a partition table or \
other data is refused, unless --replace gives it up. Only layers that keep the order of the data below them can be \
attached. If this is interrupted, the server goes on; after a crash of the server, the volume file is right as it is.";

/// Arguments of `volume attach`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the new layer
    #[arg(value_name = "LAYER")]
    layer: String,
    /// Kind of layer [default: its name]
    #[arg(long, value_name = "KIND")]
    is: Option<String>,
    /// Device that the layer goes above: a component, a slice or a layer [default: the one that the exports show]
    #[arg(long, value_name = "DEVICE")]
    over: Option<String>,
    /// Device of the layer: bopt=FILE, or a name in the volume file; may be repeated
    #[arg(long = "device", value_name = "KEY=FILE", value_parser = option)]
    devices: Vec<(String, String)>,
    /// Set an option of the layer, as on its page; may be repeated
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(String, String)>,
    /// Overwrite what the layer's devices hold
    #[arg(long)]
    replace: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Attaches the layer, and waits until it is in use.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { volume, layer, is, over, .. } = arguments;
    let text = std::fs::read_to_string(volume).with_context(|| volume.display().to_string())?;
    let known = edit::names(&text).with_context(|| volume.display().to_string())?;
    let mut devices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, device) in &arguments.devices {
        let device = if known.contains(device) { device.clone() } else { path_for_server(volume, device)? };
        devices.entry(key.clone()).or_default().push(device);
    }
    let kind = registry::find(is.as_ref().unwrap_or(layer));
    let value = |value: &str, key: &str| kind.map_or_else(|| value.into(), |kind| typed(kind, key, value));
    let options = arguments.options.iter().map(|(key, text)| (key.clone(), value(text, key)));
    let (layer, is, over) = (layer.clone(), is.clone(), over.clone());
    let attach = Attach { layer, is, over, devices, options: options.collect(), replace: arguments.replace };
    let answer = query(volume, &Question::Attach(attach), None)?;
    if arguments.json { output::json_as::<Done>(&answer) } else { Ok(()) }
}

/// A path as the server finds it: beside the volume file as it is, else from here, whole.
pub fn path_for_server(volume: &Path, path: &str) -> anyhow::Result<String> {
    let beside = volume.parent().map(|folder| folder.join(path));
    if beside.is_some_and(|beside| beside.exists()) {
        return Ok(path.to_owned());
    }
    let whole = std::path::absolute(path).with_context(|| path.to_owned())?;
    whole
        .to_str()
        .map(str::to_owned)
        .with_context(|| format!("{}: expected a path in UTF-8", whole.display()))
}
