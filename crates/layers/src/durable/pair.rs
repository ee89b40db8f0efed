//! A structure in two copies: the older one is overwritten, sealed, and the newer whole one is current.
//!
//! Invariant: acknowledged data is never dropped silently. A copy with a rotten sector may have been the newest durable
//! one: unless its whole sectors show that it was not, it is refused.

use seekless_core::{Extent, Lba, SECTOR_BYTES};

use super::sector::{Part, Sector};

/// State of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// All sectors of one generation.
    Whole(u64),
    /// Zeroes, or marked as an unfinished creation.
    Blank,
    /// Sectors of several generations, or blank ones beside others; with the newest generation.
    Torn(u64),
    /// A sector is not whole; with its place, and the newest generation of the others.
    Rotten(Lba, Option<u64>),
}

impl CopyState {
    /// State of the copy at `at`.
    pub fn of(part: Part, at: Extent, bytes: &[u8]) -> CopyState {
        if super::is_unfinished(bytes) {
            return CopyState::Blank;
        }
        let (mut newest, mut oldest, mut blank, mut rotten) = (None, None, false, None);
        for (sector, number) in bytes.chunks(SECTOR_BYTES as usize).zip(0..) {
            match part.look(at.start + number, sector) {
                Sector::Whole(generation) => {
                    newest = newest.max(Some(generation));
                    oldest = Some(oldest.map_or(generation, |oldest: u64| oldest.min(generation)));
                }
                Sector::Blank => blank = true,
                Sector::Rotten => rotten = rotten.or(Some(at.start + number)),
            }
        }
        match (newest, rotten) {
            (newest, Some(sector)) => CopyState::Rotten(sector, newest),
            (None, None) => CopyState::Blank,
            (Some(newest), None) if blank || oldest != Some(newest) => CopyState::Torn(newest),
            (Some(newest), None) => CopyState::Whole(newest),
        }
    }

    /// The newest generation of any sector.
    pub fn newest(&self) -> Option<u64> {
        match self {
            CopyState::Whole(newest) | CopyState::Torn(newest) => Some(*newest),
            CopyState::Rotten(_, newest) => *newest,
            CopyState::Blank => None,
        }
    }

    fn whole(&self) -> Option<u64> {
        if let CopyState::Whole(generation) = self { Some(*generation) } else { None }
    }
}

/// State of both copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair(pub [CopyState; 2]);

/// The current copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// None: nothing was ever acknowledged.
    Blank,
    /// This copy is current.
    Copy(usize),
    /// The newest may be lost: the rotten sector, and the older copy, if it is whole.
    Refused(Lba, Option<usize>),
    /// Neither copy is whole, and no sector is rotten: not caused by a crash.
    Neither,
}

impl Pair {
    /// Chooses the current copy.
    pub fn choose(&self) -> Choice {
        let Pair([first, second]) = self;
        let newer = match (first.whole(), second.whole()) {
            (None, None) => None,
            (one, other) => Some(usize::from(other > one)),
        };
        let rotten = self.0.iter().find_map(|copy| match copy {
            CopyState::Rotten(sector, _) => Some(*sector),
            _ => None,
        });
        match (newer, rotten) {
            (Some(newer), None) => Choice::Copy(newer),
            // The rotten copy is older than this one, or a duplicate of it.
            (Some(newer), Some(_)) if self.knows(1 - newer) <= self.0[newer].newest() => Choice::Copy(newer),
            (newer, Some(sector)) => Choice::Refused(sector, newer),
            // The very first write did not complete.
            (None, None) if self.0.contains(&CopyState::Blank) => Choice::Blank,
            (None, None) => Choice::Neither,
        }
    }

    /// The newest generation that a copy may have had; any, if it is rotten without a whole sector.
    fn knows(&self, copy: usize) -> Option<u64> {
        match &self.0[copy] {
            CopyState::Rotten(_, None) => Some(u64::MAX),
            copy => copy.newest(),
        }
    }

