//! The two copies of each page of metadata, super and map pages: writing the super page, and duplicating current pages
//! so that either copy may rot.
//!
//! Invariants: generations grow; the copy that counts is not overwritten. It is durable before the other one is
//! written. A new generation is one that no sector of either copy has had, and a duplicate has that of its original.
//!
//! Faults: a copy that cannot be written leaves the current one.

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, invariant, mutant};

use super::format::{OLD, Super, sealed};
use super::session::Session;
use super::{Disk, Store, did};
use crate::destage;
use crate::durable::CopyState;

/// Map pages duplicated together.
const DUPLICATED_AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

/// State of the two copies of the super page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Supers {
    /// The current copy.
    pub copy: u64,
    /// The newest generation that a sector of either copy has, or may have.
    pub newest: u64,
    /// Whether both are the same.
    pub twice: bool,
}

impl Disk {
    /// Copy and generation of the next super page.
    fn next_super(&mut self) -> (u64, u64) {
        if self.super_page.version == OLD {
            // In version 1, sectors do not record their generation.
            self.supers.newest = self.supers.newest.max(self.super_page.generation);
        }
        let generation = if mutant::is("borg: torn pages stay") {
            self.super_page.generation + 1
        } else {
            self.supers.newest += 1;
            self.supers.newest
        };
        (1 - self.supers.copy, generation)
    }
}

impl Store {
    /// Whether current metadata has only one copy, and can be duplicated.
    pub fn has_to_duplicate(&self) -> bool {
        let disk = self.disk.borrow();
        let written = disk.super_page.version != OLD
            && disk.super_page.generation > 0
            && disk.session != Session::GivenUp;
        let page = !disk.supers.twice && disk.supers.newest == disk.super_page.generation;
        let failed = disk.failed.is_some() || disk.bopt_failed.is_some();
        written && !failed && (self.table.borrow().segments.not_duplicated() > 0 || page)
    }

    /// Writes the super page with a change, over the older copy, and flushes.
    pub(super) async fn write_super(
        &self,
        change: impl FnOnce(&mut Super),
        how: &Hints,
    ) -> Result<(), IoError> {
        let mut page = self.disk.borrow().super_page.clone();
        change(&mut page);
        let at;
        (at, page.generation) = {
            let disk = &mut *self.disk.borrow_mut();
            disk.supers.twice = false;
            disk.next_super()
        };
        {
            let disk = self.disk.borrow();
            invariant!("generations grow", page.generation > disk.super_page.generation);
            invariant!("the copy that counts is not overwritten", at != disk.supers.copy);
        }
        self.write_super_at(&page, at, how).await?;
        let disk = &mut *self.disk.borrow_mut();
        // The other copy is that of the page before.
        page.both_written = disk.maps_written && disk.super_page.generation > 0;
        (disk.super_page, disk.supers.copy) = (page, at);
        Ok(())
    }

    async fn write_super_at(&self, page: &Super, at: u64, how: &Hints) -> Result<(), IoError> {
        let place = Extent::of_pages(at, 1);
        did("super page", place, place.start.0);
        self.bopt.write(place, Buffer::from_vec(page.encode(at)), how.clone()).await?;
        self.flush_bopt(how).await
    }

    /// Writes pages repaired by recovery, before anything relies on them. Their sources may not be durable: the program
    /// may have crashed before a flush.
    pub(super) async fn write_repaired(&self, repaired: Vec<(Extent, Vec<u8>)>) -> Result<(), IoError> {
        if repaired.is_empty() {
            return Ok(());
        }
        let how = Hints::default();
        self.flush_bopt(&how).await?;
        for (at, bytes) in repaired {
            did("made whole", at, at.start.0);
            self.bopt.write(at, Buffer::from_vec(bytes), how.clone()).await?;
        }
        self.flush_bopt(&how).await
    }

    /// Duplicates some metadata that has only one copy, with one read and one write; returns whether there is more.
    pub async fn duplicate_some(&self, how: &Hints) -> Result<bool, IoError> {
        let _metadata = self.lock_metadata(how).await;
        self.duplicate(true, how).await
    }

    /// Duplicates all metadata that has only one copy; the caller holds the metadata lock.
    pub(super) async fn duplicate_all(&self, how: &Hints) -> Result<(), IoError> {
        while self.duplicate(false, how).await? {}
        Ok(())
    }

    /// Duplicates some; returns whether there is more. With `strand`, by one read and one write. Reads the page from
    /// disk, so that both copies of a generation are identical.
    pub(super) async fn duplicate(&self, strand: bool, how: &Hints) -> Result<bool, IoError> {
        if !self.has_to_duplicate() {
            return Ok(false);
        }
        let some = self.in_one_copy(strand);
        let identity = self.disk.borrow().super_page.identity;
        if some.is_empty() {
            self.duplicate_super(how).await?;
            return Ok(false);
        }
        self.flush_bopt(how).await?;
        edge("map pages are written to their other copies");
        let places = some.iter().map(|&(segment, _, copy)| self.layout.map_page(segment, copy));
        let read = destage::read(&*self.bopt, places, |at| self.buffer(at), how).await?;
        let (mut copies, mut copied) = (destage::Pages::default(), Vec::new());
        for (segment, generation, copy) in some {
            let (from, to) = (self.layout.map_page(segment, copy), self.layout.map_page(segment, 1 - copy));
            let bytes = read[&from].to_vec();
            if self.timing_only {
                copies.insert(to, read[&from].clone());
            } else if sealed::map_copy_state(from, identity, &bytes) == CopyState::Whole(generation) {
                copies.insert(to, Buffer::from_vec(sealed::for_copy(to, generation, identity, &bytes)));
            } else {
                // Has rotted meanwhile: the next flush writes a new one.
                self.table.borrow_mut().segments.get_mut(segment).pending = true;
                continue;
            }
            copied.push(segment);
        }
        destage::write(&*self.bopt, &copies, how).await?;
        self.flush_bopt(how).await?;
        let table = &mut *self.table.borrow_mut();
        for segment in &copied {
            table.segments.set_copies(*segment, 2);
        }
        self.disk.borrow_mut().metadata_pages += copied.len() as u64;
        Ok(!copied.is_empty())
    }

    /// Segments whose map page has one copy, with its generation and copy; with `strand`, those of one strand only.
    fn in_one_copy(&self, strand: bool) -> Vec<(u32, u64, u64)> {
        let segments = &self.table.borrow().segments;
        let once = segments.which(|segment| segment.copies < 2 && !segment.pending);
        let place = |segment: u32| {
            let known = segments.get(segment);
            (segment, known.generation, known.copy)
        };
        let mut some: Vec<_> = once.into_iter().take(DUPLICATED_AT_ONCE).map(place).collect();
        let goes_on = |pair: &[(u32, u64, u64)]| pair[0].0 + 1 == pair[1].0 && pair[0].2 == pair[1].2;
        let end = some.windows(2).position(|pair| strand && !goes_on(pair));
        some.truncate(end.map_or(some.len(), |last| last + 1));
        some
    }

    async fn duplicate_super(&self, how: &Hints) -> Result<(), IoError> {
        let (page, other) = {
            let disk = self.disk.borrow();
            if disk.supers.twice || disk.supers.newest != disk.super_page.generation {
                return Ok(());
            }
            (disk.super_page.clone(), 1 - disk.supers.copy)
        };
        self.flush_bopt(how).await?;
        self.write_super_at(&page, other, how).await?;
        self.disk.borrow_mut().supers.twice = true;
        Ok(())
    }
}
