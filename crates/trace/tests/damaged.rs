//! Every format with files damaged in each way that occurs: an error names the line or the byte, the value found and
//! the value expected; with `skip_bad` malformed records are counted and the rest is read.

mod common;

use std::path::PathBuf;

use common::binary;
use common::samples::{Row, SAMPLES, Sample, row};
use common::save;
use seekless_trace::format::FORMATS;
use seekless_trace::{ReadOptions, Trace, load};

/// The start of a picture.
const FOREIGN: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\n";

fn rows(trace: &Trace) -> Vec<Row> {
    trace.records.iter().map(row).collect()
}

/// A sample with something after it.
struct Damaged<'a> {
    sample: &'a Sample,
    file: PathBuf,
    /// The number of the first line after the sample.
    line: usize,
}

impl<'a> Damaged<'a> {
    fn new(sample: &'a Sample, name: &str, tail: &[u8]) -> Damaged<'a> {
        let lines = sample.lines();
        let file = save(name, &[lines.as_bytes(), tail].concat());
        Damaged { sample, file, line: lines.lines().count() + 1 }
    }

    /// The line after the sample ends the trace, or is skipped on request.
    fn is_refused(&self, found: &str) {
        let format = self.sample.format;
        let error = load(&[&self.file], &self.sample.options()).unwrap_err().to_string();
        let place = format!(", line {}: found ", self.line);
        assert!(error.contains(&place) && error.contains(found), "{format}: {error}");
        assert!(error.contains("expected "), "{format}: {error}");
        let skipping = ReadOptions { skip_bad: true, ..self.sample.options() };
        let trace = load(&[&self.file], &skipping).unwrap();
        assert_eq!(rows(&trace), self.sample.rows, "{format}: {error}");
        let reported = trace.warnings.iter().any(|warning| warning.starts_with("1 malformed records"));
        assert!(reported, "{format}: {:?}", trace.warnings);
    }

    fn is_read(&self) -> Trace {
        load(&[&self.file], &self.sample.options()).unwrap()
    }
}

#[test]
fn every_format_of_text_has_a_sample() {
    let binary: Vec<&str> = binary::samples().iter().map(|sample| sample.format).collect();
    // Parquet's damage has a test of its own.
    for format in FORMATS.iter().filter(|format| format.name != "parquet") {
        let known = SAMPLES.iter().any(|sample| sample.format == format.name);
        assert!(known || binary.contains(&format.name), "{} has none", format.name);
    }
}

#[test]
fn a_line_that_makes_no_sense_is_named() {
    for sample in SAMPLES {
        Damaged::new(sample, "nonsense", b"this is, no ; record\n").is_refused("\"");
    }
}

#[test]
fn nul_bytes_are_named() {
    for sample in SAMPLES {
        Damaged::new(sample, "nul", &[&[0; 600][..], b"\n"].concat()).is_refused("\"\\u{0}");
    }
}

#[test]
fn a_line_of_ten_megabytes_is_not_read_whole() {
    for sample in SAMPLES {
        let line = [vec![b'7'; 10 << 20], vec![b'\n']].concat();
        Damaged::new(sample, "long", &line).is_refused("a line of more than 16384 bytes");
    }
}

#[test]
fn a_negative_time_is_named() {
    for sample in SAMPLES {
        Damaged::new(sample, "negative", format!("{}\n", sample.negative).as_bytes()).is_refused("\"-");
    }
}

#[test]
fn a_size_of_two_to_the_fortieth_is_named() {
    for sample in SAMPLES {
        let line = format!("{}\n", sample.sized.replace("{size}", "1099511627776"));
        Damaged::new(sample, "huge", line.as_bytes()).is_refused("");
    }
}

#[test]
fn a_size_that_would_do_is_read() {
    for sample in SAMPLES {
        let line = format!("{}\n", sample.sized.replace("{size}", "4096"));
        let trace = Damaged::new(sample, "fitting", line.as_bytes()).is_read();
        assert_eq!(trace.records.len(), sample.rows.len() + 1, "{}", sample.format);
    }
}

#[test]
fn a_size_of_nothing_is_a_flush_or_is_left_out() {
    for sample in SAMPLES {
        let line = format!("{}\n", sample.sized.replace("{size}", "0"));
        let trace = Damaged::new(sample, "empty", line.as_bytes()).is_read();
        let reported = trace.warnings.iter().any(|warning| warning.contains("1 requests of no bytes"));
        let flush = trace.records.len() == sample.rows.len() + 1;
        assert!(reported != flush, "{}: {:?} {:?}", sample.format, rows(&trace), trace.warnings);
    }
}

#[test]
fn a_truncated_line_is_reported() {
    for sample in SAMPLES {
        let trace = Damaged::new(sample, "cut", b"this is").is_read();
        assert_eq!(rows(&trace), sample.rows, "{}", sample.format);
        let reported = trace.warnings.iter().any(|warning| warning.contains("cut short"));
        assert!(reported, "{}: {:?}", sample.format, trace.warnings);
    }
}

#[test]
fn a_foreign_file_is_reported() {
    let file = save("foreign", &FOREIGN.repeat(9));
    let error = load(&[&file], &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("foreign, byte 0: found ") && error.contains("expected a trace in one of"),
        "{error}"
    );
    for sample in SAMPLES {
        let error = load(&[&file], &sample.options()).unwrap_err().to_string();
        assert!(error.contains("foreign, line ") && error.contains("expected "), "{error}");
    }
    for sample in binary::samples() {
        let error = load(&[&file], &sample.options()).unwrap_err().to_string();
        assert!(error.contains("foreign, byte ") && error.contains("found "), "{error}");
    }
}

#[test]
fn binary_records_cut_anywhere_give_those_before_the_cut() {
    for sample in binary::samples() {
        for cut in sample.text_bytes + 1..sample.bytes.len() {
            let file = save("cut-anywhere", &sample.bytes[..cut]);
            // Too short to be recognized.
            let Ok(trace) = load(&[file], &sample.options()) else {
                assert!(cut < sample.text_bytes + sample.record_bytes, "{} cut at {cut}", sample.format);
                continue;
            };
            let given = rows(&trace);
            assert_eq!(given, sample.rows[..given.len()], "{} cut at {cut}", sample.format);
            let whole = (cut - sample.text_bytes) % sample.record_bytes == 0;
            let reported = trace.warnings.iter().any(|warning| warning.contains("cut short"));
            assert!(reported != whole, "{} cut at {cut}", sample.format);
        }
    }
}

#[test]
fn bytes_in_the_wrong_order_are_reported() {
    for sample in binary::samples() {
        let mut swapped = sample.bytes.clone();
        swapped[sample.text_bytes..].chunks_exact_mut(4).for_each(<[u8]>::reverse);
        let read = load(&[save("swapped", &swapped)], &ReadOptions::default());
        let read = read.map(|trace| (trace.format, rows(&trace)));
        // Either order is blktrace's; its longer numbers have their halves in the other one here.
        let reported =
            read.as_ref().map_or(true, |(format, rows)| *format == "blktrace" && *rows != sample.rows);
        assert!(reported, "{}: {read:?}", sample.format);
    }
}

/// A field of eight bytes that is too large: the format, its place in a record, its name, and the error.
const HUGE: [(&str, usize, u64, &str); 5] = [
    ("blktrace", 16, u64::MAX, "a request at sector 18446744073709551615"),
    ("vscsi-1", 16, u64::MAX, "sectors at sector 18446744073709551615"),
    ("vscsi-1", 24, u64::MAX, "time 18446744073709551615 us"),
    ("vscsi-2", 16, u64::MAX, "sectors at sector 18446744073709551615"),
    ("oracleGeneral", 4, u64::MAX, "sectors at sector 18446744073709551615"),
];

#[test]
fn a_record_that_makes_no_sense_is_named_and_passed_over() {
    for sample in binary::samples() {
        for (_, at, value, reported) in HUGE.iter().filter(|(format, ..)| *format == sample.format) {
            let mut bytes = sample.bytes.clone();
            let last = sample.bytes.len() - sample.record_bytes;
            let first = bytes[sample.text_bytes..][..sample.record_bytes].to_vec();
            bytes.extend(&first);
            let added = last + sample.record_bytes;
            bytes[added + at..][..8].copy_from_slice(&value.to_le_bytes());
            let file = save("senseless", &bytes);
            let error = load(&[&file], &sample.options()).unwrap_err().to_string();
            assert!(error.contains(&format!("byte {added}: found ")), "{}: {error}", sample.format);
            assert!(error.contains(reported) && error.contains("expected "), "{}: {error}", sample.format);
            let skipping = ReadOptions { skip_bad: true, ..sample.options() };
            let trace = load(&[&file], &skipping).unwrap();
            assert_eq!(rows(&trace), sample.rows, "{}", sample.format);
            let reported = trace.warnings.iter().any(|warning| warning.contains("malformed records"));
            assert!(reported, "{}: {:?}", sample.format, trace.warnings);
        }
    }
}