    /// The newest generation of any sector: the next one has to be higher, or a torn write and another one could make
    /// up a whole copy.
    pub fn newest(&self) -> u64 {
        self.0.iter().filter_map(CopyState::newest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECTORS: u64 = 4;

    fn copy(which: u64) -> Extent {
        Extent::new(which * SECTORS, SECTORS)
    }

    fn sealed(part: Part, generation: u64, which: u64) -> Vec<u8> {
        let mut bytes = vec![generation as u8; copy(which).bytes() as usize];
        part.seal(copy(which).start, generation, &mut bytes);
        bytes
    }

    fn pair(part: Part, disk: &[Vec<u8>; 2]) -> Pair {
        Pair([0, 1].map(|which| CopyState::of(part, copy(which as u64), &disk[which])))
    }

    proptest! {
        /// However writes were cut short, and whichever bit rots: what was acknowledged counts, or it is refused.
        #[test]
        fn nothing_acknowledged_is_given_up_without_a_word(
            cuts in proptest::collection::vec((proptest::option::weighted(0.4, 0..1_u8 << SECTORS), any::<bool>()), 1..12),
            rot in proptest::option::of((0..2_usize, 0..copy(0).bytes() as usize, 0..8_u32)),
        ) {
            let part = Part::of(*b"SKLTEST1", 5);
            let mut disk = [vec![0; copy(0).bytes() as usize], vec![0; copy(1).bytes() as usize]];
            let (mut acknowledged, mut at, mut newest) = (None, 0, 0);
            for (cut, copied) in cuts {
                // The next is written over the copy that does not count; a second copy over the one that is older.
                let (generation, which) = (newest + 1, 1 - at);
                let bytes = sealed(part, generation, which as u64);
                for sector in 0..SECTORS as usize {
                    if cut.is_none_or(|written| written >> sector & 1 == 1) {
                        let range = sector * 512..(sector + 1) * 512;
                        disk[which][range.clone()].copy_from_slice(&bytes[range]);
                    }
                }
                if cut.is_none() {
                    (acknowledged, at, newest) = (Some(generation), which, generation);
                    if copied {
                        disk[1 - at] = sealed(part, generation, 1 - at as u64);
                    }
                    continue;
                }
                let found = pair(part, &disk);
                match found.choose() {
                    Choice::Copy(which) => {
                        let counts = found.0[which].newest();
                        prop_assert!(counts == acknowledged || counts == Some(generation));
                        (acknowledged, at) = (counts, which);
                    }
                    Choice::Blank => prop_assert_eq!(acknowledged, None),
                    refused => prop_assert!(false, "{:?}: {:?}", refused, found),
                }
                newest = found.newest();
            }
            if let Some((which, byte, bit)) = rot {
                disk[which][byte] ^= 1 << bit;
            }
            let found = pair(part, &disk);
            match found.choose() {
                Choice::Copy(which) => prop_assert!(found.0[which].newest() >= acknowledged, "{:?}", found),
                Choice::Blank => prop_assert_eq!(acknowledged, None),
                Choice::Refused(sector, _) => {
                    let (which, byte, _) = rot.unwrap();
                    prop_assert_eq!(sector, copy(which as u64).start + byte as u64 / 512);
                }
                Choice::Neither => prop_assert!(false, "{:?}", found),
            }
        }
    }

    #[test]
    fn of_two_copies_of_one_generation_either_may_rot() {
        let part = Part::of(*b"SKLTEST1", 5);
        for rotten in 0..2 {
            let mut disk = [sealed(part, 9, 0), sealed(part, 9, 1)];
            disk[rotten][700] ^= 4;
            assert_eq!(pair(part, &disk).choose(), Choice::Copy(1 - rotten));
            disk[rotten] = sealed(part, 10, rotten as u64);
            disk[rotten][700] ^= 4;
            let sector = copy(rotten as u64).start + 1;
            assert_eq!(pair(part, &disk).choose(), Choice::Refused(sector, Some(1 - rotten)));
        }
    }
}
