//! Commits: what was written becomes durable, with the map that names it.
//!
//! The blocks first, then the changed pages of the map and of records, each in the older of its two copies. Where
//! records or snapshots have changed, all of these pages count once the super page says so: it is written last, in the
//! older of its copies. Then the blocks that no page names any more are free.
//!
//! Invariant: after a failed commit a copy may be torn, so no page is written any more: every later commit fails.

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Class, Extent, Hints, IoError, mutant};

use super::copies::Copy;
use super::format;
use super::pairs::PageWrite;
use super::placed::{Placed, State};
use super::regions::Regions;
use super::super_page::Super;

use crate::join::join_all;

/// A copy of the super page that is being written.
pub struct SuperWrite {
    /// The copy.
    pub copy: usize,
    bytes: Buffer,
}

/// What a commit makes durable.
struct Commit {
    writes: Vec<PageWrite>,
    /// The super page that makes the others count.
    super_page: Option<SuperWrite>,
    /// Blocks that are free afterwards, if no copy names them.
    released: Vec<u64>,
    /// A copy of all this that is to be written afterwards.
    copy: Option<Copy>,
}

impl State {
    /// Takes what has changed.
    fn take_changes(&mut self, placed: &Placed, still: Option<Regions>, copying: bool) -> Commit {
        let together = self.snapshots_changed || self.map.has_changed_records();
        let generation = self.map.pages.next_generation(together);
        let targets = self.map.pages.changes(generation, placed.canary.is("a map page over the current one"));
        let writes = self.map.encoded(targets, placed.identity);
        self.counts.map_pages_written += writes.len() as u64;
        if let Some(copies) = &mut self.copies {
            for write in &writes {
                copies.change(write.target.page);
            }
        }
        let copy = if copying { self.take_copy(placed, generation, still) } else { None };
        self.snapshots_changed = false;
        let super_page = together.then(|| {
            self.committed = generation;
            self.next_super_page(placed)
        });
        Commit { writes, super_page, released: std::mem::take(&mut self.released), copy }
    }

    /// The super page in the older of its copies.
    pub fn next_super_page(&mut self, placed: &Placed) -> SuperWrite {
        // Together with sectors of a torn copy no write may make up a whole one.
        self.super_newest += 1;
        self.super_generation = self.super_newest;
        self.super_write(placed, 1 - self.super_copy)
    }

    fn super_write(&self, placed: &Placed, copy: usize) -> SuperWrite {
        let page = Super {
            shape: placed.shape,
            identity: placed.identity,
            committed: self.committed,
            session: placed.session.number(),
            snapshots: self.snapshots.clone(),
        };
        SuperWrite {
            copy,
            bytes: Buffer::from_vec(page.encode(copy, self.super_generation, self.super_written)),
        }
    }
}

impl Placed {
    /// Makes earlier writes durable, unless that is not `needed`; then blocks released before are free.
    pub(super) async fn commit(&self, how: &Hints, needed: impl Fn(&State) -> bool) -> Result<(), IoError> {
        self.commit_and(how, needed, None).await.map(drop)
    }

    /// As [`Placed::commit`]; returns a copy of what is durable then, unless the last one is as new. `still` tells
    /// which regions have pages staged, if it is known.
    pub(super) async fn commit_copy(
        &self,
        how: &Hints,
        still: &dyn Fn() -> Option<Regions>,
    ) -> Result<Option<Copy>, IoError> {
        self.commit_and(how, |_| true, Some(still)).await
    }

    async fn commit_and(
        &self,
        how: &Hints,
        needed: impl Fn(&State) -> bool,
        still: Option<&dyn Fn() -> Option<Regions>>,
    ) -> Result<Option<Copy>, IoError> {
        if !self.flushing.is_empty() {
            edge("a second flush waits for the first");
        }
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let mut commit = {
            // In the same instant as what is taken.
            let regions = still.and_then(|still| still());
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            if !needed(&state) {
                return Ok(None);
            }
            state.take_changes(self, regions, still.is_some())
        };
        // Other tasks may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let done = self.write_commit(&commit, &how).await;
        let state = &mut *self.state.borrow_mut();
        match &done {
            Ok(()) => {
                let twice = mutant::is("proximal: a block is freed twice");
                let early = self.canary.is("a block that a copy names is free");
                match state.copies.as_mut().filter(|_| !early) {
                    Some(copies) => {
                        copies.waiting.append(&mut commit.released);
                        if let Some(copy) = &mut commit.copy {
                            copy.frees = copies.waiting.len();
                        }
                    }
                    None => {
                        for block in &commit.released {
                            (0..=u32::from(twice)).for_each(|_| state.ranges.release(*block));
                        }
                    }
                }
                state.map.pages.written(&commit.writes);
                if let Some(written) = &commit.super_page {
                    (state.super_copy, state.super_copied) = (written.copy, false);
                }
            }
            Err(error) => state.failed = Some(error.clone()),
        }
        done.map(|()| commit.copy)
    }

    async fn write_commit(&self, commit: &Commit, how: &Hints) -> Result<(), IoError> {
        let early = self.canary.is("a map before its data");
        if !early {
            self.data.flush(how.clone()).await?;
        }
        if self.canary.is("a commit counts too early") {
            self.write_super(commit, how).await?;
        }
        self.write_pages_of_map(&commit.writes, how).await?;
        if early {
            self.data.flush(how.clone()).await?;
        }
        self.flash.flush(how.clone()).await?;
        self.write_super(commit, how).await
    }

    /// Has the pages of a commit count, if they count together.
    async fn write_super(&self, commit: &Commit, how: &Hints) -> Result<(), IoError> {
        let Some(page) = &commit.super_page else { return Ok(()) };
        self.write_super_page(page, how).await
    }

    pub(super) async fn write_super_page(&self, page: &SuperWrite, how: &Hints) -> Result<(), IoError> {
        self.flash.write(format::super_at(page.copy), page.bytes.clone(), how.clone()).await?;
        self.flash.flush(how.clone()).await
    }

    async fn write_pages_of_map(&self, writes: &[PageWrite], how: &Hints) -> Result<(), IoError> {
        let write = |write: &PageWrite| {
            let at = format::map_at(write.target.page, write.target.copy);
            self.flash.write(at, write.bytes.clone(), how.clone())
        };
        join_all(writes.iter().map(write)).await.into_iter().collect()
    }

    /// Makes everything durable, with each page of metadata in both copies.
    pub async fn stop(&self) -> Result<(), IoError> {
        let how = Hints::default();
        self.commit(&how, |_| true).await?;
        let _turn = self.flushing.exclusive(Extent::new(0, 1), &how).await;
        let (writes, page) = {
            let state = self.state.borrow();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let writes = state.map.encoded(state.map.pages.duplicates(), self.identity);
            let page = (!state.super_copied).then(|| state.super_write(self, 1 - state.super_copy));
            (writes, page)
        };
        if writes.is_empty() && page.is_none() {
            return Ok(());
        }
        edge("map pages are written to their other copies");
        let copied = async {
            self.write_pages_of_map(&writes, &how).await?;
            if let Some(page) = &page {
                self.flash.write(format::super_at(page.copy), page.bytes.clone(), how.clone()).await?;
            }
            self.flash.flush(how.clone()).await
        };
        let copied = copied.await;
        let state = &mut *self.state.borrow_mut();
        match &copied {
            Ok(()) => {
                state.map.pages.duplicated(&writes);
                state.super_copied = true;
            }
            Err(error) => state.failed = Some(error.clone()),
        }
        copied
    }
}
