//! Exact LRU stack distances: the number of different pages accessed since a page was.
//!
//! Each page has the position of its latest access; a distance is the number of pages after it. Positions are bits, and
//! a Fenwick tree (Bennett and Kruskal, 1975) sums them a cache line at a time, so that the tree of a million pages
//! fits into a processor's first-level cache. When positions run out, they are renumbered.
//!
//! Invariant: one bit for each page, in the order of their latest accesses.

/// Positions per page after renumbering: one walk over all pages per `ROOM - 1` accesses of each.
const ROOM: usize = 4;
/// The initial size.
const LEAST: usize = 1 << 12;
/// Words of 64 positions per sum.
const WORDS: usize = 8;

/// The pages in the order of their latest accesses.
#[derive(Default)]
pub struct Stack {
    /// A bit for each position that holds a page.
    live: Vec<u64>,
    /// Fenwick tree over blocks of [`WORDS`] words of `live`.
    sums: Vec<u32>,
    next: u32,
    count: u32,
}

impl Stack {
    /// Whether positions have to be renumbered before the next push.
    pub fn is_full(&self) -> bool {
        self.next as usize == self.live.len() * 64
    }

    /// Bytes of its positions.
    pub fn bytes(&self) -> u64 {
        self.live.capacity() as u64 * 8 + self.sums.capacity() as u64 * 4
    }

    /// Gives back memory that it does not need, after renumbering.
    pub fn shrink(&mut self) {
        self.live.shrink_to_fit();
        self.sums.shrink_to_fit();
    }

    /// The position of a newly accessed page. Not called when full.
    pub fn push(&mut self) -> u32 {
        let position = self.next;
        self.next += 1;
        self.count += 1;
        self.live[position as usize / 64] |= 1 << (position % 64);
        self.add(position, 1);
        position
    }

    /// Removes a page from its position; returns the number of pages after it.
    pub fn remove(&mut self, position: u32) -> u32 {
        let after = self.count - self.up_to(position);
        self.count -= 1;
        self.live[position as usize / 64] &= !(1 << (position % 64));
        self.add(position, u32::MAX);
        after
    }

    /// Renumbers the positions, in the same order, with room for more.
    pub fn renumber<'a>(&mut self, positions: impl Iterator<Item = &'a mut u32>) {
        for position in positions {
            *position = self.up_to(*position) - 1;
        }
        let blocks = (self.count as usize * ROOM).max(LEAST).div_ceil(64 * WORDS);
        self.live.clear();
        self.live.resize(blocks * WORDS, 0);
        self.sums.clear();
        self.sums.resize(blocks, 0);
        self.next = self.count;
        for position in 0..self.count {
            self.live[position as usize / 64] |= 1 << (position % 64);
        }
        for block in 0..blocks {
            let words = &self.live[block * WORDS..(block + 1) * WORDS];
            self.sums[block] += words.iter().map(|word| word.count_ones()).sum::<u32>();
            let parent = block | (block + 1);
            if parent < blocks {
                self.sums[parent] += self.sums[block];
            }
        }
    }

    /// Number of pages up to a position, inclusive.
    fn up_to(&self, position: u32) -> u32 {
        let (word, bit) = (position as usize / 64, position % 64);
        let first = word / WORDS * WORDS;
        let mut sum = (self.live[word] & (u64::MAX >> (63 - bit))).count_ones();
        sum += self.live[first..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let mut end = word / WORDS;
        while end > 0 {
            sum += self.sums[end - 1];
            end &= end - 1;
        }
        sum
    }

    /// Adds to the sums that include a position; `u32::MAX` subtracts one.
    fn add(&mut self, position: u32, what: u32) {
        let mut block = position as usize / 64 / WORDS;
        while block < self.sums.len() {
            self.sums[block] = self.sums[block].wrapping_add(what);
            block |= block + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn distances_are_those_of_a_list(accesses in proptest::collection::vec(0_usize..300, 1..6000)) {
            let mut stack = Stack::default();
            let mut list: Vec<usize> = Vec::new();
            let mut positions: Vec<Option<u32>> = vec![None; 300];
            for page in accesses {
                let expected = list.iter().rev().position(|&other| other == page);
                list.retain(|&other| other != page);
                list.push(page);
                let distance = positions[page].take().map(|position| stack.remove(position) as usize);
                prop_assert_eq!(distance, expected);
                if stack.is_full() {
                    stack.renumber(positions.iter_mut().flatten());
                }
                positions[page] = Some(stack.push());
            }
        }
    }
}
