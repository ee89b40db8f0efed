//! The control socket of a server: questions, answers, and the server's end of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use seekless_core::device::unknown_command;
use seekless_core::{Class, Hints, Layer, SECTOR_BYTES, runtime};
use seekless_layers::registry::Entry;
use seekless_serve::reactor::Reactor;
use seekless_serve::server::{ControlReply, Server};
use serde::{Deserialize, Serialize};

use super::build::{bytes_of, is_read_only};
use super::component::Live;
use super::server::{Serving, relative_path};
use crate::description::Description;
use crate::tree::Tree;

/// A question to a server, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Its status.
    Status,
    /// Send a command to a layer; the answer comes when the command has ended.
    Tell {
        /// Name of the layer in the volume file.
        layer: String,
        /// One of its commands.
        command: String,
    },
}

/// Status of a server.
#[derive(Serialize, Deserialize)]
pub struct Status {
    /// The volume file.
    pub file: String,
    /// Process number.
    pub process: u32,
    /// How it waits for files and sockets.
    pub io: String,
    /// Seconds since it started.
    pub up_s: f64,
    /// Clients connected now.
    pub clients: usize,
    /// Clients since it started.
    pub clients_so_far: u32,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error.
    pub failed: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
    /// System calls of the reactor.
    pub turns: u64,
    /// Their indices are the numbers that `seekless:place` shows.
    pub components: Vec<String>,
    /// Its exports.
    pub exports: Vec<ServedExport>,
    /// Its layers.
    pub layers: Vec<LayerStatus>,
}

/// An export.
#[derive(Serialize, Deserialize)]
pub struct ServedExport {
    /// Name.
    pub name: String,
    /// Address.
    pub nbd: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether clients cannot write.
    pub read_only: bool,
    /// Its devices in a line.
    pub made_of: String,
}

/// A layer.
#[derive(Serialize, Deserialize)]
pub struct LayerStatus {
    /// Name in the volume file.
    pub name: String,
    /// Kind of layer.
    pub is: String,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// Control socket of a volume file's server; `control` is the file's key.
pub fn control_path(volume: &Path, control: Option<&Path>) -> PathBuf {
    control.map_or_else(|| volume.with_extension("control"), |control| relative_path(volume, control))
}

/// The server's end of the control socket.
pub(super) struct Answerer {
    reactor: Rc<Reactor>,
    process: u32,
    server: Rc<Server>,
    file: String,
    components: Vec<String>,
    exports: Vec<ServedExport>,
    trees: Rc<BTreeMap<String, Tree>>,
    /// Registry entry of each layer.
    kinds: BTreeMap<String, &'static Entry>,
}

impl Answerer {
    /// Answers for this server.
    pub fn new(
        serving: &Serving<'_>,
        description: &Description<Live>,
        server: &Rc<Server>,
        trees: &Rc<BTreeMap<String, Tree>>,
    ) -> Answerer {
        let exports = description.exports.iter().map(|export| ServedExport {
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
        Answerer {
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

    /// Answers a line.
    pub fn answer(&self, line: &str) -> ControlReply {
        let answer = match serde_json::from_str(line) {
            Ok(Question::Status) => serde_json::json!({ "status": self.status() }),
            Ok(Question::Tell { layer, command }) => match self.layer(&layer, &command) {
                Ok(layer) => return command_layer(layer, command),
                Err(why) => serde_json::json!({ "error": why }),
            },
            Err(error) => {
                let expected = r#""status" or {"tell": {"layer": "...", "command": "..."}}"#;
                serde_json::json!({ "error": format!("found {line}: {error}; expected {expected}") })
            }
        };
        Box::pin(std::future::ready(answer.to_string()))
    }

    /// The layer of this name, if it has the command.
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
            exports: self.exports.iter().map(ServedExport::copy).collect(),
            layers: layers.collect(),
        }
    }
}

/// Answers when the command has ended.
fn command_layer(layer: Rc<dyn Layer>, command: String) -> ControlReply {
    Box::pin(async move {
        let how = Hints { class: Class::Background, ..Hints::default() };
        let done = match layer.command(&command, how).await {
            Ok(()) => serde_json::json!({ "done": command }),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        done.to_string()
    })
}

impl ServedExport {
    fn copy(&self) -> ServedExport {
        let (name, nbd, made_of) = (self.name.clone(), self.nbd.clone(), self.made_of.clone());
        ServedExport { name, nbd, made_of, ..*self }
    }
}
