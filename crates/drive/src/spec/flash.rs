//! A flash drive's description. Times are in microseconds, sizes in sectors of 512 bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checked, check_sources, fault, within};
use super::{PowerSpec, QueueSpec};

/// A flash drive, as described by its file.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Name on the command line.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Capacity.
    pub sectors: u64,
    /// Cells and channels.
    pub flash: CellSpec,
    /// The controller and the interface.
    pub controller: ControllerSpec,
    /// The drive's own queue.
    #[serde(default)]
    pub queue: QueueSpec,
    /// Power figures, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerSpec>,
    /// Sources by key, each with its kind: published, extracted, fitted or assumed.
    pub source: BTreeMap<String, String>,
}

/// Channels, the dies on each, and their pages.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Channels, each with a bus of its own.
    pub channels: u32,
    /// Dies per channel, or planes if these work independently.
    pub dies_per_channel: u32,
    /// Sectors per page.
    pub page_sectors: u32,
    /// Pages per block, the unit of erasing.
    pub pages_per_block: u32,
    /// Time to read a page from the cells into the die's register.
    pub read_us: f64,
    /// Time to program a page from the register into the cells.
    pub program_us: f64,
    /// Time to erase a block.
    pub erase_us: f64,
    /// Bandwidth of a channel, in 10^6 bytes per second.
    pub channel_mb_s: f64,
    /// Pages programmed for each page written out of sequence, including garbage collection, once the drive has been
    /// full. 1 or more; writes in sequence have 1.
    pub amplification: f64,
}

/// Handling of a command before and after the cells.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// The controller's time per command; it handles one at a time.
    pub each_us: f64,
    /// Further latency of a command, of which any number overlap.
    pub latency_us: f64,
    /// Bandwidth of the interface, in 10^6 bytes per second.
    pub bus_mb_s: f64,
    /// Whether a write is acknowledged when it is in the write buffer.
    pub write_cache: bool,
    /// Size of the write buffer.
    pub write_buffer_sectors: u32,
    /// Whether the buffer survives a power loss: then a flush has nothing to wait for.
    pub power_loss_protection: bool,
    /// Extra time of a flush: writing the drive's tables.
    pub flush_us: f64,
}

impl FlashSpec {
    pub(super) fn check(&self) -> Checked {
        const SECOND: f64 = 1e6;
        let (cells, controller) = (&self.flash, &self.controller);
        within("sectors", self.sectors as f64, 1.0, (1_u64 << 39) as f64)?;
        within("flash.channels", cells.channels.into(), 1.0, 256.0)?;
        within("flash.dies_per_channel", cells.dies_per_channel.into(), 1.0, 1024.0)?;
        within("flash.page_sectors", cells.page_sectors.into(), 1.0, 1024.0)?;
        within("flash.pages_per_block", cells.pages_per_block.into(), 1.0, 65_536.0)?;
        within("flash.amplification", cells.amplification, 1.0, 100.0)?;
        for (key, value) in [
            ("flash.erase_us", cells.erase_us),
            ("controller.each_us", controller.each_us),
            ("controller.latency_us", controller.latency_us),
            ("controller.flush_us", controller.flush_us),
        ] {
            within(key, value, 0.0, SECOND)?;
        }
        // Smaller values are in another unit.
        within("flash.read_us", cells.read_us, 1.0, SECOND)?;
        within("flash.program_us", cells.program_us, 1.0, SECOND)?;
        within("flash.channel_mb_s", cells.channel_mb_s, 0.1, 1e6)?;
        within("controller.bus_mb_s", controller.bus_mb_s, 0.1, 1e6)?;
        within("controller.write_buffer_sectors", controller.write_buffer_sectors.into(), 0.0, 16_777_216.0)?;
        if controller.write_cache && controller.write_buffer_sectors < cells.page_sectors {
            let expected = format!("{}, which is a page, or more", cells.page_sectors);
            let found = controller.write_buffer_sectors.to_string();
            return fault("controller.write_buffer_sectors", found, expected);
        }
        self.queue.check()?;
        self.power.as_ref().map_or(Ok(()), PowerSpec::check)?;
        let queue = (self.queue != QueueSpec::default()).then_some("queue");
        let power = self.power.as_ref().map(|_| "power");
        check_sources(["sectors", "flash", "controller"].into_iter().chain(queue).chain(power), &self.source)
    }
}
