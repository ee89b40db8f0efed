//! The indirector (section 4.5): decides where each request goes.
//!
//! The path of a request: its pages are locked; it is split by where its pages are; the parts are issued together; the
//! result is assembled.
//!
//! Rules for a read; unproven copies do not count. All pages have a copy: to the BOPT; none has: to the origin
//! unchanged; some have, and all of these are clean: to the origin as a whole; some are dirty: these from the BOPT and
//! the others from the origin, joined.
//!
//! Rules for a write, page by page. Without a copy: absorbed if the write may absorb and the log has room, else to the
//! origin. Whole, with a copy: absorbed anew, or with `overwrite = "in-place"`, or without room, to the copy. A part,
//! with a copy: joined with the rest and absorbed anew if the copy is not stable, or, unless `overwrite = "in-place"`,
//! if it is proven and clean and there is room; else to the copy in place (section 5.3). An unproven copy that would be
//! overwritten is dropped first.
//!
//! A copy that is not stable yet is not overwritten in place, since recovery validates it by its checksum. It is
//! absorbed anew; a partial write is joined with the rest of the page.
//!
//! Faults: a part that fails fails its request, not the volume. A clean copy that cannot be read is read from the
//! origin; a dirty one is an error, never stale data from the origin. A copy is marked dirty before it is overwritten,
//! so that after a partial write the old data of the origin is not served.

use std::collections::BTreeMap;

use seekless_core::device::Place;
use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, Mode, PAGE_SECTORS, mutant, runtime};

use super::gain::Source;
use super::options::Overwrite;
use super::parts::{Part, Piece, Side, push, split_by};
use super::store::{Entry, Slot};
use super::{Borg, did};

use crate::join::join_all;

/// Pages of a request that have a proven copy.
#[derive(Default)]
struct ProvenCopies {
    pages: u64,
    dirty: u64,
}

/// How a write is attempted.
#[derive(Clone, Copy)]
pub(super) struct Try {
    /// Whether pages without a copy are absorbed.
    pub absorbs: bool,
    /// Whether no other request is outstanding.
    pub lone: bool,
}

/// An attempt to write.
pub(super) struct Attempt {
    /// Whole pages for those that the write covers partly.
    pub joined: BTreeMap<u64, Buffer>,
    /// How each part ended.
    pub written: Vec<Result<(), IoError>>,
    /// Pages that were to be absorbed.
    pub absorbed: u64,
    /// Whether a flush has to follow.
    flushes: bool,
    /// Why pages could not be absorbed, if so.
    pub refused: Option<IoError>,
}

impl Borg {
    /// Reads `at`: lock, look up, split, issue, join.
    pub(super) async fn read_indirected(
        &self,
        at: Extent,
        into: Buffer,
        how: Hints,
    ) -> Result<Buffer, IoError> {
        let begin = runtime::now();
        let (arrival, _outstanding) = self.arrivals.arrive(begin);
        let _guard = self.lock_pages(at, Mode::Shared, &how).await;
        self.ensure_not_refused()?;
        self.request_arrived(at, &how, false, arrival);
        if self.store.unproven() > 0 {
            Box::pin(self.compare_for(at, &how)).await?;
        }
        let found = self.count_proven(at);
        let pages = at.page_count();
        let has_all = found.pages == pages;
        let timed = if has_all && found.dirty < pages { self.source(begin) } else { None };
        let all = has_all && timed != Some(Source::Origin);
        let hits = if all { pages } else { found.dirty };
        self.tally(&how, |traffic| {
            (traffic.pages, traffic.hits) = (traffic.pages + pages, traffic.hits + hits);
        });
        let misses = timed == Some(Source::Origin) && mutant::is("borg: a timed read misses dirty pages");
        if found.pages == 0 || (!all && (found.dirty == 0 || misses)) {
            did("read at origin", at, at.start.0);
            let class = how.effective_class();
            let read = self.origin.read(at, into, how).await?;
            if has_all && found.pages > 0 {
                edge("a read goes to the origin to be timed");
                self.time(timed, begin);
            } else {
                self.copy_on_read(at, &read, class);
            }
            return Ok(read);
        }
        if found.dirty > 0 && self.store.has_unread_sums() {
            Box::pin(self.store.read_sums(at.pages(), &how)).await;
        }
        // Boxed to keep the future of a request to the origin small: one is allocated per request.
        let class = how.effective_class();
        let read = Box::pin(self.read_parts(at, into, how, all)).await?;
        if found.dirty > 0 {
            self.dirty_pages_read(at, class);
        }
        self.time(timed, begin);
        Ok(read)
    }

