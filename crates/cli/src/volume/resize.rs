//! `seekless volume resize`: has a running volume take on the size of files and block devices that grew.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use seekless_core::Size;
use seekless_volume::live::{Question, Resized};

use super::Grown;
use super::status::query;
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  truncate -s 2G disk.img; seekless volume resize home.toml
  lvextend -L +100G vg/home; seekless volume resize home.toml disk

Clients that connect from then on see the new size; those that are connected may use it as soon as they know it. Layers \
that keep the size of the devices below them refuse: detach such a layer, resize, and attach it again. Shrinking is refused: \
copy the data to a smaller volume.";

/// Arguments of `volume resize`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Component that grew [default: all are looked at]
    #[arg(value_name = "COMPONENT")]
    component: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Asks the server to look, and prints what grew.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let question = Question::Resize { component: arguments.component.clone() };
    let answer = query(&arguments.volume, &question, Some(Duration::from_secs(60)))?;
    if arguments.json {
        return output::json_as::<Grown>(&answer);
    }
    let resized = answer.get("resized").cloned().unwrap_or_default();
    let resized: Vec<Resized> = serde_json::from_value(resized).context("an answer of another version")?;
    let line = |Resized { component, bytes_before, bytes }: &Resized| {
        format!("{component}: {} before, {} now\n", Size(*bytes_before), Size(*bytes))
    };
    let lines: String = resized.iter().map(line).collect();
    output::print(if lines.is_empty() { "nothing has grown\n" } else { &lines })
}
