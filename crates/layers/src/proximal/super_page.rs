//! The super page: what the volume is, the last commit that counts as a whole, and its snapshots.
//!
//! It has two copies on flash, which are written in turn. A volume from before there were snapshots has no pages of
//! records, and its super page is written once.
//!
//! Invariants: at most [`MOST`] snapshots, in ascending order of their numbers, each below the number of the epoch, with
//! names of their own.

use seekless_core::{PAGE_BYTES, SECTOR_BYTES};

use super::format::{EPOCH_BITS, LABEL_PAGES, NONE, Shape, maps_of, super_at};
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part};

const PAGE: usize = PAGE_BYTES as usize;
const MAGIC: &[u8; 8] = b"SKLPROX1";
/// Feature word of a volume with pages of records: older programs refuse it.
const SNAPSHOTS: u32 = 1;
/// Bytes of a snapshot: its name, the length of that, flags, and its number.
const ENTRY: usize = 48;
/// Bytes of the longest name.
pub const LONGEST_NAME: usize = 40;
/// Snapshots of a volume at most, those included that are being deleted.
pub const MOST: usize = 64;
/// Flag of a snapshot that is being deleted.
const DELETED: u8 = 1;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// Number of the epoch that it ended: it sees what was written in this epoch and before.
    pub number: u32,
    /// Whether it is being deleted: it has no view, but pages of its epoch are still staged.
    pub deleted: bool,
}

/// The snapshots of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Number of the epoch in which the volume is written.
    pub epoch: u32,
    /// In ascending order of their numbers.
    pub all: Vec<Snapshot>,
}

impl Snapshots {
    /// Those that are not being deleted.
    pub fn named(&self) -> impl Iterator<Item = &Snapshot> {
        self.all.iter().filter(|snapshot| !snapshot.deleted)
    }

    /// The one of this name.
    pub fn find(&self, name: &str) -> Option<&Snapshot> {
        self.named().find(|snapshot| snapshot.name == name)
    }

    /// Number of the newest one that ended before this epoch began.
    pub fn before(&self, epoch: u32) -> Option<u32> {
        self.all.iter().map(|snapshot| snapshot.number).rfind(|number| *number < epoch)
    }
}

/// The super page of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Super {
    pub shape: Shape,
    pub identity: u128,
    /// The generation up to which pages count that were written in commits of several pages.
    pub committed: u64,
    pub snapshots: Snapshots,
}

/// Structure of the super page.
pub fn part() -> Part {
    Part::of(*MAGIC, 0)
}

/// Places of snapshots, from the second sector on.
fn places() -> impl Iterator<Item = usize> {
    sector::places(0, ENTRY).filter(|place| *place >= SECTOR_BYTES as usize).take(MOST)
}

impl Super {
    /// Encodes a copy.
    pub fn encode(&self, copy: usize, generation: u64) -> Vec<u8> {
        let Super { shape, identity, committed, snapshots } = self;
        let mut bytes = vec![0; PAGE];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 16, &identity.to_le_bytes());
        for (value, at) in [shape.range, shape.ranges, shape.pages].iter().zip((32..).step_by(8)) {
            put(&mut bytes, at, &value.to_le_bytes());
        }
        if shape.records > 0 {
            put(&mut bytes, 8, &SNAPSHOTS.to_le_bytes());
            put(&mut bytes, 56, &shape.records.to_le_bytes());
            put(&mut bytes, 64, &committed.to_le_bytes());
            put(&mut bytes, 72, &snapshots.epoch.to_le_bytes());
            put(&mut bytes, 76, &(snapshots.all.len() as u32).to_le_bytes());
            for (snapshot, at) in snapshots.all.iter().zip(places()) {
                put(&mut bytes, at, snapshot.name.as_bytes());
                put(
                    &mut bytes,
                    at + LONGEST_NAME,
                    &[snapshot.name.len() as u8, u8::from(snapshot.deleted) * DELETED],
                );
                put(&mut bytes, at + 44, &snapshot.number.to_le_bytes());
            }
        }
        part().seal(super_at(copy).start, generation, &mut bytes);
        bytes
    }

    /// Decodes a whole copy, or says what was found.
    pub fn decode(bytes: &[u8]) -> Result<Super, String> {
        let features = u32_at(bytes, 8);
        if !bytes.starts_with(MAGIC) || features & !SNAPSHOTS != 0 {
            return Err(format!("a volume with features {features:#x}, which a newer version wrote"));
        }
        let [range, ranges, pages] = [32, 40, 48].map(|at| u64_at(bytes, at));
        let has_records = features & SNAPSHOTS != 0;
        let records = if has_records { u64_at(bytes, 56) } else { 0 };
        let shape = Shape { range, ranges, pages, maps: maps_of(pages.min(1 << 40)), records };
        let blocks = range.saturating_mul(ranges);
        let fits = range > 0 && pages > 0 && records < u64::from(u32::MAX) && (records > 0) == has_records;
        if !fits || blocks >= u64::from(NONE) || pages.saturating_add(LABEL_PAGES) >= blocks {
            return Err(format!(
                "{pages} pages in {ranges} ranges of {range} blocks, and {records} pages of records"
            ));
        }
        let identity = u128_at(bytes, 16);
        if !has_records {
            return Ok(Super { shape, identity, committed: u64::MAX, snapshots: Snapshots::default() });
        }
        let snapshots = decode_snapshots(bytes)?;
        Ok(Super { shape, identity, committed: u64_at(bytes, 64), snapshots })
    }
}

