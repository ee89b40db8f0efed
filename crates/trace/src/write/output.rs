//! The output of a written trace: a file that appears under its name only when it is whole, or a stream; compressed if
//! the name's ending says so (`.gz`, `.xz`, `.zst`).
//!
//! Invariants: a file is written under another name in the same folder (`NAME.PROCESS.part`) and renamed by
//! [`Output::finish`]; dropped before, it is removed. An existing file is replaced only on request. Other destinations
//! (a pipe, a terminal, `/dev/null`) are written directly.
//!
//! Faults: a full disk, a missing folder, a closed pipe: errors of the operating system. A killed program leaves the
//! `.part` file.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::process;

use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;

/// Large enough that system calls are negligible beside formatting.
const BUFFER_BYTES: usize = 128 << 10;
/// The default of `xz`.
const XZ_LEVEL: u32 = 6;
/// The default of `zstd`.
const ZSTD_LEVEL: i32 = 3;

/// Compression of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// None.
    Plain,
    /// gzip, as `.gz`.
    Gzip,
    /// xz, as `.xz`.
    Xz,
    /// zstd, as `.zst`.
    Zstd,
}

impl Packing {
    /// The compression given by the ending of a file's name, and the name without it.
    pub fn of(name: &str) -> (Packing, &str) {
        let known = [(".gz", Packing::Gzip), (".xz", Packing::Xz), (".zst", Packing::Zstd)];
        let found = known.iter().find_map(|(ending, packing)| Some((*packing, name.strip_suffix(ending)?)));
        found.unwrap_or((Packing::Plain, name))
    }
}

type Sink = Counted<Box<dyn Write + Send>>;

/// The output of a written trace.
pub struct Output {
    /// Buffered: text is written in pieces of a few bytes.
    stream: BufWriter<Stream>,
    /// The unfinished file, and its final name; `None` for a stream.
    file: Option<Unfinished>,
}

enum Stream {
    Plain(Sink),
    Gzip(GzEncoder<Sink>),
    Xz(XzEncoder<Sink>),
    Zstd(zstd::stream::write::Encoder<'static, Sink>),
}

impl Output {
    /// Output to `to`, which need not be a file.
    pub fn stream(to: impl Write + Send + 'static, packing: Packing) -> io::Result<Output> {
        let sink = Counted { bytes: 0, to: Box::new(to) as Box<_> };
        let stream = match packing {
            Packing::Plain => Stream::Plain(sink),
            Packing::Gzip => Stream::Gzip(GzEncoder::new(sink, flate2::Compression::default())),
            Packing::Xz => Stream::Xz(XzEncoder::new(sink, XZ_LEVEL)),
            Packing::Zstd => Stream::Zstd(zstd::stream::write::Encoder::new(sink, ZSTD_LEVEL)?),
        };
        Ok(Output { stream: BufWriter::with_capacity(BUFFER_BYTES, stream), file: None })
    }

    /// Output to a file, compressed by the ending of its name. An existing file is an error of the kind
    /// [`ErrorKind::AlreadyExists`] unless it may be replaced.
    pub fn file(path: &Path, replace: bool) -> io::Result<Output> {
        Output::packed(path, replace, Packing::of(&path.to_string_lossy()).0)
    }

    /// As `file`, uncompressed, whatever its name ends in.
    pub fn plain_file(path: &Path, replace: bool) -> io::Result<Output> {
        Output::packed(path, replace, Packing::Plain)
    }

    fn packed(path: &Path, replace: bool, packing: Packing) -> io::Result<Output> {
        match fs::metadata(path) {
            // A rename would put a file in the place of a device.
            Ok(there) if !there.is_file() => {
                return Output::stream(File::options().write(true).open(path)?, packing);
            }
            Ok(_) if !replace => return Err(exists()),
            _ => {}
        }
        // A link stays a link to the file.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut part = path.file_name().unwrap_or_default().to_owned();
        part.push(format!(".{}.part", process::id()));
        let part = path.with_file_name(part);
        let created = File::options().write(true).create_new(true).open(&part)?;
        let mut output = Output::stream(created, packing)?;
        output.file = Some(Unfinished { part, path, replace, renamed: false });
        Ok(output)
    }

    /// Writes the rest and renames the file; returns its size in bytes.
    pub fn finish(self) -> io::Result<u64> {
        let Output { stream, file } = self;
        let mut sink = match stream.into_inner().map_err(IntoInnerError::into_error)? {
            Stream::Plain(sink) => sink,
            Stream::Gzip(stream) => stream.finish()?,
            Stream::Xz(stream) => stream.finish()?,
            Stream::Zstd(stream) => stream.finish()?,
        };
        sink.flush()?;
        let bytes = sink.bytes;
        drop(sink);
        if let Some(file) = file {
            file.finish()?;
        }
        Ok(bytes)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Gzip(stream) => stream.write(bytes),
            Stream::Xz(stream) => stream.write(bytes),
            Stream::Zstd(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Gzip(stream) => stream.flush(),
            Stream::Xz(stream) => stream.flush(),
            Stream::Zstd(stream) => stream.flush(),
        }
    }
}

/// Counts bytes.
struct Counted<W> {
    bytes: u64,
    to: W,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// An unfinished file.
struct Unfinished {
    part: PathBuf,
    path: PathBuf,
    replace: bool,
    renamed: bool,
}

impl Unfinished {
    fn finish(mut self) -> io::Result<()> {
        // It may have been created meanwhile.
        if !self.replace && self.path.exists() {
            return Err(exists());
        }
        fs::rename(&self.part, &self.path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.renamed {
            // If it cannot be removed it stays; the earlier error is reported.
            let _ = fs::remove_file(&self.part);
        }
    }
}

fn exists() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "found a file of that name, expected none")
}
