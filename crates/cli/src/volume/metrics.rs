//! `seekless volume metrics`: prints a server's metrics in the text format of Prometheus.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use seekless_volume::live::Question;

use super::status::query;
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume metrics home.toml
  seekless volume metrics home.toml | grep _layer_

With metrics = \"tcp:127.0.0.1:9464\" at the top of the volume file, the server answers \
http://127.0.0.1:9464/metrics with the same text.";

/// Arguments of `volume metrics`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served, or its control socket
    #[arg(value_name = "VOLUME.toml|SOCKET")]
    volume: PathBuf,
}

/// Prints the metrics.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answer = query(&arguments.volume, &Question::Metrics, Some(Duration::from_secs(10)))?;
    let text = answer.get("metrics").and_then(serde_json::Value::as_str);
    output::print(text.context("an answer of another version")?)
}
