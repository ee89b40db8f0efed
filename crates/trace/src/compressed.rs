//! Opens a file as a stream of bytes, decompressing gzip, xz and zstd.
//!
//! The first bytes decide, never the name: a renamed file reads the same. Several members or streams in sequence are
//! one stream, as for the tools that write them.
//!
//! Faults: a compressed stream that stops early gives its content so far, then [`io::ErrorKind::UnexpectedEof`]; a
//! damaged one gives another error. Memory is bounded: xz may use [`XZ_MEMORY_BYTES`] at most, zstd itself refuses
//! windows above 128 MiB.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::error::TraceError;

/// Four times what `xz -9` needs; more is a mistake or an attack.
pub const XZ_MEMORY_BYTES: u64 = 256 << 20;

/// Large enough that system calls are negligible beside decoding.
const BUFFER_BYTES: usize = 128 << 10;

/// The name of standard input.
pub const STDIN: &str = "-";

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Opens `path` for reading its uncompressed content; `-` is standard input.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, TraceError> {
    let opened = if path == Path::new(STDIN) {
        decompress(io::stdin().lock())
    } else {
        File::open(path).and_then(decompress)
    };
    opened.map_err(|source| TraceError::Io { file: path.to_owned(), source })
}

/// The uncompressed content of a file, from its start.
pub fn reopen(file: &File) -> io::Result<Box<dyn BufRead>> {
    let mut file = file.try_clone()?;
    file.rewind()?;
    decompress(file)
}

/// The uncompressed content of `source`.
pub fn decompress(source: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let (head, rest) = peek(source, XZ.len())?;
    let is = |magic| head.starts_with(magic);
    let (gzip, xz, zstd) = (is(GZIP), is(XZ), is(ZSTD));
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(rest));
    if gzip {
        return Ok(buffered("gzip", MultiGzDecoder::new(whole)));
    }
    if xz {
        let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?;
        return Ok(buffered("xz", XzDecoder::new_stream(whole, stream)));
    }
    if zstd {
        return Ok(buffered("zstd", zstd::stream::read::Decoder::with_buffer(whole)?));
    }
    Ok(Box::new(whole))
}

/// The first `bytes` bytes (fewer if there are no more), and the stream after them.
pub(crate) fn peek<R: Read>(mut source: R, bytes: usize) -> io::Result<(Vec<u8>, R)> {
    let mut head = vec![0; bytes];
    let (filled, stopped) = fill(&mut source, &mut head);
    head.truncate(filled);
    match stopped {
        Some(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok((head, source)),
    }
}

/// Reads until `into` is full; returns the number of bytes, and the error that stopped it, if any. The plain end of the
/// stream is not an error.
pub(crate) fn fill(source: &mut impl Read, into: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < into.len() {
        match source.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

fn buffered(packing: &'static str, source: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, NamedStream { packing, source, bytes_read: 0 }))
}

/// A stream whose errors give its compression and how far it was read.
struct NamedStream<R> {
    packing: &'static str,
    source: R,
    /// Bytes read so far, uncompressed.
    bytes_read: u64,
}

impl<R: Read> Read for NamedStream<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into).map_err(|error| match error.kind() {
            ErrorKind::Interrupted | ErrorKind::UnexpectedEof => error,
            kind => io::Error::new(
                kind,
                format!(
                    "found {} data that cannot be undone ({error}), after {} bytes of what they hold; \
                     expected a whole file",
                    self.packing, self.bytes_read
                ),
            ),
        })?;
        self.bytes_read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read_all(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        decompress(Cursor::new(bytes))?.read_to_end(&mut all)?;
        Ok(all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_one_after_another_are_one_stream() {
        for compress in [gzip, xz, |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap()] {
            let two = [compress(b"seek"), compress(b"less")].concat();
            assert_eq!(read_all(two).unwrap(), b"seekless");
        }
        assert_eq!(read_all(b"plain".to_vec()).unwrap(), b"plain");
        assert_eq!(read_all(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn a_truncated_stream_gives_its_content_then_an_error() {
        let content: Vec<u8> =
            (0..40_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        for compress in [gzip, xz, |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap()] {
            let mut cut = compress(&content);
            cut.truncate(cut.len() / 2);
            let mut stream = decompress(Cursor::new(cut)).unwrap();
            let mut into = vec![0; content.len()];
            let (filled, stopped) = fill(&mut stream, &mut into);
            assert!(stopped.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof));
            assert_eq!(into[..filled], content[..filled]);
        }
    }

    #[test]
    fn damage_is_not_taken_for_an_early_end() {
        let content: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut damaged = xz(&content);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0xff;
        let error = read_all(damaged).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::UnexpectedEof);
        let message = error.to_string();
        assert!(
            message.starts_with("found xz data") && message.contains("expected a whole file"),
            "{message}"
        );
    }
}
