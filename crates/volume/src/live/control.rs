//! The control socket of a server: questions and answers, as JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seekless_core::{Class, Nanos};
use seekless_drive::QueuedDevice;
use seekless_drive::queue::QueueCounts;
use serde::{Deserialize, Serialize};

use super::attaching::Attach;
use super::doing::Doing;
use super::history::{PastStatus, SpanStatus};
use super::models::ModelStatus;
use super::replacing::Replace;
use super::server::relative_path;
use super::stats::{AccessStats, IoStats};

/// A question to a server, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Its status.
    Status,
    /// Its status as metrics, in the text format of Prometheus.
    Metrics,
    /// Send a command to a layer; the answer comes when the command has ended.
    Tell {
        /// Name of the layer in the volume file.
        layer: String,
        /// One of its commands.
        command: String,
    },
    /// Attach a layer; the answer comes when it is in use.
    Attach(Attach),
    /// Detach a layer; the answer comes when it is no longer in use.
    Detach {
        /// Name of the layer in the volume file.
        layer: String,
    },
    /// Replace a component below an array; the answer comes when the new one is in use, and not yet rebuilt.
    Replace(Replace),
    /// Take, list or delete snapshots and clones; the answer comes when that is durable.
    Snapshot {
        /// Name of the layer in the volume file; by default the only one that has snapshots.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        layer: Option<String>,
        /// What to do.
        #[serde(rename = "do")]
        what: OnSnapshot,
    },
    /// Take on the size of components that grew; the answer lists them.
    Resize {
        /// Name of the component in the volume file; by default all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        component: Option<String>,
    },
    /// Events from now on, a line each, until the server stops or anything more is sent.
    Subscribe,
}

/// What to do with snapshots and clones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OnSnapshot {
    /// Take one of this name.
    Create(String),
    /// Take a clone.
    Clone {
        /// Its name.
        name: String,
        /// Name of a snapshot; by default the present state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// Delete the one of this name.
    Delete(String),
    /// List them.
    List,
}

/// A snapshot or clone.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct SnapshotStatus {
    /// Name.
    pub name: String,
    /// Name of its layer in the volume file.
    pub layer: String,
    /// Whether it is a clone: it can be written.
    #[serde(default)]
    pub clone: bool,
    /// Bytes that it sees on the data device.
    pub bytes: u64,
    /// Those of them that nothing else sees: they are free when it is deleted.
    pub unique_bytes: u64,
    /// The others.
    pub shared_bytes: u64,
}

/// The questions, in words.
const QUESTIONS: &str = r#""status", "metrics", "subscribe", {"tell": {"layer": "...", "command": "..."}}, {"attach": {...}}, {"detach": {"layer": "..."}}, {"replace": {...}}, {"resize": {}} or {"snapshot": {"do": "list"}}"#;
/// Letters of a bad question that its refusal repeats.
const REPEATED: usize = 120;

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn parse(line: &str) -> Result<Question, String> {
        serde_json::from_str(line).map_err(|error| {
            let found: String = line.chars().take(REPEATED).collect();
            let rest = if found.len() < line.len() { "..." } else { "" };
            format!("found {found}{rest}: {error}; expected {QUESTIONS}")
        })
    }
}

/// Status of a server.
#[derive(JsonSchema, Serialize, Deserialize)]
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
    /// The components and slices that were measured, by name.
    pub devices: Vec<DeviceStatus>,
    /// Its exports.
    pub exports: Vec<ServedExport>,
    /// Its layers.
    pub layers: Vec<LayerStatus>,
    /// What it is doing besides serving.
    pub doing: Vec<Doing>,
}

/// An export.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct ServedExport {
    /// Name.
    pub name: String,
    /// Address for NBD clients; empty without one.
    pub nbd: String,
    /// Socket for a virtual machine, if any.
    #[serde(default)]
    pub vhost: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether clients cannot write.
    pub read_only: bool,
    /// Its devices in a line.
    pub made_of: String,
    /// Requests of its clients, until their replies are queued for the socket; those of snapshots are not counted.
    pub stats: Option<IoStats>,
    /// Reads and writes of its clients by address, except those of snapshots.
    pub accesses: Option<AccessStats>,
}

/// A component or slice.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Name in the volume file.
    pub name: String,
    /// Requests to it, of layers and of clients.
    pub stats: IoStats,
    /// The queue in front of it, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
    /// What layers take it for, if it is a component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelStatus>,
}

/// The queue in front of a component.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Commands in the device.
    pub in_device: u32,
    /// Requests by class.
    pub classes: BTreeMap<String, QueuedStatus>,
}

/// Requests of a class in a queue.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct QueuedStatus {
    /// Waiting now.
    pub waiting: u64,
    /// Issued to the device so far, by the class that they had then.
    pub issued: u64,
    /// Sum of the times that these waited, in milliseconds.
    pub waited_ms: f64,
    /// The longest of them, in milliseconds.
    pub longest_ms: f64,
}

impl QueueStatus {
    /// That of a queue.
    pub fn of(queue: &QueuedDevice) -> QueueStatus {
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        let classes = Class::ALL.iter().zip(queue.counts()).map(|(class, counts)| {
            let QueueCounts { waiting, issued, waited, longest } = counts;
            let status = QueuedStatus { waiting, issued, waited_ms: ms(waited), longest_ms: ms(longest) };
            (format!("{class:?}").to_lowercase(), status)
        });
        QueueStatus { in_device: queue.in_device(), classes: classes.collect() }
    }
}

/// Use of a layer's own copies.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct HitStatus {
    /// Pages or reads that the copies could have served.
    pub lookups: u64,
    /// Those that they did serve.
    pub hit: u64,
}

/// A layer.
#[derive(JsonSchema, Serialize, Deserialize)]
pub struct LayerStatus {
    /// Name in the volume file.
    pub name: String,
    /// Kind of layer.
    pub is: String,
    /// Bytes whose only current version it holds.
    pub dirty_bytes: u64,
    /// Use of its own copies, if it has any.
    pub hits: Option<HitStatus>,
    /// Bytes that its background work read and wrote, if it counts them.
    pub background_bytes: Option<u64>,
    /// Requests to it, and those below it on their behalf.
    pub stats: Option<IoStats>,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// Why a part of it is turned off or out of service, if it is.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Its latest reconfigurations since it was opened, the oldest first, if it keeps them.
    #[serde(default)]
    pub history: Vec<PastStatus>,
    /// Its hits and gain of the last hour, day and week, if it keeps them.
    #[serde(default)]
    pub recent: Vec<SpanStatus>,
}

/// Control socket of a volume file's server; `control` is the file's key: a path, or `unix:` and a path, as the other
/// addresses of the file are.
pub fn control_path(volume: &Path, control: Option<&Path>) -> PathBuf {
    let Some(control) = control else { return volume.with_extension("control") };
    let plain = control.to_str().and_then(|text| text.strip_prefix("unix:")).filter(|path| !path.is_empty());
    relative_path(volume, plain.map_or(control, Path::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_socket_is_a_path_or_an_address() {
        for (control, expected) in [
            (None, "/v/home.control"),
            (Some("x.sock"), "/v/x.sock"),
            (Some("unix:x.sock"), "/v/x.sock"),
            (Some("/run/x.sock"), "/run/x.sock"),
            (Some("unix:/run/x.sock"), "/run/x.sock"),
        ] {
            let found = control_path(Path::new("/v/home.toml"), control.map(Path::new));
            assert_eq!(found, Path::new(expected), "{control:?}");
        }
    }
}
