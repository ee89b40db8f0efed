//! A table of numbers in sealed sectors, each of which has two copies and counts by itself.
//!
//! A change of an entry changes one sector, which a device writes whole or not at all; so any mixture of old and new
//! sectors is a table, and no log is needed. Both copies of a sector are written and durable before
//! anything relies on them, so if one rots the other is as new. Of a sector the newer whole copy counts, and is written
//! over the other one when the table is opened; if neither is whole, that is an error that names it.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Lba, SECTOR_BYTES};

use super::region;
use super::sector::{self, Part, Sector};
use crate::bytes::{put, u32_at};

/// Entries of a sector.
pub const ENTRIES: usize = sector::ROOM / 4;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Where a table is.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Layer, for errors.
    pub layer: &'static str,
    /// Its structure.
    pub part: Part,
    /// Start of each copy.
    pub copies: [Lba; 2],
    /// Number of entries.
    pub entries: usize,
}

impl Site {
    /// Sectors of a copy.
    pub fn sectors(&self) -> u64 {
        self.entries.div_ceil(ENTRIES) as u64
    }

    /// The sector of an entry, in its first copy.
    pub fn sector_of(&self, entry: usize) -> Extent {
        Extent { start: self.copies[0] + (entry / ENTRIES) as u64, sectors: 1 }
    }

    /// An error about the sector of an entry.
    pub fn corrupt(&self, entry: usize, why: String) -> IoError {
        IoError::new(ErrorKind::Corrupt, self.layer, Some(self.sector_of(entry)), why)
    }

    fn copy(&self, copy: usize) -> Extent {
        Extent { start: self.copies[copy], sectors: self.sectors() }
    }
}

/// The table in memory.
pub struct Table {
    site: Site,
    values: Vec<u32>,
    /// The newest generation of a sector.
    generation: u64,
    /// Sectors that have changed since they were written.
    changed: BTreeSet<u64>,
    written: u64,
}

impl Table {
    /// Writes a new table in both copies, unless it is never read again. Its device has to be flushed before it counts.
    pub async fn create(
        device: &dyn BlockDevice,
        site: Site,
        values: Vec<u32>,
        timing_only: bool,
    ) -> Result<Table, IoError> {
        let generation = 1;
        for start in site.copies.into_iter().filter(|_| !timing_only) {
            let sectors = values.chunks(ENTRIES).zip(0..);
            let bytes =
                sectors.flat_map(|(values, sector)| encode(site.part, values, start + sector, generation));
            let bytes = Buffer::from_vec(bytes.collect());
            let at = Extent { start, sectors: site.sectors() };
            region::write(device, at, &bytes, &Hints::default()).await?;
        }
        Ok(Table { site, values, generation, changed: BTreeSet::new(), written: 0 })
    }

    /// Reads a table, and makes the copies of its sectors the same. What was read may not be durable, if the process
    /// that wrote it ended before it was flushed: that is up to the caller.
    pub async fn open(device: &dyn BlockDevice, site: Site) -> Result<Table, IoError> {
        let read = async |copy| region::read_damaged(device, site.copy(copy)).await;
        let bytes = [read(0).await?.0, read(1).await?.0];
        let (mut values, mut newest) = (Vec::with_capacity(site.entries), 1);
        for sector in 0..site.sectors() {
            let copies = bytes.each_ref().map(|bytes| bytes.cut_sectors(sector, 1));
            let at = site.copies.map(|start| start + sector);
            let whole =
                [0, 1].map(|which| match copies[which].look(|bytes| site.part.look(at[which], bytes)) {
                    Sector::Whole(generation) => Some(generation),
                    Sector::Blank | Sector::Rotten => None,
                });
            let Some(generation) = whole[0].max(whole[1]) else {
                let why = "found no copy of this sector of the map that is whole, expected one of two";
                return Err(site.corrupt(values.len(), why.to_owned()));
            };
            newest = newest.max(generation);
            let which = usize::from(whole[0] != Some(generation));
            let found = copies[which].look(|bytes| decode(bytes, (site.entries - values.len()).min(ENTRIES)));
            if whole[0] != whole[1] {
                edge("the copies of a sector of the map differ: the newer one counts");
                let other = at[1 - which];
                let same = Buffer::from_vec(encode(site.part, &found, other, generation));
                device.write(Extent { start: other, sectors: 1 }, same, Hints::default()).await?;
            }
            values.extend(found);
        }
        Ok(Table { site, values, generation: newest, changed: BTreeSet::new(), written: 0 })
    }

    /// Where it is.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// All entries.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// Changes an entry; returns what it held.
    pub fn set(&mut self, entry: u32, value: u32) -> u32 {
        self.changed.insert(u64::from(entry) / ENTRIES as u64);
        std::mem::replace(&mut self.values[entry as usize], value)
    }

    /// Whether a change was not taken to be written.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Sectors taken to be written, of both copies.
    pub fn sectors_written(&self) -> u64 {
        self.written
    }

