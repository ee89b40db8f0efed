//! The relay between nbdfuse, which does not reconnect, and the volume's server: a server of ours, of that server's
//! export. It waits for the volume's server when that is gone, and sends it again what was not flushed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::Value;

use super::serve;
use crate::output;

/// How long requests wait for the volume's server.
const WAITS: &str = "1d";
/// Memory for writes that are not flushed yet.
const KEEPS: &str = "64MiB";

/// Its volume file, in the folder of a mount.
pub fn volume(place: &Path) -> PathBuf {
    place.join("relay.toml")
}

/// Starts one in this folder for the export at `uri`; the URI of its own export.
pub fn start(place: &Path, uri: &str) -> anyhow::Result<String> {
    let socket = place.join("relay.sock");
    let far = Value::String(uri.to_owned());
    let near = Value::String(format!("unix:{}", socket.display()));
    let text = format!(
        "# Between nbdfuse and the server of the volume.\n\
         [component.disk]\nnbd = {far}\nreconnect = \"{WAITS}\"\nresend = \"{KEEPS}\"\n\n\
         [[export]]\ntop = \"disk\"\nnbd = {near}\n"
    );
    let volume = volume(place);
    output::file(&volume, &text)?;
    serve(&volume).context("the relay below nbdfuse")?;
    Ok(format!("nbd+unix:///disk?socket={}", socket.display()))
}
