//! Copies of the map on the data device, so that a volume without its flash loses what was staged, names it, and no
//! more (section 4.2).
//!
//! A copy has what the map, its records and the list of snapshots were at an instant: a commit on flash makes them
//! durable there, then the pages that have changed go to the other area of the data device, in order, then the anchor
//! that names it. Blocks that the map no longer names are free after both. A destage ends with a copy. Before a flush
//! is answered, the regions of all that was written since the last copy are marked in the anchor, or were before.
//!
//! Invariants: what the anchor names is durable, and none of its blocks is written; an unmarked region is on the data
//! device as it was when a flush was answered last; no copy is newer than the map on flash.
//!
//! Fault model: as of `placed`; the flash may be lost at any time. After an anchor or copy that could not be written,
//! every later flush fails.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Class, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::anchor::{Anchor, CurrentAnchor};
use super::format;
use super::placed::{Placed, State};
use super::regions::Regions;
use super::super_page::Super;

use crate::join::join_all;

/// Pages of copies that are written with one request: 1 MiB.
const AT_ONCE: u64 = 256;

/// State of the copies.
pub struct Copies {
    /// The anchor as it is durable.
    anchor: Anchor,
    slot: usize,
    /// The newest generation of any sector of it.
    newest: u64,
    /// Regions that were written since the last copy.
    pub touched: Regions,
    /// Regions that were written before it, since the one before: when the first region is marked after a copy, so are
    /// these, as they are likely to be written again.
    likely: Regions,
    /// Pages of metadata that have changed since each area was written.
    changed: [BTreeSet<u64>; 2],
    /// Blocks that the map on flash no longer names, and copies may.
    pub waiting: Vec<u64>,
}

/// A copy that is being written.
pub struct Copy {
    /// Pages of metadata and their bytes, in ascending order.
    pages: Vec<(u64, Buffer)>,
    /// The anchor that makes them count.
    anchor: Anchor,
    /// Whether regions that nothing is staged in lose their marks.
    clears: bool,
    /// How many of the blocks that wait are free then.
    pub frees: usize,
}

impl Copies {
    /// The copies of an anchor; `newer` tells which pages of metadata changed after a generation.
    pub fn new((slot, newest, anchor): CurrentAnchor, newer: impl Fn(u64) -> BTreeSet<u64>) -> Copies {
        let (touched, changed) = (Regions::new(anchor.shape()), anchor.covers.map(newer));
        let likely = touched.clone();
        Copies { anchor, slot, newest, touched, likely, changed, waiting: Vec::new() }
    }

    /// Pages of metadata that have changed since the last copy.
    pub fn uncopied(&self) -> &BTreeSet<u64> {
        &self.changed[self.anchor.area]
    }

    /// Notes that a commit writes a page of metadata.
    pub fn change(&mut self, page: u64) {
        for changed in &mut self.changed {
            changed.insert(page);
        }
    }

    fn needs_marks(&self) -> bool {
        !self.touched.is_within(&self.anchor.marks)
    }
}

impl State {
    /// Takes a copy of what a commit makes durable, unless the last one is as new. Marks of regions are cleared, but
    /// for those that are staged `still`, if it is known.
    pub fn take_copy(&mut self, placed: &Placed, generation: u64, still: Option<Regions>) -> Option<Copy> {
        let copies = self.copies.as_mut()?;
        let is_new = copies.uncopied().is_empty() && self.snapshots == copies.anchor.page.snapshots;
        let clears = still.is_some();
        let marks_stay = still.as_ref().is_none_or(|still| copies.anchor.marks.is_within(still));
        if is_new && marks_stay && self.released.is_empty() && copies.waiting.is_empty() {
            return None;
        }
        if let Some(still) = still {
            copies.likely = std::mem::replace(&mut copies.touched, still);
        }
        let area = 1 - copies.anchor.area;
        let mut covers = copies.anchor.covers;
        covers[area] = generation;
        let committed = copies.anchor.page.committed + 1;
        let (shape, identity) = (placed.shape, placed.identity);
        let pages = std::mem::take(&mut copies.changed[area]).into_iter().map(|page| {
            let at = format::copy_at(&shape, area, page);
            (page, self.map.encode_at(page, at.start, committed, identity))
        });
        let pages = pages.collect();
        let page = Super { shape, identity, committed, session: 0, snapshots: self.snapshots.clone() };
        let marks = copies.anchor.marks.clone();
        Some(Copy { pages, anchor: Anchor { page, area, covers, marks }, clears, frees: 0 })
    }

    /// Notes that a page was written or mapped anew.
    pub fn touch(&mut self, page: u64) {
        if let Some(copies) = &mut self.copies {
            copies.touched.add(page);
        }
    }
}

impl Placed {
    /// Reads what the copies lack, and makes them as new as the map before any block is written: which blocks they name
    /// that the map does not is not known.
    pub(super) async fn begin_copies(&self) -> Result<(), IoError> {
        {
            let state = &mut *self.state.borrow_mut();
            let State { map, copies: Some(copies), .. } = state else { return Ok(()) };
            let pages: Vec<u64> =
                copies.uncopied().iter().flat_map(|page| map.pages_of(*page, &self.shape)).collect();
            for page in pages {
                copies.touched.add(page);
            }
            if copies.uncopied().is_empty() && state.snapshots == copies.anchor.page.snapshots {
                return Ok(());
            }
        }
        edge("the map is newer than its copies: they are written before any block is");
        self.mark(&Hints::default()).await?;
        self.copy(&Hints::default(), || None).await
    }

