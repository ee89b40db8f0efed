//! The sectors of the blocks: which are free, and how many pages each piece has.
//!
//! A byte for each sector: its use. Invariants: a piece lies within a block; a piece that has pages, or had some until
//! the map that does not name it is durable, overlaps no other; every free sector is in a whole free block, which is in
//! one of the runs, or in a block that is listed by its longest run of free sectors.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::{PAGE_SECTORS, invariant, mutant};

use super::format::Piece;

/// A free sector.
const FREE: u8 = 0;
/// Pages of a piece, at most: what more pages hold is stored again.
pub const MOST_PAGES: u8 = 250;
/// First sector of a piece without pages, which is not free yet.
const UNUSED: u8 = 254;
/// A further sector of a piece.
const FURTHER: u8 = 255;
const BLOCK: usize = PAGE_SECTORS as usize;

/// See the file's header.
pub struct Space {
    uses: Vec<u8>,
    /// Whole free blocks: the first of a run, and its number of blocks.
    runs: BTreeMap<u32, u32>,
    /// Blocks of which a part is free, by the longest run of free sectors in them, 1 to 7.
    parts: [BTreeSet<u32>; BLOCK],
    /// The block after that taken last: others are taken from here on, so that writes are contiguous, and one that was
    /// just freed is taken late.
    cursor: u32,
    free: u64,
}

impl Space {
    /// All blocks are free.
    pub fn new(blocks: u64) -> Space {
        let blocks = blocks as u32;
        Space {
            uses: vec![FREE; blocks as usize * BLOCK],
            runs: BTreeMap::from([(0, blocks)]),
            parts: Default::default(),
            cursor: 0,
            free: u64::from(blocks) * PAGE_SECTORS,
        }
    }

    /// Free sectors.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Takes free sectors for a piece: as one without pages.
    pub fn take(&mut self, sectors: u32) -> Option<u32> {
        let parts = self.parts.get(sectors as usize..).unwrap_or_default();
        let block = match parts.iter().find_map(BTreeSet::first) {
            Some(block) => *block,
            None => self.next_whole()?,
        };
        let first = block as usize * BLOCK;
        let (start, _) = run_of(&self.uses[first..first + BLOCK], sectors as usize);
        let at = (first + start) as u32;
        self.mark(at, sectors);
        Some(at)
    }

    /// The next whole free block after the one that was taken last.
    fn next_whole(&mut self) -> Option<u32> {
        let covering = self.runs.range(..=self.cursor).next_back();
        let covering = covering.filter(|(first, blocks)| self.cursor - **first < **blocks);
        let block = match covering {
            Some(_) => self.cursor,
            None => *self.runs.range(self.cursor..).next().or(self.runs.first_key_value())?.0,
        };
        self.cursor = block + 1;
        Some(block)
    }

    /// Takes these free sectors.
    fn mark(&mut self, at: u32, sectors: u32) {
        let piece = at as usize..(at + sectors) as usize;
        assert!(self.uses[piece.clone()].iter().all(|one| *one == FREE), "a piece is taken that is free");
        let block = at / BLOCK as u32;
        self.unlist(block);
        self.uses[piece.clone()].fill(FURTHER);
        self.uses[piece.start] = UNUSED;
        self.free -= u64::from(sectors);
        self.list(block);
    }

    /// Frees a piece without pages.
    pub fn free_piece(&mut self, at: u32) {
        assert!(self.uses[at as usize] == UNUSED, "a piece is freed that has no pages");
        let sectors = self.sectors(at);
        self.unlist(at / BLOCK as u32);
        self.uses[at as usize..(at + sectors) as usize].fill(FREE);
        self.free += u64::from(sectors);
        self.list(at / BLOCK as u32);
    }

    fn longest(&self, block: u32) -> usize {
        let first = block as usize * BLOCK;
        run_of(&self.uses[first..first + BLOCK], BLOCK).1
    }

