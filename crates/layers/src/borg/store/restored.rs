//! Whether the metadata of a dump belongs to an area: it is only written where the data is that it names.
//!
//! Fault model: the area may hold anything, such as another BOPT, or this one as it was at another time.

use std::collections::BTreeMap;

use seekless_core::{BlockDevice, Buffer, Extent, IoError, PAGE_SECTORS, checksum};

use super::format::{PAGE, PageState, old, sealed};
use super::map::Slot;
use super::state::{State, invalid};
use crate::durable::{CopyState, region};

impl State {
    /// The sectors of a page, of which the last one may have fewer than others.
    pub fn extent_of(&self, page: u64) -> Extent {
        let whole = Extent::of_pages(page, 1);
        Extent { sectors: PAGE_SECTORS.min(self.origin_sectors.saturating_sub(whole.start.0)), ..whole }
    }

    /// Compares the identity of the BOPT in an area, and the data of dirty copies, with the dump. Returns the number of
    /// dirty copies that the dump has no checksum of. Its numbers were checked.
    ///
    /// # Errors
    /// `Invalid` for another BOPT, or other data; the device's errors.
    pub async fn compare(&self, bopt: &dyn BlockDevice) -> Result<u64, IoError> {
        let ours = self.identity()?;
        if let Some(other) = identities(bopt).await?.into_iter().find(|identity| *identity != ours) {
            let found = format!("the BOPT {other:032x}");
            let expected = format!("{ours:032x}, of which the dump is: clear the area if it is not needed");
            return Err(invalid(found, expected));
        }
        let pages: BTreeMap<Slot, u64> =
            self.copies.iter().filter(|(.., dirty)| *dirty).map(|(slot, page, _)| (*slot, *page)).collect();
        let layout = self.layout();
        let mut other = Vec::new();
        for (slot, sum) in &self.sums {
            let Some(page) = pages.get(slot) else { continue };
            let place =
                Extent { sectors: self.extent_of(*page).sectors, ..Extent::of_pages(layout.page(*slot), 1) };
            let (data, unreadable) = region::read_damaged(bopt, place).await?;
            if unreadable.is_some() || data.look(checksum::crc32c) != *sum {
                other.push((*slot, *page));
            }
        }
        let compared = self.sums.len();
        if let Some((slot, page)) = other.first() {
            let found = format!(
                "other data than at the dump in {} of {compared} slots, such as slot {slot} of page {page}",
                other.len()
            );
            let expected =
                "the data of all of them here: without their copies in the dump, these pages are given up";
            return Err(invalid(found, expected));
        }
        // Each checksum is that of one of them.
        Ok((pages.len() - compared) as u64)
    }
}

/// Identities of the whole super pages of an area.
async fn identities(bopt: &dyn BlockDevice) -> Result<Vec<u128>, IoError> {
    let (bytes, _): (Buffer, _) = region::read_damaged(bopt, Extent::of_pages(0, 2)).await?;
    let identity = |(page, at): (&[u8], u64)| {
        if let CopyState::Whole(generation) = sealed::super_copy_state(at, page) {
            return sealed::decode_super(generation, page).ok().map(|page| page.identity);
        }
        match old::decode_super(at, page) {
            Ok(PageState::Whole(page)) => Some(page.identity),
            _ => None,
        }
    };
    Ok(bytes.look(|bytes| bytes.chunks_exact(PAGE).zip(0..).filter_map(identity).collect()))
}
