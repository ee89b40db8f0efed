//! Units: addresses, extents, times and sizes, and their text forms.
//!
//! Addresses are 512-byte sectors, maps are per 4 KiB page, times are integer nanoseconds. Nothing here allocates or
//! fails, except the parsers, whose errors give what they expected.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// Bytes per sector, the unit of every address.
pub const SECTOR_BYTES: u64 = 512;
/// Sectors per page, the unit of every map.
pub const PAGE_SECTORS: u64 = 8;
/// Bytes per page.
pub const PAGE_BYTES: u64 = SECTOR_BYTES * PAGE_SECTORS;

/// A logical block address: a 512-byte sector, counted from the start of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl Lba {
    /// The page that holds this sector.
    pub fn page(self) -> u64 {
        self.0 / PAGE_SECTORS
    }
}

impl Add<u64> for Lba {
    type Output = Lba;
    fn add(self, sectors: u64) -> Lba {
        Lba(self.0 + sectors)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

/// A run of sectors. A flush has none: its extent is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First sector.
    pub start: Lba,
    /// Number of sectors.
    pub sectors: u64,
}

impl Extent {
    /// The extent of `sectors` sectors from `start`.
    pub fn new(start: u64, sectors: u64) -> Self {
        Extent { start: Lba(start), sectors }
    }

    /// The extent that covers `pages` whole pages from page `first`.
    pub fn of_pages(first: u64, pages: u64) -> Self {
        Extent::new(first * PAGE_SECTORS, pages * PAGE_SECTORS)
    }

    /// The first sector after the extent.
    pub fn end(self) -> Lba {
        self.start + self.sectors
    }

    /// Length in bytes.
    pub fn bytes(self) -> u64 {
        self.sectors * SECTOR_BYTES
    }

    /// Whether both have a sector in common.
    pub fn overlaps(self, other: Extent) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// The pages it touches, including partly touched ones.
    pub fn pages(self) -> std::ops::Range<u64> {
        if self.sectors == 0 {
            return self.start.page()..self.start.page();
        }
        self.start.page()..self.end().0.div_ceil(PAGE_SECTORS)
    }

    /// Number of the pages it touches.
    pub fn page_count(self) -> u64 {
        let pages = self.pages();
        pages.end - pages.start
    }

    /// All sectors of the pages it touches.
    pub fn whole_pages(self) -> Extent {
        Extent::of_pages(self.pages().start, self.page_count())
    }

    /// Two halves, roughly, which meet at a multiple of `every` sectors; `None` if there is none within.
    pub fn halves(self, every: u64) -> Option<[Extent; 2]> {
        let (Lba(start), Lba(end)) = (self.start, self.end());
        let up = (start + self.sectors / 2).next_multiple_of(every);
        let middle = if up < end { up } else { up.saturating_sub(every) };
        let whole = start < middle && middle < end;
        whole.then(|| [Extent::new(start, middle - start), Extent::new(middle, end - middle)])
    }

    /// Parts between multiples of `every` sectors, in order; none of them is empty.
    pub fn split(self, every: u64) -> impl Iterator<Item = Extent> {
        let (first, end) = (self.start.0 / every, self.end().0);
        let cells = if self.sectors == 0 { first..first } else { first..end.div_ceil(every) };
        cells.map(move |cell| {
            let start = self.start.0.max(cell * every);
            Extent::new(start, end.min((cell + 1) * every) - start)
        })
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sectors {}..{}", self.start.0, self.end().0)
    }
}

/// A time or a duration in nanoseconds; as a time, since the runtime's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Nanos = Nanos(0);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        times.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1_000 => write!(f, "{ns} ns"),
            ns if ns < 1_000_000 => write!(f, "{:.1} us", ns as f64 / 1e3),
            ns if ns < 1_000_000_000 => write!(f, "{:.2} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.2} s", ns as f64 / 1e9),
        }
    }
}

/// The error of parsing a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    found: String,
    expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found '{}', expected {}", self.found, self.expected)
    }
}

impl std::error::Error for UnitError {}

/// Parses `NUMBER UNIT` with the given factors; the result must fit a u64.
fn quantity(text: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, UnitError> {
    let wrong = || UnitError { found: text.to_owned(), expected };
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if value.is_finite() && value < u64::MAX as f64 { Ok(value as u64) } else { Err(wrong()) }
}

/// A size in bytes, parsed and formatted with units: `4GiB`, `512 KiB`, `250GB`, `4096`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// In whole sectors; the remainder is dropped.
    pub fn sectors(self) -> u64 {
        self.0 / SECTOR_BYTES
    }
}