    /// Removes a block from where it is listed.
    fn unlist(&mut self, block: u32) {
        match self.longest(block) {
            BLOCK => {
                let found = self.runs.range(..=block).next_back().map(|(first, blocks)| (*first, *blocks));
                let Some((first, blocks)) = found else { return };
                self.runs.remove(&first);
                if first < block {
                    self.runs.insert(first, block - first);
                }
                if block + 1 < first + blocks {
                    self.runs.insert(block + 1, first + blocks - block - 1);
                }
            }
            longest => {
                self.parts[longest].remove(&block);
            }
        }
    }

    /// Lists a block by its longest run of free sectors.
    fn list(&mut self, block: u32) {
        match self.longest(block) {
            0 => {}
            BLOCK => {
                let (mut first, mut blocks) = (block, 1);
                if let Some((before, behind)) = self.runs.range(..block).next_back().map(|(a, b)| (*a, *b)) {
                    if before + behind == block {
                        (first, blocks) = (before, behind + 1);
                    }
                }
                if let Some(behind) = self.runs.remove(&(block + 1)) {
                    blocks += behind;
                }
                self.runs.insert(first, blocks);
            }
            longest => {
                self.parts[longest].insert(block);
            }
        }
    }

    /// Sectors of the piece that begins here.
    pub fn sectors(&self, at: u32) -> u32 {
        let room = BLOCK - at as usize % BLOCK;
        let behind = &self.uses[at as usize + 1..at as usize + room];
        1 + behind.iter().take_while(|one| **one == FURTHER).count() as u32
    }

    /// Pages of the piece that begins here; 0 if there is none.
    pub fn pages(&self, at: u32) -> u8 {
        Some(self.uses[at as usize]).filter(|pages| *pages <= MOST_PAGES).unwrap_or(0)
    }

    /// Adds a page to a piece; false if it has none, or as many as it may have.
    pub fn share(&mut self, at: u32) -> bool {
        let pages = &mut self.uses[at as usize];
        let may = (1..MOST_PAGES).contains(pages);
        *pages += u8::from(may);
        may
    }

    /// A piece that was taken has its first page.
    pub fn begin(&mut self, at: u32) {
        assert!(self.uses[at as usize] == UNUSED, "a piece has its first page once");
        self.uses[at as usize] = 1;
    }

    /// Removes a page from a piece; whether it was the last.
    pub fn leave(&mut self, at: u32) -> bool {
        let pages = &mut self.uses[at as usize];
        invariant!("a piece is left that has pages", (1..=MOST_PAGES).contains(pages));
        *pages = if *pages == 1 { UNUSED } else { *pages - 1 };
        *pages == UNUSED
    }

    /// A page of the map that was read has this piece. False if the piece overlaps another one, or has too many pages;
    /// otherwise whether the page is its first.
    pub fn found(&mut self, piece: &Piece) -> Result<bool, ()> {
        let uses = &self.uses[piece.at as usize..(piece.at + piece.sectors) as usize];
        if uses.iter().all(|one| *one == FREE) {
            self.mark(piece.at, piece.sectors);
            self.begin(piece.at);
            return Ok(true);
        }
        let once = mutant::is("dedup: an opening counts a piece once");
        let same = self.pages(piece.at) > 0 && self.sectors(piece.at) == piece.sectors;
        if same && (once || self.share(piece.at)) { Ok(false) } else { Err(()) }
    }
}

