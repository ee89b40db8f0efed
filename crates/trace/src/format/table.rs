//! The table of formats, and their detection: by a file's first bytes, never its name.
//!
//! [`FORMATS`] is in detection order: those with a magic number or header first, those recognized only by plausible
//! numbers last.
//!
//! Faults: content of an unknown format is an error that lists the formats. An error within the first bytes (a cut or
//! damaged compression) is returned when a decoder reaches it.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use seekless_core::SECTOR_BYTES;

use super::Columns;
use super::{
    Decoder, Naming, OpenUnits, TimeUnit, alibaba, biosnoop, blkparse, blkparse_f, blkreplay, blktrace, borg,
    byte_ascii, cloudphysics, columns, disksim, disksim_validate, fio, fiu, fixed, hp_srt, mqsim, msr,
    oracle_general, spc, systor, tencent, vscsi,
};
use crate::compressed::{self, fill};
use crate::error::TraceError;
use crate::options::ReadOptions;
use crate::volumes::Volumes;

/// Bytes used for detection: longer than the preambles that some formats have.
const HEAD_BYTES: usize = 4096;

/// How well the reader of a format is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// It has read traces from other programs.
    Real,
    /// It was written from the format's description, and tested with handmade files.
    Description,
}

impl Sample {
    /// A description.
    pub fn words(self) -> &'static str {
        match self {
            Sample::Real => "tested on a real sample",
            Sample::Description => "from the description",
        }
    }
}

/// A format that can be read.
#[derive(Debug)]
pub struct Format {
    /// Name.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// How well its reader is tested.
    pub sample: Sample,
    /// How it identifies volumes.
    pub volumes: Naming,
    /// Units that it does not define.
    pub open_units: OpenUnits,
    pub(super) detect: fn(&[u8]) -> bool,
    pub(super) open: fn(Content) -> Result<Box<dyn Decoder>, TraceError>,
}

impl Format {
    /// Whether a file that starts with `head` (4096 bytes, or all there are) is in this format.
    pub fn detect(&self, head: &[u8]) -> bool {
        (self.detect)(head)
    }
}

/// All formats that can be read, in detection order.
pub const FORMATS: &[&Format] = &[
    &blktrace::FORMAT,
    #[cfg(feature = "parquet")]
    &super::parquet::FORMAT,
    &hp_srt::FORMAT,
    &fio::FORMAT,
    &cloudphysics::FORMAT,
    &blkparse::FORMAT,
    &msr::FORMAT,
    &fiu::FORMAT,
    &biosnoop::FORMAT,
    &borg::FORMAT,
    &spc::FORMAT,
    &alibaba::FORMAT,
    &systor::FORMAT,
    &tencent::FORMAT,
    &blkreplay::FORMAT,
    &byte_ascii::FORMAT,
    &disksim_validate::FORMAT,
    &disksim::FORMAT,
    &mqsim::FORMAT,
    &vscsi::FORMAT_2,
    &vscsi::FORMAT_1,
    &oracle_general::FORMAT,
];

/// The formats that cannot be detected: an option has to describe them.
pub const DESCRIBED: &[&Format] = &[&blkparse_f::FORMAT, &columns::FORMAT, &fixed::FORMAT];

/// A file to decode.
pub(crate) struct Content {
    /// Options.
    pub options: ReadOptions,
    /// The unit of times, where the format does not define it.
    pub time_unit: TimeUnit,
    /// Bytes per sector, where the format does not define it.
    pub sector_bytes: u64,
    /// The volumes of the trace, shared by all files.
    pub volumes: Volumes,
    /// First bytes.
    pub head: Vec<u8>,
    /// Whole content, uncompressed.
    pub input: Box<dyn BufRead>,
    /// Name, for messages.
    pub file: PathBuf,
    /// Whether `file` is a regular file, which may be read in any order, rather than a stream.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub on_disk: bool,
}

/// A file before its format is known.
pub(crate) struct Opened {
    head: Vec<u8>,
    input: Box<dyn BufRead>,
    file: PathBuf,
    on_disk: bool,
}

/// Opens a file; `None` if it is empty.
pub(crate) fn open(path: &Path) -> Result<Option<Opened>, TraceError> {
    let opened = opened(path.to_owned(), compressed::open(path)?)?;
    Ok(opened.map(|opened| Opened { on_disk: path != Path::new(compressed::STDIN), ..opened }))
}

/// Reads the start of `rest`, a stream named `file`; `None` if it is empty.
pub(crate) fn opened(file: PathBuf, mut rest: Box<dyn BufRead>) -> Result<Option<Opened>, TraceError> {
    let mut head = vec![0; HEAD_BYTES];
    let (filled, stopped) = fill(&mut rest, &mut head);
    head.truncate(filled);
    let start = Cursor::new(head.clone());
    let input: Box<dyn BufRead> = match stopped {
        Some(source) if head.is_empty() && source.kind() != io::ErrorKind::UnexpectedEof => {
            return Err(TraceError::Io { file, source });
        }
        Some(_) if head.is_empty() => {
            let (found, expected) = ("a compressed stream that stops before its first bytes", "a trace");
            return Err(TraceError::Malformed {
                file,
                offset: 0,
                found: found.into(),
                expected: expected.into(),
            });
        }
        None if head.is_empty() => return Ok(None),
        Some(error) => Box::new(start.chain(BufReader::new(Stopped(error)))),
        None => Box::new(start.chain(rest)),
    };
    Ok(Some(Opened { head, input, file, on_disk: false }))
}

