//! A structure in two copies: the older one is overwritten, sealed, and the newer whole one is current.
//!
//! Acknowledged data is never dropped silently. A copy with a rotten sector may have been the newest durable
//! one: unless its whole sectors show that it was not, it is refused. Once both copies were written, no torn write
//! leaves blank sectors: they were zeroed afterwards, and count as rotten. Sectors of rewrites tell
//! ([`Part::rewrite`]).

use seekless_core::{Extent, Lba, SECTOR_BYTES, mutant};

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

/// The sectors of a copy.
struct Scan {
    state: CopyState,
    /// The first blank one, unless the copy is marked as an unfinished creation.
    blank: Option<Lba>,
    /// Whether one is of a rewrite.
    has_rewrite: bool,
}

impl Scan {
    fn of(part: Part, at: Extent, bytes: &[u8]) -> Scan {
        if super::is_unfinished(bytes) {
            return Scan { state: CopyState::Blank, blank: None, has_rewrite: false };
        }
        let (mut newest, mut oldest, mut blank, mut rotten) = (None, None, None, None);
        let mut has_rewrite = false;
        for (sector, number) in bytes.chunks(SECTOR_BYTES as usize).zip(0..) {
            match part.look(at.start + number, sector) {
                Sector::Whole(generation) => {
                    newest = newest.max(Some(generation));
                    oldest = Some(oldest.map_or(generation, |oldest: u64| oldest.min(generation)));
                    has_rewrite |= Part::is_rewrite(sector);
                }
                Sector::Blank => blank = blank.or(Some(at.start + number)),
                Sector::Rotten => rotten = rotten.or(Some(at.start + number)),
            }
        }
        let state = match (newest, rotten) {
            (newest, Some(sector)) => CopyState::Rotten(sector, newest),
            (None, None) => CopyState::Blank,
            (Some(newest), None) if blank.is_some() || oldest != Some(newest) => CopyState::Torn(newest),
            (Some(newest), None) => CopyState::Whole(newest),
        };
        Scan { state, blank, has_rewrite }
    }

    /// Whether each sector was written.
    fn is_written(&self) -> bool {
        self.blank.is_none() && matches!(self.state, CopyState::Whole(_) | CopyState::Torn(_))
    }
}

