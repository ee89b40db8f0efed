//! Pages of metadata in two copies, of which the older one is overwritten: generations, and what has changed.
//!
//! Generations count commits, two for each. A page of a commit that counts by itself has an even generation. The pages
//! of a commit that count together or not at all have an odd one, and count once the super page names it.

use std::collections::BTreeSet;

use seekless_core::Buffer;

use crate::durable::{CopyState, Pair};

/// Current copies and generations.
pub struct Pairs {
    pages: Vec<Current>,
    /// Pages with changes that are not being written.
    changed: BTreeSet<u64>,
    /// Pages whose other copy is older.
    single: BTreeSet<u64>,
    /// The newest generation of any sector.
    newest: u64,
    /// Whether both copies of all pages were written.
    is_written: bool,
}

#[derive(Clone, Copy)]
struct Current {
    copy: usize,
    generation: u64,
}

/// A page to be written.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its number.
    pub page: u64,
    /// Copy that is overwritten.
    pub copy: usize,
    /// Its generation.
    pub generation: u64,
}

/// A page to be written, and its bytes.
pub struct PageWrite {
    pub target: Target,
    pub bytes: Buffer,
}

impl Pairs {
    /// A number of pages without changes, of which both copies were written in this generation, as far as
    /// [`Pairs::found`] does not say otherwise.
    pub fn new(pages: u64, generation: u64) -> Pairs {
        let new = Current { copy: 0, generation };
        let (changed, single) = (BTreeSet::new(), BTreeSet::new());
        Pairs { pages: vec![new; pages as usize], changed, single, newest: generation, is_written: true }
    }

    /// Notes that commits up to this generation count: a later one has a higher generation, although no page may be
    /// left of the last.
    pub fn counted_up_to(&mut self, committed: u64) {
        self.newest = self.newest.max(committed);
    }

    /// Notes what was found of a page, and which copy is current, if any is.
    pub fn found(&mut self, page: u64, pair: &Pair, copy: Option<usize>) {
        self.newest = self.newest.max(pair.newest());
        self.is_written &= pair.is_written;
        let Some(copy) = copy else { return };
        let generation = pair.copies[copy].newest().unwrap_or(0);
        self.pages[page as usize] = Current { copy, generation };
        if pair.copies[0] != pair.copies[1] {
            self.single.insert(page);
        }
    }

    /// Whether both copies of all pages were written: the next writes are rewrites.
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// The newest generation of any sector.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Pages written after this generation.
    pub fn newer(&self, generation: u64) -> BTreeSet<u64> {
        let pages = (0..).zip(&self.pages);
        pages.filter(|(_, current)| current.generation > generation).map(|(page, _)| page).collect()
    }

    /// Notes that a page has changed.
    pub fn change(&mut self, page: u64) {
        self.changed.insert(page);
    }

    /// Whether pages from this one on have changed.
    pub fn has_changes_from(&self, first: u64) -> bool {
        self.changed.range(first..).next().is_some()
    }

    /// The next generation: odd if its pages count `together`.
    pub fn next_generation(&mut self, together: bool) -> u64 {
        self.newest = (self.newest / 2 + 1) * 2 + u64::from(together);
        self.newest
    }

    /// The changed pages, each for its older copy. For a known bug, `over` the current copy instead.
    pub fn changes(&mut self, generation: u64, over: bool) -> Vec<Target> {
        let changed = std::mem::take(&mut self.changed);
        let target = |page: u64| {
            let current = &mut self.pages[page as usize];
            current.generation = generation;
            Target { page, copy: if over { current.copy } else { 1 - current.copy }, generation }
        };
        changed.into_iter().map(target).collect()
    }

    /// Records that these are durable: they are current.
    pub fn written(&mut self, writes: &[PageWrite]) {
        for PageWrite { target, .. } in writes {
            self.pages[target.page as usize].copy = target.copy;
            self.single.insert(target.page);
        }
    }

    /// The pages whose other copy is older, for that copy; none of those that have changed since.
    pub fn duplicates(&self) -> Vec<Target> {
        let unchanged = self.single.difference(&self.changed);
        let target = |&page: &u64| {
            let Current { copy, generation } = self.pages[page as usize];
            Target { page, copy: 1 - copy, generation }
        };
        unchanged.map(target).collect()
    }

    /// Records that both copies of these hold them.
    pub fn duplicated(&mut self, writes: &[PageWrite]) {
        for write in writes {
            self.single.remove(&write.target.page);
        }
    }
}

/// What a copy is worth if pages of odd generations count up to `committed`, and whether that is less than it seems.
pub fn counted(state: CopyState, committed: u64) -> (CopyState, bool) {
    match state {
        CopyState::Whole(generation) if generation % 2 == 1 && generation > committed => {
            (CopyState::Torn(generation), true)
        }
        state => (state, false),
    }
}