    /// Reads from the copies: all of them, or only the dirty ones.
    async fn read_parts(&self, at: Extent, into: Buffer, how: Hints, all: bool) -> Result<Buffer, IoError> {
        let misses = mutant::is("borg: a read in parts misses dirty pages");
        let parts = self.split(at, |entry| (all && entry.proven) || (entry.dirty && !misses));
        self.tally(&how, |traffic| traffic.splits += u64::from(parts.len() > 1));
        let read = |part: &Part| {
            let here = Extent { start: at.start + part.from, sectors: part.at.sectors };
            did("read in part", here, part.at.start.0);
            self.read_part(*part, here, into.cut_sectors(part.from, part.at.sectors), &how)
        };
        // Joining one part would allocate twice.
        if let [part] = &parts[..] {
            return read(part).await.map(|()| into);
        }
        join_all(parts.iter().map(read)).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        self.return_on_read(at, &into, how.effective_class(), parts.len());
        Ok(into)
    }

    async fn read_part(&self, part: Part, here: Extent, into: Buffer, how: &Hints) -> Result<(), IoError> {
        if part.side == Side::Bopt && here != here.whole_pages() && self.has_sums(here) {
            return self.read_whole(&part, here, &into, how).await;
        }
        let read = self.device(part.side).read(part.at, into.clone(), how.clone()).await;
        if read.is_ok() && part.side == Side::Bopt {
            self.store.verify_sums(here, &into)?;
        }
        if read.is_ok() || part.side == Side::Origin || self.count_proven(here).dirty > 0 {
            return read.map(drop);
        }
        edge("a clean copy cannot be read: its origin can");
        self.origin.read(here, into, how.clone()).await.map(drop)
    }

    /// Whether checksums of these pages' copies are known.
    fn has_sums(&self, here: Extent) -> bool {
        !self.store.is_timing_only() && here.pages().any(|page| self.store.known_sum(page).is_some())
    }

    /// Reads the whole pages of which a part is needed: only these have checksums.
    async fn read_whole(&self, part: &Part, here: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        edge("part of a dirty page is read: all of it is verified");
        let (whole, there) = (here.whole_pages(), part.at.whole_pages());
        let all = self.bopt.read(there, self.buffer(there), how.clone()).await?;
        self.store.verify_sums(whole, &all)?;
        all.cut_sectors(here.start.0 - whole.start.0, here.sectors).look(|bytes| into.put(0, bytes));
        Ok(())
    }

    /// Writes `at`: lock, absorb, split, write; absorbed pages are mapped when their batch is committed.
    pub(super) async fn write_indirected(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        let (arrival, _outstanding) = self.arrivals.arrive(runtime::now());
        let lock = self.lock_for_write(at, &how).await;
        let absorbs = lock.absorbs;
        self.ensure_not_refused()?;
        self.request_arrived(at, &how, true, arrival);
        // Whether entries may change, for which the store's session has to be begun. Copies that are not proven count
        // too: they may be absorbed anew. On a new BOPT no write waits for that: until then all go to the origin.
        let changes = absorbs && self.store.layout().write_buffer > 0 || self.has_copies(at);
        if changes && self.store.is_new() {
            self.store.begin_in_background(how.account);
        } else if changes && !self.store.is_given_up() {
            self.store.begin_writing(&how).await?;
        } else {
            self.begin_for_origin(&how).await?;
        }
        self.overrule_failed_batches(at, &how).await?;
        self.try_bopt_if_due();
        let mut attempt =
            self.attempt_write((at, &from), &how, Try { absorbs, lone: arrival.depth == 0 }).await?;
        if attempt.refused.is_some() {
            attempt = Box::pin(self.write_without_log((at, &from), &how, &attempt)).await?;
        } else if attempt.absorbed > 0 {
            self.fallback.absorbed();
        }
        let Attempt { joined, written, absorbed, flushes, .. } = attempt;
        self.note_outcome(at, &written, Some(&joined));
        if !mutant::is("borg: the mover does not see a write") && self.invalidate_copies(at) {
            edge("a page is written while it is copied");
        }
        if absorbed > 0 || self.is_stuck() {
            self.maintain_the_log();
        }
        written.into_iter().collect::<Result<(), _>>()?;
        if flushes {
            edge("a write with FUA was absorbed");
            self.flush_all(&Hints { fua: false, ..how }).await?;
        } else if how.fua {
            self.repair_or_spare(&Hints { fua: false, ..how }).await?;
        }
        Ok(())
    }

