//! `seekless top`: what a running volume does now: throughput and response times of exports, layers and devices.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use seekless_core::{Nanos, Size};
use seekless_volume::live::{IoStats, KindStats, ServedExport, Status};
use serde::Serialize;

use crate::output::{self, Form};
use crate::text::counted;
use crate::volume::status::{doing, parsed, status};

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless top home.toml
  seekless top home.toml --interval 5s
  seekless top home.toml --interval 1m --csv > day.csv
  seekless top home.toml --once --json | jq '.rows[] | select(.at == \"export\")'

A row for each kind of request to an export, a layer or a device (a component or slice), with requests and bytes per second, \
percentiles of response times in milliseconds (to an eighth, rounded down), and requests in flight. Response times are those \
of the last interval; a layer's contain those below it. --json prints an object per sample, --csv the rows of each, which \
begin with the time, up_s. The time is read once per turn of the server's event loop: a request \
that needs no device takes 0.";

/// Arguments of `top`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served, or its control socket
    #[arg(value_name = "VOLUME.toml|SOCKET")]
    volume: PathBuf,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// Print one sample and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    form: Form,
}

/// Rates and response times in an interval.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Sample {
    /// The volume file.
    pub file: String,
    /// Seconds since the server started.
    pub up_s: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    pub clients: usize,
    pub rows: Vec<Row>,
    pub layers: Vec<LayerRow>,
    pub heat: Vec<Heat>,
    /// What is going on.
    pub doing: Vec<String>,
}

/// Requests of a kind at a place.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Row {
    /// `export`, `layer` or `device`.
    pub at: &'static str,
    pub name: String,
    pub op: &'static str,
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub failed: u64,
    /// Requests of all kinds in flight.
    pub in_flight: u64,
}

/// A layer's copies, and its background work.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LayerRow {
    pub name: String,
    /// Part of pages or reads that its copies served; null if there was none to serve.
    pub hits: Option<f64>,
    pub dirty_bytes: u64,
    pub background_bytes_per_s: Option<f64>,
}

/// How often parts of an export's address space were accessed in the interval.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Heat {
    /// The export.
    pub name: String,
    /// Bytes of the export.
    pub bytes: u64,
    /// Bytes of a part.
    pub part_bytes: u64,
    /// Reads and writes that touched each part; parts after the last one were not touched since the server started.
    pub accesses: Vec<u64>,
}

/// A time that leaves the server time for other things.
fn interval(text: &str) -> Result<Nanos, String> {
    let interval = seekless_volume::duration(text)?;
    if interval < Nanos::from_millis(100) {
        return Err(format!("found {text}, expected 100ms or more"));
    }
    Ok(interval)
}

