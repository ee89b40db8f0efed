//! Free blocks by allocation range, and the choice of blocks for pages (section 4.3).
//!
//! Invariants: a block that is taken is free; the count of a range equals its free bits.

use seekless_core::invariant;

/// Contiguous blocks: the first, and their number.
pub type Run = (u64, u64);

/// Free blocks of the data device.
pub struct Ranges {
    /// Blocks of a range.
    range: u64,
    /// Ranges on either side that are near enough for a strand.
    span: u64,
    /// A bit for each block, set if it is free.
    bits: Vec<u64>,
    /// Free blocks of each range.
    counts: Vec<u32>,
    free: u64,
}

impl Ranges {
    /// All blocks are free except the first `reserved` ones.
    pub fn new(range: u64, ranges: u64, span: u64, reserved: u64) -> Ranges {
        let mut all = Ranges {
            range,
            span,
            bits: vec![u64::MAX; (range * ranges).div_ceil(64) as usize],
            counts: vec![range as u32; ranges as usize],
            free: range * ranges,
        };
        (0..reserved).for_each(|block| all.take(block));
        all
    }

    /// Free blocks.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Whether a block is free.
    pub fn is_free(&self, block: u64) -> bool {
        self.bits[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Takes a free block.
    pub fn take(&mut self, block: u64) {
        invariant!("a block that is taken is free", self.is_free(block));
        self.bits[(block / 64) as usize] &= !(1 << (block % 64));
        self.counts[(block / self.range) as usize] -= 1;
        self.free -= 1;
    }

    /// Frees a block.
    pub fn release(&mut self, block: u64) {
        invariant!("a block that is freed was taken", !self.is_free(block));
        self.bits[(block / 64) as usize] |= 1 << (block % 64);
        self.counts[(block / self.range) as usize] += 1;
        self.free += 1;
    }

    /// Takes `blocks` blocks for contiguous pages that would best lie at block `near`: in its range, if it has room,
    /// otherwise in the nearest range within the span that has, otherwise wherever there are free ones, the nearest
    /// first. `None` if there are too few. Whether it is another range comes with them.
    pub fn choose(&mut self, near: u64, blocks: u64) -> Option<(Vec<Run>, bool)> {
        let home = near / self.range;
        if self.free < blocks {
            return None;
        }
        let has_room = |range: &u64| u64::from(self.counts[*range as usize]) >= blocks;
        if let Some(range) = self.around(home).take(1 + 2 * self.span as usize).find(has_room) {
            return Some((self.choose_in(range, near, blocks), range != home));
        }
        let (mut runs, mut left) = (Vec::new(), blocks);
        for range in self.around(home) {
            let part = left.min(u64::from(self.counts[range as usize]));
            if part == 0 {
                continue;
            }
            runs.extend(self.choose_in(range, near, part));
            left -= part;
            if left == 0 {
                break;
            }
        }
        Some((runs, true))
    }

    /// Takes contiguous blocks for contiguous pages with a free one after each `every`, which stay near them for
    /// updates: the first is `near`. `None` if not all of them are free, or they are not in one range.
    pub fn choose_spread(&mut self, near: u64, blocks: u64, every: u64) -> Option<Run> {
        let end = near + blocks + blocks / every;
        let fits = near / self.range == (end - 1) / self.range;
        if !fits || !(near..end).all(|block| self.is_free(block)) {
            return None;
        }
        (near..end).for_each(|block| self.take(block));
        Some((near, end - near))
    }

    /// All ranges, nearest first; of two that are as near, the later one first.
    fn around(&self, home: u64) -> impl Iterator<Item = u64> + use<> {
        let ranges = self.counts.len() as u64;
        let sides = (1..ranges).flat_map(move |far| {
            let (after, before) =
                (home.checked_add(far).filter(|after| *after < ranges), home.checked_sub(far));
            after.into_iter().chain(before)
        });
        std::iter::once(home).chain(sides)
    }

    /// Takes blocks in a range that has as many: of the hole nearest to `near` that holds all, otherwise of the nearest
    /// ones; in ascending order.
    fn choose_in(&mut self, range: u64, near: u64, blocks: u64) -> Vec<Run> {
        let (start, end) = (range * self.range, (range + 1) * self.range);
        // The part of a hole that is nearest, and how far away it is.
        let part = |(first, length): Run| {
            let taken = length.min(blocks);
            let at = near.clamp(first, first + length - taken);
            (at.abs_diff(near), (at, taken))
        };
        let mut parts: Vec<(u64, Run)> = self.holes(start, end).into_iter().map(part).collect();
        let whole =
            parts.iter().filter(|(_, (_, taken))| *taken == blocks).min_by_key(|(far, _)| *far).copied();
        if let Some(whole) = whole {
            parts = vec![whole];
        }
        parts.sort_unstable();
        let (mut runs, mut left) = (Vec::new(), blocks);
        for (_, (first, length)) in parts {
            let taken = length.min(left);
            (first..first + taken).for_each(|block| self.take(block));
            runs.push((first, taken));
            left -= taken;
            if left == 0 {
                break;
            }
        }
        runs.sort_unstable();
        runs
    }

    /// Runs of free blocks in `from..end`, in ascending order.
    fn holes(&self, from: u64, end: u64) -> Vec<Run> {
        let mut holes: Vec<Run> = Vec::new();
        let mut block = from;
        while block < end {
            let word = self.bits[(block / 64) as usize] >> (block % 64);
            if word == 0 {
                block = (block / 64 + 1) * 64;
                continue;
            }
            block += u64::from(word.trailing_zeros());
            if block >= end {
                break;
            }
            let word = self.bits[(block / 64) as usize] >> (block % 64);
            let length = u64::from(word.trailing_ones()).min(64 - block % 64).min(end - block);
            match holes.last_mut() {
                Some((first, long)) if *first + *long == block => *long += length,
                _ => holes.push((block, length)),
            }
            block += length;
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is taken and freed: blocks are taken once, in ascending runs, near their home as long as that has
        /// room.
        #[test]
        fn blocks_are_taken_once_and_near(
            steps in proptest::collection::vec((0..6_u64, 1..100_u64, any::<bool>()), 1..60),
        ) {
            let (range, ranges) = (100, 6);
            let mut free = Ranges::new(range, ranges, 2, 1);
            let mut taken: Vec<Run> = vec![(0, 1)];
            for (home, blocks, frees) in steps {
                if frees && taken.len() > 1 {
                    let (first, length) = taken.remove(1 + (home as usize) % (taken.len() - 1));
                    (first..first + length).for_each(|block| free.release(block));
                }
                let room = |range: u64| (range * 100..(range + 1) * 100).filter(|block| free.is_free(*block)).count() as u64;
                let before: Vec<u64> = (0..ranges).map(room).collect();
                let Some((runs, moved)) = free.choose(home * 100 + blocks % 100, blocks) else {
                    prop_assert!(before.iter().sum::<u64>() < blocks);
                    continue;
                };
                prop_assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), blocks);
                if before[home as usize] >= blocks {
                    prop_assert!(!moved && runs.iter().all(|run| run.0 / range == home));
                }
                taken.extend(runs);
                let mut each: Vec<u64> = taken.iter().flat_map(|run| run.0..run.0 + run.1).collect();
                each.sort_unstable();
                let all = each.len();
                each.dedup();
                prop_assert_eq!(each.len(), all);
                prop_assert_eq!(free.free(), range * ranges - all as u64);
            }
        }
    }

    #[test]
    fn pages_go_to_the_nearest_hole_and_contiguous_ones_into_one() {
        let mut free = Ranges::new(256, 2, 1, 1);
        for block in (1..230).filter(|block| block % 10 != 0) {
            free.take(block);
        }
        let chosen: Vec<Run> = [14, 16, 16, 200].map(|near| free.choose(near, 1).unwrap().0[0]).to_vec();
        assert_eq!(chosen, [(10, 1), (20, 1), (30, 1), (200, 1)]);
        assert_eq!(free.choose(40, 5).unwrap().0, [(230, 5)], "one hole for contiguous pages");
        assert_eq!(free.choose(240, 5).unwrap().0, [(240, 5)], "at its nearest part");
    }
}