    /// Prepares the pages of a write, sorts them by destination, and writes them.
    pub(super) async fn attempt_write(
        &self,
        (at, from): (Extent, &Buffer),
        how: &Hints,
        with: Try,
    ) -> Result<Attempt, IoError> {
        let joined = self.prepare(at, from, how).await?;
        if with.lone && !self.does_without_log() {
            self.store.choose_batch_place(at.page_count(), how);
        }
        let (pieces, absorbed) = self.sort(at, from, &joined, with.absorbs);
        self.tally(how, |traffic| {
            traffic.pages += at.page_count();
            traffic.splits += u64::from(pieces.len() > 1);
            for (pages, absorbed) in pieces.iter().filter_map(Piece::in_bopt) {
                traffic.hits += pages;
                traffic.absorbed += if absorbed { pages } else { 0 };
            }
        });
        // With a volatile cache below, FUA on this batch alone does not make earlier batches durable.
        let flushes = how.fua && absorbed > 0 && self.bopt.geometry().volatile_cache;
        let how = Hints { fua: how.fua && !flushes, ..how.clone() };
        let written = join_all(pieces.iter().map(|piece| self.write_piece(piece, &how))).await;
        let appended = |piece: &Piece| matches!(piece, Piece::Appended(_));
        let mut refused = pieces.iter().zip(&written).filter(|(piece, _)| appended(piece));
        let refused = refused.find_map(|(_, written)| written.as_ref().err().cloned());
        Ok(Attempt { joined, written, absorbed, flushes, refused })
    }

    async fn write_piece(&self, piece: &Piece, how: &Hints) -> Result<(), IoError> {
        match piece {
            Piece::Placed { side: Side::Origin, at, data } => {
                self.origin_written(self.origin.write(*at, data.clone(), how.clone()).await)
            }
            Piece::Placed { side: Side::Bopt, at, data } => {
                self.bopt.write(*at, data.clone(), how.clone()).await
            }
            Piece::Appended(appended) => self.store.write_appended(appended, how).await,
        }
    }

    /// Begins a session for a write to the origin alone: the mark of the last clean stop no longer proves the copies.
    async fn begin_for_origin(&self, how: &Hints) -> Result<(), IoError> {
        if self.store.mapped() > 0 { self.store.begin_mapping(how).await } else { Ok(()) }
    }

    /// Ensures that pages whose copies must not be overwritten now can be absorbed anew, or become stable. Returns the
    /// whole pages for those that the write covers partly.
    async fn prepare(
        &self,
        at: Extent,
        from: &Buffer,
        how: &Hints,
    ) -> Result<BTreeMap<u64, Buffer>, IoError> {
        let how = Hints { fua: false, ..how.clone() };
        let joined = self.join_parts(at, from, &how).await?;
        // Repeated after each wait: there may be less room in the log by then.
        loop {
            if self.must_persist_first(at) {
                edge("the write buffer is full of pending slots: the map is persisted first");
                self.store.checkpoint(&how).await?;
                continue;
            }
            if self.does_without_log() && self.drop_clean(at, &how).await? {
                continue;
            }
            let summed = self.summed_in_place(at, &joined);
            if !summed.is_empty() {
                self.store.forget_sums(&summed, &how).await?;
                continue;
            }
            let (unproven, clean) = self.clean_in_place(at, &joined);
            if unproven.is_empty() && clean.is_empty() {
                return Ok(joined);
            }
            self.drop_unproven(&unproven, &how).await?;
            self.store.mark_dirty(&clean, &how).await?;
        }
    }

