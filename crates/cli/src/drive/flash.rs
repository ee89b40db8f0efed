//! `seekless drive list` and `show` for flash drives.

use schemars::JsonSchema;
use seekless_core::SECTOR_BYTES;
use seekless_drive::FlashSpec;
use serde::Serialize;

use super::words::{capacity, power_rows};
use crate::output;
use crate::table::Table;
use crate::text::{number, size};

/// A flash drive in the list.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Flash")]
pub struct Summary {
    pub name: String,
    title: String,
    kind: &'static str,
    capacity_bytes: u64,
    /// Bandwidth of the interface, in MB/s.
    bus_mb_s: f64,
    channels: u32,
    dies: u32,
    page_bytes: u64,
    read_us: f64,
    program_us: f64,
    amplification: f64,
    queue_depth: u32,
    power_loss_protection: bool,
}

impl Summary {
    pub fn of(spec: &FlashSpec) -> Summary {
        let (cells, controller) = (&spec.flash, &spec.controller);
        Summary {
            name: spec.name.clone(),
            title: spec.title.clone(),
            kind: "flash",
            capacity_bytes: spec.sectors * SECTOR_BYTES,
            bus_mb_s: controller.bus_mb_s,
            channels: cells.channels,
            dies: cells.channels * cells.dies_per_channel,
            page_bytes: u64::from(cells.page_sectors) * SECTOR_BYTES,
            read_us: cells.read_us,
            program_us: cells.program_us,
            amplification: cells.amplification,
            queue_depth: spec.queue.depth,
            power_loss_protection: controller.power_loss_protection,
        }
    }
}

/// A flash drive with all figures.
#[derive(JsonSchema, Serialize)]
pub struct Shown<'a> {
    #[serde(flatten)]
    spec: &'a FlashSpec,
    #[serde(rename = "computed")]
    summary: Summary,
}

impl<'a> Shown<'a> {
    pub fn of(spec: &'a FlashSpec) -> Shown<'a> {
        Shown { spec, summary: Summary::of(spec) }
    }
}

pub fn list_text(drives: &[Summary]) -> String {
    let mut table = Table::new(&[
        "name",
        ">capacity",
        ">interface MB/s",
        ">channels",
        ">dies",
        ">page",
        ">read us",
        ">program us",
        ">amplification",
        ">queue",
        "power loss",
    ]);
    for drive in drives {
        table.row([
            drive.name.clone(),
            capacity(drive.capacity_bytes),
            number(drive.bus_mb_s, 0),
            drive.channels.to_string(),
            drive.dies.to_string(),
            size(drive.page_bytes),
            number(drive.read_us, 0),
            number(drive.program_us, 0),
            number(drive.amplification, 1),
            drive.queue_depth.to_string(),
            if drive.power_loss_protection { "protected" } else { "not protected" }.to_owned(),
        ]);
    }
    table.text()
}

pub fn show_text(spec: &FlashSpec) -> String {
    let (cells, controller) = (&spec.flash, &spec.controller);
    let us = |value: f64| number(value, 1) + " us";
    let buffer = u64::from(controller.write_buffer_sectors) * SECTOR_BYTES;
    let rows = [
        ("sectors", "capacity", capacity(spec.sectors * SECTOR_BYTES)),
        ("flash", "channels, dies on each", format!("{}, {}", cells.channels, cells.dies_per_channel)),
        ("", "page", size(u64::from(cells.page_sectors) * SECTOR_BYTES)),
        ("", "pages in a block", cells.pages_per_block.to_string()),
        ("", "reading a page", us(cells.read_us)),
        ("", "programming a page", us(cells.program_us)),
        ("", "erasing a block", us(cells.erase_us)),
        ("", "a channel", format!("{} MB/s", number(cells.channel_mb_s, 0))),
        ("", "amplification", number(cells.amplification, 2)),
        ("controller", "handling a command", us(controller.each_us)),
        ("", "latency besides", us(controller.latency_us)),
        ("", "interface", format!("{} MB/s", number(controller.bus_mb_s, 0))),
        ("", "write buffer", if controller.write_cache { size(buffer) } else { "off".to_owned() }),
        ("", "outlives a power loss", if controller.power_loss_protection { "yes" } else { "no" }.to_owned()),
        ("", "flush", us(controller.flush_us)),
        ("queue", "commands at once", spec.queue.depth.to_string()),
    ];
    let mut table = Table::new(&["figure", ">value", "source"]);
    for (key, name, value) in rows {
        table.row([name, &value, spec.source.get(key).map_or("", String::as_str)]);
    }
    power_rows(spec.power.as_ref(), &spec.source, &mut table);
    format!("{}: {}\n\n{}", output::plain(&spec.name), output::plain(&spec.title), table.text())
}
