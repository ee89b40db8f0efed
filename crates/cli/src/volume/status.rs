//! `seekless volume status`: asks a server for its status over its control socket.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use seekless_core::Size;
use seekless_volume::live::{
    Doing, IoStats, KindStats, Question, QueueStatus, QueuedStatus, Status, control_path,
};

use crate::output::{self, Form};
use crate::table::Table;
use crate::text::{count, counted};

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume status home.toml
  seekless volume status home.toml --watch
  seekless volume status home.toml --json | jq .layers

The server's control socket is home.control next to home.toml, or as set by control = \"...\".";

/// Reconfigurations of a layer that are shown as text.
const SHOWN: usize = 5;

/// Arguments of `volume status`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served, or its control socket
    #[arg(value_name = "VOLUME.toml|SOCKET")]
    volume: PathBuf,
    #[command(flatten)]
    form: Form,
    /// Print a line every second: requests, dirty data, what is going on and how long it will take
    #[arg(long)]
    watch: bool,
    /// Stop after this many lines
    #[arg(long, value_name = "N", requires = "watch")]
    lines: Option<u64>,
}

/// Asks for the status, and prints it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.watch {
        return watch(arguments);
    }
    let answer = status(&arguments.volume)?;
    if !arguments.form.is_text() {
        return arguments.form.print_as::<Status>(&answer, "layers");
    }
    output::print(&text(&parsed(answer)?))
}

/// The status as the server sends it.
pub fn status(volume: &Path) -> anyhow::Result<serde_json::Value> {
    let answer = query(volume, &Question::Status, Some(Duration::from_secs(10)))?;
    Ok(answer.get("status").cloned().unwrap_or_default())
}

/// The status in an answer.
pub fn parsed(answer: serde_json::Value) -> anyhow::Result<Status> {
    serde_json::from_value(answer).context("an answer of another version")
}

/// Prints a line every second, until the server is gone.
fn watch(arguments: &Arguments) -> anyhow::Result<()> {
    let mut before = parsed(status(&arguments.volume)?)?;
    for number in 1.. {
        // The program waits here, not a volume.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(Duration::from_secs(1));
        let answer = status(&arguments.volume)?;
        let now = parsed(answer.clone())?;
        if arguments.form.is_text() {
            output::print(&(line(&before, &now) + "\n"))?;
        } else {
            arguments.form.print_as::<Status>(&answer, "layers")?;
        }
        before = now;
        if arguments.lines == Some(number) {
            break;
        }
    }
    Ok(())
}

/// What happened since the last line, and what is going on.
fn line(before: &Status, now: &Status) -> String {
    let passed = (now.up_s - before.up_s).max(f64::MIN_POSITIVE);
    let rate = |of: fn(&Status) -> u64| (of(now).saturating_sub(of(before)) as f64 / passed).round() as u64;
    let mut parts = vec![format!(
        "{:.0} s: {} requests/s, {}/s read, {}/s written",
        now.up_s,
        count(rate(|status| status.requests)),
        Size(rate(|status| status.read_bytes)),
        Size(rate(|status| status.written_bytes))
    )];
    let dirty = now.layers.iter().filter(|layer| layer.dirty_bytes > 0);
    parts.extend(dirty.map(|layer| format!("{}: {} dirty", layer.name, Size(layer.dirty_bytes))));
    parts.extend(now.doing.iter().map(doing));
    parts.join("; ")
}

/// Something that is going on, in words.
pub fn doing(doing: &Doing) -> String {
    let left = doing.left_s.map_or(String::new(), |left| format!(", about {left:.0} s left"));
    let moved = doing.moved_pages.zip(doing.of_pages).map(|(moved, of)| format!("{moved} of {of} pages"));
    let parts: Vec<String> = doing.stage.iter().cloned().chain(moved).collect();
    let stage = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{} {}{stage} for {:.0} s{left}", doing.what, doing.layer, doing.for_s)
}

/// Sends a question to the server of a volume file, and waits for the answer, up to `timeout`.
pub fn query(
    volume: &Path,
    question: &Question,
    timeout: Option<Duration>,
) -> anyhow::Result<serde_json::Value> {
    let line = connect(volume, question, timeout)?.next().context("the server ended without an answer")?;
    let line = line.map_err(|error| match (error.kind(), timeout) {
        (std::io::ErrorKind::WouldBlock, Some(timeout)) => {
            let (volume, waited) = (volume.display(), timeout.as_secs());
            anyhow::anyhow!("{volume}: found no answer within {waited} s, expected one: the server may hang")
        }
        _ => anyhow::Error::from(error).context(volume.display().to_string()),
    })?;
    let answer: serde_json::Value = serde_json::from_str(&line)?;
    match answer.get("error") {
        Some(error) => {
            let (volume, error) = (volume.display().to_string(), error.as_str().unwrap_or_default());
            let error = error.strip_prefix(&volume).map_or(error, |rest| rest.trim_start_matches(": "));
            anyhow::bail!("{volume}: {error}")
        }
        None => Ok(answer),
    }
}

