//! `seekless volume snapshot` and `clone`: snapshots and clones of a volume that is being served, over its control
//! socket.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use seekless_core::Size;
use seekless_layers::proximal;
use seekless_volume::live::{OnSnapshot, Question, SnapshotStatus};

use super::Done;
use super::status::query;
use crate::output::{self, Form};
use crate::table::Table;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume snapshot create home.toml monday
  seekless volume snapshot list home.toml
  nbdcopy 'nbd+unix:///home@monday?socket=/run/home.sock' monday.img
  seekless volume snapshot delete home.toml monday

A snapshot is taken at once, and copies nothing: blocks that are written later go elsewhere. Each is an export of its own, \
NAME@SNAPSHOT, to be read; what can be written is a clone, which 'seekless volume clone' takes. A layer proximal has up to 64 \
snapshots and clones. They take their space from its reserve, and when that \
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

Clones are listed too. Unique are blocks that nothing else sees: they are free when the snapshot is deleted. Pages that are still staged in flash \
are not counted.";

/// Examples of `delete`.
const DELETE: &str = "\
Examples:
  seekless volume snapshot delete home.toml monday

Clients that use it get errors from then on. Pages of it that are still staged are destaged first. A clone is deleted in the \
same way. A snapshot with clones is no longer an export; its space comes back with the last of them.";

/// Examples of `clone`.
pub const CLONE: &str = "\
Examples:
  seekless volume clone home.toml now experiment
  seekless volume clone home.toml monday monday-repaired
  seekless volume snapshot delete home.toml experiment

A clone is a writable copy of a snapshot, or with 'now' of what the volume holds. It is taken at once, and copies nothing: it \
shares blocks until they are written. Each is an export of its own, NAME@CLONE, which 'snapshot list' shows and 'snapshot \
delete' deletes. Its blocks are taken from the reserve of a layer proximal, and when that is used up, writes fail. A clone of \
the present state counts as two of the 64 snapshots and clones. A clone cannot be cloned.";

/// Subcommands of `volume snapshot`.
#[derive(Subcommand)]
pub enum Command {
    /// Take a snapshot
    #[command(after_help = CREATE)]
    Create(Named),
    /// Delete a snapshot or clone, and free what only it sees
    #[command(after_help = DELETE)]
    Delete(Named),
    /// List the snapshots and clones, and their space
    #[command(after_help = LIST)]
    List(Arguments),
}

/// The layer with snapshots.
#[derive(Args)]
pub struct Of {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Name of the layer in that file [default: the only one that has snapshots]
    #[arg(long, value_name = "LAYER")]
    layer: Option<String>,
}

/// Arguments of `volume snapshot list`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    form: Form,
}

/// Arguments of `volume snapshot create` and `delete`.
#[derive(Args)]
pub struct Named {
    #[command(flatten)]
    of: Of,
    /// Name of the snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `volume clone`.
#[derive(Args)]
pub struct Copied {
    #[command(flatten)]
    of: Of,
    /// Name of the snapshot to be cloned, or 'now' for what the volume holds
    #[arg(value_name = "FROM")]
    from: String,
    /// Name of the clone
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create(Named { of, name, json }) => change(of, json, OnSnapshot::Create(name)),
        Command::Delete(Named { of, name, json }) => change(of, json, OnSnapshot::Delete(name)),
        Command::List(arguments) => list(arguments),
    }
}

/// Takes a clone.
pub fn clone(Copied { of, from, name, json }: Copied) -> anyhow::Result<()> {
    let from = Some(from).filter(|from| from != proximal::NOW);
    change(of, json, OnSnapshot::Clone { name, from })
}

fn change(Of { volume, layer }: Of, json: bool, what: OnSnapshot) -> anyhow::Result<()> {
    let answer = query(&volume, &Question::Snapshot { layer, what }, None)?;
    if json { output::json_as::<Done>(&answer) } else { Ok(()) }
}

fn list(Arguments { of: Of { volume, layer }, form }: Arguments) -> anyhow::Result<()> {
    let mut answer = query(&volume, &Question::Snapshot { layer, what: OnSnapshot::List }, None)?;
    let all = answer.get_mut("snapshots").map(serde_json::Value::take).unwrap_or_default();
    if !form.is_text() {
        return form.print_list_as::<SnapshotStatus>(&all);
    }
    let all: Vec<SnapshotStatus> = serde_json::from_value(all).context("an answer of another version")?;
    let mut table = Table::new(&["snapshot", "kind", ">size", ">unique", ">shared"]);
    for SnapshotStatus { name, clone, bytes, unique_bytes, shared_bytes, .. } in all {
        table.row([
            name,
            if clone { "clone" } else { "snapshot" }.to_owned(),
            Size(bytes).to_string(),
            Size(unique_bytes).to_string(),
            Size(shared_bytes).to_string(),
        ]);
    }
    output::print(&table.text())
}
