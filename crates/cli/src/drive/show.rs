//! `seekless drive list` and `show`: known drives and their figures.

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use seekless_core::{Nanos, SECTOR_BYTES};
use seekless_drive::disk::Drive;
use seekless_drive::spec::{WriteBack, shipped};
use seekless_drive::{Model, Spec};
use serde::Serialize;

use super::flash;
use super::words::{capacity, power_rows};
use crate::output::{self, Form};
use crate::table::Table;
use crate::text::{count, number, size};

/// Rows of the seek curve, at most.
const CURVE_POINTS: u64 = 20;
/// Longest bar, in characters.
const BAR: f64 = 50.0;
const ZONE_BAR: f64 = 30.0;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive show wd2500aaks
  seekless drive show wd2500aaks --svg wd2500aaks.svg
  seekless drive show drives/wd2500aaks.toml --json | jq .zone";

/// Arguments of `drive list`.
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    form: Form,
}

/// Arguments of `drive show`.
#[derive(Args)]
pub struct Show {
    /// Name of a drive, or a TOML file
    name: String,
    /// Draw the seek curve and zones to this SVG file too
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Overwrite the SVG file
    #[arg(long, requires = "svg")]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// A drive in the JSON list.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Listed {
    Disk(Summary),
    Flash(flash::Summary),
}

/// `seekless drive list`
pub fn list(list: &List) -> anyhow::Result<()> {
    let (mut disks, mut flash) = (Vec::new(), Vec::new());
    for name in shipped() {
        match Model::find(name)? {
            Model::Disk(spec) => disks.push(Summary::of(&spec)),
            Model::Flash(spec) => flash.push(flash::Summary::of(&spec)),
        }
    }
    let text = [list_text(&disks), flash::list_text(&flash)].join("\n");
    let all = disks.into_iter().map(Listed::Disk).chain(flash.into_iter().map(Listed::Flash));
    list.form.print_list(&all.collect::<Vec<_>>(), || text)
}

/// `seekless drive show`
pub fn show(show: &Show) -> anyhow::Result<()> {
    let spec = match Model::find(&show.name)? {
        Model::Disk(spec) => *spec,
        Model::Flash(spec) => {
            if show.svg.is_some() {
                let found = format!("--svg: found {}, a flash drive", spec.name);
                anyhow::bail!("{found}; expected one that turns: there are no seeks or zones to draw");
            }
            let shown = flash::Shown::of(&spec);
            return show.form.print(&shown, "", || flash::show_text(&spec));
        }
    };
    if let Some(path) = &show.svg {
        output::expect_room(path, show.force)?;
        output::file(path, &seekless_lab::report::drive(&spec))?;
    }
    let shown = Shown { seek_curve: curve(&spec), summary: Summary::of(&spec), spec: &spec };
    show.form.print(&shown, "zone", || show_text(&shown))
}

/// A disk in the list.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Disk")]
pub struct Summary {
    name: String,
    title: String,
    kind: &'static str,
    capacity_bytes: u64,
    rpm: f64,
    cylinders: u64,
    heads: u32,
    actuators: u32,
    queue_depth: u32,
    /// Seek to the next cylinder, in microseconds.
    seek_one_us: f64,
    /// Seek over a third of the cylinders: about the average of random seeks.
    seek_third_us: f64,
    /// Seek over all cylinders.
    seek_full_us: f64,
    revolution_us: f64,
    /// Sequential throughput on the first and on the last tracks.
    first_mb_s: f64,
    last_mb_s: f64,
    /// Sources of its seek times and zones.
    seek_known: String,
    zone_known: String,
}

impl Summary {
    fn of(spec: &Spec) -> Summary {
        let drive = Drive::new(spec);
        let mechanics = drive.mechanics();
        let cylinders = spec.cylinders();
        let farthest = cylinders.saturating_sub(1);
        Summary {
            name: spec.name.clone(),
            title: spec.title.clone(),
            kind: if spec.shingled.is_some() { "shingled" } else { "disk" },
            capacity_bytes: spec.sectors * SECTOR_BYTES,
            rpm: spec.rpm,
            cylinders,
            heads: spec.heads,
            actuators: spec.actuators,
            queue_depth: spec.queue.depth,
            seek_one_us: micros(mechanics.seek(farthest.min(1))),
            seek_third_us: micros(mechanics.seek((cylinders / 3).min(farthest))),
            seek_full_us: micros(mechanics.seek(farthest)),
            revolution_us: micros(mechanics.revolution()),
            first_mb_s: spec.zone.first().map_or(0.0, |zone| spec.stream_mb_s(zone)),
            last_mb_s: spec.zone.last().map_or(0.0, |zone| spec.stream_mb_s(zone)),
            seek_known: known(spec, "seek"),
            zone_known: known(spec, "zone"),
        }
    }
}

