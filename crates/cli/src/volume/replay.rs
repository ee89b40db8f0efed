//! `seekless lab replay`: replays the recorded inputs of a server.

use std::path::{Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use seekless_volume::live::inputs::{Replayed, replay};
use serde::Serialize;

use crate::table::Table;
use crate::text::count;
use crate::{Finding, output};

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume serve home.toml --log-inputs home.inputs
  seekless lab replay home.inputs
  seekless lab replay home.inputs --json | jq .departed

The same program submits the same jobs in the same order. Otherwise the first difference is printed.";

/// What is replayed.
#[derive(Args)]
pub struct Arguments {
    /// What volume serve --log-inputs wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Outcome {
    turns: u64,
    jobs: u64,
    jobs_of_components: u64,
    virtual_s: f64,
    digest: String,
    /// Whether the file holds the run to its end.
    complete: bool,
    departed: Option<String>,
}

/// Replays a file, and reports whether the run did the same.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (volume, found) = replay(&arguments.file)?;
    let departed = found.diverged.clone();
    output::print(&text(&found, &volume, arguments.json)?)?;
    match departed {
        Some(where_to) => {
            Err(Finding(format!("{}: it departed: {where_to}", arguments.file.display())).into())
        }
        None => Ok(()),
    }
}

fn text(found: &Replayed, volume: &Path, json: bool) -> anyhow::Result<String> {
    let digest = format!("{:016x}", found.digest);
    let complete = found.ended.is_some();
    if json {
        let outcome = Outcome {
            turns: found.turns,
            jobs: found.jobs,
            jobs_of_components: found.component_jobs,
            virtual_s: found.time.seconds(),
            digest,
            complete,
            departed: found.diverged.clone(),
        };
        return output::json_text(&outcome);
    }
    let mut table = Table::new(&["", ">"]);
    table.row(["volume", &volume.display().to_string()]);
    table.row(["turns".to_owned(), count(found.turns)]);
    table.row(["jobs, the same".to_owned(), count(found.jobs)]);
    table.row(["of them of components".to_owned(), count(found.component_jobs)]);
    table.row(["virtual time".to_owned(), format!("{:.3} s", found.time.seconds())]);
    table.row(["digest", &digest]);
    let end =
        if complete { "of the run, with the same events" } else { "of the file: it is cut short there" };
    table.row(["to the end", if found.diverged.is_some() { "no" } else { end }]);
    Ok(table.text())
}
