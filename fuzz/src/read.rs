//! Reads any bytes as a trace. The variable `SEEKLESS_FUZZ` says as what: the name of a format, or
//! `any`, in which case the bytes decide. Whatever they are, reading ends, nothing panics, times do not
//! go back, and addresses in bytes fit 64 bits.

#![no_main]

use std::io::Cursor;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use seekless_trace::format::Format;
use seekless_trace::{ReadOptions, Reader};

/// The options to read with: as given, and passing over what makes no sense.
static OPTIONS: OnceLock<[ReadOptions; 2]> = OnceLock::new();

fn options() -> [ReadOptions; 2] {
    let name = std::env::var("SEEKLESS_FUZZ").unwrap_or_else(|_| "any".into());
    let format = Format::named(&name);
    assert!(format.is_some() || name == "any", "SEEKLESS_FUZZ: found '{name}', expected a format or 'any'");
    let columns = (name == "blkparse-f").then(|| "%D %T.%t %p %a %d %S %n [%C]".parse().unwrap());
    let strict = ReadOptions { format, columns, latencies: true, ..ReadOptions::default() };
    let skipping = ReadOptions { skip_bad: true, ..strict.clone() };
    [strict, skipping]
}

fn read(bytes: &[u8], options: &ReadOptions) -> usize {
    let Ok(mut reader) = Reader::over("bytes", Cursor::new(bytes.to_vec()), options) else { return 0 };
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

fuzz_target!(|bytes: &[u8]| {
    let [strict, skipping] = OPTIONS.get_or_init(options);
    let (strictly, skipping) = (read(bytes, strict), read(bytes, skipping));
    assert!(strictly <= skipping, "passing over bad records loses good ones");
});