fn decode_snapshots(bytes: &[u8]) -> Result<Snapshots, String> {
    let (epoch, count) = (u32_at(bytes, 72), u32_at(bytes, 76));
    if epoch >> EPOCH_BITS != 0 || count as usize > MOST {
        return Err(format!("{count} snapshots in epoch {epoch}"));
    }
    let mut all: Vec<Snapshot> = Vec::new();
    for at in places().take(count as usize) {
        let [length, flags] = [bytes[at + LONGEST_NAME], bytes[at + LONGEST_NAME + 1]];
        let name = bytes[at..at + LONGEST_NAME].get(..usize::from(length)).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let number = u32_at(bytes, at + 44);
        let ascends = all.last().is_none_or(|last| last.number < number) && number < epoch;
        if !ascends || check_name(&name).is_err() {
            return Err(format!(
                "the snapshot '{}' with number {number} in epoch {epoch}",
                name.escape_debug()
            ));
        }
        all.push(Snapshot { name, number, deleted: flags & DELETED != 0 });
    }
    Ok(Snapshots { epoch, all })
}

/// Whether a snapshot can have this name; otherwise what was expected.
pub fn check_name(name: &str) -> Result<(), String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(letter) {
        return Err(format!("1 to {LONGEST_NAME} letters, digits, '.', '_' and '-'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written_and_no_bytes_are_followed_blindly(
            (range, ranges, share) in (16..6_000_u64, 1..1_000_u64, 1..99_u64),
            identity: u128,
            records in 0..1_000_u64,
            committed: u64,
            snapshots in proptest::collection::btree_map(0..900_u32, ("[a-z0-9._-]{1,40}", any::<bool>()), 0..MOST),
            junk in proptest::collection::vec(any::<u8>(), PAGE),
        ) {
            let pages = (range * ranges * share / 100).saturating_sub(LABEL_PAGES + 1).max(1);
            let shape = Shape { range, ranges, pages, maps: maps_of(pages), records };
            let all = snapshots.into_iter().map(|(number, (name, deleted))| Snapshot { name, number, deleted });
            let written = match records {
                0 => Super { shape, identity, committed: u64::MAX, snapshots: Snapshots::default() },
                _ => Super { shape, identity, committed, snapshots: Snapshots { epoch: 900, all: all.collect() } },
            };
            prop_assert_eq!(Super::decode(&written.encode(1, 7)), Ok(written));
            let mut changed = junk;
            changed[..8].copy_from_slice(MAGIC);
            changed[8..12].copy_from_slice(&u32::from(records > 0).to_le_bytes());
            changed[72..80].fill(0);
            if let Ok(found) = Super::decode(&changed) {
                prop_assert!(found.shape.pages < found.shape.blocks());
            }
        }
    }

    #[test]
    fn a_volume_of_a_newer_version_is_refused() {
        let shape = Shape { range: 64, ranges: 8, pages: 400, maps: 1, records: 2 };
        let page = Super { shape, identity: 1, committed: 0, snapshots: Snapshots::default() };
        let mut bytes = page.encode(0, 1);
        bytes[8] |= 4;
        assert!(Super::decode(&bytes).unwrap_err().contains("features 0x5"));
    }
}
