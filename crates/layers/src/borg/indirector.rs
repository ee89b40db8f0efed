//! The indirector (section 4.5): where each request goes.
//!
//! Top to bottom, a request: its pages are locked; it is split by where its pages are; the parts go
//! out together; the answer is put together.
//!
//! The rules: all pages mapped, to the BOPT. None mapped, a read goes home unchanged. Some mapped
//! and these all clean, the whole read goes home. Writes: mapped pages in place, the others into
//! the write buffer as far as there is room, else home. Part of an unmapped page goes home, part of
//! a mapped page to its copy in place.
//!
//! Faults: a part that fails fails its request, not the volume. A dirty copy that cannot be read is
//! an error, never stale data from home. A copy is marked dirty before it is overwritten, so that a
//! write which failed half way cannot bring the old data from home back.

use futures_util::future::{join, join_all};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, Mode, PAGE_SECTORS};

use super::map::Slot;
use super::{Borg, did};

/// Where a part of a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Home,
    Bopt,
}

/// A part of a request: sectors that are contiguous where they go.
#[derive(Clone, Copy, Debug)]
struct Part {
    side: Side,
    /// Where they go.
    at: Extent,
    /// How far into the request they start, in sectors.
    from: u64,
}

/// What a request found in the map.
#[derive(Default)]
struct Found {
    mapped: u64,
    dirty: u64,
}

impl Borg {
    /// Reads `at`: lock, look up, split, ask, join.
    pub(super) async fn read_indirected(
        &self,
        at: Extent,
        into: Buffer,
        how: Hints,
    ) -> Result<Buffer, IoError> {
        let _guard = self.locks.lock(at.whole_pages(), Mode::Shared, how.class, None).await;
        self.note(at, &how, false);
        let found = self.look_up(at);
        let pages = at.pages().end - at.pages().start;
        let all = found.mapped == pages;
        self.count(&how, pages, if all { pages } else { found.dirty });
        if found.mapped == 0 || (!all && found.dirty == 0) {
            did("read at home", at, at.start.0);
            return self.home.read(at, into, how).await;
        }
        // Boxed, so that the future of a request that goes home stays small: it is allocated for each.
        Box::pin(self.read_parts(at, into, how, all)).await
    }

    /// Reads from where the copies are: all of them, or only the dirty ones.
    async fn read_parts(&self, at: Extent, into: Buffer, how: Hints, all: bool) -> Result<Buffer, IoError> {
        let parts = self.split(at, |map, slot| all || map.is_dirty(slot));
        if let [part] = parts[..] {
            did("read from the BOPT", at, part.at.start.0);
            return self.device(part.side).read(part.at, into, how).await;
        }
        let reads = parts.iter().map(|part| {
            did(
                "read in part",
                Extent { start: at.start + part.from, sectors: part.at.sectors },
                part.at.start.0,
            );
            self.device(part.side).read(part.at, into.cut_sectors(part.from, part.at.sectors), how.clone())
        });
        join_all(reads).await.into_iter().collect::<Result<Vec<Buffer>, _>>().map(Buffer::join)
    }

    /// Writes `at`: lock, absorb, split, write; then what was absorbed is mapped.
    pub(super) async fn write_indirected(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        let _guard = self.locks.lock(at.whole_pages(), Mode::Exclusive, how.class, None).await;
        self.note(at, &how, true);
        let found = self.look_up(at);
        let absorbed = self.absorb(at);
        let pages = at.pages().end - at.pages().start;
        self.count(&how, pages, found.mapped + absorbed.pages.len() as u64);
        let parts = self.split_write(at, &absorbed.pages);
        let data = self.write_parts(&parts, &from, &how);
        let written = if absorbed.pages.is_empty() {
            data.await
        } else {
            let (data, described) = join(data, self.describe(&absorbed.run, &how)).await;
            data.and(described)
        };
        self.touch(at);
        self.settle(absorbed, written.is_ok());
        written
    }

    async fn write_parts(&self, parts: &[Part], from: &Buffer, how: &Hints) -> Result<(), IoError> {
        if let [part] = parts {
            return self.device(part.side).write(part.at, from.clone(), how.clone()).await;
        }
        let writes = parts.iter().map(|part| {
            let piece = from.cut_sectors(part.from, part.at.sectors);
            self.device(part.side).write(part.at, piece, how.clone())
        });
        join_all(writes).await.into_iter().collect()
    }

