//! Rows as they are found, and what they should hold: one damaged block follows from all the others.
//!
//! A block is damaged if it cannot be read, does not match its checksum, or is older than its row: then the parity,
//! which is written with every block, covers another generation than it has. Invariant: nothing is computed from a row
//! unless the parity covers the generations of all blocks that it is computed from; so a row that a crash left
//! inconsistent yields an error, and not what was never written.

use seekless_core::{Buffer, PAGE_BYTES, mutant};

use super::geometry::Layout;
use super::sums::{Entry, is_parity_older};

/// A row as it was found, by member.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Blocks that could be read.
    pub blocks: Vec<Option<Buffer>>,
    /// Entries of the blocks that match theirs.
    pub entries: Vec<Option<Entry>>,
}

/// A row as it should be, by member.
#[derive(Clone, Debug)]
pub struct Solved {
    /// Blocks.
    pub blocks: Vec<Buffer>,
    /// Their entries.
    pub entries: Vec<Entry>,
    /// The members whose blocks are to be written: the one that was damaged, and those that are weak.
    pub damaged: Vec<usize>,
}

/// Adds (exclusive or) a block to another.
pub fn add(sum: &mut [u8], block: &Buffer) {
    block.for_each(|offset, len, bytes| {
        let sum = sum[offset..offset + len].iter_mut();
        sum.zip(bytes.unwrap_or_default()).for_each(|(sum, byte)| *sum ^= byte);
    });
}

/// The exclusive or of blocks.
pub fn sum<'a>(blocks: impl IntoIterator<Item = &'a Buffer>) -> Buffer {
    let mut sum = vec![0; PAGE_BYTES as usize];
    blocks.into_iter().for_each(|block| add(&mut sum, block));
    Buffer::from_vec(sum)
}

/// A generation whose low bits are these, and which is at most `most`, if there is one.
fn generation(low: u32, most: u64) -> u64 {
    let near = most & !u64::from(u32::MAX) | u64::from(low);
    if near > most { near.saturating_sub(1 << 32).max(u64::from(low)) } else { near }
}

impl Row {
    /// The members whose blocks are damaged.
    pub fn damaged(&self, layout: &Layout, group: u64) -> Vec<usize> {
        let parity = layout.parity(group);
        let mut damaged: Vec<usize> =
            (0..layout.members()).filter(|member| self.entries[*member].is_none()).collect();
        let Some(covers) = self.entries[parity].map(|entry| entry.covers) else { return damaged };
        for (column, covered) in covers.iter().enumerate().take(layout.data) {
            let member = layout.member(group, column);
            let Some(found) = self.entries[member].map(|entry| entry.low()) else { continue };
            if found != *covered && !mutant::is("raid4: generations are not compared") {
                let older = if is_parity_older(found, *covered) { parity } else { member };
                if !damaged.contains(&older) {
                    damaged.push(older);
                }
            }
        }
        damaged
    }

    /// The row as it should be; the damaged members, if they are more than one.
    pub fn solve(&self, layout: &Layout, group: u64) -> Result<Solved, Vec<usize>> {
        let damaged = self.damaged(layout, group);
        if damaged.len() > 1 {
            return Err(damaged);
        }
        let mut blocks: Vec<Buffer> =
            self.blocks.iter().map(|block| block.clone().unwrap_or_default()).collect();
        let mut entries: Vec<Entry> = self.entries.iter().map(|entry| entry.unwrap_or_default()).collect();
        if let Some(&member) = damaged.first() {
            let others = || (0..layout.members()).filter(|other| *other != member);
            blocks[member] = sum(others().map(|other| &blocks[other]));
            entries[member] = match layout.column(group, member) {
                None => {
                    let newest = others().map(|other| entries[other].generation).max();
                    Entry { generation: newest.unwrap_or(0), covers: covers(layout, group, &entries) }
                }
                Some(column) => {
                    let parity = entries[layout.parity(group)];
                    let generation = generation(parity.covers[column], parity.generation);
                    if generation == 0 && blocks[member].look(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                        return Err(vec![member, layout.parity(group)]);
                    }
                    Entry { generation, ..Entry::default() }
                }
            };
        }
        Ok(Solved { blocks, entries, damaged })
    }
}

/// The generations of a row's data.
pub fn covers(layout: &Layout, group: u64, entries: &[Entry]) -> [u32; super::sums::MOST_DATA] {
    let mut covers = [0; super::sums::MOST_DATA];
    for (column, covered) in covers.iter_mut().enumerate().take(layout.data) {
        *covered = entries[layout.member(group, column)].low();
    }
    covers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAYOUT: Layout = Layout { data: 3, rotates: true, unit: 4, stripes: 8 };

    fn page(fill: u8) -> Buffer {
        Buffer::from_vec((0..PAGE_BYTES).map(|at| fill.wrapping_mul(at as u8 | 1)).collect())
    }

    /// A row of these blocks, with their generations.
    fn row(group: u64, fills: [u8; 3], generations: [u64; 3]) -> Row {
        let mut row = Row { blocks: vec![None; 4], entries: vec![None; 4] };
        let mut entries = vec![Entry::default(); 4];
        for column in 0..3 {
            let member = LAYOUT.member(group, column);
            row.blocks[member] = Some(page(fills[column]));
            entries[member].generation = generations[column];
        }
        let parity = LAYOUT.parity(group);
        row.blocks[parity] = Some(sum(row.blocks.iter().flatten()));
        entries[parity] = Entry {
            generation: generations.into_iter().max().unwrap(),
            covers: covers(&LAYOUT, group, &entries),
        };
        row.entries = entries.into_iter().map(Some).collect();
        row
    }

    proptest! {
        /// Whichever block is damaged, or older than its row, it follows from the others; two do not.
        #[test]
        fn one_damaged_block_follows_from_the_others(
            group in 0..8_u64, fills: [u8; 3], generations in prop::array::uniform3(1..1_u64 << 61),
            damaged in 0..4_usize, second in 0..4_usize, old: bool,
        ) {
            let whole = row(group, fills, generations);
            let mut found = whole.clone();
            if old {
                // Neither the block nor its entry was written the last time.
                let before = if let Some(column) = LAYOUT.column(group, damaged) {
                    Entry { generation: generations[column].saturating_sub(1 + u64::from(fills[0])), ..Entry::default() }
                } else {
                    let mut before = whole.entries[damaged].unwrap();
                    before.covers[0] = before.covers[0].wrapping_sub(1).max(1);
                    before
                };
                prop_assume!(before.low() != whole.entries[damaged].unwrap().low() || before.covers != whole.entries[damaged].unwrap().covers);
                prop_assume!(before.covers[0] != 1);
                found.blocks[damaged] = Some(page(99));
                found.entries[damaged] = Some(before);
            } else {
                found.entries[damaged] = None;
            }
            let solved = found.solve(&LAYOUT, group).unwrap();
            prop_assert_eq!(&solved.damaged, &[damaged]);
            for member in 0..4 {
                prop_assert_eq!(solved.blocks[member].to_vec(), whole.blocks[member].clone().unwrap().to_vec());
                let (entry, expected) = (solved.entries[member], whole.entries[member].unwrap());
                prop_assert_eq!((entry.low(), entry.covers), (expected.low(), expected.covers));
            }
            prop_assert!(whole.solve(&LAYOUT, group).unwrap().damaged.is_empty());
            // That a write was lost is only known from what it was written with.
            if second != damaged && !old {
                found.entries[second] = None;
                prop_assert!(found.solve(&LAYOUT, group).is_err());
            }
        }
    }
}
