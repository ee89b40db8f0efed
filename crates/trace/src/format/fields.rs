//! Fields of a record: numbers, times and places from text and units.
//!
//! Invariant: the end address in bytes of every [`Extent`] made here fits 64 bits, and it is at most [`MAX_BYTES`]
//! long. Faults: any text at all; text that is not a valid field is a [`Flaw`] that quotes it.

use seekless_core::{Extent, Latency, Nanos, Op, SECTOR_BYTES};

use crate::volumes::{MAX_NAMED, Volumes};

/// Larger than any request of a disk; the kernel counts a request's bytes in 32 bits.
pub const MAX_BYTES: u64 = u32::MAX as u64;
/// Most characters of a field that are quoted.
const QUOTED: usize = 60;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub const MICROSECOND: u64 = 1_000;

/// Why a record is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The value found.
    pub found: String,
    /// The value expected.
    pub expected: String,
}

impl Flaw {
    /// A flaw of unexpected text.
    pub fn text(found: &str, expected: &str) -> Flaw {
        Flaw { found: quoted(found), expected: expected.into() }
    }
}

/// `text` as quoted in an error: shortened, without terminal control characters.
pub fn quoted(text: &str) -> String {
    let more = if text.chars().nth(QUOTED).is_some() { "..." } else { "" };
    let mut shown = String::new();
    for letter in text.chars().take(QUOTED) {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    format!("\"{shown}{more}\"")
}

/// Exactly `N` columns; `expected` names them.
pub fn columns<'a, const N: usize>(
    line: &'a str,
    mut parts: impl Iterator<Item = &'a str>,
    expected: &str,
) -> Result<[&'a str; N], Flaw> {
    let columns = at_least(line, &mut parts, expected)?;
    match parts.next() {
        None => Ok(columns),
        Some(_) => Err(Flaw::text(line, expected)),
    }
}

/// The first `N` columns; `expected` names them.
pub fn at_least<'a, const N: usize>(
    line: &str,
    parts: &mut impl Iterator<Item = &'a str>,
    expected: &str,
) -> Result<[&'a str; N], Flaw> {
    let mut columns = [""; N];
    for column in &mut columns {
        *column = parts.next().ok_or_else(|| Flaw::text(line, expected))?.trim_ascii();
    }
    Ok(columns)
}

/// The parts of `line` between separators: as `str::split`, which is slower on short parts.
pub fn split(line: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        // Cut at a byte of ASCII, hence between characters.
        match line.bytes().position(|byte| byte == separator) {
            Some(end) => {
                rest = line.get(end + 1..);
                line.get(..end)
            }
            None => rest.take(),
        }
    })
}

/// A whole number.
pub fn number<T: TryFrom<u64>>(text: &str, expected: &str) -> Result<T, Flaw> {
    let text = text.trim_ascii();
    let value = digits(text.as_bytes(), 0);
    let value = value.filter(|_| !text.is_empty()).and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Flaw::text(text, expected))
}

/// Continues a number with these digits.
fn digits(text: &[u8], before: u64) -> Option<u64> {
    text.iter().try_fold(before, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A time in units of `unit_ns` nanoseconds, with or without a fraction. Digits below a nanosecond are dropped.
pub fn time(text: &str, unit_ns: u64, expected: &str) -> Result<Nanos, Flaw> {
    let text = text.trim_ascii();
    decimal(text.as_bytes(), unit_ns)
        .or_else(|| scientific(text, unit_ns))
        .map(Nanos)
        .ok_or_else(|| Flaw::text(text, expected))
}

fn decimal(text: &[u8], unit_ns: u64) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut nanos = digits(whole, 0)?.checked_mul(unit_ns)?;
    let mut place = unit_ns;
    // A digit below the unit's own granularity contributes nothing.
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        nanos = nanos.checked_add(u64::from(digit) * place / 10)?;
        place /= 10;
    }
    Some(nanos)
}

fn scientific(text: &str, unit_ns: u64) -> Option<u64> {
    if !text.contains(['e', 'E']) {
        return None;
    }
    let value = text.parse::<f64>().ok()? * unit_ns as f64;
    // 2^63: beyond it, times do not fit, and neither do the differences of times.
    (0.0..9.223_372_036_854_775e18).contains(&value).then_some(value as u64)
}

/// An extent given in sectors of 512 bytes.
pub fn sectors(start: u64, count: u64) -> Result<Extent, Flaw> {
    let bytes = count.saturating_mul(SECTOR_BYTES);
    place(start, count, bytes).ok_or_else(|| Flaw {
        found: format!("{count} sectors at sector {start}"),
        expected: format!("at most {MAX_BYTES} bytes, at an address below 2^64 bytes"),
    })
}