impl Opened {
    /// The format of the file: as given by the options, or as detected.
    pub fn format(&self, options: &ReadOptions) -> Result<&'static Format, TraceError> {
        if let Some(format) = options.format {
            return Ok(format);
        }
        if let Some(columns) = &options.columns {
            return Ok(columns.format());
        }
        if options.record.is_some() {
            return Ok(&fixed::FORMAT);
        }
        let format = FORMATS.iter().find(|format| format.detect(&self.head));
        format.copied().ok_or_else(|| unknown(&self.head, self.file.clone()))
    }

    /// A decoder of the file as `format`.
    pub fn decoder(
        self,
        format: &Format,
        options: &ReadOptions,
        volumes: &Volumes,
    ) -> Result<Box<dyn Decoder>, TraceError> {
        let Opened { head, input, file, on_disk } = self;
        let OpenUnits { time, sector } = format.open_units;
        (format.open)(Content {
            time_unit: options.time_unit.or(time).unwrap_or(TimeUnit::Nano),
            sector_bytes: options.sector_bytes.or(sector).unwrap_or(SECTOR_BYTES),
            options: options.clone(),
            volumes: volumes.clone(),
            head,
            input,
            file,
            on_disk,
        })
    }
}

impl Format {
    /// Checks that the options apply to the format.
    pub(crate) fn check(&self, options: &ReadOptions) -> Result<(), TraceError> {
        let refuse =
            |setting, found: String, expected: String| Err(TraceError::Setting { setting, found, expected });
        let own = || format!("none: the format {} defines it", self.name);
        if let (Some(unit), None) = (options.time_unit, self.open_units.time) {
            return refuse("the unit of times", unit.to_string(), own());
        }
        if let (Some(bytes), None) = (options.sector_bytes, self.open_units.sector) {
            return refuse("the size of sectors", bytes.to_string(), own());
        }
        match options.sector_bytes {
            Some(bytes) if ![512, 1024, 2048, 4096].contains(&bytes) => {
                refuse("the size of sectors", bytes.to_string(), "512, 1024, 2048 or 4096".into())
            }
            _ => self
                .check_description(options)
                .or_else(|(setting, found, expected)| refuse(setting, found, expected)),
        }
    }

    /// Checks that columns or fields are given if, and only if, the format needs them.
    fn check_description(&self, options: &ReadOptions) -> Result<(), (&'static str, String, String)> {
        let of_columns = options.columns.as_ref().map(Columns::format);
        let of_record = options.record.as_ref().map(|_| &fixed::FORMAT);
        for (setting, described) in [("columns", of_columns), ("fields of a record", of_record)] {
            if let Some(described) = described.filter(|described| described.name != self.name) {
                let found = format!("with the format {}", self.name);
                return Err((setting, found, format!("the format {}", described.name)));
            }
        }
        let missing = |setting, expected: &str| Err((setting, "none".into(), expected.into()));
        if self.name == fixed::FORMAT.name && of_record.is_none() {
            return missing("fields of a record", "them, such as --record u32le-page");
        }
        if of_columns.is_none() && self.name == blkparse_f::FORMAT.name {
            return missing(
                "columns",
                "the format given to blkparse -f, such as \"%D %T.%t %p %d %S %n %C\\n\"",
            );
        }
        if of_columns.is_none() && self.name == columns::FORMAT.name {
            return missing("columns", "them, such as --columns time:s,op,offset:bytes,size:bytes");
        }
        Ok(())
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().chain(DESCRIBED).find(|format| format.name == name).copied()
    }
}

fn unknown(head: &[u8], file: PathBuf) -> TraceError {
    let found = first_line(head).unwrap_or_else(|| blktrace::first_bytes(head));
    if cfg!(not(feature = "parquet")) && head.starts_with(b"PAR1") {
        let expected = "a program that was built with the feature parquet".to_owned();
        return TraceError::Malformed { file, offset: 0, found, expected };
    }
    let formats = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    TraceError::Unknown { file, found, formats, otherwise: "--columns or --record to describe it" }
}

/// The first line of a text; `None` if it is not text.
fn first_line(head: &[u8]) -> Option<String> {
    let line = head.split(|&byte| byte == b'\n' || byte == b'\r').next()?;
    let printable = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte);
    if line.is_empty() || !line.iter().all(printable) {
        return None;
    }
    let most = line.len().min(60);
    let more = if line.len() > most { "..." } else { "" };
    Some(format!("\"{}\"{more}", String::from_utf8_lossy(&line[..most])))
}

/// The rest of a stream that was stopped by this error.
struct Stopped(io::Error);

impl Read for Stopped {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }
}
