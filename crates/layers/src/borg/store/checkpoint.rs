//! Persisting the map: map pages, and the place in the log at which recovery begins (sections 3.3 and 5.1).
//!
//! A map page is written over the older of its two copies, so a torn write leaves the newer. It is made from the
//! current map, then everything it depends on is made durable, then it is written and flushed.
//!
//! Invariants: one writes metadata at a time; the copy that counts is not overwritten; generations grow; a segment
//! counts the pages of its map; a map page covers what is committed, and no more.
//!
//! Faults: a map page that cannot be written is pending, and the map stays as if it had been written: the next flush
//! writes it, or fails. After a failed flush of a device every later one fails, since it is unknown what was lost.

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, invariant, mutant};

use super::format::{Anchor, MapPage, NONE, Super};
use super::layout::Layout;
use super::map::Slot;
use super::segments::Segment;
use super::table::Table;
use super::{Store, did};

use crate::join::join_all;

/// A map page to be written.
pub(super) struct MapWrite {
    pub segment: u32,
    pub generation: u64,
    copy: u64,
    changes: u64,
    flag_changes: u64,
    /// The batch up to which it covers.
    covered: u64,
    pending_free: Vec<Slot>,
    pub bytes: Vec<u8>,
}

impl Table {
    /// Encodes the current map page of a segment, for the copy that is not current; records that the segment has one
    /// current copy from now on.
    pub(super) fn encode_map_page(&mut self, layout: Layout, disk: &Super, segment: u32) -> MapWrite {
        self.segments.generation += u64::from(!mutant::is("borg: a generation is used twice"));
        let (generation, known) = (self.segments.generation, self.segments.get(segment));
        let newer = mutant::is("borg: a map page goes over its newer copy");
        let copy = if newer { known.copy } else { 1 - known.copy };
        let known = known.clone();
        let (changes, flag_changes) = (known.changes, known.flag_changes);
        let entry = |slot| self.map.page_at(slot).map(|page| (page, self.map.is_dirty(slot)));
        let entries: Vec<_> = layout.slots_of(segment).map(entry).collect();
        invariant!(
            "a segment counts the pages of its map",
            entries.iter().flatten().count() == known.valid as usize
        );
        let covered = self.log.ended + u64::from(mutant::is("borg: a map page covers a batch under way"));
        let page =
            MapPage { segment, covered, log_reaches: self.log.last_committed, first: known.first, entries };
        let bytes = page.encode(disk, layout.map_page(segment, copy), generation);
        let pending_free = self.segments.pending_free_in(segment);
        self.segments.set_copies(segment, 1);
        MapWrite { segment, generation, copy, changes, flag_changes, covered, pending_free, bytes }
    }

    /// Records that a map page is durable.
    pub(super) fn record_persisted(&mut self, written: &MapWrite) {
        let segment = self.segments.get_mut(written.segment);
        invariant!("generations grow", written.generation > segment.generation);
        invariant!("the copy that counts is not overwritten", written.copy != segment.copy);
        invariant!(
            "a map page covers what is committed, and no more",
            (segment.covered..=self.log.ended).contains(&written.covered)
        );
        (segment.generation, segment.copy, segment.covered) =
            (written.generation, written.copy, written.covered);
        if segment.changes == written.changes
            || mutant::is("borg: changes while a map page is written count as written")
        {
            (segment.changes, segment.stale, segment.pending) = (0, false, false);
        }
        if segment.flag_changes == written.flag_changes
            || mutant::is("borg: dirty bits that change while a map page is written count as written")
        {
            segment.flag_changes = 0;
        }
        self.segments.set_stable(written.segment, written.covered);
        self.segments.set_free(&written.pending_free);
    }
}

impl Store {
    /// Writes the map pages of these segments. All read-cache segments that are pending, or only gained entries, are
    /// written before them: those newer entries have to be durable before any page drops the older ones. The caller
    /// holds the metadata lock.
    pub(super) async fn persist(&self, segments: &[u32], how: &Hints) -> Result<(), IoError> {
        invariant!("one writes metadata at a time", !self.metadata.is_empty());
        if segments.is_empty() {
            return Ok(());
        }
        let first = self.table.borrow().segments.which(|segment| {
            // Not a segment of the log in use.
            segment.taken == 0 && (segment.pending || (segment.changes > 0 && !segment.stale))
        });
        let rest = segments.iter().copied().filter(|segment| !first.contains(segment));
        let (cached, logged) = rest.partition(|segment| *segment < self.layout.read_cache);
        if mutant::is("borg: map pages of the log are written before those of the read cache") {
            return self.persist_in_order(&[first, logged, cached], how).await;
        }
        self.persist_in_order(&[first, cached, logged], how).await
    }

    /// Writes the map pages of these segments, in groups, each made durable before the next. A map page that drops the
    /// older entry of a dirty page must not be durable before the newer entry is. The newer one is in a batch, which
    /// the flush at the beginning makes durable; or in the read cache, for a page that came from the log: so segments
    /// of the read cache are written before those of the log. (A dirty page of the read cache is drained to the origin
    /// before it changes slots.) All are encoded before the first is written, so that they are of the same state of the
    /// map.
    async fn persist_in_order(&self, order: &[Vec<u32>], how: &Hints) -> Result<(), IoError> {
        let writes: Vec<Vec<MapWrite>> =
            order.iter().map(|segments| self.encode_map_pages(segments)).collect();
        let mut done = self.flush_bopt(how).await;
        for pages in writes.iter().filter(|pages| !pages.is_empty()) {
            if done.is_ok() {
                done = self.write_map_pages(pages, how).await;
            }
            self.record_outcome(pages, done.is_ok());
        }
        done
    }