/// An extent that starts at a block of `block_bytes`, a multiple of 512, and has `length` bytes.
pub fn blocks(start: u64, length: u64, block_bytes: u64) -> Result<Extent, Flaw> {
    let flaw = || Flaw {
        found: format!("{length} bytes at block {start} of {block_bytes} bytes"),
        expected: format!("at most {MAX_BYTES} bytes, at an address below 2^64 bytes"),
    };
    let sector = start.checked_mul(block_bytes / SECTOR_BYTES).ok_or_else(flaw)?;
    place(sector, length.div_ceil(SECTOR_BYTES), length).ok_or_else(flaw)
}

/// A latency in units of `unit_ns` nanoseconds.
pub fn latency(text: &str, unit_ns: u64, expected: &str) -> Result<Latency, Flaw> {
    time(text, unit_ns, expected).map(Latency::of)
}

/// An extent given in bytes: all sectors of which it covers a byte.
pub fn bytes(offset: u64, length: u64) -> Result<Extent, Flaw> {
    let start = offset / SECTOR_BYTES;
    let end = offset.checked_add(length).map(|end| end.div_ceil(SECTOR_BYTES));
    let count = if length == 0 { Some(0) } else { end.map(|end| end - start) };
    count.and_then(|count| place(start, count, length)).ok_or_else(|| Flaw {
        found: format!("{length} bytes at byte {offset}"),
        expected: format!("at most {MAX_BYTES} bytes, at an address below 2^64 bytes"),
    })
}

fn place(start: u64, count: u64, bytes: u64) -> Option<Extent> {
    if bytes > MAX_BYTES || start.checked_add(count)? > u64::MAX / SECTOR_BYTES {
        return None;
    }
    Some(if count == 0 { Extent::default() } else { Extent::new(start, count) })
}

/// The number of the volume of this name.
pub fn volume(volumes: &Volumes, name: &str) -> Result<u32, Flaw> {
    let flaw = || Flaw { found: quoted(name), expected: format!("at most {MAX_NAMED} volumes") };
    volumes.number(name).ok_or_else(flaw)
}

/// Linux's number of a device with these two.
pub fn device_of(major: u32, minor: u32) -> Result<u32, Flaw> {
    if major < 1 << 12 && minor < 1 << 20 {
        return Ok(major << 20 | minor);
    }
    Err(Flaw { found: format!("device {major},{minor}"), expected: "at most 4095,1048575".into() })
}

/// The operation named by one of two words (either case): the one for a read, the one for a write.
pub fn direction(text: &str, read: &str, write: &str) -> Result<Op, Flaw> {
    let text = text.trim_ascii();
    if text.eq_ignore_ascii_case(read) {
        Ok(Op::Read)
    } else if text.eq_ignore_ascii_case(write) {
        Ok(Op::Write)
    } else {
        Err(Flaw::text(text, &format!("{read} (a read) or {write} (a write)")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_in_any_unit() {
        let ns = |text, unit| time(text, unit, "a time").map(|time| time.0);
        assert_eq!(ns("13.191135", MILLISECOND), Ok(13_191_135));
        assert_eq!(ns("1605518127.168810795", SECOND), Ok(1_605_518_127_168_810_795));
        assert_eq!(ns(" .5", SECOND), Ok(500_000_000));
        assert_eq!(ns("7.", MICROSECOND), Ok(7_000));
        assert_eq!(ns("128166372003061629", 100), Ok(12_816_637_200_306_162_900));
        assert_eq!(ns("1.5e-3", SECOND), Ok(1_500_000));
        assert_eq!(ns("0.0000000019", SECOND), Ok(1));
        for error_at in ["", ".", "-1", "+1", "1.2.3", "x", "1e99", "NaN", "18446744073709551615", "1.-1"] {
            assert!(ns(error_at, SECOND).is_err(), "{error_at}");
        }
    }

    #[test]
    fn places_cover_each_sector_they_touch_and_stay_addressable() {
        assert_eq!(bytes(1000, 100), Ok(Extent::new(1, 2)));
        assert_eq!(bytes(512, 512), Ok(Extent::new(1, 1)));
        assert_eq!(bytes(700, 0), Ok(Extent::default()));
        assert!(bytes(u64::MAX, 1).is_err() && bytes(0, MAX_BYTES + 1).is_err());
        assert!(sectors(u64::MAX, 8).is_err() && sectors(u64::MAX / 512, 8).is_err());
        assert!(sectors(0, u64::MAX).is_err());
    }
}
