//! `seekless volume status`: queries a running server over its control socket; and the server's end of that.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use seekless_core::device::unknown_command;
use seekless_core::{Class, Hints, Layer, SECTOR_BYTES, Size, runtime};
use seekless_layers::registry::Entry;
use seekless_serve::reactor::Reactor;
use seekless_serve::server::{ControlReply, Server};
use seekless_volume::description::Description;
use seekless_volume::tree::Tree;
use serde::{Deserialize, Serialize};

use super::component::Live;
use super::serve::{Serving, at, bytes_of, is_read_only};
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

/// A request to the control socket.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// The server's status.
    Status,
    /// A command to a layer; the reply comes when it is done.
    Tell {
        /// Name in the volume file.
        layer: String,
        /// One of its commands.
        command: String,
    },
}

/// Status of a server.
#[derive(Serialize, Deserialize)]
struct Status {
    file: String,
    process: u32,
    io: String,
    up_s: f64,
    clients: usize,
    clients_so_far: u32,
    requests: u64,
    failed: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// Turns of its reactor: system calls.
    turns: u64,
    /// Each has the index by which `seekless:place` names it.
    components: Vec<String>,
    exports: Vec<Served>,
    layers: Vec<LayerStatus>,
}

/// An export.
#[derive(Serialize, Deserialize)]
struct Served {
    name: String,
    nbd: String,
    bytes: u64,
    read_only: bool,
    made_of: String,
}

/// A layer.
#[derive(Serialize, Deserialize)]
struct LayerStatus {
    name: String,
    is: String,
    counters: BTreeMap<String, u64>,
}

/// Path of the control socket of a volume file's server.
pub fn socket(volume: &Path, told: Option<&Path>) -> PathBuf {
    told.map_or_else(|| volume.with_extension("control"), |told| at(volume, told))
}

/// The server's end of the control socket.
pub struct Told {
    reactor: Rc<Reactor>,
    process: u32,
    server: Rc<Server>,
    file: String,
    components: Vec<String>,
    exports: Vec<Served>,
    trees: Rc<BTreeMap<String, Tree>>,
    /// Kind of each layer.
    kinds: BTreeMap<String, &'static Entry>,
}

impl Told {
    /// For this server.
    pub fn new(
        serving: &Serving<'_>,
        description: &Description<Live>,
        server: &Rc<Server>,
        trees: &Rc<BTreeMap<String, Tree>>,
    ) -> Told {
        let exports = description.exports.iter().map(|export| Served {
            name: export.name.clone(),
            nbd: export.nbd.clone().unwrap_or_default(),
            bytes: bytes_of(
                description,
                &export.top,
                trees[&export.top].top.geometry().sectors * SECTOR_BYTES,
            ),
            read_only: is_read_only(description, export),
            made_of: description.line_of(&export.top),
        });
        Told {
            reactor: serving.reactor.clone(),
            process: serving.process,
            server: server.clone(),
            file: description.file.clone(),
            components: description.components.keys().cloned().collect(),
            exports: exports.collect(),
            trees: trees.clone(),
            kinds: description.layers.iter().map(|(name, layer)| (name.clone(), layer.entry)).collect(),
        }
    }

    /// The reply to a line.
    pub fn answer(&self, line: &str) -> ControlReply {
        let answer = match serde_json::from_str(line) {
            Ok(Question::Status) => serde_json::json!({ "status": self.status() }),
            Ok(Question::Tell { layer, command }) => match self.layer(&layer, &command) {
                Ok(told) => return tell(told, command),
                Err(why) => serde_json::json!({ "error": why }),
            },
            Err(error) => {
                let expected = r#""status" or {"tell": {"layer": "...", "command": "..."}}"#;
                serde_json::json!({ "error": format!("found {line}: {error}; expected {expected}") })
            }
        };
        Box::pin(std::future::ready(answer.to_string()))
    }

    /// The layer of this name, if it has the command: one of its own, since only the server takes the volume apart.
    fn layer(&self, name: &str, command: &str) -> Result<Rc<dyn Layer>, String> {
        let layer = self.trees.values().find_map(|tree| tree.layers.get(name)).zip(self.kinds.get(name));
        let Some((layer, kind)) = layer else {
            let known: Vec<&str> = self.kinds.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none: there is none".to_owned() } else { known.join(" or ") };
            return Err(format!("found the layer '{name}', expected {known}"));
        };
        if !kind.commands.contains(&command) {
            return Err(unknown_command(kind.name, command, kind.commands).to_string());
        }
        Ok(layer.clone())
    }