    /// Whether the write would overwrite a copy that is not stable, with no room to absorb it anew.
    fn must_persist_first(&self, at: Extent) -> bool {
        let in_place = mutant::is("borg: part of an unstable copy is overwritten in place");
        let pages = at.page_count();
        !in_place && !self.can_absorb(pages) && at.pages().any(|page| self.unstable(page).is_some())
    }

    /// The slot of a page's copy if it is not stable and must not be overwritten in place.
    fn unstable(&self, page: u64) -> Option<Slot> {
        self.store.lookup(page).map(|entry| entry.slot).filter(|slot| !self.store.is_stable(*slot))
    }

    /// Slots of copies that the write would overwrite in place, and whose checksums are on disk.
    fn summed_in_place(&self, at: Extent, joined: &BTreeMap<u64, Buffer>) -> Vec<Slot> {
        if mutant::is("borg: a copy is overwritten before its checksum is given up") {
            return Vec::new();
        }
        self.overwritten(at, joined)
            .map(|(_, entry)| entry.slot)
            .filter(|slot| self.store.has_sum(*slot))
            .collect()
    }

    /// Copies that the write would overwrite in place and that are clean, at least on disk: pages of unproven ones, and
    /// slots of the others.
    fn clean_in_place(&self, at: Extent, joined: &BTreeMap<u64, Buffer>) -> (Vec<u64>, Vec<Slot>) {
        let (mut unproven, mut clean) = (Vec::new(), Vec::new());
        for (page, entry) in self.overwritten(at, joined) {
            if entry.dirty && self.store.is_dirty_on_disk(entry.slot) {
                continue;
            }
            if entry.proven && mutant::is("borg: a clean copy is overwritten first") {
                continue;
            }
            if entry.proven { clean.push(entry.slot) } else { unproven.push(page) }
        }
        (unproven, clean)
    }

    /// Pages of a write, with their copies, that would be overwritten in place if the write were issued now.
    fn overwritten(&self, at: Extent, joined: &BTreeMap<u64, Buffer>) -> impl Iterator<Item = (u64, Entry)> {
        let room = !self.store.is_given_up() && self.can_absorb(at.page_count());
        at.split(PAGE_SECTORS).filter_map(move |part| {
            let page = part.start.page();
            let whole = part.sectors == PAGE_SECTORS || joined.contains_key(&page);
            let entry = self.store.lookup(page)?;
            (!(whole && room && self.is_absorbed_anew(entry))).then_some((page, entry))
        })
    }

    /// Whether a whole page that has this copy is absorbed anew, if there is room in the log.
    fn is_absorbed_anew(&self, entry: Entry) -> bool {
        self.logs_anew() || !self.store.is_stable(entry.slot)
    }

    /// Whether pages with a stable copy are absorbed anew, too.
    fn logs_anew(&self) -> bool {
        self.options.overwrite == Overwrite::Logged
    }

    /// Reads whole pages for those that the write covers partly, if their copy must not be overwritten, or is clean and
    /// can be absorbed instead.
    async fn join_parts(
        &self,
        at: Extent,
        from: &Buffer,
        how: &Hints,
    ) -> Result<BTreeMap<u64, Buffer>, IoError> {
        let mut joined = BTreeMap::new();
        let pages = at.page_count();
        let in_place = mutant::is("borg: part of an unstable copy is overwritten in place");
        let joins = |page| {
            let clean = |entry: &Entry| self.logs_anew() && !entry.dirty && entry.proven;
            let clean = self.store.lookup(page).filter(clean).filter(|_| self.can_absorb(pages));
            self.unstable(page).filter(|_| !in_place).or(clean.map(|entry| entry.slot))
        };
        if at.pages().any(|page| joins(page).is_some()) {
            for (part, data) in from.split(at, PAGE_SECTORS).filter(|(part, _)| part.sectors < PAGE_SECTORS) {
                let page = part.start.page();
                let Some(slot) = joins(page) else { continue };
                edge("part of a page is merged with a copy that must not be overwritten");
                let there = Extent::of_pages(self.store.layout().page(slot), 1);
                self.store.read_sums(std::iter::once(page), how).await;
                let known = self.store.known_sum(page);
                let old = self.bopt.read(there, self.buffer(there), how.clone()).await?;
                self.store.verify_sum(page, known, &old)?;
                joined.insert(page, old.with_sectors(part.start.0 % PAGE_SECTORS, data));
            }
        }
        Ok(joined)
    }

