//! Checksums of the data in the write buffer, as far as known: from batches that were committed, or found whole at
//! opening, for pages not overwritten in place since.
//!
//! Invariant: a checksum is given up before its copy is overwritten. So a known one is that of the last write. A read
//! of a dirty page with another checksum fails with an error that names the page; the data is neither returned nor
//! moved.

use seekless_core::{Buffer, ErrorKind, Extent, IoError, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, checksum};

use super::Store;
use super::layout::Layout;
use super::map::Slot;

/// Four bytes and a bit per slot of the write buffer.
pub struct Sums {
    first: Slot,
    each: Vec<u32>,
    known: Vec<u64>,
}

impl Sums {
    /// No checksum is known.
    pub fn new(layout: Layout) -> Sums {
        let (first, slots) = (layout.cached_slots(), layout.slots() - layout.cached_slots());
        Sums { first, each: vec![0; slots as usize], known: vec![0; slots.div_ceil(64) as usize] }
    }

    /// Sets the checksum of a slot, or that it is unknown. Slots of the read cache have none.
    pub fn set(&mut self, slot: Slot, sum: Option<u32>) {
        let Some(index) = slot.checked_sub(self.first).map(|index| index as usize) else { return };
        self.each[index] = sum.unwrap_or(0);
        let bit = 1 << (index % 64);
        self.known[index / 64] = self.known[index / 64] & !bit | if sum.is_some() { bit } else { 0 };
    }

    /// The checksum of a slot.
    pub fn of(&self, slot: Slot) -> Option<u32> {
        let index = slot.checked_sub(self.first)? as usize;
        (self.known[index / 64] >> (index % 64) & 1 == 1).then(|| self.each[index])
    }
}

impl Store {
    /// Verifies a whole page read from its slot; `known` is the checksum known before the read. A reader without a lock
    /// may read data that is being written: the checksum has changed then.
    pub fn verify_sum(&self, page: u64, known: Option<(Slot, u32)>, data: &Buffer) -> Result<(), IoError> {
        if known.is_none() || self.timing_only {
            return Ok(());
        }
        data.look(|bytes| self.verify_bytes(page, known, bytes))
    }

    /// Verifies the whole pages of `here` that were read into `data`; the caller holds their locks.
    pub fn verify_sums(&self, here: Extent, data: &Buffer) -> Result<(), IoError> {
        if self.timing_only {
            return Ok(());
        }
        let mut pages = here.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
        data.look(|bytes| {
            pages.try_for_each(|part| {
                let (page, sectors) = (part.start.page(), part.start.0 - here.start.0);
                let start = (sectors * SECTOR_BYTES) as usize;
                self.verify_bytes(page, self.known_sum(page), &bytes[start..start + PAGE_BYTES as usize])
            })
        })
    }

    fn verify_bytes(&self, page: u64, known: Option<(Slot, u32)>, bytes: &[u8]) -> Result<(), IoError> {
        let Some((slot, sum)) = known else { return Ok(()) };
        if checksum::crc32c(bytes) == sum || self.known_sum(page) != known {
            return Ok(());
        }
        let why = format!(
            "found the copy of page {page} in slot {slot} changed since it was written, expected it unchanged: it \
             is newer than the origin, \
             and there is no other copy; it is not written to the origin"
        );
        Err(IoError::new(ErrorKind::Corrupt, "borg", Some(Extent::of_pages(self.layout.page(slot), 1)), why))
    }
}