impl CopyState {
    /// State of the copy at `at`, by its own sectors alone.
    pub fn of(part: Part, at: Extent, bytes: &[u8]) -> CopyState {
        Scan::of(part, at, bytes).state
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
pub struct Pair {
    /// Of each.
    pub copies: [CopyState; 2],
    /// Whether all sectors of both are as they were written, if in several writes: the next write is a rewrite.
    /// Otherwise the other copy has to be made whole first.
    pub is_written: bool,
}

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
    /// State of two copies, each with its place.
    pub fn of(part: Part, copies: [(Extent, &[u8]); 2]) -> Pair {
        let mut scans = copies.map(|(at, bytes)| Scan::of(part, at, bytes));
        let has_rewrite = scans.iter().any(|scan| scan.has_rewrite);
        let is_written = scans.iter().all(Scan::is_written);
        if has_rewrite && !mutant::is("durable: zeroed sectors of a rewritten pair count as torn") {
            for scan in &mut scans {
                let Some(blank) = scan.blank else { continue };
                scan.state = match &scan.state {
                    CopyState::Rotten(sector, newest) => CopyState::Rotten(blank.min(*sector), *newest),
                    state => CopyState::Rotten(blank, state.newest()),
                };
            }
        }
        Pair { copies: scans.map(|scan| scan.state), is_written }
    }

    /// Chooses the current copy.
    pub fn choose(&self) -> Choice {
        let [first, second] = &self.copies;
        let newer = match (first.whole(), second.whole()) {
            (None, None) => None,
            (one, other) => Some(usize::from(other > one)),
        };
        let rotten = self.copies.iter().find_map(|copy| match copy {
            CopyState::Rotten(sector, _) => Some(*sector),
            _ => None,
        });
        match (newer, rotten) {
            (Some(newer), None) => Choice::Copy(newer),
            // The rotten copy is older than this one, or a duplicate of it.
            (Some(newer), Some(_)) if self.knows(1 - newer) <= self.copies[newer].newest() => {
                Choice::Copy(newer)
            }
            (newer, Some(sector)) => Choice::Refused(sector, newer),
            // The very first write did not complete.
            (None, None) if self.copies.contains(&CopyState::Blank) => Choice::Blank,
            (None, None) => Choice::Neither,
        }
    }

    /// The newest generation that a copy may have had; any, if it is rotten without a whole sector.
    fn knows(&self, copy: usize) -> Option<u64> {
        match &self.copies[copy] {
            CopyState::Rotten(_, None) => Some(u64::MAX),
            copy => copy.newest(),
        }
    }

    /// The newest generation of any sector: the next one has to be higher, or a torn write and another one could make
    /// up a whole copy.
    pub fn newest(&self) -> u64 {
        self.copies.iter().filter_map(CopyState::newest).max().unwrap_or(0)
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
        Pair::of(part, [(copy(0), &disk[0]), (copy(1), &disk[1])])
    }

    proptest! {
        /// However writes were cut short, whichever bit rots, and whichever sectors become zeroes after a rewrite: what
        /// was acknowledged counts, or it is refused.
        #[test]
        fn nothing_acknowledged_is_given_up_without_a_word(
            cuts in proptest::collection::vec((proptest::option::weighted(0.4, 0..1_u8 << SECTORS), any::<bool>()), 1..12),
            rot in proptest::option::of((0..2_usize, 0..copy(0).bytes() as usize, 0..8_u32)),
            zeroed in proptest::option::of(1..=copy(0).sectors as usize),
        ) {
            let part = Part::of(*b"SKLTEST1", 5);
            let mut disk = [vec![0; copy(0).bytes() as usize], vec![0; copy(1).bytes() as usize]];
            let (mut acknowledged, mut at, mut newest, mut is_written) = (None, 0, 0, false);
            for (cut, copied) in cuts {
                // The next is written over the copy that does not count; a second copy over the one that is older.
                let (generation, which) = (newest + 1, 1 - at);
                let bytes = sealed(part.rewrite(is_written), generation, which as u64);
                for sector in 0..SECTORS as usize {
                    if cut.is_none_or(|written| written >> sector & 1 == 1) {
                        let range = sector * 512..(sector + 1) * 512;
                        disk[which][range.clone()].copy_from_slice(&bytes[range]);
                    }
                }
                if cut.is_none() {
                    (acknowledged, at, newest) = (Some(generation), which, generation);
                    if copied {
                        disk[1 - at] = sealed(part.rewrite(true), generation, 1 - at as u64);
                        is_written = true;
                    }
                    continue;
                }
                let found = pair(part, &disk);
                match found.choose() {
                    Choice::Copy(which) => {
                        let counts = found.copies[which].newest();
                        prop_assert!(counts == acknowledged || counts == Some(generation));
                        (acknowledged, at) = (counts, which);
                    }
                    Choice::Blank => prop_assert_eq!(acknowledged, None),
                    refused => prop_assert!(false, "{:?}: {:?}", refused, found),
                }
                (newest, is_written) = (found.newest(), found.is_written);
            }
            let mut rotten = None;
            if let Some((which, byte, bit)) = rot {
                let first = byte / 512;
                let tells = |copy: &[u8]| copy.chunks(512).any(Part::is_rewrite);
                let end = (first + zeroed.unwrap_or(0)).min(SECTORS as usize);
                if end > first && tells(&disk[1 - which]) {
                    disk[which][first * 512..end * 512].fill(0);
                } else {
                    disk[which][byte] ^= 1 << bit;
                }
                rotten = Some(copy(which as u64).start + first as u64);
            }
            let found = pair(part, &disk);
            match found.choose() {
                Choice::Copy(which) => prop_assert!(found.copies[which].newest() >= acknowledged, "{:?}", found),
                Choice::Blank => prop_assert_eq!(acknowledged, None),
                Choice::Refused(sector, _) => prop_assert_eq!(Some(sector), rotten),
                Choice::Neither => prop_assert!(false, "{:?}", found),
            }
        }
    }

    /// The write that was interrupted may have been the first of its copy.
    #[test]
    fn zeroes_are_rotten_only_after_both_copies_were_written() {
        let part = Part::of(*b"SKLTEST1", 5);
        for is_rewrite in [false, true] {
            let part = part.rewrite(is_rewrite);
            let mut disk = [sealed(part, 8, 0), sealed(part, 9, 1)];
            assert!(pair(part, &disk).is_written);
            disk[1][512..1_024].fill(0);
            let (refused, rotten) = (Choice::Refused(copy(1).start + 1, Some(0)), copy(1).start + 1);
            let found = pair(part, &disk);
            assert_eq!(found.choose(), if is_rewrite { refused } else { Choice::Copy(0) });
            assert!(!found.is_written);
            assert_eq!(found.copies[1] == CopyState::Rotten(rotten, Some(9)), is_rewrite);
            disk[1].fill(0);
            let refused = Choice::Refused(copy(1).start, Some(0));
            assert_eq!(pair(part, &disk).choose(), if is_rewrite { refused } else { Choice::Copy(0) });
            // An older copy may rot.
            disk = [sealed(part, 8, 0), sealed(part, 9, 1)];
            disk[0][512..1_024].fill(0);
            assert_eq!(pair(part, &disk).choose(), Choice::Copy(1));
            // A creation that did not end.
            disk[0][..512].copy_from_slice(&crate::durable::unfinished());
            disk[1][512..].fill(0);
            assert_eq!(pair(part, &disk).copies[0], CopyState::Blank);
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
