//! A cached page: which of its sectors are known, and which are dirty.
//!
//! Invariants: dirty sectors are known; buffers given to the device below never change, since a write makes new ones.

use seekless_core::{Buffer, Extent, Nanos, PAGE_BYTES, PAGE_SECTORS, Ticket};

/// Sectors of a page, one bit each, the first one lowest.
pub type Sectors = u8;

/// The sectors of a page that an extent covers.
pub fn sectors(part: Extent) -> Sectors {
    let bits = (1_u16 << part.sectors) - 1;
    (bits << (part.start.0 % PAGE_SECTORS)) as Sectors
}

/// The extents of some sectors of a page.
pub fn extents(page: u64, of: Sectors) -> impl Iterator<Item = Extent> {
    let start = page * PAGE_SECTORS;
    let has = move |sector: u64| sector < PAGE_SECTORS && of >> sector & 1 == 1;
    (0..PAGE_SECTORS).filter(move |&sector| has(sector) && (sector == 0 || !has(sector - 1))).map(
        move |first| {
            let end = (first..PAGE_SECTORS).find(|&sector| !has(sector)).unwrap_or(PAGE_SECTORS);
            Extent::new(start + first, end - first)
        },
    )
}

/// A page.
pub struct Page {
    /// Its data; unknown sectors have none.
    pub data: Buffer,
    /// Sectors that are known.
    pub known: Sectors,
    /// Dirty sectors that are not being written.
    pub dirty: Sectors,
    /// Whether it was prefetched and not used yet.
    pub unused: bool,
    /// If so, its number in the order of arrival.
    pub number: u64,
    /// Number of the first write that is not being written back.
    pub sequence: u64,
    /// Times of that and of the last write.
    pub since: Nanos,
    pub written: Nanos,
    /// The version being written back, if any.
    pub flight: Option<Flight>,
    /// Whether a bypassing request holds it: it is not written back.
    pub held: bool,
    /// Whether its last write-back failed.
    pub failed: bool,
}

/// A version being written back.
pub struct Flight {
    /// Number and time of its first write.
    pub sequence: u64,
    pub since: Nanos,
    pub sectors: Sectors,
    /// Whether the page was written again, so that there are two versions.
    pub superseded: bool,
    pub ticket: Ticket,
}

impl Page {
    /// A page without known sectors.
    pub fn unknown() -> Page {
        Page {
            data: Buffer::hollow(PAGE_BYTES),
            known: 0,
            dirty: 0,
            unused: false,
            number: 0,
            sequence: 0,
            since: Nanos::ZERO,
            written: Nanos::ZERO,
            flight: None,
            held: false,
            failed: false,
        }
    }

    /// Whether all of a part is known.
    pub fn knows(&self, part: Extent) -> bool {
        self.known & sectors(part) == sectors(part)
    }

    /// Part of the data.
    pub fn cut(&self, part: Extent) -> Buffer {
        self.data.cut_sectors(part.start.0 % PAGE_SECTORS, part.sectors)
    }

    /// Sectors that the device below may not have.
    pub fn not_below(&self) -> Sectors {
        self.dirty | self.flight.as_ref().map_or(0, |flight| flight.sectors)
    }

    /// Whether it may be evicted.
    pub fn is_idle(&self) -> bool {
        self.dirty == 0 && self.flight.is_none() && !self.held
    }

    /// Writes a part.
    pub fn put(&mut self, part: Extent, from: &Buffer) {
        self.data = joined(&self.data, part.start.0 % PAGE_SECTORS, from);
        self.known |= sectors(part);
    }

    /// Takes over these sectors of `other`, which are newer.
    pub fn take(&mut self, page: u64, of: Sectors, other: &Buffer) {
        for part in extents(page, of) {
            let piece = other.cut_sectors(part.start.0 % PAGE_SECTORS, part.sectors);
            self.put(part, &piece);
        }
    }

    /// Reads a part.
    pub fn show(&self, part: Extent, into: &Buffer) {
        show(&self.cut(part), into);
    }
}

/// Copies bytes: zeroes where there are none.
pub fn show(from: &Buffer, into: &Buffer) {
    if !into.is_hollow() {
        from.look(|bytes| into.put(0, bytes));
    }
}

/// A page with a part from elsewhere, in newly allocated memory of just that size: a slice of a client's request would
/// keep the whole request alive.
fn joined(page: &Buffer, first: u64, part: &Buffer) -> Buffer {
    let whole = if part.len() == page.len() { part } else { &page.with_sectors(first, part.clone()) };
    if whole.is_real() {
        return Buffer::from_vec(whole.to_vec());
    }
    let mut pieces = Vec::new();
    whole.for_each(|_, len, bytes| {
        pieces
            .push(bytes.map_or_else(|| Buffer::hollow(len as u64), |bytes| Buffer::from_vec(bytes.to_vec())));
    });
    Buffer::join(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_bits() {
        assert_eq!(sectors(Extent::new(16, 8)), 0xff);
        assert_eq!(sectors(Extent::new(18, 3)), 0b1_1100);
        for of in 0..=Sectors::MAX {
            let parts: Vec<Extent> = extents(7, of).collect();
            assert_eq!(parts.iter().fold(0, |all, part| all | sectors(*part)), of);
            assert!(parts.windows(2).all(|pair| pair[0].end() < pair[1].start), "{of:b}");
            assert!(parts.iter().all(|part| part.start.page() == 7));
        }
    }

    #[test]
    fn parts_join_to_pages_of_their_own() {
        let client = Buffer::from_vec((0..16_384_u32).map(|byte| (byte / 512) as u8).collect());
        let mut page = Page::unknown();
        page.put(Extent::new(10, 2), &client.cut_sectors(5, 2));
        assert_eq!((page.known, page.data.is_real()), (0b1100, false));
        let shown = Buffer::zeroed(1_024);
        page.show(Extent::new(10, 2), &shown);
        assert_eq!(shown.to_vec(), client.cut_sectors(5, 2).to_vec());
        let given = page.data.clone();
        page.put(Extent::new(8, 8), &client.cut_sectors(20, 8));
        client.put(0, &[99; 16_384]);
        assert_eq!((page.known, page.data.to_vec()[4_095]), (0xff, 27));
        assert_eq!(given.to_vec()[1_024], 5, "what was given below does not change");
    }
}
