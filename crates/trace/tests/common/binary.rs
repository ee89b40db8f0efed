//! Every binary format in a few handmade records, and their requests.

use seekless_core::Op;
use seekless_trace::ReadOptions;
use seekless_trace::format::Format;

use super::builder::{Builder, DISK};
use super::samples::Row;

/// Each field its own little-endian bytes.
macro_rules! little {
    ($($field:expr),* $(,)?) => { [$(&$field.to_le_bytes()[..]),*].concat() };
}

/// Command, bytes, sector, microseconds.
pub type Command = (u16, u32, u64, u64);

pub const COMMANDS: [Command; 4] =
    [(0x2a, 512, 7, 100), (0x88, 4096, 80, 350), (0x12, 36, 0, 360), (0x35, 0, 0, 400)];

pub fn vscsi_1(commands: &[Command]) -> Vec<u8> {
    let record = |&(command, bytes, sector, time): &Command| {
        little!(9_u32, bytes, 1_u32, command, 0x0100_u16, sector, time)
    };
    commands.iter().flat_map(record).collect()
}

pub fn vscsi_2(commands: &[Command]) -> Vec<u8> {
    let record = |&(command, bytes, sector, time): &Command| {
        little!(command, 0x0200_u16, 9_u32, bytes, 1_u32, sector, time, 77_u64)
    };
    commands.iter().flat_map(record).collect()
}

pub fn oracle_general(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let record = |&(time, object, bytes, next): &(u32, u64, u32, i64)| little!(time, object, bytes, next);
    records.iter().flat_map(record).collect()
}

pub const TEXT: &str = "$$TR_IOREC-1.3 (made by hand)\ndisks = { 0 -> {\n\tsectorsize  = 256,\n} };\n\x0c";

/// Seconds, microseconds, bytes, sector, device, flags.
pub fn srt(records: &[[u32; 6]]) -> Vec<u8> {
    let mut bytes = TEXT.as_bytes().to_vec();
    for [seconds, micros, length, sector, device, flags] in records {
        let fields = [56, 0x4_0001, *seconds, *micros, 1, 2, *length, *sector, *device, 4, 0, *flags, 0, 1];
        bytes.extend(fields.iter().flat_map(|field: &u32| field.to_be_bytes()));
    }
    bytes
}

/// A trace in a format of records back to back.
pub struct Sample {
    /// Name of the format.
    pub format: &'static str,
    pub bytes: Vec<u8>,
    /// Requests.
    pub rows: Vec<Row>,
    /// Bytes at the start that are not records.
    pub text_bytes: usize,
    /// Size of each record.
    pub record_bytes: usize,
}

impl Sample {
    /// Format, if it is not detected.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { format: Some(Format::named(self.format).unwrap()), ..ReadOptions::default() }
    }
}

/// One of every binary format.
pub fn samples() -> [Sample; 6] {
    let commands =
        vec![(0, 0, Op::Write, 7, 1), (250_000, 0, Op::Read, 80, 8), (300_000, 0, Op::Flush, 0, 0)];
    let sample =
        |format, bytes, rows, record_bytes| Sample { format, bytes, rows, text_bytes: 0, record_bytes };
    let queued = [(0, DISK, Op::Read, 64, 8), (700, DISK, Op::Write, 8, 1)];
    let blktrace = |v8| {
        let builder = Builder { v8, ..Builder::default() };
        builder.read(50, 64, 4096, 7).write(750, 8, 512, 8).bytes
    };
    [
        sample("blktrace", blktrace(false), queued.to_vec(), 48),
        sample("blktrace", blktrace(true), queued.to_vec(), 64),
        sample("vscsi-1", vscsi_1(&COMMANDS), commands.clone(), 32),
        sample("vscsi-2", vscsi_2(&COMMANDS), commands, 40),
        sample(
            "oracleGeneral",
            oracle_general(&[(5, 100, 512, 2), (5, 200, 4096, -1), (6, 100, 512, i64::MAX)]),
            vec![
                (0, 0, Op::Read, 100, 1),
                (500_000_000, 0, Op::Read, 200, 8),
                (1_000_000_000, 0, Op::Read, 100, 1),
            ],
            24,
        ),
        Sample {
            text_bytes: TEXT.len(),
            ..sample(
                "hp-srt",
                srt(&[[0, 5, 4096, 8, 0x0800_0107, 1], [1, 5, 1024, 4, 0x0800_000e, 0x100]]),
                vec![(0, 1, Op::Read, 4, 8), (1_000_000_000, 0, Op::Write, 2, 2)],
                56,
            )
        },
    ]
}
