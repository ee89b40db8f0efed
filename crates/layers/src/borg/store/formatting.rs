//! Formatting: creating a new BOPT, and marking an old one as given up.
//!
//! A BOPT is valid only when all of it was written: the super page is written last. Torn pages of version 1 are
//! invalidated before they are overwritten.
//!
//! Faults: formatting that fails is restarted.

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::Store;
use super::checkpoint::MapWrite;
use super::format::{self, OLD, sealed};

use crate::join::join_all;

/// Sectors formatted together: 1 MiB, so that clients wait for little of it.
const FORMATTED_AT_ONCE: u64 = 2_048;

impl Store {
    /// Formats an empty BOPT: all map pages in both copies, then both super pages.
    pub(super) async fn format(&self, how: &Hints) -> Result<(), IoError> {
        edge("a new BOPT");
        let given_up = self.disk.borrow().torn.iter().any(|page| *page < 2);
        if self.identity().is_some() || given_up {
            // A super page of a failed attempt may be there; or a BOPT was partly given up, and a torn super page
            // beside the mark of that would be taken for damage.
            self.write_blank(how).await?;
            self.disk.borrow_mut().torn.clear();
        }
        {
            let mut rng = runtime::rng("borg identity");
            let identity = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
            self.disk.borrow_mut().super_page.identity = identity.max(1);
        }
        let bytes =
            |pages: &[MapWrite]| pages.iter().map(|page| page.bytes.as_slice()).collect::<Vec<_>>().concat();
        let second = self.all_maps_at(1);
        let is_old = self.disk.borrow().super_page.version == OLD;
        let first = if is_old { bytes(&self.all_maps_at(0)) } else { self.again(&second) };
        for (copy, pages) in [(1, bytes(&second)), (0, first)] {
            let at = Extent::of_pages(self.layout.map_page(0, copy), u64::from(self.layout.segments()));
            let writes = Buffer::from_vec(pages);
            for (part, piece) in writes.split(at, FORMATTED_AT_ONCE) {
                self.bopt.write(part, piece, how.clone()).await?;
            }
        }
        self.flush_bopt(how).await?;
        self.disk.borrow_mut().maps_written = !is_old;
        self.write_super(|page| page.clean = false, how).await?;
        self.write_super(|_| (), how).await
    }

    /// The map pages of all segments for one of their copies, recorded as durable.
    fn all_maps_at(&self, copy: u64) -> Vec<MapWrite> {
        let (table, disk) = (&mut *self.table.borrow_mut(), &self.disk.borrow().super_page);
        let write = |segment| {
            table.segments.get_mut(segment).copy = 1 - copy;
            let page = table.encode_map_page(self.layout, disk, segment);
            table.record_persisted(&page);
            page
        };
        (0..self.layout.segments()).map(write).collect()
    }

    /// The same map pages for the first copy.
    fn again(&self, second: &[MapWrite]) -> Vec<u8> {
        let table = &mut *self.table.borrow_mut();
        let identity = self.disk.borrow().super_page.identity;
        let again = |page: &MapWrite| {
            table.segments.set_copies(page.segment, 2);
            table.segments.get_mut(page.segment).copy = 0;
            let at = self.layout.map_page(page.segment, 0);
            sealed::for_copy(at, page.generation, identity, &page.bytes)
        };
        second.iter().map(again).collect::<Vec<_>>().concat()
    }

    /// Invalidates torn pages of version 1, by their first sectors: overwriting them could make them whole.
    pub(super) async fn invalidate_torn(&self, how: &Hints) -> Result<(), IoError> {
        let torn = self.disk.borrow().torn.clone();
        if torn.is_empty() || mutant::is("borg: torn pages stay") {
            return Ok(());
        }
        let invalidated = |page: &u64| {
            let first = Extent { sectors: 1, ..Extent::of_pages(*page, 1) };
            self.bopt.write(first, Buffer::from_vec(format::invalidated()), how.clone())
        };
        join_all(torn.iter().map(invalidated)).await.into_iter().collect::<Result<(), _>>()?;
        self.flush_bopt(how).await?;
        self.disk.borrow_mut().torn.clear();
        Ok(())
    }

    /// Marks both super pages as given up; at every moment one is whole, or both are marked.
    pub(super) async fn write_blank(&self, how: &Hints) -> Result<(), IoError> {
        let older = 1 - self.disk.borrow().supers.copy;
        let page = |at| Extent::of_pages(at, 1);
        let first = |at| Extent { sectors: 1, ..page(at) };
        let rest = |at| Extent { start: page(at).start + 1, sectors: PAGE_SECTORS - 1 };
        let invalidated = || Buffer::from_vec(format::invalidated());
        let zeroes = |at: Extent| Buffer::zeroed(at.bytes());
        for (at, data) in [
            (first(older), invalidated()),
            (first(1 - older), invalidated()),
            (rest(0), zeroes(rest(0))),
            (rest(1), zeroes(rest(1))),
            (first(0), zeroes(first(0))),
            (first(1), zeroes(first(1))),
        ] {
            self.bopt.write(at, data, how.clone()).await?;
            self.flush_bopt(how).await?;
        }
        Ok(())
    }
}