/// `published`, `extracted`, `fitted` or `assumed`.
fn known(spec: &Spec, figure: &str) -> String {
    let source = spec.source.get(figure).map_or("", String::as_str);
    source.split_once(": ").map_or("", |(kind, _)| kind).to_owned()
}

/// A drive with all figures.
#[derive(JsonSchema, Serialize)]
pub struct Shown<'a> {
    #[serde(flatten)]
    spec: &'a Spec,
    #[serde(rename = "computed")]
    summary: Summary,
    /// Points (cylinders, microseconds).
    seek_curve: Vec<(u64, f64)>,
}

/// The drive's seek curve, at evenly spaced distances.
fn curve(spec: &Spec) -> Vec<(u64, f64)> {
    let drive = Drive::new(spec);
    let farthest = spec.cylinders().saturating_sub(1);
    let mut points: Vec<(u64, f64)> = Vec::new();
    for step in 0..=CURVE_POINTS {
        let distance = (farthest * step / CURVE_POINTS).max(1).min(farthest);
        if points.last().is_none_or(|last| last.0 < distance) {
            points.push((distance, micros(drive.mechanics().seek(distance))));
        }
    }
    points
}

fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

/// `8.90 ms`.
fn millis(us: f64) -> String {
    number(us / 1e3, 2) + " ms"
}

fn list_text(drives: &[Summary]) -> String {
    let mut table = Table::new(&[
        "name",
        ">capacity",
        ">rpm",
        ">heads",
        ">MB/s",
        ">to",
        ">seek ms: next",
        ">a third",
        ">full",
        "seeks",
        "zones",
    ]);
    let ms = |us: f64| number(us / 1e3, 2);
    for drive in drives {
        table.row([
            drive.name.clone(),
            capacity(drive.capacity_bytes),
            number(drive.rpm, 0),
            drive.heads.to_string(),
            number(drive.first_mb_s, 0),
            number(drive.last_mb_s, 0),
            ms(drive.seek_one_us),
            ms(drive.seek_third_us),
            ms(drive.seek_full_us),
            drive.seek_known.clone(),
            drive.zone_known.clone(),
        ]);
    }
    table.text()
}

fn show_text(shown: &Shown) -> String {
    let mut out = format!("{}: {}\n\n", output::plain(&shown.spec.name), output::plain(&shown.spec.title));
    out.push_str(&figures(shown));
    out.extend(["\nZones, from the outer edge to the inner\n", &zones(shown.spec)]);
    out.extend(["\nSeek curve: how far, how long\n", &curve_text(&shown.seek_curve)]);
    out
}

/// `, of the oldest 4`, for a window that is not everything.
fn oldest(window: u32) -> String {
    if window == 0 { String::new() } else { format!(", of the oldest {}", count(u64::from(window))) }
}

/// The depth of the drive's own queue, and how much of it the drive reorders.
fn commands_at_once(spec: &Spec) -> String {
    format!("{}{}", spec.queue.depth, oldest(spec.queue.window))
}

