//! Reads any bytes as a trace of the named format, or of `any`, in which case the bytes decide. Reading always ends,
//! nothing panics, times do not go back, and addresses in bytes fit 64 bits.

use std::io::Cursor;

use seekless_trace::format::Format;
use seekless_trace::{ReadOptions, Reader};

/// The options to read a format with: as given, and with bad records skipped.
fn options(name: &str) -> [ReadOptions; 2] {
    let format = Format::named(name);
    assert!(format.is_some() || name == "any", "found '{name}', expected a format or 'any'");
    let columns = (name == "blkparse-f").then(|| "%D %T.%t %p %a %d %S %n [%C]".parse().unwrap());
    let strict = ReadOptions { format, columns, latencies: true, ..ReadOptions::default() };
    let skipping = ReadOptions { skip_bad: true, ..strict.clone() };
    [strict, skipping]
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
    let [strict, skipping] = options(format);
    let (strictly, skipping) = (read(bytes, &strict), read(bytes, &skipping));
    assert!(strictly <= skipping, "passing over bad records loses good ones");
}
