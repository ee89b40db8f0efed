//! `seekless volume status`: asks a server for its status over its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use seekless_core::Size;
use seekless_volume::live::{Question, Status, control_path};

use crate::output;
use crate::table::Table;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume status home.toml
  seekless volume status home.toml --json | jq .layers

The server's control socket is home.control next to home.toml, or as set by control = \"...\".";

/// Arguments of `volume status`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Asks for the status, and prints it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answer = query(&arguments.volume, &Question::Status, Some(Duration::from_secs(10)))?;
    let answer = answer.get("status").cloned().unwrap_or_default();
    if arguments.json {
        return output::json(&answer);
    }
    let status: Status = serde_json::from_value(answer).context("an answer of another version")?;
    output::print(&text(&status))
}

/// Sends a question to the server of a volume file, and waits for the answer, up to `timeout`.
pub fn query(
    volume: &Path,
    question: &Question,
    timeout: Option<Duration>,
) -> anyhow::Result<serde_json::Value> {
    let text = std::fs::read_to_string(volume).with_context(|| volume.display().to_string())?;
    // Only where to ask: the file may describe more than is here, or have changed since.
    let keys: toml::Table = toml::from_str(&text).with_context(|| volume.display().to_string())?;
    let configured = keys.get("control").and_then(toml::Value::as_str).map(Path::new);
    let place = control_path(volume, configured);
    let answer = ask(&place, question, timeout).with_context(|| {
        format!("{}: no answer: is the volume served? (seekless volume serve)", place.display())
    })?;
    match answer.get("error") {
        Some(error) => anyhow::bail!("{}: {}", volume.display(), error.as_str().unwrap_or_default()),
        None => Ok(answer),
    }
}

fn ask(place: &Path, question: &Question, timeout: Option<Duration>) -> anyhow::Result<serde_json::Value> {
    let mut socket = UnixStream::connect(place)?;
    socket.set_read_timeout(timeout)?;
    socket.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Status as text.
fn text(status: &Status) -> String {
    let mut table = Table::new(&["", ""]);
    let bytes = |bytes: u64| Size(bytes).to_string();
    table.row(["volume", &format!("{} (process {}, {})", status.file, status.process, status.io)]);
    table.row(["up", &format!("{:.0} s", status.up_s)]);
    table.row(["clients", &format!("{} now, {} so far", status.clients, status.clients_so_far)]);
    table.row(["requests", &format!("{}, {} of them failed", status.requests, status.failed)]);
    table.row(["read", &bytes(status.read_bytes)]);
    table.row(["written", &bytes(status.written_bytes)]);
    for (number, component) in status.components.iter().enumerate() {
        table.row([format!("component {number}"), component.clone()]);
    }
    for export in &status.exports {
        let how = if export.read_only { ", read-only" } else { "" };
        let line = format!("{}{how}, {}, at {}", bytes(export.bytes), export.made_of, export.nbd);
        table.row([format!("export {}", export.name), line]);
    }
    for layer in &status.layers {
        for (counter, count) in &layer.counters {
            table.row([format!("{} {counter}", layer.name), count.to_string()]);
        }
    }
    table.text()
}