    fn status(&self) -> Status {
        let (served, (clients, clients_so_far)) = (self.server.served(), self.server.clients());
        let layers = self.trees.values().flat_map(|tree| &tree.layers).map(|(name, layer)| LayerStatus {
            name: name.clone(),
            is: self.kinds.get(name).map_or("", |kind| kind.name).to_owned(),
            counters: layer.counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        });
        Status {
            file: self.file.clone(),
            process: self.process,
            io: self.reactor.kind().to_string(),
            up_s: runtime::now().seconds(),
            clients,
            clients_so_far,
            requests: served.requests,
            failed: served.failed,
            read_bytes: served.read_bytes,
            written_bytes: served.written_bytes,
            turns: self.reactor.turns(),
            components: self.components.clone(),
            exports: self.exports.iter().map(Served::copy).collect(),
            layers: layers.collect(),
        }
    }
}

/// The reply when the command is done.
fn tell(layer: Rc<dyn Layer>, command: String) -> ControlReply {
    Box::pin(async move {
        let how = Hints { class: Class::Background, ..Hints::default() };
        let done = match layer.command(&command, how).await {
            Ok(()) => serde_json::json!({ "done": command }),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        done.to_string()
    })
}

impl Served {
    fn copy(&self) -> Served {
        let (name, nbd, made_of) = (self.name.clone(), self.nbd.clone(), self.made_of.clone());
        Served { name, nbd, made_of, ..*self }
    }
}

/// Queries the server, and prints the reply.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answer = asked(&arguments.volume, &Question::Status, Some(Duration::from_secs(10)))?;
    let answer = answer.get("status").cloned().unwrap_or_default();
    if arguments.json {
        return output::json(&answer);
    }
    let status: Status = serde_json::from_value(answer).context("an answer of another version")?;
    output::print(&status.text())
}

/// Sends a request to the server of a volume file, and waits for the reply, up to a limit if given.
pub fn asked(
    volume: &Path,
    question: &Question,
    patience: Option<Duration>,
) -> anyhow::Result<serde_json::Value> {
    let text = std::fs::read_to_string(volume).with_context(|| volume.display().to_string())?;
    // Only the socket's path: the file may describe devices that are not here, or have changed since.
    let keys: toml::Table = toml::from_str(&text).with_context(|| volume.display().to_string())?;
    let told = keys.get("control").and_then(toml::Value::as_str).map(Path::new);
    let place = socket(volume, told);
    let answer = ask(&place, question, patience).with_context(|| {
        format!("{}: nobody answers: is the volume served? (seekless volume serve)", place.display())
    })?;
    match answer.get("error") {
        Some(error) => anyhow::bail!("{}: {}", volume.display(), error.as_str().unwrap_or_default()),
        None => Ok(answer),
    }
}

fn ask(place: &Path, question: &Question, patience: Option<Duration>) -> anyhow::Result<serde_json::Value> {
    let mut socket = UnixStream::connect(place)?;
    socket.set_read_timeout(patience)?;
    socket.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

impl Status {
    fn text(&self) -> String {
        let mut table = Table::new(&["", ""]);
        let bytes = |bytes: u64| Size(bytes).to_string();
        table.row(["volume", &format!("{} (process {}, {})", self.file, self.process, self.io)]);
        table.row(["up", &format!("{:.0} s", self.up_s)]);
        table.row(["clients", &format!("{} now, {} so far", self.clients, self.clients_so_far)]);
        table.row(["requests", &format!("{}, {} of them failed", self.requests, self.failed)]);
        table.row(["read", &bytes(self.read_bytes)]);
        table.row(["written", &bytes(self.written_bytes)]);
        for (number, component) in self.components.iter().enumerate() {
            table.row([format!("component {number}"), component.clone()]);
        }
        for export in &self.exports {
            let how = if export.read_only { ", read-only" } else { "" };
            let line = format!("{}{how}, {}, at {}", bytes(export.bytes), export.made_of, export.nbd);
            table.row([format!("export {}", export.name), line]);
        }
        for layer in &self.layers {
            for (counter, count) in &layer.counters {
                table.row([format!("{} {counter}", layer.name), count.to_string()]);
            }
        }
        table.text()
    }
}
