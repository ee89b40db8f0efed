//! `seekless volume snapshot`: snapshots of a volume that is being served, over its control socket.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use seekless_core::Size;
use seekless_volume::live::{OnSnapshot, Question, SnapshotStatus};

use super::Done;
use super::status::query;
use crate::output;
use crate::table::Table;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume snapshot create home.toml monday
  seekless volume snapshot list home.toml
  nbdcopy 'nbd+unix:///home@monday?socket=/run/home.sock' monday.img
  seekless volume snapshot delete home.toml monday

A snapshot is taken at once, and copies nothing: blocks that are written later go elsewhere. Each is an export of its own, \
NAME@SNAPSHOT, to be read. A layer proximal has up to 64 snapshots. They take their space from its reserve, and when that \
is used up, writes fail until one is deleted.";

/// Examples of `create`.
const CREATE: &str = "\
Examples:
  seekless volume snapshot create home.toml monday
  seekless volume snapshot create home.toml before-upgrade --json

Writes that were answered are in the snapshot; it is durable when this ends. A name has 1 to 40 letters, digits, '.', '_' \
and '-'.";

/// Examples of `list`.
const LIST: &str = "\
Examples:
  seekless volume snapshot list home.toml
  seekless volume snapshot list home.toml --json | jq '.[].unique_bytes'

Unique are blocks that nothing else sees: they are free when the snapshot is deleted. Pages that are still staged in flash \
are not counted.";

/// Examples of `delete`.
const DELETE: &str = "\
Examples:
  seekless volume snapshot delete home.toml monday

Clients that read it get errors from then on. Pages of it that are still staged are destaged first.";

/// Subcommands of `volume snapshot`.
#[derive(Subcommand)]
pub enum Command {
    /// Take a snapshot
    #[command(after_help = CREATE)]
    Create(Named),
    /// Delete a snapshot, and free what only it sees
    #[command(after_help = DELETE)]
    Delete(Named),
    /// List the snapshots and their space
    #[command(after_help = LIST)]
    List(Arguments),
}

/// Arguments of `volume snapshot list`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the layer in that file [default: the only one that has snapshots]
    #[arg(long, value_name = "LAYER")]
    layer: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `volume snapshot create` and `delete`.
#[derive(Args)]
pub struct Named {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// Name of the layer in that file [default: the only one that has snapshots]
    #[arg(long, value_name = "LAYER")]
    layer: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create(named) => change(named, OnSnapshot::Create),
        Command::Delete(named) => change(named, OnSnapshot::Delete),
        Command::List(arguments) => list(arguments),
    }
}

fn change(named: Named, what: fn(String) -> OnSnapshot) -> anyhow::Result<()> {
    let Named { volume, name, layer, json } = named;
    let answer = query(&volume, &Question::Snapshot { layer, what: what(name) }, None)?;
    if json { output::json_as::<Done>(&answer) } else { Ok(()) }
}

fn list(Arguments { volume, layer, json }: Arguments) -> anyhow::Result<()> {
    let mut answer = query(&volume, &Question::Snapshot { layer, what: OnSnapshot::List }, None)?;
    let all = answer.get_mut("snapshots").map(serde_json::Value::take).unwrap_or_default();
    if json {
        return output::json_list_as::<SnapshotStatus>(&all);
    }
    let all: Vec<SnapshotStatus> = serde_json::from_value(all).context("an answer of another version")?;
    let mut table = Table::new(&["snapshot", ">size", ">unique", ">shared"]);
    for SnapshotStatus { name, bytes, unique_bytes, shared_bytes, .. } in all {
        table.row([
            name,
            Size(bytes).to_string(),
            Size(unique_bytes).to_string(),
            Size(shared_bytes).to_string(),
        ]);
    }
    output::print(&table.text())
}