/// The control socket of a volume file; the path itself if it is a socket.
fn control_socket(volume: &Path) -> anyhow::Result<PathBuf> {
    if std::fs::metadata(volume).is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(volume.to_owned());
    }
    let text = std::fs::read_to_string(volume).with_context(|| volume.display().to_string())?;
    // Only where to ask: the file may describe more than is here, or have changed since.
    let keys: toml::Table = toml::from_str(&text).with_context(|| volume.display().to_string())?;
    let configured = keys.get("control").and_then(toml::Value::as_str).map(Path::new);
    Ok(control_path(volume, configured))
}

/// Sends a question to the server of a volume file; the lines of its answer.
pub fn connect(
    volume: &Path,
    question: &Question,
    timeout: Option<Duration>,
) -> anyhow::Result<Lines<BufReader<UnixStream>>> {
    let place = control_socket(volume)?;
    let ask = || {
        let mut socket = UnixStream::connect(&place)?;
        socket.set_read_timeout(timeout)?;
        socket.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
        anyhow::Ok(BufReader::new(socket).lines())
    };
    ask().with_context(|| {
        format!("{}: no answer: is the volume served? (seekless volume serve)", place.display())
    })
}

/// Response times since the server started.
fn times(table: &mut Table, name: &str, stats: &IoStats) {
    for (op, kind) in stats.kinds().into_iter().filter(|(_, kind)| kind.requests > 0) {
        let KindStats { requests, p50_ms, p99_ms, p999_ms, longest_ms, .. } = kind;
        let line = format!(
            "{}: p50 {p50_ms:.3}, p99 {p99_ms:.3}, p99.9 {p999_ms:.3}, longest {longest_ms:.3} ms",
            counted(*requests, "request")
        );
        table.row([format!("{name} {op}"), line]);
    }
}

/// What waits and waited in the queue in front of a component.
fn waits(table: &mut Table, name: &str, queue: &QueueStatus) {
    let in_device = counted(u64::from(queue.in_device), "command");
    table.row([format!("queue {name}"), format!("{in_device} in the device")]);
    for (class, queued) in queue.classes.iter().filter(|(_, queued)| queued.issued + queued.waiting > 0) {
        let QueuedStatus { waiting, issued, waited_ms, longest_ms } = queued;
        let mean = waited_ms / (*issued).max(1) as f64;
        let issued = counted(*issued, "request");
        let line = format!(
            "{issued}, waited {mean:.3} ms on average, at most {longest_ms:.3} ms; {waiting} waiting"
        );
        table.row([format!("queue {name} {class}"), line]);
    }
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
        let places = [export.nbd.as_str(), export.vhost.as_deref().unwrap_or_default()];
        let places = places.into_iter().filter(|place| !place.is_empty()).collect::<Vec<_>>().join(" and ");
        let line = format!("{}{how}, {}, at {places}", bytes(export.bytes), export.made_of);
        table.row([format!("export {}", export.name), line]);
    }
    for what in &status.doing {
        table.row(["doing", &doing(what)]);
    }
    for export in &status.exports {
        export.stats.iter().for_each(|stats| times(&mut table, &format!("export {}", export.name), stats));
    }
    status.layers.iter().for_each(|layer| {
        layer.stats.iter().for_each(|stats| times(&mut table, &format!("layer {}", layer.name), stats));
    });
    for device in &status.devices {
        times(&mut table, &format!("device {}", device.name), &device.stats);
        device.queue.iter().for_each(|queue| waits(&mut table, &device.name, queue));
        let model = device.model.iter().map(|model| [format!("model {}", device.name), model.to_string()]);
        model.for_each(|row| table.row(row));
    }
    for layer in &status.layers {
        layer.trouble.iter().for_each(|why| table.row([format!("{} trouble", layer.name), why.clone()]));
        table.row([format!("{} dirty", layer.name), bytes(layer.dirty_bytes)]);
        for span in layer.recent.iter().filter(|span| span.pages > 0) {
            table.row([format!("{} last {}", layer.name, span.of), span.line()]);
        }
        for past in layer.history.iter().rev().take(SHOWN) {
            table.row([format!("{} at {:.0} s", layer.name, past.at_s), past.line()]);
        }
        for (counter, count) in &layer.counters {
            table.row([format!("{} {counter}", layer.name), count.to_string()]);
        }
    }
    table.text()
}
