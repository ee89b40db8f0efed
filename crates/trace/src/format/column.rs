//! Columns of a trace that the user describes: what each holds, and in which unit. Text of any separator and binary
//! records share them.
//!
//! A column is `NAME` or `NAME:UNIT`:
//!
//! - `time`, `latency`: `s`, `ms`, `us`, `ns` or `100ns`;
//! - `offset`, `size`: `bytes`, `sectors`, `pages` (of 4 KiB), or a block size such as `8KiB`;
//! - `op`: a word or letter (`read`, `W`, `TRIM`, RWBS); `op:0=read` or `op:1=read`: a number, of which the other means
//!   a write; `op:scsi`: a code;
//! - `device`, `volume`: the name of the volume; with both, their names joined;
//! - `process`: its number, or its name;
//! - `-`: ignored.
//!
//! Faults: any specification, any value.

use std::fmt::Display;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use seekless_core::names::perhaps;
use seekless_core::{Extent, Latency, Nanos, Op, PAGE_BYTES, ProcessId, SECTOR_BYTES, Size, record::Flags};

use super::blkparse::{flags, operation};
use super::fields::{self, Flaw, MILLISECOND, blocks, bytes, number, volume};
use super::text::{EventQueue, plain};
use super::{Content, Naming, TimeUnit, TracedRequest, scsi};
use crate::volumes::Volumes;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Time of arrival, in units of this many nanoseconds; `None`: the unit of times.
    Time(Option<u64>),
    /// From arrival to completion, in such units.
    Latency(Option<u64>),
    /// Operation.
    Op(Ops),
    /// Start.
    Offset(Unit),
    /// Length.
    Size(Unit),
    /// The name of the volume, or its first part.
    Volume,
    /// The name of the volume, or its second part.
    Device,
    /// The issuing process.
    Process,
    /// Nothing of interest.
    Ignored,
}

/// How an operation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ops {
    Words,
    /// This of 0 and 1 is a read, the other a write.
    ReadIs(u64),
    Scsi,
}

/// The unit of an address or a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    /// Blocks of this many bytes; `None`: of the size of sectors.
    Blocks(Option<u64>),
}

const NAMES: &str = "time, op, offset, size, latency, device, process, volume or -";

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let (name, unit) = text.split_once(':').map_or((text, None), |(name, unit)| (name, Some(unit)));
        let needed = || {
            unit.ok_or_else(|| format!("found '{name}' without a unit, expected {name}:bytes, for instance"))
        };
        let column = match name {
            "time" => Column::Time(unit.map(time_unit).transpose()?),
            "latency" => Column::Latency(unit.map(time_unit).transpose()?),
            "op" => Column::Op(unit.map_or(Ok(Ops::Words), ops)?),
            "offset" => Column::Offset(needed()?.parse()?),
            "size" => Column::Size(needed()?.parse()?),
            "volume" => Column::Volume,
            "device" => Column::Device,
            "process" => Column::Process,
            "-" => Column::Ignored,
            _ => {
                let perhaps = perhaps(name, NAMES.split([',', ' ']));
                return Err(format!("found the column '{name}', expected {NAMES}{perhaps}"));
            }
        };
        let plain = [Column::Volume, Column::Device, Column::Process, Column::Ignored];
        match unit.filter(|_| plain.contains(&column)) {
            Some(unit) => Err(format!("found the unit '{unit}', expected none: {name} has no unit")),
            None => Ok(column),
        }
    }
}

fn time_unit(text: &str) -> Result<u64, String> {
    if text == "100ns" {
        return Ok(100);
    }
    let unit = text.parse::<TimeUnit>().map(TimeUnit::nanos);
    unit.map_err(|_| format!("found the unit '{text}', expected s, ms, us, ns or 100ns"))
}

