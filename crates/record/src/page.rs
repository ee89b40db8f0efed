//! Parses a page of the kernel's ring buffer, as `trace_pipe_raw` gives it.
//!
//! A page starts with the time of its first event and the number of bytes filled; each event starts with 5 bits of
//! length and 27 bits of nanoseconds since the one before.
//!
//! Invariant: nothing beyond the page is read. Faults: any bytes; an event that does not fit ends the page.

use crate::error::RecordError;
use crate::format::{Field, Layout};

/// Length codes with other meanings: a gap, a long time since the event before, an absolute time.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a header that are time.
const TIME_BITS: u32 = 27;
/// The absolute time of a [`TIME_STAMP`] has this many bits; those above are the page's.
const STAMP_BITS: u32 = 59;
/// Bits of the fill count that are a count; those above flag lost events.
const FILL: u64 = (1 << 20) - 1;

/// The layout of pages on this kernel.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    time: Field,
    fill: Field,
    data: Field,
}

impl Pages {
    /// Parses `events/header_page`.
    pub fn new(layout: &Layout) -> Result<Pages, RecordError> {
        Ok(Pages {
            time: layout.field("timestamp")?,
            fill: layout.field("commit")?,
            data: layout.field("data")?,
        })
    }

    /// Length of a page.
    pub fn bytes(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// Calls `each` with the time and the bytes of each event of `page`.
    pub fn events<'a>(&self, page: &'a [u8], mut each: impl FnMut(u64, &'a [u8])) {
        let mut time = self.time.number(page);
        let fill = (self.fill.number(page) & FILL) as usize;
        let data = page.get(self.data.offset..).unwrap_or_default();
        let mut rest = &data[..fill.min(data.len())];
        while let Some((word, after)) = take_word(rest) {
            let (code, delta) = split(word);
            let length = match code {
                // A gap without a time is the end of the filled part.
                PADDING if delta == 0 => return,
                PADDING | 0 => {
                    time += u64::from(delta);
                    // The length is in the next word, which it includes.
                    let Some((length, body)) = take_word(after) else { return };
                    let Some(event) = body.get(..(length as usize).saturating_sub(4)) else { return };
                    if code == 0 {
                        each(time, event);
                    }
                    rest = body.get((event.len() + 3) & !3..).unwrap_or_default();
                    continue;
                }
                TIME_EXTEND | TIME_STAMP => {
                    let Some((high, body)) = take_word(after) else { return };
                    let wide = u64::from(high) << TIME_BITS | u64::from(delta);
                    time = if code == TIME_EXTEND { time.wrapping_add(wide) } else { stamp(time, wide) };
                    rest = body;
                    continue;
                }
                words => words as usize * 4,
            };
            time = time.wrapping_add(u64::from(delta));
            let Some(event) = after.get(..length) else { return };
            each(time, event);
            rest = &after[length..];
        }
    }
}

/// An absolute time that lacks its highest bits, completed by those of `time`.
fn stamp(time: u64, wide: u64) -> u64 {
    let above = time >> STAMP_BITS << STAMP_BITS;
    (wide & ((1 << STAMP_BITS) - 1)) | above
}

fn take_word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*word), rest))
}

/// The length code and the time of a header. C bit fields: from the low end on a little-endian machine, else from the
/// high end.
fn split(word: u32) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (word & 0x1f, word >> 5)
    } else {
        (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_PAGE: &str = "field: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\nfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\nfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\nfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn pages() -> Pages {
        Pages::new(&Layout::parse(HEADER_PAGE)).unwrap()
    }

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((words.len() as u64 * 4).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page.resize(pages().bytes(), 0xee);
        page
    }

    fn events(page: &[u8]) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        pages().events(page, |time, event| found.push((time, event.len())));
        found
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn every_kind_of_header_is_understood() {
        let word = |code: u32, delta: u32| delta << 5 | code;
        let words = [
            vec![word(1, 10), 1],
            // A second and more since the event before.
            vec![word(TIME_EXTEND, 1), 8],
            vec![word(2, 0), 1, 2],
            // A gap of two words, which took time.
            vec![word(PADDING, 5), 8, 0],
            // Too long for a length code: five bytes, and what fills up the word.
            vec![word(0, 1), 4 + 5, 1, 2],
            vec![word(TIME_STAMP, 7), 0],
            vec![word(1, 0), 9],
        ];
        let wide = 1000 + 10 + (8 << 27) + 1;
        let expected = [(1010, 4), (wide, 8), (wide + 6, 5), (7, 4)];
        assert_eq!(events(&page(1000, &words.concat())), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_page_of_linux_6_18_gives_its_events() {
        // The fork and the exec of a dd: the first two events of a captured page.
        let captured = "e5ff1a2f8b05000068000000000000000c000000cd000000052c00000d2c00006261736800000000 \
            00000000000000000000000000002001000000000000000000000000acc81201cc0000000d2c0000 \
            0d2c0000626173680000000000000000000000006464000000000000000000000000000000000000";
        let digits: String = captured.split_whitespace().collect();
        let mut bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect();
        bytes.resize(4096, 0);
        let mut found = Vec::new();
        pages().events(&bytes, |time, event| found.push((time, event[0], event.len())));
        assert_eq!(found, [(0x058b_2f1a_ffe5, 0xcd, 48), (0x058b_2f1a_ffe5 + (0x0112_c8ac >> 5), 0xcc, 48)]);
    }

    #[test]
    fn nothing_panics_on_any_bytes() {
        let mut state = 1_u32;
        for length in (0..4096).step_by(37) {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            let _ = events(&bytes);
        }
    }
}
