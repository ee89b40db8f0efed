//! Block groups of the model of a file system, and their free blocks.
//!
//! As in ext2 and ext3, simplified: groups of 32,768 blocks of 4 KiB, each with a block of its block bitmap, one of its
//! inode bitmap, 512 of its inode table (32 inodes a block), and then data. A new block is the first free one from a
//! goal on, in its group, then in the groups after it, cyclically.
//!
//! Invariant: a block is allocated once until it is freed.

/// Blocks of a group.
pub const GROUP: u64 = 32_768;
/// Start of a group's inode table.
const TABLE: u64 = 2;
/// Start of a group's data.
pub const DATA: u64 = TABLE + 512;
/// Inodes in a block of the table.
const INODES: u64 = 32;

/// The free space of a device.
pub struct Blocks {
    /// Number of blocks.
    size: u64,
    /// A bit per block, set where it is used; empty for a group that nothing was put in yet.
    groups: Vec<Vec<u64>>,
    inodes: Vec<Inodes>,
}

/// The inodes of a group.
#[derive(Clone, Default)]
struct Inodes {
    /// Inodes from here on were never used.
    fresh: u64,
    freed: std::collections::BTreeSet<u64>,
}

impl Blocks {
    /// Only the groups' own metadata is in use; at least one group.
    pub fn new(blocks: u64) -> Blocks {
        let groups = (blocks / GROUP).max(1);
        Blocks {
            size: groups * GROUP,
            groups: vec![Vec::new(); groups as usize],
            inodes: vec![Inodes::default(); groups as usize],
        }
    }

    /// Number of groups.
    pub fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Allocates a free block, the next at or after `goal`; `None` if all are in use.
    pub fn take(&mut self, goal: u64) -> Option<u64> {
        let goal = goal % self.size;
        let first = goal / GROUP;
        let groups = self.groups();
        // The goal's group once more at the end, for blocks before the goal.
        for step in 0..=groups {
            let group = (first + step) % groups;
            let from = if step == 0 { goal % GROUP } else { 0 };
            if let Some(block) = self.take_in(group, from.max(DATA)) {
                return Some(group * GROUP + block);
            }
        }
        None
    }

    fn take_in(&mut self, group: u64, from: u64) -> Option<u64> {
        let map = &mut self.groups[group as usize];
        if map.is_empty() {
            map.resize((GROUP / 64) as usize, 0);
        }
        let mut word = (from / 64) as usize;
        let mut used = map.get(word)? | ((1 << (from % 64)) - 1);
        while used == u64::MAX {
            word += 1;
            used = *map.get(word)?;
        }
        let bit = u64::from(used.trailing_ones());
        map[word] |= 1 << bit;
        Some(word as u64 * 64 + bit)
    }

    /// Frees a block.
    pub fn give_back(&mut self, block: u64) {
        if let Some(word) = self.groups[(block / GROUP) as usize].get_mut((block % GROUP / 64) as usize) {
            *word &= !(1 << (block % 64));
        }
    }

    /// Allocates an inode in this group or the next that has one.
    pub fn take_inode(&mut self, group: u64) -> Option<u64> {
        let most = (DATA - TABLE) * INODES;
        for step in 0..self.groups() {
            let group = (group + step) % self.groups();
            let inodes = &mut self.inodes[group as usize];
            let slot = inodes.freed.pop_first().or_else(|| {
                inodes.fresh += 1;
                (inodes.fresh <= most).then(|| inodes.fresh - 1)
            });
            if let Some(slot) = slot {
                return Some(group * most + slot);
            }
        }
        None
    }

    /// Frees an inode.
    pub fn give_back_inode(&mut self, inode: u64) {
        let most = (DATA - TABLE) * INODES;
        self.inodes[(inode / most) as usize].freed.insert(inode % most);
    }

    /// The block of the inode table that holds it.
    pub fn of_inode(inode: u64) -> u64 {
        let most = (DATA - TABLE) * INODES;
        inode / most * GROUP + TABLE + inode % most / INODES
    }

    /// The block of the inode's bitmap.
    pub fn inode_bitmap(inode: u64) -> u64 {
        Blocks::of_inode(inode) / GROUP * GROUP + 1
    }

    /// The bitmap block that tracks a block.
    pub fn bitmap(block: u64) -> u64 {
        block / GROUP * GROUP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_given_out_once_and_near_their_goal() {
        let mut blocks = Blocks::new(2 * GROUP);
        let all: std::collections::BTreeSet<u64> =
            std::iter::from_fn(|| blocks.take(GROUP + 5_000)).collect();
        assert_eq!(all.len() as u64, 2 * (GROUP - DATA));
        assert!(all.iter().all(|block| block % GROUP >= DATA));
        for block in [7_000, GROUP + 9_000] {
            blocks.give_back(block);
        }
        assert_eq!(
            [blocks.take(6_000), blocks.take(6_000), blocks.take(6_000)],
            [Some(7_000), Some(GROUP + 9_000), None]
        );
    }

    #[test]
    fn inodes_lie_in_their_groups_table() {
        let mut blocks = Blocks::new(2 * GROUP);
        let first = blocks.take_inode(1).unwrap();
        assert_eq!((Blocks::of_inode(first), Blocks::inode_bitmap(first)), (GROUP + TABLE, GROUP + 1));
        for _ in 0..INODES - 1 {
            blocks.take_inode(1);
        }
        assert_eq!(Blocks::of_inode(blocks.take_inode(1).unwrap()), GROUP + TABLE + 1);
        blocks.give_back_inode(first);
        assert_eq!(blocks.take_inode(1), Some(first));
    }
}
