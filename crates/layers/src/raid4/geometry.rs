//! Where blocks lie: stripes, units, rows and groups.
//!
//! A member begins with its superblock; stripe units follow, one of each stripe. A unit consists of *groups*: a
//! checksum block, and up to 63 blocks behind it. The blocks at the same place on all members are a *row*: one of them
//! is parity. Groups are numbered from the first stripe on, alike on all members. All places are in blocks of 4 KiB.

use seekless_core::{Extent, PAGE_SECTORS};

/// Blocks of the superblock, at the beginning of each member: two copies.
pub const HEAD: u64 = 2;
/// Blocks in a group, with its checksum block; fewer in a smaller unit.
pub const GROUP: u64 = 64;

/// The geometry of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Members with data in a stripe; one more has its parity.
    pub data: usize,
    /// Whether parity rotates over the members (RAID-5), instead of lying on the last one (RAID-4).
    pub rotates: bool,
    /// Blocks of a unit, with its checksum blocks.
    pub unit: u64,
    /// Stripes.
    pub stripes: u64,
}

/// Where a block of clients lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Group.
    pub group: u64,
    /// Row in the group.
    pub row: u64,
    /// Which of the stripe's units of data.
    pub column: usize,
}

impl Layout {
    /// The largest array of `data` members with data and one for parity, each of `sectors` sectors, in units of `unit`
    /// blocks.
    pub fn of(data: usize, rotates: bool, unit: u64, sectors: u64) -> Layout {
        let stripes = (sectors / PAGE_SECTORS).saturating_sub(HEAD) / unit;
        Layout { data, rotates, unit, stripes }
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.data + 1
    }

    /// Blocks of a group, with its checksum block.
    pub fn group_blocks(&self) -> u64 {
        self.unit.min(GROUP)
    }

    /// Rows of a group.
    pub fn rows(&self) -> u64 {
        self.group_blocks() - 1
    }

    /// Number of groups.
    pub fn groups(&self) -> u64 {
        self.stripes * self.groups_per_unit()
    }

    fn groups_per_unit(&self) -> u64 {
        self.unit / self.group_blocks()
    }

    /// Blocks of a unit without its checksum blocks.
    fn rows_per_unit(&self) -> u64 {
        self.groups_per_unit() * self.rows()
    }

    /// Blocks that clients see.
    pub fn pages(&self) -> u64 {
        self.stripes * self.data as u64 * self.rows_per_unit()
    }

    /// The member with the parity of a group.
    pub fn parity(&self, group: u64) -> usize {
        let turn = if self.rotates { (group / self.groups_per_unit()) % self.members() as u64 } else { 0 };
        self.data - turn as usize
    }

    /// The member with a column of a group: from the one behind the parity on.
    pub fn member(&self, group: u64, column: usize) -> usize {
        (self.parity(group) + 1 + column) % self.members()
    }

    /// The column of a group that lies on a member; `None` for parity.
    pub fn column(&self, group: u64, member: usize) -> Option<usize> {
        (member + self.members() - self.parity(group)).checked_rem(self.members())?.checked_sub(1)
    }

    /// The place of a block of clients.
    pub fn locate(&self, page: u64) -> At {
        let (unit, within) = (page / self.rows_per_unit(), page % self.rows_per_unit());
        let (stripe, column) = (unit / self.data as u64, unit % self.data as u64);
        let group = stripe * self.groups_per_unit() + within / self.rows();
        At { group, row: within % self.rows(), column: column as usize }
    }

    /// The block of clients at a place.
    pub fn page(&self, at: At) -> u64 {
        let (stripe, group) = (at.group / self.groups_per_unit(), at.group % self.groups_per_unit());
        (stripe * self.data as u64 + at.column as u64) * self.rows_per_unit() + group * self.rows() + at.row
    }

    /// The checksum block of a group, on each member.
    pub fn sums(&self, group: u64) -> u64 {
        HEAD + group * self.group_blocks()
    }

    /// The block of a row, on each member.
    pub fn block(&self, group: u64, row: u64) -> u64 {
        self.sums(group) + 1 + row
    }

    /// Whether a block of a member is a checksum block.
    pub fn is_sums(&self, block: u64) -> bool {
        (block - HEAD) % self.group_blocks() == 0
    }

    /// Group and row of a block that is no checksum block; `None` for any other.
    pub fn row_at(&self, block: u64) -> Option<(u64, u64)> {
        let within = block.checked_sub(HEAD)?;
        let (group, row) = (within / self.group_blocks(), within % self.group_blocks());
        Some((group, row.checked_sub(1)?)).filter(|(group, _)| *group < self.groups())
    }
}

/// The sectors of a block.
pub fn sectors(block: u64) -> Extent {
    Extent::of_pages(block, 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every block of clients has a place of its own, with all blocks of a row on different members.
        #[test]
        fn every_block_has_a_place(data in 1..6_usize, rotates: bool, which in 0..6_usize, stripes in 1..9_u64) {
            let unit = [2, 3, 7, 64, 128, 256][which];
            let layout = Layout::of(data, rotates, unit, (HEAD + stripes * unit) * PAGE_SECTORS + 5);
            prop_assert_eq!(layout.stripes, stripes);
            let mut places = BTreeSet::new();
            for page in 0..layout.pages() {
                let at = layout.locate(page);
                prop_assert_eq!(layout.page(at), page);
                prop_assert!(at.group < layout.groups() && at.row < layout.rows() && at.column < data);
                let (member, block) = (layout.member(at.group, at.column), layout.block(at.group, at.row));
                prop_assert_ne!(member, layout.parity(at.group));
                prop_assert_eq!(layout.column(at.group, member), Some(at.column));
                prop_assert_eq!(layout.row_at(block), Some((at.group, at.row)));
                prop_assert!(!layout.is_sums(block) && block < HEAD + stripes * unit);
                prop_assert!(places.insert((member, block)));
            }
            for group in 0..layout.groups() {
                prop_assert_eq!(layout.column(group, layout.parity(group)), None);
                prop_assert!(layout.is_sums(layout.sums(group)));
                prop_assert_eq!(layout.row_at(layout.sums(group)), None);
            }
        }
    }

    #[test]
    fn parity_is_on_the_last_member_or_on_each_in_turn() {
        let parities = |rotates| -> Vec<usize> {
            let layout = Layout::of(4, rotates, 128, (HEAD + 6 * 128) * PAGE_SECTORS);
            (0..12).map(|group| layout.parity(group)).collect()
        };
        assert_eq!(parities(false), [4; 12]);
        assert_eq!(parities(true), [4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 4, 4]);
    }
}
