//! Checksums of copies that were in the log before the BOPT was opened: from the headers of their batches.
//!
//! A segment's headers are read when the first of its copies is needed. They describe the copies as they were appended,
//! so they are used only where the map page names the first batch of the segment: not if a copy was overwritten in
//! place.
//!
//! Faults: where headers cannot be read, or are damaged beyond their parity, checksums stay unknown.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Class, Extent, Hints, Mode, PAGE_SECTORS, Ticket, mutant};

use super::format::{BatchHeader, PAGE, batch};
use super::map::Slot;
use super::{Layout, Store};
use crate::durable::parity;
use crate::join::join_all;

/// A page, the slot that it was appended to, and its checksum.
type AppendedPage = (u64, Slot, u32);

impl Store {
    /// Segments of the log with copies whose checksums are on disk, but not known.
    pub(super) fn segments_to_read(&self) -> BTreeSet<u32> {
        let table = self.table.borrow();
        let logged = table.map.iter().filter(|(slot, ..)| self.layout.is_logged(*slot));
        let unknown = logged.filter(|(slot, ..)| table.sums.of(*slot).is_none());
        let segments = unknown.map(|(slot, ..)| self.layout.segment_of(slot).0);
        segments.filter(|segment| table.segments.get(*segment).first.is_some()).collect()
    }

    /// Whether some checksums on disk are not known yet.
    pub fn has_unread_sums(&self) -> bool {
        !self.table.borrow().unread.is_empty()
    }

    /// Reads the checksums of these pages' copies that are on disk and not known. The caller holds the pages' locks, or
    /// verifies what it reads later.
    pub async fn read_sums(&self, pages: impl Iterator<Item = u64>, how: &Hints) {
        let segments: BTreeSet<u32> = {
            let table = self.table.borrow();
            let slots = pages.filter_map(|page| table.map.slot_of(page));
            let unknown = slots.filter(|slot| table.sums.of(*slot).is_none());
            let segments = unknown.map(|slot| self.layout.segment_of(slot).0);
            segments.filter(|segment| table.unread.contains(segment)).collect()
        };
        for segment in segments {
            // Tasks that wait for the lock raise the class of the work under it; a free read could wait for ever.
            let (class, ticket) = (how.class.min(Class::Background), Some(Ticket::new()));
            let how = Hints { class, ticket, fua: false, verify: false, ..how.clone() };
            let place = Extent::new(u64::from(segment), 1);
            let _headers = self.headers.lock(place, Mode::Exclusive, how.class, how.ticket.clone()).await;
            if self.table.borrow().unread.contains(&segment) {
                self.read_headers(segment, &how).await;
            }
        }
    }

    /// Reads the headers of a segment.
    async fn read_headers(&self, number: u32, how: &Hints) {
        edge("checksums of a segment are read from its headers");
        let state = |store: &Store| {
            let table = store.table.borrow();
            let segment = table.segments.get(number);
            segment.first.map(|first| (first, segment.taken))
        };
        let before = state(self);
        let bytes = self.read_segment(number, how).await;
        let after = state(self);
        let table = &mut *self.table.borrow_mut();
        table.unread.remove(&number);
        let Some((first, _)) = before.filter(|before| after == Some(*before)) else { return };
        let identity = self.disk.borrow().super_page.identity;
        let start = self.layout.slots_of(number).start;
        for (page, slot, sum) in bytes.look(|bytes| appended(bytes, start, self.layout, identity, first)) {
            if table.map.page_at(slot) == Some(page) && table.sums.of(slot).is_none() {
                table.sums.set(slot, Some(sum));
            }
        }
    }

    /// A segment's pages; zeroes where they cannot be read.
    async fn read_segment(&self, segment: u32, how: &Hints) -> Buffer {
        let first = self.layout.page(self.layout.slots_of(segment).start);
        let at = Extent::of_pages(first, u64::from(self.layout.segment));
        let bytes = Buffer::zeroed(at.bytes());
        let read = async |every: u64| {
            let parts = bytes.split(at, every).map(async |(part, piece)| {
                let read = self.bopt.read(part, piece.clone(), how.clone()).await;
                if read.is_err() {
                    piece.put(0, &vec![0; piece.len()]);
                }
                read.is_ok()
            });
            join_all(parts).await.into_iter().all(|read| read)
        };
        if !read(self.bopt.geometry().largest_sectors).await {
            read(PAGE_SECTORS).await;
        }
        bytes
    }
}

/// The pages that the headers in a segment describe, of batches from `first` on, which may lie in any order: headers of
/// earlier batches were left by the last use of the segment. A session fills segments from their beginning, so the
/// first header names the session of all; others lost batches whose numbers were given again. Without it none counts.
fn appended(bytes: &[u8], start: Slot, layout: Layout, identity: u128, first: u64) -> Vec<AppendedPage> {
    let earlier = mutant::is("borg: headers of the last use of a segment count");
    let least = if earlier { 0 } else { first };
    let header = |offset: u32| {
        let at = layout.page(start + offset);
        let decode =
            |bytes: &[u8]| BatchHeader::of_any(at, identity, bytes).filter(|(number, _)| *number >= least);
        let found = parity::head(&bytes[offset as usize * PAGE..], batch::MAGIC, decode);
        found.map(|((_, page), _)| page)
    };
    let Some(session) = header(0).map(|page| page.session) else { return Vec::new() };
    let (mut all, mut offset) = (Vec::new(), 0);
    while (offset as usize + 1) * PAGE < bytes.len() {
        // A batch that failed may have left no header.
        let Some(page) = header(offset).filter(|page| page.session == session) else {
            offset += 1;
            continue;
        };
        let slots = start + offset + 1..;
        all.extend(page.entries.iter().zip(slots).map(|((page, sum), slot)| (*page, slot, *sum)));
        offset += 1 + page.entries.len() as u32;
    }
    all
}