    /// The changed sectors, encoded for both copies, as runs.
    pub fn take_changed(&mut self) -> Vec<(Extent, Buffer)> {
        let changed: Vec<u64> = std::mem::take(&mut self.changed).into_iter().collect();
        self.generation += u64::from(!changed.is_empty());
        self.written += 2 * changed.len() as u64;
        let mut writes = Vec::new();
        for copy in self.site.copies {
            for run in changed.chunk_by(|one, next| one + 1 == *next) {
                let bytes = run.iter().flat_map(|sector| {
                    let first = *sector as usize * ENTRIES;
                    let values = &self.values[first..(first + ENTRIES).min(self.values.len())];
                    encode(self.site.part, values, copy + *sector, self.generation)
                });
                let at = Extent { start: copy + run[0], sectors: run.len() as u64 };
                writes.push((at, Buffer::from_vec(bytes.collect())));
            }
        }
        writes
    }
}

/// Encodes a sector for its place: each number plus one.
fn encode(part: Part, values: &[u32], at: Lba, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    for (value, place) in values.iter().zip(sector::places(0, 4)) {
        put(&mut bytes, place, &value.wrapping_add(1).to_le_bytes());
    }
    part.seal(at, generation, &mut bytes);
    bytes
}

/// Decodes the first `entries` of a whole sector.
fn decode(bytes: &[u8], entries: usize) -> Vec<u32> {
    sector::places(0, 4).take(entries).map(|place| u32_at(bytes, place).wrapping_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::prelude::*;
    use seekless_core::Slice;
    use seekless_core::runtime::Runtime;
    use seekless_drive::{Disk, QueueOptions, spec};

    use super::*;

    fn site(entries: usize) -> Site {
        Site { layer: "test", part: Part::of(*b"SKLTESTT", 7), copies: [Lba(3), Lba(40)], entries }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

        /// Any of the changed sectors may be written, of either copy, and then any one sector rots: of each sector the
        /// last durable values are found or later ones, whole, and both copies hold them.
        #[test]
        fn each_sector_is_found_as_it_was_written_last(
            entries in 1..400_usize,
            changes in prop::collection::vec((0..400_u32, 0..1_000_u32), 0..20),
            written in prop::collection::vec(any::<bool>(), 8),
            rotten in prop::option::of((0..2_usize, 0..4_u64)),
        ) {
            Runtime::new(1).run(async {
                let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
                let disk: Rc<dyn BlockDevice> = Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, 12)).unwrap());
                let site = site(entries);
                let old: Vec<u32> = (0..entries as u32).map(|entry| if entry % 7 == 0 { u32::MAX } else { entry }).collect();
                let mut table = Table::create(&*disk, site, old.clone(), false).await.unwrap();
                for (entry, value) in changes.iter().filter(|(entry, _)| (*entry as usize) < entries) {
                    table.set(*entry, *value);
                }
                let new = table.values().to_vec();
                // A sector of which a copy was not written has not rotted too: one fault.
                let mut survived: BTreeSet<u64> = BTreeSet::new();
                let mut once: BTreeSet<u64> = BTreeSet::new();
                let sectors = table.take_changed().into_iter().flat_map(|(at, bytes)| bytes.split(at, 1).collect::<Vec<_>>());
                for ((at, bytes), written) in sectors.zip(written.into_iter().chain(std::iter::repeat(true))) {
                    let sector = if at.start.0 < 40 { at.start.0 - 3 } else { at.start.0 - 40 };
                    if written {
                        survived.insert(sector);
                        disk.write(at, bytes, Hints::default()).await.unwrap();
                    } else {
                        once.insert(sector);
                    }
                }
                if let Some((copy, sector)) = rotten.filter(|(_, sector)| *sector < site.sectors() && !once.contains(sector)) {
                    let at = Extent { start: site.copies[copy] + sector, sectors: 1 };
                    disk.write(at, Buffer::from_vec(vec![9; SECTOR]), Hints::default()).await.unwrap();
                }
                for _ in 0..2 {
                    let found = Table::open(&*disk, site).await.unwrap();
                    for (number, (found, (old, new))) in found.values().chunks(ENTRIES).zip(old.chunks(ENTRIES).zip(new.chunks(ENTRIES))).enumerate() {
                        let expected = if survived.contains(&(number as u64)) { new } else { old };
                        assert_eq!(found, expected, "sector {number}");
                    }
                }
                for sector in 0..site.sectors() {
                    let at = Extent { start: site.copies[0] + sector, sectors: 1 };
                    disk.write(at, Buffer::from_vec(vec![9; SECTOR]), Hints::default()).await.unwrap();
                }
                Table::open(&*disk, site).await.unwrap();
                let at = Extent { start: site.copies[1], sectors: 1 };
                disk.write(at, Buffer::from_vec(vec![9; SECTOR]), Hints::default()).await.unwrap();
                disk.write(Extent { start: site.copies[0], ..at }, Buffer::from_vec(vec![9; SECTOR]), Hints::default()).await.unwrap();
                let error = Table::open(&*disk, site).await.map(drop).unwrap_err();
                assert_eq!((error.kind(), error.to_string().contains("no copy of this sector")), (ErrorKind::Corrupt, true));
            }).unwrap();
        }
    }
}