/// The first run of this many free sectors of a block, or its start if there is none; and its longest run.
fn run_of(uses: &[u8], sectors: usize) -> (usize, usize) {
    let (mut first, mut longest, mut start) = (None, 0, 0);
    for end in 1..=uses.len() {
        if uses[end - 1] != FREE {
            start = end;
        }
        longest = longest.max(end - start);
        if end - start >= sectors {
            first = first.or(Some(start));
        }
    }
    (first.unwrap_or(0), longest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::content::Fingerprint;
    use super::*;

    proptest! {
        /// Pieces that are taken, shared, left and freed never overlap, and all that was freed can be taken again.
        #[test]
        fn pieces_do_not_overlap_and_nothing_is_lost(
            blocks in 1..9_u64,
            steps in prop::collection::vec((1..9_u32, 0..4_u8, any::<prop::sample::Index>()), 0..120),
        ) {
            let mut space = Space::new(blocks);
            let mut model: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for (sectors, what, which) in steps {
                let known: Vec<u32> = model.keys().copied().collect();
                let at = (!known.is_empty()).then(|| known[which.index(known.len())]);
                match (what, at) {
                    (0 | 1, _) | (_, None) => {
                        if let Some(at) = space.take(sectors) {
                            space.begin(at);
                            for (other, (length, _)) in &model {
                                prop_assert!(at + sectors <= *other || other + length <= at);
                            }
                            prop_assert!(u64::from(at) / 8 == u64::from(at + sectors - 1) / 8);
                            model.insert(at, (sectors, 1));
                            continue;
                        }
                        let fits = (0..blocks as u32).any(|block| {
                            let free = |at: &u32| {
                                !model.iter().any(|(first, (length, _))| (*first..first + length).contains(at))
                            };
                            let free: Vec<bool> = (block * 8..block * 8 + 8).map(|at| free(&at)).collect();
                            free.windows(sectors as usize).any(|run| run.iter().all(|one| *one))
                        });
                        prop_assert!(!fits, "there was room for {}", sectors);
                    }
                    (2, Some(at)) => {
                        prop_assert!(space.share(at));
                        model.get_mut(&at).unwrap().1 += 1;
                    }
                    (_, Some(at)) => {
                        let (sectors, pages) = model[&at];
                        prop_assert_eq!(space.sectors(at), sectors);
                        let last = space.leave(at);
                        prop_assert_eq!(last, pages == 1);
                        if last {
                            space.free_piece(at);
                            model.remove(&at);
                        } else {
                            model.insert(at, (sectors, pages - 1));
                        }
                    }
                }
                let used: u32 = model.values().map(|(sectors, _)| sectors).sum();
                prop_assert_eq!(space.free(), blocks * 8 - u64::from(used));
            }
            // The same from a map.
            let mut found = Space::new(blocks);
            for (at, (sectors, pages)) in &model {
                let piece = Piece { at: *at, sectors: *sectors, fingerprint: Fingerprint(1) };
                for page in 0..*pages {
                    prop_assert_eq!(found.found(&piece), Ok(page == 0));
                }
            }
            prop_assert!(found.uses == space.uses && found.runs == space.runs && found.parts == space.parts);
        }
    }

    #[test]
    fn a_piece_has_a_limited_number_of_pages() {
        let mut space = Space::new(2);
        let at = space.take(8).unwrap();
        assert!(!space.share(at), "it has none yet");
        space.begin(at);
        assert!((1..MOST_PAGES).all(|_| space.share(at)) && !space.share(at));
        assert!((1..MOST_PAGES).all(|_| !space.leave(at)) && space.leave(at));
        assert!(space.pages(at) == 0 && !space.share(at), "a piece that was left is not found again");
        let overlapping = Piece { at: at + 1, sectors: 2, fingerprint: Fingerprint(1) };
        assert_eq!(space.found(&overlapping), Err(()));
    }

    #[test]
    fn freed_blocks_are_taken_late_and_small_pieces_share_blocks() {
        let mut space = Space::new(4);
        assert_eq!([8, 8].map(|sectors| space.take(sectors)), [Some(0), Some(8)]);
        space.free_piece(0);
        assert_eq!([3, 3, 3, 2].map(|sectors| space.take(sectors)), [Some(16), Some(19), Some(24), Some(22)]);
        assert_eq!([8, 8].map(|sectors| space.take(sectors)), [Some(0), None]);
        assert_eq!((space.take(5), space.take(1), space.free()), (Some(27), None, 0));
    }
}