fn ops(text: &str) -> Result<Ops, String> {
    match text {
        "0=read" | "1=write" => Ok(Ops::ReadIs(0)),
        "1=read" | "0=write" => Ok(Ops::ReadIs(1)),
        "scsi" => Ok(Ops::Scsi),
        _ => Err(format!("found op:{text}, expected op, op:0=read, op:1=read or op:scsi")),
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Unit, String> {
        match text {
            "bytes" => Ok(Unit::Bytes),
            "sectors" => Ok(Unit::Blocks(None)),
            "pages" => Ok(Unit::Blocks(Some(PAGE_BYTES))),
            _ => {
                let size = text.parse::<Size>().ok().map(|size| size.0);
                let size = size.filter(|bytes| *bytes > 0 && bytes % SECTOR_BYTES == 0);
                size.map(|bytes| Unit::Blocks(Some(bytes))).ok_or_else(|| {
                    format!("found the unit '{text}', expected bytes, sectors, pages or a multiple of 512B")
                })
            }
        }
    }
}

/// Columns of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnList(pub Vec<Column>);

impl ColumnList {
    fn find<T>(&self, of: impl Fn(&Column) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(of)
    }

    /// Checks that they describe requests, each by one column.
    pub fn check(self) -> Result<ColumnList, String> {
        let offset = self.find(|column| if let Column::Offset(unit) = column { Some(*unit) } else { None });
        let size = self.find(|column| if let Column::Size(unit) = column { Some(*unit) } else { None });
        match (offset, size) {
            (None, _) => return Err("found no column offset, expected one, such as offset:bytes".into()),
            (Some(Unit::Bytes), None) => {
                return Err(
                    "found an offset in bytes and no column size, expected one, such as size:bytes".into()
                );
            }
            _ => {}
        }
        let kind = std::mem::discriminant::<Column>;
        let twice = self.0.iter().enumerate().find(|(at, column)| {
            **column != Column::Ignored && self.0[..*at].iter().any(|other| kind(other) == kind(column))
        });
        match twice {
            Some((at, _)) => {
                Err(format!("column {}: found what an earlier column is, expected each once", at + 1))
            }
            None => Ok(self),
        }
    }
}

/// A value of a record: text, or a number.
pub(super) trait Value: Copy {
    fn number<T: TryFrom<u64>>(self, expected: &str) -> Result<T, Flaw>;
    fn time(self, unit_ns: u64, expected: &str) -> Result<Nanos, Flaw>;
    /// Whether nothing was recorded.
    fn is_missing(self) -> bool;
    /// As a name.
    fn with_text<T>(self, with: impl FnOnce(&str) -> T) -> T;
}

impl Value for &str {
    fn number<T: TryFrom<u64>>(self, expected: &str) -> Result<T, Flaw> {
        number(self, expected)
    }

    fn time(self, unit_ns: u64, expected: &str) -> Result<Nanos, Flaw> {
        fields::time(self, unit_ns, expected)
    }

    fn is_missing(self) -> bool {
        matches!(self.trim(), "" | "-")
    }

    fn with_text<T>(self, with: impl FnOnce(&str) -> T) -> T {
        with(self.trim())
    }
}

impl Value for u64 {
    fn number<T: TryFrom<u64>>(self, expected: &str) -> Result<T, Flaw> {
        T::try_from(self).map_err(|_| Flaw { found: self.to_string(), expected: expected.into() })
    }

    fn time(self, unit_ns: u64, expected: &str) -> Result<Nanos, Flaw> {
        let flaw = || Flaw { found: self.to_string(), expected: expected.into() };
        self.checked_mul(unit_ns).map(Nanos).ok_or_else(flaw)
    }

    fn is_missing(self) -> bool {
        false
    }

    fn with_text<T>(self, with: impl FnOnce(&str) -> T) -> T {
        with(&self.to_string())
    }
}

/// Decodes records of these columns.
pub(super) struct Rows {
    columns: ColumnList,
    /// Nanoseconds of the unit of times, and bytes of a sector, where a column does not say.
    time_unit: u64,
    sector_bytes: u64,
    volumes: Volumes,
    /// Numbers given to processes that are known by name only.
    named: FxHashMap<Box<str>, ProcessId>,
    /// Requests so far.
    requests: u64,
}

/// The values of a record, as far as they are known.
#[derive(Default)]
struct Row {
    time: Option<Nanos>,
    op: Option<(Op, Flags)>,
    offset: u64,
    size: Option<u64>,
    latency: Option<Latency>,
    names: [Option<String>; 2],
    process: Option<(ProcessId, Option<Box<str>>)>,
}

impl Rows {
    /// Rows of `columns`, with the units of `content` where a column has none.
    pub fn new(columns: ColumnList, content: &Content) -> Result<Rows, Flaw> {
        let names = columns.0.iter().any(|column| matches!(column, Column::Volume | Column::Device));
        let naming = if names { Naming::Named } else { Naming::Numbered };
        content.volumes.set_naming(naming).map_err(|_| Flaw {
            found: "columns without a volume".into(),
            expected: "one, as in the files before".into(),
        })?;
        Ok(Rows {
            columns,
            time_unit: content.time_unit.nanos(),
            sector_bytes: content.sector_bytes,
            volumes: content.volumes.clone(),
            named: FxHashMap::default(),
            requests: 0,
        })
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.columns.0.len()
    }

    /// Decodes a record from the values of its columns, in order: as many as there are columns, or also more if `open`.
    pub fn record<V: Value>(
        &mut self,
        mut values: impl Iterator<Item = V>,
        open: bool,
        events: &mut EventQueue,
    ) -> Result<(), Flaw> {
        let mut row = Row::default();
        let columns = std::mem::take(&mut self.columns.0);
        let miscounted = || Flaw {
            found: "another number of columns".into(),
            expected: format!("{} columns", columns.len()),
        };
        let mut set = columns.iter().try_for_each(|column| {
            let value = values.next().ok_or_else(miscounted)?;
            self.set(&mut row, column, value)
        });
        if set.is_ok() && !open && values.next().is_some() {
            set = Err(miscounted());
        }
        self.columns.0 = columns;
        set?;
        self.emit(&row, events)
    }

    fn set<V: Value>(&mut self, row: &mut Row, column: &Column, value: V) -> Result<(), Flaw> {
        match column {
            Column::Time(unit) => row.time = Some(value.time(unit.unwrap_or(self.time_unit), "a time")?),
            Column::Latency(_) if value.is_missing() => {}
            Column::Latency(unit) => {
                let took = value.time(unit.unwrap_or(self.time_unit), "a latency")?;
                row.latency = Some(Latency::of(took));
            }
            Column::Op(ops) => row.op = op(*ops, value)?,
            Column::Offset(_) => row.offset = value.number("an offset")?,
            Column::Size(_) => row.size = Some(value.number("a size")?),
            Column::Volume => row.names[0] = Some(value.with_text(str::to_owned)),
            Column::Device => row.names[1] = Some(value.with_text(str::to_owned)),
            Column::Process => {
                row.process = Some(match value.number("the number of a process") {
                    Ok(number) => (ProcessId(number), None),
                    Err(_) => value.with_text(|name| (self.process(name), Some(name.into()))),
                });
            }
            Column::Ignored => {}
        }
        Ok(())
    }

    /// The number of a process of this name, the same for all its requests.
    fn process(&mut self, name: &str) -> ProcessId {
        let next = ProcessId(self.named.len() as u32 + 1);
        *self.named.entry(name.into()).or_insert(next)
    }

    fn emit(&mut self, row: &Row, events: &mut EventQueue) -> Result<(), Flaw> {
        let has_op = self.columns.0.iter().any(|column| matches!(column, Column::Op(_)));
        // A command that is no request.
        let Some((op, flags)) = row.op.or((!has_op).then_some((Op::Read, Flags::default()))) else {
            events.others += 1;
            return Ok(());
        };
        // Without times, requests follow each other at an even pace.
        let time = row.time.unwrap_or(Nanos(self.requests * MILLISECOND));
        let extent = if op == Op::Flush { Extent::default() } else { self.extent(row)? };
        let device = match &row.names {
            [None, None] => 0,
            [Some(one), None] | [None, Some(one)] => volume(&self.volumes, one)?,
            [Some(volumes), Some(device)] => volume(&self.volumes, &format!("{volumes}_{device}"))?,
        };
        let process = row.process.as_ref().map(|(number, _)| *number).unwrap_or_default();
        if let Some((number, Some(name))) = &row.process {
            events.process(time, *number, name);
        }
        let latency = row.latency.unwrap_or(Latency::UNKNOWN);
        self.requests += 1;
        events.request(time, TracedRequest { flags, process, latency, ..plain(device, op, extent) });
        Ok(())
    }

    fn extent(&self, row: &Row) -> Result<Extent, Flaw> {
        let in_bytes = |unit: Unit| match unit {
            Unit::Bytes => 1,
            Unit::Blocks(block) => block.unwrap_or(self.sector_bytes),
        };
        let of = |of: fn(&Column) -> Option<Unit>| self.columns.find(of).map(in_bytes);
        let block =
            of(|column| if let Column::Offset(unit) = column { Some(*unit) } else { None }).unwrap_or(1);
        let piece =
            of(|column| if let Column::Size(unit) = column { Some(*unit) } else { None }).unwrap_or(block);
        let length = row.size.unwrap_or(1).saturating_mul(piece);
        if block == 1 { bytes(row.offset, length) } else { blocks(row.offset, length, block) }
    }

    /// Warnings about what the columns do not tell.
    pub fn warnings(&self) -> Vec<String> {
        let lacks = |of: fn(&Column) -> bool| !self.columns.0.iter().any(of);
        let mut warnings = Vec::new();
        if lacks(|column| matches!(column, Column::Time(_))) {
            warnings.push("no column is a time: one request a millisecond is assumed".to_owned());
        }
        if lacks(|column| matches!(column, Column::Op(_))) {
            warnings.push("no column is an operation: all requests are taken for reads".to_owned());
        }
        warnings
    }
}

/// The operation and flags of a value; `None` for a command that is no request.
fn op<V: Value>(ops: Ops, value: V) -> Result<Option<(Op, Flags)>, Flaw> {
    match ops {
        Ops::ReadIs(read) => match value.number::<u64>("0 or 1")? {
            other @ 0..=1 => Ok(Some((if other == read { Op::Read } else { Op::Write }, Flags::default()))),
            other => Err(Flaw { found: other.to_string(), expected: "0 or 1".into() }),
        },
        Ops::Scsi => {
            let code = value.number("a SCSI operation code")?;
            Ok(scsi::operation(code).map(|op| (op, Flags::default())))
        }
        Ops::Words => value.with_text(words).map(Some),
    }
}

/// An operation by a word, or by the letters of RWBS.
fn words(text: &str) -> Result<(Op, Flags), Flaw> {
    let plain = |op| Ok((op, Flags::default()));
    match text.to_ascii_lowercase().as_str() {
        "r" | "rd" | "read" => plain(Op::Read),
        "w" | "wr" | "write" => plain(Op::Write),
        "d" | "discard" | "trim" | "unmap" => plain(Op::Discard),
        "f" | "flush" | "sync" | "fsync" => plain(Op::Flush),
        _ => {
            let letters = !text.is_empty() && text.bytes().all(|letter| b"RWDFSMAB".contains(&letter));
            let op = operation(text).filter(|_| letters);
            op.map(|op| (op, flags(text, op)))
                .ok_or_else(|| Flaw::text(text, "read, write, discard, flush, or their letters"))
        }
    }
}

/// Splits a specification at `separators` and parses each column; the error says which.
pub(super) fn parse<T: FromStr<Err: Display>>(
    parts: impl Iterator<Item = impl AsRef<str>>,
) -> Result<Vec<T>, String> {
    let each = parts
        .enumerate()
        .map(|(at, part)| part.as_ref().parse().map_err(|why| format!("column {}: {why}", at + 1)));
    each.collect()
}
