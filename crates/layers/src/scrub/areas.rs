//! The remainder of a pass, and the order of its blocks.
//!
//! Free reads profit from many places, so the volume is divided among the readers, and a reader that has finished its
//! area takes half of the largest remaining one. In the background one place is best: always the first remaining block.
//! Invariant: each sector is handed out once, and again if it was given back.

use seekless_core::{Extent, SECTOR_BYTES};

/// Remaining sectors, as (start, end). The first areas are those of the readers; extents given back follow. Areas begin
/// at multiples of a block.
#[derive(Debug, Default)]
pub struct Areas {
    left: Vec<(u64, u64)>,
    block: u64,
}

impl Areas {
    /// Divides `sectors` sectors among `readers` readers, in blocks of `block` sectors.
    pub fn new(sectors: u64, readers: usize, block: u64) -> Areas {
        let (blocks, readers) = (sectors.div_ceil(block), readers.max(1) as u64);
        let begins = |reader| (u128::from(blocks) * u128::from(reader) / u128::from(readers)) as u64 * block;
        let left = (0..readers).map(|reader| (begins(reader), begins(reader + 1).min(sectors))).collect();
        Areas { left, block }
    }

    /// Remaining bytes.
    pub fn bytes(&self) -> u64 {
        self.left.iter().map(|(from, end)| end - from).sum::<u64>() * SECTOR_BYTES
    }

    /// The next block of a reader with its own area.
    pub fn spread(&mut self, reader: usize) -> Option<Extent> {
        let (from, end) = *self.left.get(reader)?;
        if from == end {
            let largest = (0..self.left.len()).max_by_key(|&other| {
                let (from, end) = self.left[other];
                // Of equal ones the first.
                (end - from, usize::MAX - other)
            })?;
            let (from, end) = self.left[largest];
            let middle = from + (end - from).div_ceil(self.block) / 2 * self.block;
            self.left[largest] = (from, middle);
            self.left[reader] = (middle, end);
        }
        self.take(reader)
    }

    /// The first remaining block.
    pub fn first(&mut self) -> Option<Extent> {
        let areas = (0..self.left.len()).filter(|&area| self.left[area].0 < self.left[area].1);
        let area = areas.min_by_key(|&area| self.left[area])?;
        self.take(area)
    }

    /// Returns an extent that was not read.
    pub fn give_back(&mut self, at: Extent) {
        self.left.push((at.start.0, at.end().0));
    }

    /// Changes the block size to a divisor of the present one.
    pub fn in_blocks(&mut self, block: u64) {
        self.block = block;
    }

    fn take(&mut self, area: usize) -> Option<Extent> {
        let (from, end) = self.left[area];
        let next = (from + self.block).min(end);
        self.left[area].0 = next;
        (next > from).then(|| Extent::new(from, next - from))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whichever reader asks, and however the pass changes between its two ways, each sector is handed out once.
        #[test]
        fn each_block_is_given_once(
            sectors in 1..3_000_u64, readers in 1..20_usize, block in 1..200_u64,
            asked in prop::collection::vec((0..20_usize, 0..4_u8), 1..60),
        ) {
            let mut areas = Areas::new(sectors, readers, block);
            let mut given = vec![0; sectors as usize];
            let mut turns = asked.into_iter().cycle();
            let mut returned = 0;
            while areas.bytes() > 0 {
                let (reader, kind) = turns.next().unwrap();
                let next = if kind == 0 { areas.first() } else { areas.spread(reader % readers) };
                let at = next.expect("something is left");
                prop_assert!(at.sectors <= block && at.start.0 % block == 0);
                if kind == 3 && returned < 30 {
                    returned += 1;
                    areas.give_back(at);
                    continue;
                }
                given[at.start.0 as usize..at.end().0 as usize].iter_mut().for_each(|times| *times += 1);
            }
            prop_assert!(given.iter().all(|&times| times == 1));
            prop_assert_eq!((areas.first(), areas.spread(0)), (None, None));
        }
    }

    #[test]
    fn readers_are_far_apart_to_the_end() {
        let mut areas = Areas::new(4_000, 4, 10);
        let starts: Vec<u64> = (0..4).map(|reader| areas.spread(reader).unwrap().start.0).collect();
        assert_eq!(starts, [0, 1_000, 2_000, 3_000]);
        while areas.left[0].0 < areas.left[0].1 {
            areas.spread(0);
        }
        assert_eq!(areas.spread(0).unwrap().start.0, 1_500, "half of what the next one has");
    }
}