    /// Makes everything durable that was completed. Absorbed writes were completed with their map
    /// pages, so the devices' own flushes are all there is to do.
    pub(super) async fn flush_indirected(&self, how: Hints) -> Result<(), IoError> {
        let (home, bopt) = join(self.home.flush(how.clone()), self.bopt.flush(how)).await;
        home.and(bopt)
    }

    /// A discard goes home for what is not mapped. A mapped page keeps its copy: reads as before.
    pub(super) async fn discard_indirected(&self, at: Extent, how: Hints) -> Result<(), IoError> {
        let _guard = self.locks.lock(at.whole_pages(), Mode::Exclusive, how.class, None).await;
        let unmapped = self.split(at, |_, _| true).into_iter().filter(|part| part.side == Side::Home);
        let discarded = join_all(unmapped.map(|part| self.home.discard(part.at, how.clone()))).await;
        self.touch(at);
        discarded.into_iter().collect()
    }

    fn look_up(&self, at: Extent) -> Found {
        let state = self.state.borrow();
        let mut found = Found::default();
        for slot in at.pages().filter_map(|page| state.map.slot_of(page)) {
            found.mapped += 1;
            found.dirty += u64::from(state.map.is_dirty(slot));
        }
        found
    }

    /// Splits a read or discard: pages whose slot `use_copy` accepts go to the BOPT, the others home.
    fn split(&self, at: Extent, use_copy: impl Fn(&super::BorgMap, Slot) -> bool) -> Vec<Part> {
        let state = self.state.borrow();
        split_by(at, |page| {
            let slot = state.map.slot_of(page).filter(|&slot| use_copy(&state.map, slot))?;
            Some(self.division.page(slot))
        })
    }

    /// Splits a write: to the mapped copy, to the page just taken in the write buffer, or home.
    fn split_write(&self, at: Extent, absorbed: &[(u64, Slot)]) -> Vec<Part> {
        let mut state = self.state.borrow_mut();
        let mut absorbed = absorbed.iter().peekable();
        split_by(at, |page| {
            if let Some(slot) = state.map.slot_of(page) {
                state.map.set_dirty(slot, true);
                did(
                    "overwritten in place",
                    Extent::of_pages(page, 1),
                    self.division.page(slot) * PAGE_SECTORS,
                );
                return Some(self.division.page(slot));
            }
            let (_, slot) = absorbed.next_if(|(absorbed, _)| *absorbed == page)?;
            did("absorbed", Extent::of_pages(page, 1), self.division.page(*slot) * PAGE_SECTORS);
            Some(self.division.page(*slot))
        })
    }

    fn device(&self, side: Side) -> &dyn BlockDevice {
        match side {
            Side::Home => &*self.home,
            Side::Bopt => &*self.bopt,
        }
    }
}

/// Splits `at` at page boundaries by where each page goes (`None` is home), and joins neighbours that
/// stay neighbours.
fn split_by(at: Extent, mut bopt_page: impl FnMut(u64) -> Option<u64>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(1);
    for part in at.split(PAGE_SECTORS) {
        let (side, start) = match bopt_page(part.start.page()) {
            Some(copy) => (Side::Bopt, Lba(copy * PAGE_SECTORS + part.start.0 % PAGE_SECTORS)),
            None => (Side::Home, part.start),
        };
        match parts.last_mut() {
            Some(last) if last.side == side && last.at.end() == start => last.at.sectors += part.sectors,
            _ => parts.push(Part { side, at: Extent { start, ..part }, from: part.start.0 - at.start.0 }),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_split_at_page_boundaries_and_join_when_contiguous() {
        // Pages 1 and 2 are copied to 101 and 102, page 4 to 50; the request is 4 sectors of page 0 to 2 of page 4.
        let copies = |page| match page {
            1 => Some(101),
            2 => Some(102),
            4 => Some(50),
            _ => None,
        };
        let parts = split_by(Extent::new(4, 30), copies);
        let told: Vec<_> = parts.iter().map(|p| (p.side, p.at.start.0, p.at.sectors, p.from)).collect();
        let expected = [
            (Side::Home, 4, 4, 0),
            (Side::Bopt, 808, 16, 4),
            (Side::Home, 24, 8, 20),
            (Side::Bopt, 400, 2, 28),
        ];
        assert_eq!(told, expected);
    }
}
