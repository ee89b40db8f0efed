//! Which formats there are, and which of them a file is in: its first bytes decide, never its name.
//!
//! The order of [`FORMATS`] is the order in which they are tried: those with a mark of their own
//! first, those that are only known by their numbers making sense last.
//!
//! Faults: content that no format knows is an error that lists what was tried. What stops the stream
//! within the first bytes (a cut or damaged compression) is told when a decoder comes to it.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::{
    Decoder, alibaba, blkparse, blkreplay, blktrace, borg, byte_ascii, cloudphysics, disksim, fio, fiu,
    hp_srt, mqsim, msr, oracle_general, spc, systor, tencent, vscsi,
};
use crate::compressed::{self, fill};
use crate::error::TraceError;

/// How much of a file decides its format: longer than the preambles that some formats have.
const HEAD_BYTES: usize = 4096;

/// How well the reader of a format is known to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// It has read traces that others made.
    Real,
    /// It was written from the format's description, and has read what was made by hand.
    Description,
}

impl Sample {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Sample::Real => "tested on a real sample",
            Sample::Description => "from the description",
        }
    }
}

/// A format that can be read.
pub struct Format {
    /// What people call it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// How well its reader is known to work.
    pub sample: Sample,
    pub(super) detect: fn(&[u8]) -> bool,
    pub(super) open: fn(Content) -> Result<Box<dyn Decoder>, TraceError>,
}

impl Format {
    /// Whether a file that starts with `head` (4096 bytes, or all there are) is in this format.
    pub fn detect(&self, head: &[u8]) -> bool {
        (self.detect)(head)
    }
}

/// Every format that can be read, in the order in which they are tried.
pub const FORMATS: &[&Format] = &[
    &blktrace::FORMAT,
    &hp_srt::FORMAT,
    &fio::FORMAT,
    &cloudphysics::FORMAT,
    &blkparse::FORMAT,
    &msr::FORMAT,
    &fiu::FORMAT,
    &borg::FORMAT,
    &spc::FORMAT,
    &alibaba::FORMAT,
    &systor::FORMAT,
    &tencent::FORMAT,
    &blkreplay::FORMAT,
    &byte_ascii::FORMAT,
    &disksim::FORMAT,
    &mqsim::FORMAT,
    &vscsi::FORMAT_2,
    &vscsi::FORMAT_1,
    &oracle_general::FORMAT,
];

/// A file to decode.
pub(crate) struct Content {
    /// How it starts.
    pub head: Vec<u8>,
    /// All of it, uncompressed.
    pub input: Box<dyn BufRead>,
    /// Its name, for messages.
    pub file: PathBuf,
}

/// What a file turned out to be, and what reads it.
pub(crate) type Opened = (&'static Format, Box<dyn Decoder>);

/// The format of a file and its decoder, or `None` if the file is empty.
pub(crate) fn open(path: &Path) -> Result<Option<Opened>, TraceError> {
    let mut rest = compressed::open(path)?;
    let mut head = vec![0; HEAD_BYTES];
    let (filled, stopped) = fill(&mut rest, &mut head);
    head.truncate(filled);
    let file = path.to_owned();
    let start = Cursor::new(head.clone());
    let input: Box<dyn BufRead> = match stopped {
        Some(source) if head.is_empty() && source.kind() != io::ErrorKind::UnexpectedEof => {
            return Err(TraceError::Io { file, source });
        }
        _ if head.is_empty() => return Ok(None),
        Some(error) => Box::new(start.chain(BufReader::new(Stopped(error)))),
        None => Box::new(start.chain(rest)),
    };
    let Some(format) = FORMATS.iter().find(|format| format.detect(&head)) else {
        return Err(unknown(&head, file));
    };
    let decoder = (format.open)(Content { head, input, file })?;
    Ok(Some((format, decoder)))
}

fn unknown(head: &[u8], file: PathBuf) -> TraceError {
    let tried = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    let expected = format!("a trace in one of the formats {tried}");
    TraceError::Malformed { file, offset: 0, found: blktrace::first_bytes(head), expected }
}

/// What is left of a stream that was stopped by this error.
struct Stopped(io::Error);

impl Read for Stopped {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }
}
