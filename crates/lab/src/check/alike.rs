//! Stamps of volumes that store what is the same once: with addresses and numbers in them no two pages would be.
//!
//! Such a stamp has the sector's place in its page, and the number of the write with a *distance* added that depends on
//! the page, 1 to 8. So pages of one write with the same distance are the same, and so are pages of two writes whose
//! numbers differ by as much as the distances of the pages. A sector's address and content still say which write it is.
//! Not detected any more: a page in place of another one that is the same.

use seekless_core::{Buffer, Extent, Lba, PAGE_SECTORS};

use super::stamp::{SectorContent, Stamp, shaped};

/// How the sectors of a volume are stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamping {
    /// Each sector like no other.
    #[default]
    Unlike,
    /// Pages like others: see the file's header.
    Alike,
}

/// Distance of the page of a sector.
fn distance(sector: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    1 + ((sector / PAGE_SECTORS + 1).wrapping_mul(ODD) >> 61)
}

impl Stamping {
    /// The data of write `write` of `at`: 16 real bytes a sector, the remainder hollow.
    pub fn stamped(self, at: Extent, write: u64) -> Buffer {
        let Lba(start) = at.start;
        let stamp = |sector| match self {
            Stamping::Unlike => Stamp { sector, write },
            Stamping::Alike => Stamp { sector: sector % PAGE_SECTORS, write: write + distance(sector) },
        };
        shaped((start..start + at.sectors).flat_map(|sector| stamp(sector).bytes()).collect())
    }

    /// What was found in a sector, as if it were stamped like no other.
    pub fn found(self, sector: u64, found: SectorContent) -> SectorContent {
        match (self, found) {
            (Stamping::Alike, SectorContent::Stamp(stamp)) => {
                let write = stamp.write.checked_sub(distance(sector)).filter(|write| *write > 0);
                match write {
                    Some(write) if stamp.sector == sector % PAGE_SECTORS => {
                        SectorContent::Stamp(Stamp { sector, write })
                    }
                    _ => SectorContent::Foreign,
                }
            }
            _ => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::stamp::{classify, stamped};
    use super::*;

    #[test]
    fn a_sector_and_its_content_say_which_write_it_is() {
        for at in [Extent::new(0, 3), Extent::new(805, 40)] {
            let both = [Stamping::Unlike, Stamping::Alike].map(|stamping| {
                let mut found = Vec::new();
                classify(&stamping.stamped(at, 17), |index, each| {
                    found.push(stamping.found(at.start.0 + index, each));
                });
                found
            });
            assert_eq!(both[0], both[1]);
        }
        let at = Extent::new(9, 4);
        assert_eq!(Stamping::Unlike.stamped(at, 5).to_vec(), stamped(at, 5).to_vec());
        // In another place of a page, or of no write.
        let stamp = SectorContent::Stamp(Stamp { sector: 3, write: 40 });
        assert_eq!(Stamping::Alike.found(12, stamp), SectorContent::Foreign);
        let early = SectorContent::Stamp(Stamp { sector: 3, write: 1 });
        assert_eq!(Stamping::Alike.found(11, early), SectorContent::Foreign);
        assert_eq!(Stamping::Alike.found(11, SectorContent::Zeroes), SectorContent::Zeroes);
    }

    #[test]
    fn pages_of_a_write_and_of_several_are_alike() {
        let mut same: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for write in 100..164 {
            let page = Extent::of_pages(write % 16, 1);
            same.entry(Stamping::Alike.stamped(page, write).to_vec()).or_default().push(write);
        }
        let shared = same.values().filter(|writes| writes.len() > 1).count();
        assert!((10..60).contains(&shared), "{shared} of {}", same.len());
        let all = Stamping::Alike.stamped(Extent::of_pages(0, 64), 9).to_vec();
        let different: std::collections::BTreeSet<&[u8]> = all.chunks(4_096).collect();
        assert_eq!(different.len(), 8, "one for each distance");
    }
}