impl FromStr for Size {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: [(&str, u64); 14] = [
            ("", 1),
            ("B", 1),
            ("K", 1 << 10),
            ("KiB", 1 << 10),
            ("kB", 1_000),
            ("M", 1 << 20),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("G", 1 << 30),
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("T", 1 << 40),
            ("TiB", 1 << 40),
            ("TB", 1_000_000_000_000),
        ];
        quantity(text, &UNITS, "a size such as 4GiB, 512KiB, 250GB or 4096").map(Size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (factor, name) in units {
            if self.0 >= factor {
                return if self.0 % factor == 0 {
                    write!(f, "{} {name}", self.0 / factor)
                } else {
                    write!(f, "{:.2} {name}", self.0 as f64 / factor as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A whole number with separators: `1,234,567`.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: [(&str, u64); 8] = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("min", 60_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
        ];
        quantity(text, &UNITS, "a time such as 1.5ms, 30s, 10m or 42h").map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_with_units() {
        assert_eq!("4GiB".parse(), Ok(Size(4 << 30)));
        assert_eq!("1.5 MiB".parse(), Ok(Size(3 << 19)));
        assert_eq!("250GB".parse(), Ok(Size(250_000_000_000)));
        assert_eq!("512".parse(), Ok(Size(512)));
        assert_eq!(Size(1 << 30).to_string(), "1 GiB");
        assert_eq!(Size(3 << 29).to_string(), "1.50 GiB");
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        let error = "4 parsecs".parse::<Size>().unwrap_err().to_string();
        assert!(error.contains("4 parsecs") && error.contains("4GiB"), "{error}");
        assert!("99999999999999999999TiB".parse::<Size>().is_err());
        assert!("-4GiB".parse::<Size>().is_err());
    }

    #[test]
    fn halves_meet_at_multiples_and_leave_nothing_out() {
        for (start, sectors, every) in (0..20).flat_map(|start| (1..40).map(move |n| (start, n, 1 + n % 9))) {
            let whole = Extent::new(start, sectors);
            let within = (start + 1..start + sectors).any(|at| at % every == 0);
            let halves = whole.halves(every);
            assert_eq!(halves.is_some(), within, "{whole}, {every}");
            let Some([one, other]) = halves else { continue };
            assert_eq!((one.start, one.end(), other.end()), (whole.start, other.start, whole.end()));
            assert!(other.start.0 % every == 0 && one.sectors.abs_diff(other.sectors) <= 2 * every);
        }
    }

    #[test]
    fn times_are_read_with_units() {
        assert_eq!("1.5ms".parse(), Ok(Nanos(1_500_000)));
        assert_eq!("42h".parse(), Ok(Nanos(42 * 3_600_000_000_000)));
        assert_eq!("10m".parse::<Nanos>(), "10min".parse());
        assert_eq!("1d".parse::<Nanos>(), "24h".parse());
        assert!("5".parse::<Nanos>().is_err() && "m".parse::<Nanos>().is_err());
    }

    #[test]
    fn extents_are_split_at_multiples() {
        let split = |start, sectors| Extent::new(start, sectors).split(8).collect::<Vec<_>>();
        assert_eq!(split(6, 12), [Extent::new(6, 2), Extent::new(8, 8), Extent::new(16, 2)]);
        assert_eq!(split(9, 3), [Extent::new(9, 3)]);
        assert_eq!(split(16, 8), [Extent::new(16, 8)]);
        assert_eq!(split(9, 0), []);
        let one = Extent::new(5, 1 << 40);
        assert_eq!(one.split(u64::MAX).collect::<Vec<_>>(), [one]);
    }

    #[test]
    fn extents_know_their_pages() {
        assert_eq!(Extent::new(7, 2).pages(), 0..2);
        assert_eq!(Extent::new(8, 8).pages(), 1..2);
        assert_eq!(Extent::new(8, 0).pages(), 1..1);
        assert_eq!(Extent::new(7, 2).whole_pages(), Extent::new(0, 16));
        assert_eq!(Extent::new(9, 0).whole_pages().sectors, 0);
        assert!(Extent::new(0, 8).overlaps(Extent::new(7, 1)));
        assert!(!Extent::new(0, 8).overlaps(Extent::new(8, 1)));
    }
}