    /// Notes that an extent was written: its regions are marked before the next flush is answered.
    pub fn touch(&self, at: Extent) {
        if let Some(copies) = &mut self.state.borrow_mut().copies {
            copies.touched.add_all(at);
        }
    }

    /// Marks the regions of pages.
    pub fn touch_pages(&self, pages: impl Iterator<Item = u64>) {
        if let Some(copies) = &mut self.state.borrow_mut().copies {
            pages.for_each(|page| copies.touched.add(page));
        }
    }

    /// No region, if there are copies.
    pub fn no_regions(&self) -> Option<Regions> {
        self.state.borrow().copies.as_ref().map(|_| Regions::new(&self.shape))
    }

    /// Makes the marks of all that was written durable.
    pub async fn mark(&self, how: &Hints) -> Result<(), IoError> {
        let needed = || self.state.borrow().copies.as_ref().is_some_and(Copies::needs_marks);
        let failed = self.state.borrow().failed.clone();
        if let Some(error) = failed.filter(|_| self.shape.copies) {
            // An anchor that is durable after all may lack a mark that this one has.
            return Err(error);
        }
        // An anchor that is being written may clear a mark.
        let may_need = needed() || !self.anchoring.is_empty();
        if !may_need || self.canary.is("a mark after the flush is answered") {
            return Ok(());
        }
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let _turn = self.anchoring.exclusive(Extent::new(0, 1), &how).await;
        if !needed() {
            edge("another flush has marked the regions");
            return Ok(());
        }
        edge("regions are marked before a flush is answered");
        self.write_anchor(&how, |copies| {
            let mut anchor = copies.anchor.clone();
            anchor.marks.join(&copies.touched);
            anchor.marks.join(&copies.likely);
            anchor
        })
        .await
    }

    /// Writes an anchor in the older slot; the caller has its lock.
    async fn write_anchor(&self, how: &Hints, anchor: impl FnOnce(&Copies) -> Anchor) -> Result<(), IoError> {
        let (slot, generation, anchor) = {
            let state = &mut *self.state.borrow_mut();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let Some(copies) = &mut state.copies else { return Ok(()) };
            // Together with sectors of a torn slot no write may make up a whole one.
            copies.newest += 1;
            (1 - copies.slot, copies.newest, anchor(copies))
        };
        let bytes = Buffer::from_vec(anchor.encode(slot, generation));
        let written = async {
            self.data.write(format::anchor_at(slot), bytes, how.clone()).await?;
            self.data.flush(how.clone()).await
        };
        let written = written.await;
        let state = &mut *self.state.borrow_mut();
        match &written {
            Ok(()) => {
                if let Some(copies) = &mut state.copies {
                    (copies.slot, copies.anchor) = (slot, anchor);
                }
            }
            Err(error) => state.failed = Some(error.clone()),
        }
        written
    }

    /// Makes everything durable, and a copy of the map on the data device. `still` tells in which regions pages are
    /// staged, if it is known: only these stay marked.
    pub async fn copy(&self, how: &Hints, still: impl Fn() -> Option<Regions>) -> Result<(), IoError> {
        if self.state.borrow().copies.is_none() {
            return Ok(());
        }
        let _turn = self.copying.exclusive(Extent::new(0, 1), how).await;
        let Some(copy) = self.commit_copy(how, &still).await? else { return Ok(()) };
        let early = self.canary.is("an anchor before its copies");
        if early {
            self.anchor_copy(&copy, how).await?;
        }
        let written = self.write_copies(&copy, how).await;
        if let Err(error) = &written {
            self.state.borrow_mut().failed = Some(error.clone());
        }
        written?;
        if !early {
            self.anchor_copy(&copy, how).await?;
        }
        let state = &mut *self.state.borrow_mut();
        if let Some(copies) = &mut state.copies {
            let frees = if mutant::is("proximal: a copy frees what it may name") {
                copies.waiting.len()
            } else {
                copy.frees
            };
            copies.waiting.drain(..frees).for_each(|block| state.ranges.release(block));
        }
        Ok(())
    }

    /// Has a copy count.
    async fn anchor_copy(&self, copy: &Copy, how: &Hints) -> Result<(), IoError> {
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let _turn = self.anchoring.exclusive(Extent::new(0, 1), &how).await;
        self.write_anchor(&how, |copies| {
            let mut marks = copies.touched.clone();
            if !copy.clears {
                marks.join(&copies.anchor.marks);
            }
            Anchor { marks, ..copy.anchor.clone() }
        })
        .await
    }

    /// Writes the pages of a copy, adjacent ones together, and makes them durable.
    async fn write_copies(&self, copy: &Copy, how: &Hints) -> Result<(), IoError> {
        let most = (self.data.geometry().largest_sectors / PAGE_SECTORS).clamp(1, AT_ONCE);
        let mut runs: Vec<(u64, Vec<Buffer>)> = Vec::new();
        for (page, bytes) in &copy.pages {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u64 == *page && (run.len() as u64) < most => {
                    run.push(bytes.clone());
                }
                _ => runs.push((*page, vec![bytes.clone()])),
            }
        }
        let how = Hints { fua: false, ticket: None, ..how.clone() };
        let write = |(first, run): (u64, Vec<Buffer>)| {
            let at = format::copy_at(&self.shape, copy.anchor.area, first);
            let at = Extent { sectors: run.len() as u64 * PAGE_SECTORS, ..at };
            self.data.write(at, Buffer::join(run), how.clone())
        };
        join_all(runs.into_iter().map(write)).await.into_iter().collect::<Result<(), _>>()?;
        self.data.flush(how.clone()).await
    }
}