    /// Sorts the pages of a write by destination, joining contiguous ones; returns how many are absorbed. A whole
    /// page is appended to the log if its copy must not be overwritten, or if the options say so; a page without a copy
    /// only if the write may absorb.
    fn sort(
        &self,
        at: Extent,
        from: &Buffer,
        joined: &BTreeMap<u64, Buffer>,
        absorbs: bool,
    ) -> (Vec<Piece>, u64) {
        let mut pieces: Vec<Piece> = Vec::with_capacity(1);
        let mut count = 0;
        for (part, data) in from.split(at, PAGE_SECTORS) {
            let page = part.start.page();
            let copy = self.store.lookup(page);
            let whole = if part.sectors == PAGE_SECTORS { Some(&data) } else { joined.get(&page) };
            let anew = copy.map_or(absorbs, |entry| self.is_absorbed_anew(entry))
                && !self.store.is_given_up()
                && !self.does_without_log();
            let absorbed = whole.filter(|_| anew).and_then(|whole| self.store.append(page, whole));
            let piece = match (absorbed, copy) {
                (Some(appended), _) => {
                    count += 1;
                    Piece::Appended(appended)
                }
                (None, Some(Entry { slot, .. })) => {
                    let copy = self.store.layout().page(slot) * PAGE_SECTORS;
                    self.store.overwrite(slot);
                    did("overwritten in place", Extent::of_pages(page, 1), copy);
                    let start = Lba(copy + part.start.0 % PAGE_SECTORS);
                    Piece::Placed { side: Side::Bopt, at: Extent { start, ..part }, data }
                }
                (None, None) => Piece::Placed { side: Side::Origin, at: part, data },
            };
            push(&mut pieces, piece);
        }
        (pieces, count)
    }

    /// Discards unmapped pages on the origin. A mapped page keeps its copy, and reads as before.
    pub(super) async fn discard_indirected(&self, at: Extent, how: Hints) -> Result<(), IoError> {
        let _guard = self.lock_pages(at, Mode::Exclusive, &how).await;
        self.ensure_not_refused()?;
        self.begin_for_origin(&how).await?;
        self.overrule_failed_batches(at, &how).await?;
        let unmapped = self.split(at, |_| true).into_iter().filter(|part| part.side == Side::Origin);
        let discarded = join_all(unmapped.map(|part| self.origin.discard(part.at, how.clone()))).await;
        self.note_outcome(at, &discarded, None);
        if !mutant::is("borg: the mover does not see a discard") && self.invalidate_copies(at) {
            edge("a page is discarded while it is copied");
        }
        self.origin_written(discarded.into_iter().collect())
    }

    /// Reports where a read of whole copies would go, one part per destination.
    pub(super) fn places_indirected(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        for part in self.split(at, |entry| entry.proven) {
            let start = at.start + part.from;
            self.device(part.side).places(part.at, &mut |found, on| {
                each(Extent { start: start + (found.start.0 - part.at.start.0), ..found }, on);
            });
        }
    }

    /// Counts proven copies, and dirty ones.
    fn count_proven(&self, at: Extent) -> ProvenCopies {
        let mut found = ProvenCopies::default();
        let copies = at.pages().filter_map(|page| self.store.lookup(page));
        for entry in copies.filter(|entry| entry.proven) {
            found.pages += 1;
            found.dirty += u64::from(entry.dirty);
        }
        found
    }

    /// Splits a read or discard: pages whose copy `use_copy` accepts go to the BOPT, the others to the origin.
    fn split(&self, at: Extent, use_copy: impl Fn(&Entry) -> bool) -> Vec<Part> {
        split_by(at, |page| {
            let entry = self.store.lookup(page).filter(&use_copy)?;
            Some(self.store.layout().page(entry.slot))
        })
    }

    fn device(&self, side: Side) -> &dyn BlockDevice {
        match side {
            Side::Origin => &*self.origin,
            Side::Bopt => &*self.bopt,
        }
    }
}