/// Prints samples until the server is gone, or one.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let ask = || status(&arguments.volume).and_then(parsed);
    let clears = !arguments.once && arguments.form.is_text() && std::io::stdout().is_terminal();
    let mut before = ask()?;
    let mut is_first = true;
    loop {
        // The program waits here, not a volume.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(Duration::from_nanos(arguments.interval.0));
        let now = ask()?;
        let sample = Sample::between(&before, &now);
        let (begin, end) =
            if clears { ("\x1b[H\x1b[2J", "") } else { ("", if arguments.once { "" } else { "\n" }) };
        let (time, form) = ([("up_s", sample.up_s.to_string())], &arguments.form);
        let text = form.of_sample(&sample, "rows", &time, || format!("{begin}{}{end}", sample.text()))?;
        let header = if is_first || !form.is_csv() { 0 } else { text.find('\n').map_or(0, |at| at + 1) };
        output::print(&text[header..])?;
        is_first = false;
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

impl Sample {
    /// What happened between two states of a server.
    pub fn between(before: &Status, now: &Status) -> Sample {
        // Another server may serve the same file.
        let same = before.process == now.process && before.up_s <= now.up_s;
        let seconds = if same { now.up_s - before.up_s } else { now.up_s }.max(f64::MIN_POSITIVE);
        let mut rows = Vec::new();
        let mut add = |at, name: &str, stats: Option<&IoStats>, earlier: Option<&IoStats>| {
            let Some(stats) = stats else { return };
            let since =
                earlier.filter(|_| same).map_or_else(|| stats.clone(), |earlier| stats.since(earlier));
            let kinds = stats.kinds().into_iter().zip(since.kinds());
            for ((op, all), (_, kind)) in kinds.filter(|((_, all), _)| all.requests > 0) {
                debug_assert!(all.requests >= kind.requests);
                rows.push(Row::of(at, name, op, kind, stats.in_flight, seconds));
            }
        };
        for export in &now.exports {
            let earlier =
                before.exports.iter().find(|other| other.name == export.name && other.nbd == export.nbd);
            add(
                "export",
                &export.name,
                export.stats.as_ref(),
                earlier.and_then(|earlier| earlier.stats.as_ref()),
            );
        }
        for layer in &now.layers {
            let earlier = before.layers.iter().find(|other| other.name == layer.name);
            add(
                "layer",
                &layer.name,
                layer.stats.as_ref(),
                earlier.and_then(|earlier| earlier.stats.as_ref()),
            );
        }
        for device in &now.devices {
            let earlier = before.devices.iter().find(|other| other.name == device.name);
            add("device", &device.name, Some(&device.stats), earlier.map(|earlier| &earlier.stats));
        }
        let layers = now.layers.iter().map(|layer| {
            let earlier = before.layers.iter().find(|other| other.name == layer.name).filter(|_| same);
            let hits = layer.hits.as_ref().and_then(|hits| {
                let earlier = earlier.and_then(|earlier| earlier.hits.as_ref());
                let (lookups, hit) = earlier.map_or((0, 0), |hits| (hits.lookups, hits.hit));
                let lookups = hits.lookups.saturating_sub(lookups);
                (lookups > 0).then(|| hits.hit.saturating_sub(hit) as f64 / lookups as f64)
            });
            let background_bytes_per_s = layer.background_bytes.map(|bytes| {
                let earlier = earlier.and_then(|earlier| earlier.background_bytes);
                bytes.saturating_sub(earlier.unwrap_or(0)) as f64 / seconds
            });
            LayerRow {
                name: layer.name.clone(),
                hits,
                dirty_bytes: layer.dirty_bytes,
                background_bytes_per_s,
            }
        });
        let (file, layers, heat) = (now.file.clone(), layers.collect(), Heat::between(before, now, same));
        let doing = now.doing.iter().map(doing).collect();
        Sample { file, up_s: now.up_s, seconds, clients: now.clients, rows, layers, heat, doing }
    }

    /// As text, at most 80 columns wide.
    fn text(&self) -> String {
        let mut text = String::new();
        let clients = counted(self.clients as u64, "client");
        let file: String = output::plain(&self.file).chars().rev().take(30).collect();
        let file: String = file.chars().rev().collect();
        let _ =
            writeln!(text, "{file}  up {:.0} s, {clients}, in the last {:.1} s:\n", self.up_s, self.seconds);
        let _ = writeln!(
            text,
            "{:<6} {:<13} {:<5} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6}",
            "AT", "NAME", "OP", "PER S", "MiB/S", "P50 ms", "P99 ms", "P999 ms", "QUEUE"
        );
        let mut last = None;
        for row in &self.rows {
            let queue =
                if last == Some((row.at, &row.name)) { String::new() } else { row.in_flight.to_string() };
            last = Some((row.at, &row.name));
            let name: String = output::plain(&row.name).chars().take(13).collect();
            let _ = writeln!(
                text,
                "{:<6} {name:<13} {:<5} {:>9.0} {:>8.1} {:>8} {:>8} {:>8} {queue:>6}",
                row.at,
                row.op,
                row.requests_per_s,
                row.bytes_per_s / f64::from(1 << 20),
                milliseconds(row.p50_ms),
                milliseconds(row.p99_ms),
                milliseconds(row.p999_ms),
            );
        }
        for heat in &self.heat {
            let name: String = output::plain(&heat.name).chars().take(13).collect();
            let _ = writeln!(text, "{:<6} {name:<13} |{}|", "heat", heat.strip(HEAT_COLUMNS));
        }
        text.push('\n');
        for layer in &self.layers {
            let name: String = output::plain(&layer.name).chars().take(16).collect();
            let hits = layer.hits.map(|hits| format!(", {:.1} % hits", hits * 100.0)).unwrap_or_default();
            let background = layer.background_bytes_per_s;
            let background = background.map(|bytes| format!(", background {}/s", Size(bytes as u64)));
            let dirty = Size(layer.dirty_bytes);
            let _ = writeln!(text, "{name}: {dirty} dirty{hits}{}", background.unwrap_or_default());
        }
        for doing in &self.doing {
            let doing: String = output::plain(doing).chars().take(79).collect();
            let _ = writeln!(text, "{doing}");
        }
        text
    }
}

impl Row {
    fn of(
        at: &'static str,
        name: &str,
        op: &'static str,
        kind: &KindStats,
        in_flight: u64,
        seconds: f64,
    ) -> Row {
        let (requests_per_s, bytes_per_s) = (kind.requests as f64 / seconds, kind.bytes as f64 / seconds);
        let KindStats { p50_ms, p99_ms, p999_ms, failed, .. } = *kind;
        let name = name.to_owned();
        Row { at, name, op, requests_per_s, bytes_per_s, p50_ms, p99_ms, p999_ms, failed, in_flight }
    }
}

/// Columns of a strip of accesses by address.
const HEAT_COLUMNS: usize = 56;
/// Levels of a strip, from one access on.
const HEAT_LEVELS: &[u8] = b".:-=+*#@";

impl Heat {
    /// Of all exports between two states of the same server, or else since this one started.
    fn between(before: &Status, now: &Status, same: bool) -> Vec<Heat> {
        let of = |export: &ServedExport| {
            let accesses = export.accesses.as_ref()?;
            let others = before.exports.iter().filter(|_| same);
            let mut earlier = others.filter(|other| other.name == export.name && other.nbd == export.nbd);
            let earlier = earlier.find_map(|other| other.accesses.as_ref());
            Some(Heat {
                name: export.name.clone(),
                bytes: export.bytes,
                part_bytes: accesses.part_bytes,
                accesses: accesses.since(earlier),
            })
        };
        now.exports.iter().filter_map(of).collect()
    }

    /// The address space from left to right in `columns` columns: a blank where nothing was accessed, and else a level
    /// for each equal part of the logarithm of the most accesses that a column has.
    fn strip(&self, columns: usize) -> String {
        let parts = self.bytes.div_ceil(self.part_bytes.max(1)).max(1) as usize;
        let sum = |column: usize| {
            let (first, end) = (column * parts / columns, ((column + 1) * parts).div_ceil(columns));
            self.accesses.iter().take(end).skip(first).sum::<u64>()
        };
        let sums: Vec<u64> = (0..columns).map(sum).collect();
        let most = sums.iter().copied().max().unwrap_or(0) as f64;
        let top = HEAT_LEVELS.len() - 1;
        let level = |sum: u64| {
            let share = if most > 1.0 { (sum as f64).ln() / most.ln() } else { 1.0 };
            char::from(HEAT_LEVELS[(share * top as f64) as usize])
        };
        sums.into_iter().map(|sum| if sum == 0 { ' ' } else { level(sum) }).collect()
    }
}

/// A time in at most eight letters.
fn milliseconds(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.3}"),
        value if value < 1_000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_shows_where_accesses_were_and_how_many() {
        let heat = |bytes: u64, accesses: &[u64]| Heat {
            name: String::new(),
            bytes,
            part_bytes: 4096,
            accesses: accesses.to_vec(),
        };
        // Two parts to a column, and the last ones not accessed.
        assert_eq!(heat(16 * 4096, &[0, 0, 1, 0, 10, 90, 1_000_000]).strip(8), " .-@    ");
        // A part in two columns.
        assert_eq!(heat(2 * 4096, &[0, 1]).strip(4), "  @@");
        assert_eq!(heat(0, &[]).strip(4), "    ");
    }

    #[test]
    fn a_screen_is_at_most_80_columns_wide() {
        let row = |at, name: &str| Row {
            at,
            name: name.repeat(30),
            op: "write",
            requests_per_s: 123_456_789.0,
            bytes_per_s: 1e11,
            p50_ms: 0.001,
            p99_ms: 999.9,
            p999_ms: 1_234_567.0,
            failed: 0,
            in_flight: 1_024,
        };
        let layer = LayerRow {
            name: "l".repeat(40),
            hits: Some(0.999),
            dirty_bytes: u64::MAX,
            background_bytes_per_s: Some(1e12),
        };
        let (file, doing) = ("f".repeat(200), vec!["d".repeat(200)]);
        let rows = vec![row("export", "e"), row("layer", "ü"), row("device", "\x1b[2J")];
        let heat = Heat { name: "h".repeat(40), bytes: 1 << 40, part_bytes: 4 << 30, accesses: vec![9; 256] };
        let sample = Sample {
            file,
            up_s: 1e6,
            seconds: 1.0,
            clients: 999,
            rows,
            layers: vec![layer],
            heat: vec![heat],
            doing,
        };
        let text = sample.text();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("99.9 % hits") && !text.contains('\x1b'));
    }
}
