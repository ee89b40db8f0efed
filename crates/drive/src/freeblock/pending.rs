//! Pending pieces: a bit for each piece of a unit that lies on one track extent. A unit is a block, or a part of one
//! that is too long for a gap.
//!
//! The pieces of a unit that lies across the end of a track are adjacent. Piece `b` of track extent `s` (both counted
//! by address) is bit `b + s`, so that no table is needed to find it: one bit per unit, and one per track extent.

use super::tracks::TrackExtent;

/// A bitmap of pending pieces, of units of one size.
#[derive(Clone, Debug)]
pub struct PendingMap {
    /// Unit size in sectors.
    unit: u64,
    shift: Option<u32>,
    /// By group of words: the chunk that holds them; chunk 0 is all zeroes.
    chunks: Vec<u32>,
    words: Vec<[u64; CHUNK]>,
}

/// Words of a chunk; empty ones take no memory.
const CHUNK: usize = 64;

impl PendingMap {
    /// None pending, of units of `unit` sectors, on a drive of this size.
    pub fn new(unit: u64, sectors: u64, extents: usize) -> PendingMap {
        let bits = sectors.div_ceil(unit) as usize + extents;
        let shift = unit.is_power_of_two().then(|| unit.trailing_zeros());
        let chunks = vec![0; bits.div_ceil(64 * CHUNK) + 1];
        PendingMap { unit, shift, chunks, words: vec![[0; CHUNK]] }
    }

    /// Unit size in sectors.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Memory use, in bits.
    #[cfg(test)]
    pub fn memory_bits(&self) -> u64 {
        (self.chunks.len() * 32 + self.words.len() * CHUNK * 64) as u64
    }

    fn word(&self, number: usize) -> u64 {
        self.words[self.chunks[number / CHUNK] as usize][number % CHUNK]
    }

    fn down(&self, sector: u64) -> u64 {
        match self.shift {
            Some(shift) => sector >> shift,
            None => sector / self.unit,
        }
    }

    fn up(&self, sector: u64) -> u64 {
        self.down(sector + self.unit - 1)
    }

    /// The bits of the pieces that lie wholly in a range of a track extent's sectors.
    pub fn pieces(&self, extent: &TrackExtent, (from, to): (u32, u32)) -> (usize, usize) {
        if from >= to {
            return (0, 0);
        }
        let sector = |into: u32| extent.start + u64::from(into);
        let first = if from == 0 { self.down(extent.start) } else { self.up(sector(from)) };
        let end = if to == extent.sectors { self.up(sector(to)) } else { self.down(sector(to)) };
        let base = u64::from(extent.ordinal);
        ((first + base) as usize, (end.max(first) + base) as usize)
    }

    /// The bits of the pieces that lie wholly or in part in a range of a track extent's sectors.
    pub fn touched(&self, extent: &TrackExtent, (from, to): (u32, u32)) -> (usize, usize) {
        if from >= to {
            return (0, 0);
        }
        let base = u64::from(extent.ordinal);
        let (first, end) = (extent.start + u64::from(from), extent.start + u64::from(to));
        ((self.down(first) + base) as usize, (self.up(end) + base) as usize)
    }

    /// The range of a track extent's sectors that belong to a unit.
    pub fn part(&self, extent: &TrackExtent, unit: u64) -> (u32, u32) {
        let from = (unit * self.unit).saturating_sub(extent.start) as u32;
        let to = ((unit + 1) * self.unit - extent.start).min(u64::from(extent.sectors)) as u32;
        (from, to)
    }

    /// Whether a piece is pending.
    pub fn is_set(&self, bit: usize) -> bool {
        self.word(bit / 64) >> (bit % 64) & 1 == 1
    }

    /// Makes pieces pending; returns how many were not.
    pub fn set_all(&mut self, (mut from, to): (usize, usize)) -> u32 {
        let mut new = 0;
        while from < to {
            let end = (from / 64 * 64 + 64).min(to);
            let mask = (u64::MAX << (from % 64)) & (u64::MAX >> (63 - (end - 1) % 64));
            let word = self.word_mut(from / 64);
            new += (mask & !*word).count_ones();
            *word |= mask;
            from = end;
        }
        new
    }

    /// A word, in a chunk of its own.
    fn word_mut(&mut self, number: usize) -> &mut u64 {
        let chunk = &mut self.chunks[number / CHUNK];
        if *chunk == 0 {
            *chunk = self.words.len() as u32;
            self.words.push([0; CHUNK]);
        }
        &mut self.words[*chunk as usize][number % CHUNK]
    }

    /// Makes a piece not pending; false if it was not.
    pub fn clear(&mut self, bit: usize) -> bool {
        let was = self.is_set(bit);
        if was {
            self.words[self.chunks[bit / 64 / CHUNK] as usize][bit / 64 % CHUNK] &= !(1 << (bit % 64));
        }
        was
    }

    /// How many of these pieces are pending.
    pub fn count(&self, (from, to): (usize, usize)) -> u32 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from / 64, (to - 1) / 64);
        let (low, high) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
        if first == last {
            return (self.word(first) & low & high).count_ones();
        }
        let between: u32 = (first + 1..last).map(|word| self.word(word).count_ones()).sum();
        (self.word(first) & low).count_ones() + between + (self.word(last) & high).count_ones()
    }

    /// The first pending one of these pieces.
    pub fn next(&self, (from, to): (usize, usize)) -> Option<usize> {
        if from >= to {
            return None;
        }
        let mut word = from / 64;
        let mut bits = self.word(word) & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                let bit = word * 64 + bits.trailing_zeros() as usize;
                return (bit < to).then_some(bit);
            }
            word += 1;
            if word * 64 >= to {
                return None;
            }
            bits = self.word(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_and_looking_agree_with_one_bit_at_a_time() {
        let mut pending = PendingMap::new(8, 4_000, 3);
        for bit in (0..500).filter(|bit| bit * bit % 7 == 2 || bit % 64 == 63) {
            assert_eq!((pending.set_all((bit, bit + 1)), pending.set_all((bit, bit + 1))), (1, 0));
        }
        for from in 0..200 {
            for to in from..300 {
                let one_by_one: Vec<usize> = (from..to).filter(|&bit| pending.is_set(bit)).collect();
                assert_eq!(pending.count((from, to)), one_by_one.len() as u32);
                assert_eq!(pending.next((from, to)), one_by_one.first().copied());
            }
        }
        assert!(pending.clear(63) && !pending.clear(63));
        let before = pending.count((10, 200));
        assert_eq!(pending.set_all((10, 200)), 190 - before);
        assert_eq!(pending.count((10, 200)), 190);
    }

    #[test]
    fn a_block_across_the_end_of_a_track_is_two_pieces() {
        let pending = PendingMap::new(8, 1_000, 2);
        let first = TrackExtent { start: 0, sectors: 100, angle: 0, per_track: 100, ordinal: 0 };
        let second = TrackExtent { start: 100, sectors: 100, ordinal: 1, ..first };
        // Blocks 0 to 12, of which the last has four sectors here; and 12 to 24.
        assert_eq!(pending.pieces(&first, (0, 100)), (0, 13));
        assert_eq!(pending.pieces(&second, (0, 100)), (13, 26));
        assert_eq!((pending.part(&first, 12), pending.part(&second, 12)), ((96, 100), (0, 4)));
        assert_eq!(second.unit_at(13), 12);
        // Of sectors 1 to 98 the blocks 1 to 11 are whole.
        assert_eq!(pending.pieces(&first, (1, 99)), (1, 12));
    }
}
