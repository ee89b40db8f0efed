//! Reads any bytes as a trace of the named format, or of `any`, in which case the bytes decide. Reading always ends,
//! nothing panics, times do not go back, and addresses in bytes fit 64 bits. Where a format has to be described, the
//! first line is the description.

use std::io::Cursor;

use seekless_trace::format::Format;
use seekless_trace::{Columns, ReadOptions, Reader};

/// The options to read a format with, and the bytes after its description; `None` if that is wrong.
fn options<'a>(name: &str, bytes: &'a [u8]) -> Option<(ReadOptions, &'a [u8])> {
    let format = Format::named(name);
    assert!(format.is_some() || name == "any", "found '{name}', expected a format or 'any'");
    let mut options = ReadOptions { format, latencies: true, ..ReadOptions::default() };
    if name == "blkparse-f" {
        options.columns = "%D %T.%t %p %a %d %S %n [%C]".parse().ok();
    }
    if name != "columns" && name != "record" {
        return Some((options, bytes));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let description = std::str::from_utf8(&bytes[..end]).ok()?;
    if name == "columns" {
        options.columns = Some(description.parse().ok()?);
        options.format = options.columns.as_ref().map(Columns::format);
    } else {
        options.record = Some(description.parse().ok()?);
    }
    Some((options, &bytes[end + 1..]))
}

fn read(bytes: &[u8], options: &ReadOptions) -> usize {
    let Ok(mut reader) = Reader::from_stream("bytes", Cursor::new(bytes.to_vec()), options) else { return 0 };
    let mut now = 0;
    let mut records = 0;
    for record in reader.by_ref().map_while(Result::ok) {
        assert!(record.time.0 >= now, "time goes back");
        now = record.time.0;
        let _ = record.extent.end().0 * seekless_core::SECTOR_BYTES;
        records += 1;
    }
    assert!(reader.next().is_none(), "goes on after its end");
    records
}

pub fn run(format: &str, bytes: &[u8]) {
    let Some((strict, bytes)) = options(format, bytes) else { return };
    let skipping = ReadOptions { skip_bad: true, ..strict.clone() };
    let (strictly, skipping) = (read(bytes, &strict), read(bytes, &skipping));
    assert!(strictly <= skipping, "passing over bad records loses good ones");
}
