//! Parses the output of the kernel's `blk` tracer in `trace_pipe` with the option `bin`: blktrace records, and between
//! them, where the ring buffer overflowed, a line of text about the loss.
//!
//! Invariant: every byte fed in is returned in a record, or counted as skipped, or part of such a line. Faults: any
//! bytes. Bytes that are not a record are skipped up to the next one; versions 7 and 8 are recognized by their magic
//! number.

/// The magic number, without the version.
const MAGIC: u32 = 0x6561_7400;
/// Prefix of a line about lost events.
const LOST: &[u8] = b"CPU:";
/// The longest such line.
const LINE_BYTES: usize = 64;

/// A record's header fields, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Time.
    pub time_ns: u64,
    /// Action and category; for version 8, whose actions are wider, the low half.
    pub action: u32,
    /// The thread.
    pub pid: u32,
    /// The traced device.
    pub device: u32,
    /// The CPU.
    pub cpu: u32,
    /// The whole record.
    pub record: Box<[u8]>,
}

/// Bytes not parsed yet.
#[derive(Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    /// Offset of the first unparsed byte.
    at: usize,
    /// Bytes that were not a record.
    skipped: u64,
}

/// Content at some place.
enum Here {
    Record(usize),
    Line(usize),
    /// Neither, or not yet.
    Junk,
    More,
}

impl Stream {
    /// Adds the bytes of a read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole record.
    pub fn next_record(&mut self) -> Option<RawRecord> {
        loop {
            let rest = &self.bytes[self.at..];
            match here(rest) {
                Here::Record(length) => {
                    let found = decode(&rest[..length]);
                    self.at += length;
                    return Some(found);
                }
                Here::Line(length) => self.at += length,
                Here::Junk => {
                    self.skipped += 1;
                    self.at += 1;
                }
                Here::More => return None,
            }
        }
    }

    /// Number of bytes so far that were not a record.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

fn here(rest: &[u8]) -> Here {
    if rest.starts_with(LOST) {
        return match rest.iter().take(LINE_BYTES).position(|&byte| byte == b'\n') {
            Some(end) => Here::Line(end + 1),
            None if rest.len() < LINE_BYTES => Here::More,
            None => Here::Junk,
        };
    }
    let Some(magic) = rest.first_chunk() else {
        let begins = LOST.starts_with(rest) || (0..=0xff).any(|version| starts(rest, MAGIC | version));
        return if begins { Here::More } else { Here::Junk };
    };
    let header = match u32::from_ne_bytes(*magic).checked_sub(MAGIC) {
        Some(7) => 48,
        Some(8) => 64,
        _ => return Here::Junk,
    };
    // The payload's length is the last number of version 7, and before the padding of version 8.
    let Some(length) = number::<2>(rest, if header == 48 { 46 } else { 50 }) else { return Here::More };
    let length = header + usize::from(u16::from_ne_bytes(length));
    if rest.len() < length { Here::More } else { Here::Record(length) }
}

fn starts(rest: &[u8], magic: u32) -> bool {
    magic.to_ne_bytes().starts_with(rest)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Decodes the header of a whole record.
fn decode(record: &[u8]) -> RawRecord {
    let u32_at = |at| number(record, at).map_or(0, u32::from_ne_bytes);
    let u64_at = |at| number(record, at).map_or(0, u64::from_ne_bytes);
    let v7 = u32_at(0) & 0xff == 7;
    let (action, pid, rest) =
        if v7 { (u32_at(28), u32_at(32), 36) } else { (u64_at(32) as u32, u32_at(28), 40) };
    RawRecord {
        time_ns: u64_at(8),
        action,
        pid,
        device: u32_at(rest),
        cpu: u32_at(rest + 4),
        record: record.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Header, record};

    fn some() -> [Box<[u8]>; 2] {
        let header =
            Header { time_ns: 5, sector: 800, bytes: 4096, action: 1, pid: 7, device: 9, cpu: 1, error: 0 };
        [record(&header, b""), record(&Header { time_ns: 6, ..header }, &[0x61; 16])]
    }

    fn all(stream: &mut Stream) -> Vec<Box<[u8]>> {
        std::iter::from_fn(|| stream.next_record()).map(|found| found.record).collect()
    }

    #[test]
    fn records_are_returned_whole_however_they_are_fed() {
        let bytes = some().concat();
        for step in 1..bytes.len() {
            let mut stream = Stream::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(step) {
                stream.feed(piece);
                found.extend(all(&mut stream));
            }
            assert_eq!((found, stream.skipped()), (some().to_vec(), 0), "{step}");
        }
    }

    #[test]
    fn lost_events_are_a_line_between_records() {
        let [first, second] = some();
        for line in ["CPU:0 [LOST 4711 EVENTS]\n", "CPU:12 [LOST EVENTS]\n"] {
            let mut stream = Stream::default();
            stream.feed(&[&first, line.as_bytes(), &second].concat());
            assert_eq!((all(&mut stream), stream.skipped()), (some().to_vec(), 0));
        }
    }

    #[test]
    fn bytes_that_are_no_record_are_skipped_and_counted() {
        let [first, second] = some();
        let mut stream = Stream::default();
        let long = [b"CPU:".as_slice(), &[b'x'; 80]].concat();
        stream.feed(&[b"a tea".as_slice(), &first, &long, &second].concat());
        assert_eq!((all(&mut stream), stream.skipped()), (some().to_vec(), 5 + 84));
    }

    #[test]
    fn a_record_has_thread_and_time() {
        let mut stream = Stream::default();
        stream.feed(&some()[0]);
        let found = stream.next_record().unwrap();
        assert_eq!((found.time_ns, found.action, found.pid, found.device, found.cpu), (5, 1, 7, 9, 1));
    }

    #[test]
    fn version_8_is_read_by_its_own_layout() {
        let mut record = [0; 64];
        for (at, value) in [(0, 0x6561_7408_u32), (8, 5), (28, 7), (32, 0x11_0001), (40, 9), (44, 1)] {
            record[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let mut stream = Stream::default();
        stream.feed(&record);
        let found = stream.next_record().unwrap();
        let numbers = (found.time_ns, found.action, found.pid, found.device, found.cpu);
        assert_eq!(numbers, if cfg!(target_endian = "little") { (5, 0x11_0001, 7, 9, 1) } else { numbers });
        assert_eq!(found.record.len(), 64);
    }
}
