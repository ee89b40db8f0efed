//! `seekless schema`: JSON Schemas of what the commands print with `--json`, made from the types that they print.
//!
//! Invariant: every object that is printed implements [`Printed`], and so is in the list, with a file in docs/schemas,
//! which a test compares.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use seekless_core::names::perhaps;
use seekless_lab::figure::printed::PrintedFigure;
use seekless_lab::sweep::Task;
use seekless_lab::{advise, check, hits, load, outcome, sweep};
use seekless_volume::live::{EventLine, SnapshotStatus, Status, tools};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::printed::{Printed, id};
use crate::table::Table;
use crate::{demo, drive, explore, figure, info, output, report, scan, starts, synth, top, volume, workload};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless schema
  seekless schema lab-compare > lab-compare.schema.json

Each object that a command prints with --json names its schema. The book's page
for scripts: docs/book/scripts.md.";

/// Arguments of `schema`.
#[derive(Args)]
pub struct Arguments {
    /// Name of the schema, or what an object has under "schema" [default: list all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Write all schemas into this folder, each as NAME.json
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["name", "json"])]
    folder: Option<PathBuf>,
    /// Print one JSON object instead of text, which is what a schema always is
    #[arg(long)]
    json: bool,
}

/// A schema in the list.
struct Known {
    name: &'static str,
    /// The command that prints such objects.
    command: &'static str,
    make: fn() -> Schema,
}

macro_rules! printed {
    ($($name:literal, $command:literal: $type:ty;)*) => {
        $(impl Printed for $type {
            const NAME: &'static str = $name;
        })*
        const ALL: &[Known] = &[$(Known { name: $name, command: $command, make: schema_of::<$type> }),*];
    };
}

printed! {
    "advise", "advise": advise::Advice;
    "demo", "demo": demo::Output<'_>;
    "drive-calibrate", "drive calibrate": drive::calibrate::Calibrated<'_>;
    "drive-check", "drive check": drive::check::Checked;
    "drive-fit", "drive fit": drive::fit::Output;
    "drive-import", "drive import": drive::import::Summary<'_>;
    "drive-list", "drive list (each)": drive::show::Listed;
    "drive-show", "drive show": drive::show::Shown<'_>;
    "drive-show-flash", "drive show, of a flash drive": drive::flash::Shown<'_>;
    "drive-validate", "drive validate": drive::validate::Validated;
    "lab-compare", "lab compare": outcome::Comparison;
    "lab-explore", "lab explore": explore::Output;
    "lab-explore-script", "lab explore --script": explore::Replayed<'_>;
    "lab-figure", "lab figure NAME": PrintedFigure<'_>;
    "lab-figures", "lab figure (each)": figure::Known;
    "lab-hits", "lab hits (each)": hits::Hits;
    "lab-judge", "lab judge": check::Judged;
    "lab-replay", "lab replay": volume::replay::Outcome;
    "lab-run", "lab run --trace": outcome::Variant;
    "lab-run-workload", "lab run --workload": load::LoadOutcome;
    "lab-scan", "lab scan": scan::Output;
    "lab-starts", "lab starts": starts::Output;
    "lab-sweep", "lab sweep": sweep::Report;
    "lab-sweep-shard", "lab sweep --shard": crate::sweep::Done;
    "lab-sweep-task", "lab sweep --list (each)": Task;
    "lab-tune", "lab tune": seekless_lab::tune::Tuned;
    "lab-workloads", "lab run --workloads (each)": workload::Known;
    "schemas", "schema (each)": Listed;
    "top", "top": top::Sample;
    "trace-convert", "trace convert": crate::convert::Summary<'_>;
    "trace-formats", "trace info --formats": info::Formats;
    "trace-info", "trace info": info::Info<'_>;
    "trace-record", "trace record": seekless_record::Summary;
    "trace-report", "trace report": report::Output<'_>;
    "trace-stats", "trace stats": seekless_trace::stats::Stats;
    "trace-stats-by-volume", "trace stats --by volume": seekless_trace::stats::fleet::Fleet;
    "trace-stats-shard", "trace stats --outline, --partial": crate::stats::shards::Written;
    "trace-synth", "trace synth": synth::Summary<'_>;
    "volume-check", "volume check (each)": tools::Checked;
    "volume-damage", "volume damage": volume::tools::Damaged<'_>;
    "volume-damage-kind", "volume damage --list (each)": volume::tools::DamageKind;
    "volume-done", "volume attach, clone, detach, snapshot create, delete": volume::Done;
    "volume-dump", "volume dump": volume::tools::Dumped;
    "volume-event", "volume events (each)": EventLine;
    "volume-repair", "volume repair": volume::tools::RepairedPages<'_>;
    "volume-replace", "volume replace": volume::Exchanged;
    "volume-rescue", "volume rescue (each)": tools::Rescued;
    "volume-resize", "volume resize": volume::Grown;
    "volume-restore", "volume restore": volume::tools::Restored<'_>;
    "volume-snapshots", "volume snapshot list (each)": SnapshotStatus;
    "volume-status", "volume status": Status;
}

/// A schema in the JSON list.
#[derive(JsonSchema, Serialize)]
pub struct Listed {
    name: &'static str,
    /// The command that prints such objects.
    command: String,
    /// What each of them has under `schema`.
    id: String,
}

/// The schema of a type, with the key that names it.
fn schema_of<T: Printed>() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let object = schema.ensure_object();
    let id = id(T::NAME);
    object.insert("$id".to_owned(), json!(id));
    object.insert("title".to_owned(), json!(T::NAME));
    if let Value::Object(keys) = object.entry("properties").or_insert_with(|| Value::Object(Map::new())) {
        keys.insert("schema".to_owned(), json!({ "const": id }));
    }
    if let Value::Array(required) = object.entry("required").or_insert_with(|| json!([])) {
        required.insert(0, json!("schema"));
    }
    schema
}

/// The schemas of what a command such as `lab compare` prints.
pub fn of_command(command: &str) -> impl Iterator<Item = Value> {
    ALL.iter()
        .filter(move |known| words_of(known.command).eq(command.split(' ')))
        .map(|known| (known.make)().into())
}

/// The words of a command in the list, without its options and what else is said of it.
fn words_of(command: &str) -> impl Iterator<Item = &str> {
    let end = command.find([',', '(']).unwrap_or(command.len());
    command[..end]
        .split_whitespace()
        .take_while(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// Prints a schema, or lists them.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(folder) = &arguments.folder {
        let write = |known: &Known| output::file(&folder.join(format!("{}.json", known.name)), &text(known)?);
        return ALL.iter().try_for_each(write);
    }
    let Some(name) = &arguments.name else { return list(arguments.json) };
    let known = ALL.iter().find(|known| known.name == name || id(known.name) == *name);
    let known = known.with_context(|| {
        let perhaps = perhaps(name, ALL.iter().map(|known| known.name));
        format!("found no schema '{name}', expected one of `seekless schema`{perhaps}")
    })?;
    output::print(&text(known)?)
}

fn text(known: &Known) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&(known.make)())? + "\n")
}

fn list(json: bool) -> anyhow::Result<()> {
    let listed = |known: &Known| Listed {
        name: known.name,
        command: format!("seekless {}", known.command),
        id: id(known.name),
    };
    if json {
        return output::json_list(&ALL.iter().map(listed).collect::<Vec<_>>());
    }
    let mut table = Table::new(&["schema", "printed by"]);
    for known in ALL {
        table.row([known.name, known.command]);
    }
    output::print(&table.text())
}
