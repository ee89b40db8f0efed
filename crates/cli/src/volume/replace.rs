//! `seekless volume replace`: puts another file or block device in place of a member of an array that is being served.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use seekless_volume::live::{Question, Replace, Replaced};

use super::Exchanged;
use super::attach::path_for_server;
use super::status::query;
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume replace home.toml d2 /dev/disk/by-id/new
  seekless volume replace home.toml d2 d2-new.img --no-rebuild
  seekless volume tell home.toml raid4 rebuild

For a member that failed, or before it does: clients stay connected, the array goes on without it, the volume file names \
the new device, and that is rebuilt from the others, beside the clients. The new device has the size of the old one, or a \
slice of it has. Contents are refused, unless --replace gives them up. If this is interrupted, the server goes on; after a \
restart of the server, 'tell LAYER rebuild' continues. 'seekless volume status --watch' shows how far it got.";

/// Arguments of `volume replace`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Component to replace, as the volume file names it
    #[arg(value_name = "COMPONENT")]
    component: String,
    /// File or block device that takes its place
    #[arg(value_name = "FILE")]
    file: String,
    /// Overwrite what the new device holds
    #[arg(long)]
    replace: bool,
    /// Do not rebuild the new device yet
    #[arg(long)]
    no_rebuild: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Replaces the component, and waits until it is rebuilt.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { volume, component, .. } = arguments;
    let file = path_for_server(volume, &arguments.file)?;
    let request = Replace { component: component.clone(), file, replace: arguments.replace };
    let answer = query(volume, &Question::Replace(request), None)?;
    let replaced = answer.get("replaced").cloned().unwrap_or_default();
    let replaced: Replaced = serde_json::from_value(replaced).context("an answer of another version")?;
    let layer = replaced.layer.clone();
    let rebuilt = !arguments.no_rebuild;
    if rebuilt {
        let tell = Question::Tell { layer: layer.clone(), command: "rebuild".to_owned() };
        let why =
            || format!("{component} is replaced, but not rebuilt; seekless volume tell ... {layer} rebuild");
        query(volume, &tell, None).with_context(why)?;
    }
    if arguments.json {
        return output::json(&Exchanged { replaced, rebuilt });
    }
    let then = if rebuilt { "rebuilt" } else { "not rebuilt yet" };
    output::print(&format!("{component}: replaced, {then}\n"))
}