    /// As [`Table::encode_map_page`], for several segments.
    pub(super) fn encode_map_pages(&self, segments: &[u32]) -> Vec<MapWrite> {
        let (table, disk) = (&mut *self.table.borrow_mut(), &self.disk.borrow().super_page);
        segments.iter().map(|&segment| table.encode_map_page(self.layout, disk, segment)).collect()
    }

    /// Records that these map pages are durable, or that this is unknown.
    fn record_outcome(&self, pages: &[MapWrite], durable: bool) {
        let table = &mut *self.table.borrow_mut();
        for page in pages {
            if durable {
                table.record_persisted(page);
            } else {
                edge("a map page could not be written: it is pending");
                let segment = table.segments.get_mut(page.segment);
                // Which copy is on disk is unknown, so that no dirty bit counts as persisted.
                (segment.pending, segment.flag_changes) = (true, segment.flag_changes + 1);
            }
        }
        self.disk.borrow_mut().metadata_pages += pages.len() as u64;
    }

    /// Writes map pages, and flushes.
    pub(super) async fn write_map_pages(&self, pages: &[MapWrite], how: &Hints) -> Result<(), IoError> {
        let writes = pages.iter().map(|page| {
            let place = Extent::of_pages(self.layout.map_page(page.segment, page.copy), 1);
            did("map page", place, place.start.0);
            self.bopt.write(place, Buffer::from_vec(page.bytes.clone()), how.clone())
        });
        join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        self.flush_bopt(how).await
    }

    /// Records that a super page with a new log anchor is durable.
    pub(super) fn anchored(&self, anchor: Anchor, reopened: Option<u32>) {
        let table = &mut *self.table.borrow_mut();
        let Table { log, segments, repair, uncertain, .. } = table;
        // A batch may have failed meanwhile.
        repair.anchored(anchor.sequence);
        uncertain.retain(|_, batch| *batch >= anchor.sequence);
        if let Some(segment) = reopened {
            edge("the log opens");
            log.reopen(segments, segment);
        }
        let taken = (anchor.segment != NONE).then(|| segments.get(anchor.segment).taken);
        self.disk.borrow_mut().anchor_taken = taken.filter(|taken| *taken > 0).unwrap_or(log.next_to_take());
        // Batches after the failed one can end now.
        table.end_written_batches(self.is_durable_at_once());
    }

    /// Checkpoint: writes map pages that cover all batches that ended, moves the log's anchor after them, and frees
    /// empty segments.
    pub async fn checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let metadata = self.lock_metadata(how).await;
        let _metadata = (!mutant::is("borg: a checkpoint does not lock metadata")).then_some(metadata);
        self.checkpoint_locked(|_| false, how).await
    }

    /// As `checkpoint`, with the metadata lock held; also writes the map pages of segments that `also` accepts.
    pub(super) async fn checkpoint_locked(
        &self,
        also: impl Fn(&Segment) -> bool,
        how: &Hints,
    ) -> Result<(), IoError> {
        // The session may have ended while waiting for the lock: nothing to do.
        if self.has_no_session() {
            return Ok(());
        }
        loop {
            // Batches that end meanwhile are not covered: they are after this place.
            let (segments, anchor) = {
                let table = self.table.borrow();
                let unpersisted = |segment: &Segment| {
                    segment.changes > 0
                        || segment.covered < segment.last_batch
                        || segment.pending
                        || also(segment)
                };
                (table.segments.which(unpersisted), table.log.anchor())
            };
            self.persist(&segments, how).await?;
            let late = mutant::is("borg: the anchor passes batches that ended meanwhile");
            let anchor = if late { self.table.borrow().log.anchor() } else { anchor };
            self.write_super(|page| page.anchor = anchor, how).await?;
            self.anchored(anchor, None);
            self.free_segments(anchor);
            let (next, reopened) = self.next_anchor();
            if reopened.is_none() {
                return Ok(());
            }
            // If the log reopens in another segment, recovery no longer reads its earlier batches, so the map must
            // cover all of them first. The log is closed, so none are added meanwhile.
            if next.sequence == anchor.sequence {
                self.write_super(|page| page.anchor = next, how).await?;
                self.anchored(next, reopened);
                return Ok(());
            }
        }
    }

    /// Frees segments that are empty, on disk too, and before the anchor.
    fn free_segments(&self, anchor: Anchor) {
        let Table { log, segments, .. } = &mut *self.table.borrow_mut();
        let begin = if anchor.segment == NONE { u64::MAX } else { segments.get(anchor.segment).taken };
        // A log that will continue in a segment not taken yet has left all others.
        let begin = if begin == 0 { u64::MAX } else { begin };
        let last = if log.is_quiet() { u64::MAX } else { log.ended };
        let empty = segments.which(|segment| {
            segment.taken > 0
                && segment.taken
                    < begin.saturating_add(u64::from(mutant::is("borg: the segment of the anchor is freed")))
                && (segment.valid == 0 || mutant::is("borg: a segment is freed that holds pages"))
                && segment.changes == 0
                && segment.last_batch <= segment.covered.min(last)
        });
        log.free_segments(segments, &empty);
    }

    /// Writes pending metadata, after which a flush may succeed.
    pub async fn repair(&self, how: &Hints) -> Result<(), IoError> {
        if !self.has_pending_metadata() {
            return Ok(());
        }
        edge("a flush writes pending map pages");
        self.checkpoint(how).await
    }
}