fn figures(shown: &Shown) -> String {
    let (spec, summary) = (shown.spec, &shown.summary);
    let us = |value: f64| number(value / 1e3, 3) + " ms";
    let mapping = toml::Value::try_from(spec.layout.mapping).ok();
    let mut mapping = mapping.as_ref().and_then(toml::Value::as_str).unwrap_or_default().to_owned();
    if spec.layout.band_cylinders > 0 {
        mapping = format!("{mapping}, {} cylinders", spec.layout.band_cylinders);
    }
    let bus = spec.bus_sector_us();
    let in_sectors = |value: u32| size(u64::from(value) * SECTOR_BYTES);
    let seeks = [summary.seek_one_us, summary.seek_third_us, summary.seek_full_us].map(millis);
    let rows = [
        ("title", "model", String::new()),
        ("sectors", "capacity", capacity(summary.capacity_bytes)),
        ("rpm", "revolution", format!("{} ({} rpm)", millis(summary.revolution_us), number(spec.rpm, 1))),
        ("heads", "heads", spec.heads.to_string()),
        ("zone", "cylinders", count(summary.cylinders)),
        ("layout", "order of tracks", mapping),
        ("seek", "seek, next", seeks[0].clone()),
        ("", "seek, a third", seeks[1].clone()),
        ("", "seek, full", seeks[2].clone()),
        ("head_switch_us", "head switch", us(spec.head_switch_us)),
        ("write_settle_us", "write settle", us(spec.write_settle_us)),
        ("command", "read, found", us(spec.command.each_us + spec.command.read_hit_after_read_us)),
        ("", "read, not found", us(spec.command.each_us + spec.command.read_miss_after_read_us)),
        ("", "turn-round", us(spec.command.turn_round_us)),
        ("bus", "interface", format!("{} MB/s", number(SECTOR_BYTES as f64 / bus.0, 1))),
        ("cache", "cache segments", spec.cache.segments.to_string()),
        ("", "each", in_sectors(spec.cache.segment_sectors)),
        ("", "read ahead", in_sectors(spec.cache.read_ahead_sectors)),
        ("queue", "commands at once", commands_at_once(spec)),
    ];
    let mut table = Table::new(&["figure", ">value", "source"]);
    for (key, name, value) in rows {
        table.row([name, &value, spec.source.get(key).map_or("", String::as_str)]);
    }
    if spec.cache.write_buffer_sectors > 0 {
        let on = if spec.cache.write_back == WriteBack::All { "" } else { "off; " };
        let size = in_sectors(spec.cache.write_buffer_sectors);
        let order = oldest(spec.cache.destage_window);
        table.row(["write cache", &format!("{on}{size}{order}"), ""]);
    }
    if let Some(retries) = &spec.retries {
        let share = number(retries.share * 100.0, 2);
        let value = format!("{share} %, up to {} revolutions", retries.revolutions);
        table.row(["retries", &value, source(spec, "retries")]);
    }
    if spec.actuators > 1 {
        table.row(["actuators", &spec.actuators.to_string(), source(spec, "actuators")]);
    }
    if let Some(shingled) = &spec.shingled {
        let bytes = |sectors: u64| size(sectors * SECTOR_BYTES);
        table.row(["media cache", &bytes(shingled.media_cache_sectors), source(spec, "shingled")]);
        table.row(["band", &bytes(shingled.band_sectors), ""]);
        table.row(["cleaned after", &millis(shingled.clean_after_ms * 1e3), ""]);
    }
    power_rows(spec.power.as_ref(), &spec.source, &mut table);
    table.text()
}

fn source<'a>(spec: &'a Spec, figure: &str) -> &'a str {
    spec.source.get(figure).map_or("", String::as_str)
}

fn zones(spec: &Spec) -> String {
    let mut table = Table::new(&[
        ">cylinders from",
        ">to",
        ">sectors a track",
        ">MB/s",
        ">size",
        ">track skew",
        ">cylinder skew",
        "",
    ]);
    let fastest = spec.zone.iter().map(|zone| spec.media_mb_s(zone)).fold(0.0, f64::max);
    for (zone, first) in spec.zone.iter().zip(spec.first_cylinders()) {
        let (cylinders, per_track) = (u64::from(zone.cylinders), u64::from(zone.sectors_per_track));
        let mb_s = spec.media_mb_s(zone);
        table.row([
            count(first),
            count(first + cylinders - 1),
            count(per_track),
            number(mb_s, 1),
            capacity(cylinders * u64::from(spec.heads) * per_track * SECTOR_BYTES),
            zone.track_skew.to_string(),
            zone.cylinder_skew.to_string(),
            bar(mb_s / fastest, ZONE_BAR),
        ]);
    }
    table.text()
}

fn curve_text(curve: &[(u64, f64)]) -> String {
    let longest = curve.iter().map(|point| point.1).fold(0.0, f64::max).max(1.0);
    let mut table = Table::new(&[">cylinders", ">time", ""]);
    for &(distance, us) in curve {
        table.row([count(distance), millis(us), bar(us / longest, BAR)]);
    }
    table.text()
}

/// A bar in proportion to the longest.
fn bar(part: f64, longest: f64) -> String {
    "#".repeat((part * longest).round() as usize)
}
