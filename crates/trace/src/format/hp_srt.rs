//! The SRT format, version 1.3, of the traces that HP Laboratories recorded in the 1990s.
//!
//! Text up to a form feed describes machine and disks; then records follow back to back, of big-endian u32: size, id,
//! seconds, microseconds, start, stop, bytes, sector, device, driver type, cylinder, flags, info and, in some, a queue
//! length. Units: times of queueing, since the trace's date; sectors of the size given by the text (256 bytes). The
//! second byte of the device is the disk, whose number becomes the device; sectors count from the disk's start. The
//! stop is the time from queueing to completion, in microseconds. Flag bit 0 is a read, bit 8 an asynchronous request.
//! Faults: any bytes; a text of more than [`MAX_TEXT_BYTES`] is an error.

use std::io::{BufRead, Read};

use seekless_core::{Latency, Nanos, Op, record::Flags};

use super::binary::{Binary, RecordFormat, array};
use super::fields::{Flaw, MICROSECOND, SECOND, bytes, number, quoted};
use super::text::{EventQueue, plain};
use super::{Content, Decoder, Format, Naming, OpenUnits, Sample, TracedRequest};
use crate::error::TraceError;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "hp-srt",
    summary: "HP Laboratories' SRT, version 1.3 (text and binary)",
    sample: Sample::Real,
    volumes: Naming::Numbered,
    open_units: OpenUnits::NONE,
    detect: |head| head.starts_with(MARK),
    open,
};

const MARK: &[u8] = b"$$TR_IOREC-";
const VERSION: &[u8] = b"1.3";
/// The end of the text.
const FORM_FEED: u8 = 0x0c;
/// Thirty times the text of a machine with eight disks.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Thirteen numbers; further ones are ignored.
const LEAST_BYTES: usize = 13 * 4;
const MOST_BYTES: usize = 1024;

/// The id of a request, in its low half.
const REQUEST: u32 = 1;
const FLAG_READ: u32 = 1;
const FLAG_ASYNC: u32 = 0x100;

fn open(mut content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    let file = content.file;
    let error_at = |offset: u64, flaw: Flaw| {
        let Flaw { found, expected } = flaw;
        TraceError::Malformed { file: file.clone(), offset, found, expected }
    };
    if !content.head.strip_prefix(MARK).is_some_and(|rest| rest.starts_with(VERSION)) {
        let first = String::from_utf8_lossy(&content.head).lines().next().map(quoted).unwrap_or_default();
        return Err(error_at(0, Flaw { found: first, expected: "$$TR_IOREC-1.3".into() }));
    }
    let mut text = Vec::new();
    let read = content.input.by_ref().take(MAX_TEXT_BYTES as u64).read_until(FORM_FEED, &mut text);
    read.map_err(|source| TraceError::Io { file: file.clone(), source })?;
    let offset = text.len() as u64;
    if text.last() != Some(&FORM_FEED) {
        let found = format!("{offset} bytes of text without a form feed");
        return Err(error_at(offset, Flaw { found, expected: "a form feed after the text".into() }));
    }
    let sector_bytes = sector_bytes(&String::from_utf8_lossy(&text)).map_err(|flaw| error_at(0, flaw))?;
    Ok(Binary::open(Content { file, ..content }, offset, HpSrt { sector_bytes, others: 0 }))
}

/// The sector size given by the text, the same for all disks.
fn sector_bytes(text: &str) -> Result<u64, Flaw> {
    let expected = "sectorsize = 256, or another power of two up to 4096, the same for all disks";
    let mut common = None;
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        if key.trim() != "sectorsize" {
            continue;
        }
        let size: u64 = number(value.trim().trim_end_matches([',', ';']), expected)?;
        if !size.is_power_of_two() || size > 4096 || *common.get_or_insert(size) != size {
            return Err(Flaw::text(line.trim(), expected));
        }
    }
    common.ok_or_else(|| Flaw { found: "no sectorsize in the text".into(), expected: expected.into() })
}

struct HpSrt {
    sector_bytes: u64,
    /// Records that are not requests.
    others: u64,
}

impl RecordFormat for HpSrt {
    fn length(&self, start: &[u8]) -> Result<usize, Flaw> {
        let length = be32(start, 0) as usize;
        if (LEAST_BYTES..=MOST_BYTES).contains(&length) {
            return Ok(length);
        }
        let found = format!("a record of {length} bytes");
        Err(Flaw { found, expected: format!("{LEAST_BYTES} to {MOST_BYTES} bytes") })
    }

    fn record(&mut self, record: &[u8], events: &mut EventQueue) -> Result<(), Flaw> {
        let field = |number: usize| be32(record, number * 4);
        if field(1) & 0xffff != REQUEST {
            self.others += 1;
            return Ok(());
        }
        // Both are 32 bits: the sum is far from the end of 64.
        let time = Nanos(u64::from(field(2)) * SECOND + u64::from(field(3)) * MICROSECOND);
        let extent = bytes(u64::from(field(7)) * self.sector_bytes, u64::from(field(6)))?;
        let disk = field(8) >> 8 & 0xff;
        let op = if field(11) & FLAG_READ == 0 { Op::Write } else { Op::Read };
        let flags = if field(11) & FLAG_ASYNC == 0 { Flags::SYNC } else { Flags::default() };
        let latency = Latency::of(Nanos(u64::from(field(5)) * MICROSECOND));
        events.request(time, TracedRequest { flags, latency, ..plain(disk, op, extent) });
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let warning = format!("{} records are not plain requests; they were left out", self.others);
        if self.others > 0 { vec![warning] } else { Vec::new() }
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}
