//! `seekless volume events`: prints the events of a running volume.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use seekless_volume::live::{EventLine, Question};

use super::status::connect;
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume events home.toml
  seekless volume events home.toml | jq .event.ended.error

Prints a line of JSON for each command that begins and ends, until the server stops. The book describes them, under \
\"Control socket\".";

/// Arguments of `volume events`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Stop after this many lines
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
}

/// Prints events until the server stops.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for line in
        connect(&arguments.volume, &Question::Subscribe, None)?.take(arguments.lines.unwrap_or(usize::MAX))
    {
        let line = line?;
        let event = serde_json::from_str(&line).with_context(|| format!("found '{line}', expected JSON"))?;
        output::json_as::<EventLine>(&event)?;
    }
    Ok(())
}
