//! Formatting: how a new BOPT is made, and an old one is given up.
//!
//! Invariants: a BOPT passes for one only when all of it is there; of version 1, what is torn is invalidated before
//! anything is written over it.
//!
//! Faults: formatting that fails is done again from its beginning.

use futures_util::future::join_all;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::Store;
use super::checkpoint::MapWrite;
use super::format::{self, OLD, sealed};

/// Sectors that are formatted together: 1 MiB, so that clients wait for little of it.
const FORMATTED_AT_ONCE: u64 = 2_048;

impl Store {
    /// Makes an empty BOPT of what is there: all map pages in both copies, then the super page in both.
    pub(super) async fn format(&self, how: &Hints) -> Result<(), IoError> {
        edge("a new BOPT");
        let given_up = self.disk.borrow().torn.iter().any(|page| *page < 2);
        if self.identity().is_some() || given_up {
            // An earlier attempt failed, and its super page may be there. Or a BOPT was half given up: a super page
            // that is written beside the mark of that, and torn, would pass for damage.
            self.write_blank(how).await?;
            self.disk.borrow_mut().torn.clear();
        }
        {
            let mut rng = runtime::rng("borg identity");
            let identity = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
            self.disk.borrow_mut().page.identity = identity.max(1);
        }
        let bytes =
            |pages: &[MapWrite]| pages.iter().flat_map(|page| page.bytes.clone()).collect::<Vec<u8>>();
        let second = self.all_maps_at(1);
        let is_old = self.disk.borrow().page.version == OLD;
        let first = if is_old { bytes(&self.all_maps_at(0)) } else { self.again(&second) };
        for (copy, pages) in [(1, bytes(&second)), (0, first)] {
            let at = Extent::of_pages(self.layout.map_page(0, copy), u64::from(self.layout.segments()));
            let writes = Buffer::from_vec(pages);
            for (part, piece) in writes.split(at, FORMATTED_AT_ONCE) {
                self.bopt.write(part, piece, how.clone()).await?;
            }
        }
        self.flush_bopt(how).await?;
        self.write_super(|page| page.clean = false, how).await?;
        self.write_super(|_| (), how).await
    }

    /// The map pages of all segments, for one of their copies, as if they were durable.
    fn all_maps_at(&self, copy: u64) -> Vec<MapWrite> {
        let (table, disk) = (&mut *self.table.borrow_mut(), &self.disk.borrow().page);
        let write = |segment| {
            table.segments.get(segment).copy = 1 - copy;
            let page = table.map_write(self.layout, disk, segment);
            table.persisted(&page);
            page
        };
        (0..self.layout.segments()).map(write).collect()
    }

    /// The same map pages, for their first copy.
    fn again(&self, second: &[MapWrite]) -> Vec<u8> {
        let table = &mut *self.table.borrow_mut();
        let identity = self.disk.borrow().page.identity;
        let again = |page: &MapWrite| {
            table.segments.set_copies(page.segment, 2);
            table.segments.get(page.segment).copy = 0;
            let at = self.layout.map_page(page.segment, 0);
            sealed::for_copy(at, page.generation, identity, &page.bytes)
        };
        second.iter().flat_map(again).collect()
    }

    /// A torn page of version 1 must not become whole by what is written over it next: its first sector goes first.
    pub(super) async fn invalidate_torn(&self, how: &Hints) -> Result<(), IoError> {
        let torn = self.disk.borrow().torn.clone();
        if torn.is_empty() || mutant::is("borg: torn pages stay") {
            return Ok(());
        }
        let void = |page: &u64| {
            let first = Extent { sectors: 1, ..Extent::of_pages(*page, 1) };
            self.bopt.write(first, Buffer::from_vec(format::void()), how.clone())
        };
        join_all(torn.iter().map(void)).await.into_iter().collect::<Result<(), _>>()?;
        self.flush_bopt(how).await?;
        self.disk.borrow_mut().torn.clear();
        Ok(())
    }

    /// Takes the BOPT's marks away: at every moment one of the super pages is whole, or both are seen to be given up.
    pub(super) async fn write_blank(&self, how: &Hints) -> Result<(), IoError> {
        let older = 1 - self.disk.borrow().supers.copy;
        let page = |at| Extent::of_pages(at, 1);
        let first = |at| Extent { sectors: 1, ..page(at) };
        let rest = |at| Extent { start: page(at).start + 1, sectors: PAGE_SECTORS - 1 };
        let void = || Buffer::from_vec(format::void());
        let zeroes = |at: Extent| Buffer::zeroed(at.bytes());
        for (at, data) in [
            (first(older), void()),
            (first(1 - older), void()),
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
