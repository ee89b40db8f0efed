//! The super page: what the volume is, the last commit that counts as a whole, and its snapshots.
//!
//! It has two copies on flash, which are written in turn. A volume from before there were snapshots has no pages of
//! records, and its super page is written once.
//!
//! Invariants: at most [`MOST`] snapshots and clones, with names of their own; snapshots in ascending order of their
//! numbers, each below the number of the epoch; clones in descending order of theirs, each above it, and over a
//! snapshot of the list.

use seekless_core::{PAGE_BYTES, SECTOR_BYTES};

use super::format::{EPOCH_BITS, NONE, Shape, maps_of, super_at};
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part};

const PAGE: usize = PAGE_BYTES as usize;
const MAGIC: &[u8; 8] = b"SKLPROX1";
/// Feature word of a volume with pages of records: older programs refuse it.
const SNAPSHOTS: u32 = 1;
/// Feature word of a volume that has or had clones: programs without them refuse it.
const CLONES: u32 = 2;
/// Feature word of a volume with copies of its map on the data device: programs without them refuse it, since they
/// would write over blocks that the copies name.
const COPIES: u32 = 4;
/// Bytes of a snapshot: its name, the length of that, flags, and its number. Of a clone, which come after all
/// snapshots, the place of its base in the list comes after the flags.
const ENTRY: usize = 48;
/// Bytes of the longest name.
pub const LONGEST_NAME: usize = 40;
/// Snapshots and clones of a volume at most, those included that are being deleted.
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
    /// Whether it is being deleted: it has no view, but clones are over it, or pages of its epoch are still staged.
    pub deleted: bool,
}

/// A clone: what a snapshot sees, but for the pages that were written in the clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// Name.
    pub name: String,
    /// Number of the epoch in which it is written, and no other one.
    pub number: u32,
    /// Number of the snapshot below it, its base.
    pub base: u32,
}

/// The snapshots and clones of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshots {
    /// Number of the epoch in which the volume is written.
    pub epoch: u32,
    /// In ascending order of their numbers.
    pub all: Vec<Snapshot>,
    /// In the order of their creation.
    pub clones: Vec<Cloned>,
    /// The lowest number that a clone was given, of those deleted too: clones get numbers from the last one down.
    pub floor: u32,
}

impl Default for Snapshots {
    fn default() -> Self {
        Snapshots { epoch: 0, all: Vec::new(), clones: Vec::new(), floor: u32::MAX }
    }
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

    /// The clone of this name.
    pub fn find_clone(&self, name: &str) -> Option<&Cloned> {
        self.clones.iter().find(|clone| clone.name == name)
    }

    /// Marks the snapshot with this number as deleted.
    pub fn mark_deleted(&mut self, number: u32) {
        let found = self.all.iter_mut().find(|snapshot| snapshot.number == number);
        if let Some(snapshot) = found {
            snapshot.deleted = true;
        }
    }

    /// Names of snapshots and clones, but for those that are being deleted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let snapshots = self.named().map(|snapshot| snapshot.name.as_str());
        snapshots.chain(self.clones.iter().map(|clone| clone.name.as_str()))
    }

    /// Whether an epoch is that of a clone, which may be deleted.
    pub fn is_of_clone(&self, epoch: u32) -> bool {
        epoch >= self.floor
    }

    /// Number of the snapshot below the clone with this number, if that is there.
    pub fn base(&self, number: u32) -> Option<u32> {
        self.clones.iter().find(|clone| clone.number == number).map(|clone| clone.base)
    }

    /// Whether clones are over the snapshot with this number.
    pub fn has_clones(&self, number: u32) -> bool {
        self.clones.iter().any(|clone| clone.base == number)
    }

    /// Whether the snapshot with this number is being deleted, and no clone is over it.
    pub fn is_unseen(&self, number: u32) -> bool {
        let deleted = self.all.iter().any(|snapshot| snapshot.number == number && snapshot.deleted);
        deleted && !self.has_clones(number)
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
    /// Number of the last session, on flash ([`super::session`]); 0 if there was none with a number.
    pub session: u64,
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
    /// Encodes a copy, as a rewrite if both were written before.
    pub fn encode(&self, copy: usize, generation: u64, both_written: bool) -> Vec<u8> {
        let mut bytes = self.bytes();
        part().rewrite(both_written).seal(super_at(copy).start, generation, &mut bytes);
        bytes
    }

    /// Its bytes, without seals.
    pub fn bytes(&self) -> Vec<u8> {
        let Super { shape, identity, committed, session, snapshots } = self;
        let mut bytes = vec![0; PAGE];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 16, &identity.to_le_bytes());
        for (value, at) in [shape.range, shape.ranges, shape.pages].iter().zip((32..).step_by(8)) {
            put(&mut bytes, at, &value.to_le_bytes());
        }
        put(&mut bytes, 88, &session.to_le_bytes());
        if shape.records > 0 {
            let clones = if snapshots.floor == u32::MAX { 0 } else { CLONES };
            let copies = if shape.copies { COPIES } else { 0 };
            put(&mut bytes, 8, &(SNAPSHOTS | clones | copies).to_le_bytes());
            put(&mut bytes, 56, &shape.records.to_le_bytes());
            put(&mut bytes, 64, &committed.to_le_bytes());
            put(&mut bytes, 72, &snapshots.epoch.to_le_bytes());
            put(&mut bytes, 76, &(snapshots.all.len() as u32).to_le_bytes());
            let mut places = places();
            let mut entry = |name: &str, [flags, base]: [u8; 2], number: u32| {
                let Some(at) = places.next() else { return };
                put(&mut bytes, at, name.as_bytes());
                put(&mut bytes, at + LONGEST_NAME, &[name.len() as u8, flags, base]);
                put(&mut bytes, at + 44, &number.to_le_bytes());
            };
            for snapshot in &snapshots.all {
                entry(&snapshot.name, [u8::from(snapshot.deleted) * DELETED, 0], snapshot.number);
            }
            for clone in &snapshots.clones {
                let base = snapshots.all.iter().position(|snapshot| snapshot.number == clone.base);
                entry(&clone.name, [0, base.unwrap_or(MOST) as u8], clone.number);
            }
            if clones != 0 {
                put(&mut bytes, 80, &(snapshots.clones.len() as u32).to_le_bytes());
                put(&mut bytes, 84, &snapshots.floor.to_le_bytes());
            }
        }
        bytes
    }

    /// Decodes a whole copy, or says what was found.
    pub fn decode(bytes: &[u8]) -> Result<Super, String> {
        let features = u32_at(bytes, 8);
        if !bytes.starts_with(MAGIC) || features & !(SNAPSHOTS | CLONES | COPIES) != 0 {
            return Err(format!("a volume with features {features:#x}, which a newer version wrote"));
        }
        let [range, ranges, pages] = [32, 40, 48].map(|at| u64_at(bytes, at));
        let has_records = features & SNAPSHOTS != 0;
        let records = if has_records { u64_at(bytes, 56) } else { 0 };
        let copies = features & COPIES != 0;
        let shape = Shape { range, ranges, pages, maps: maps_of(pages.min(1 << 40)), records, copies };
        let blocks = range.saturating_mul(ranges);
        let fits = range > 0
            && ranges > 0
            && pages > 0
            && (has_records || !copies)
            && records < u64::from(u32::MAX)
            && (records > 0) == has_records;
        if !fits || blocks >= u64::from(NONE) || pages.saturating_add(shape.reserved()) >= blocks {
            return Err(format!(
                "{pages} pages in {ranges} ranges of {range} blocks, and {records} pages of records"
            ));
        }
        let (identity, session) = (u128_at(bytes, 16), u64_at(bytes, 88));
        if session >= sector::LAST {
            return Err(format!("session {session}"));
        }
        if !has_records {
            let snapshots = Snapshots::default();
            return Ok(Super { shape, identity, committed: u64::MAX, session, snapshots });
        }
        let committed = u64_at(bytes, 64);
        if committed >= sector::LAST {
            return Err(format!("generation {committed}"));
        }
        let mut snapshots = decode_snapshots(bytes)?;
        if features & CLONES != 0 {
            decode_clones(bytes, &shape, &mut snapshots)?;
        }
        Ok(Super { shape, identity, committed, session, snapshots })
    }
}

/// Name, flags, place of the base and number of an entry.
fn decode_entry(bytes: &[u8], at: usize) -> (String, [u8; 2], u32) {
    let [length, flags, base] = [0, 1, 2].map(|byte| bytes[at + LONGEST_NAME + byte]);
    let name = bytes[at..at + LONGEST_NAME].get(..usize::from(length)).unwrap_or_default();
    (String::from_utf8_lossy(name).into_owned(), [flags, base], u32_at(bytes, at + 44))
}

fn decode_snapshots(bytes: &[u8]) -> Result<Snapshots, String> {
    let (epoch, count) = (u32_at(bytes, 72), u32_at(bytes, 76));
    if epoch >> EPOCH_BITS != 0 || count as usize > MOST {
        return Err(format!("{count} snapshots in epoch {epoch}"));
    }
    let mut all: Vec<Snapshot> = Vec::new();
    for at in places().take(count as usize) {
        let (name, [flags, _], number) = decode_entry(bytes, at);
        let ascends = all.last().is_none_or(|last| last.number < number) && number < epoch;
        if !ascends || check_name(&name).is_err() {
            return Err(format!(
                "the snapshot '{}' with number {number} in epoch {epoch}",
                name.escape_debug()
            ));
        }
        all.push(Snapshot { name, number, deleted: flags & DELETED != 0 });
    }
    Ok(Snapshots { epoch, all, ..Snapshots::default() })
}

/// Adds the clones, whose entries follow those of snapshots.
fn decode_clones(bytes: &[u8], shape: &Shape, snapshots: &mut Snapshots) -> Result<(), String> {
    let (count, floor) = (u32_at(bytes, 80) as usize, u32_at(bytes, 84));
    let (before, epoch, epochs) = (snapshots.all.len(), snapshots.epoch, shape.epochs() as u32);
    if count > MOST - before || !(epoch + 1..epochs).contains(&floor) {
        return Err(format!("{count} clones with numbers from {floor} in epoch {epoch} of {epochs}"));
    }
    snapshots.floor = floor;
    for at in places().skip(before).take(count) {
        let (name, [_, place], number) = decode_entry(bytes, at);
        let above = snapshots.clones.last().map_or(epochs, |last| last.number);
        let base = snapshots.all.get(usize::from(place)).map(|snapshot| snapshot.number);
        let is_new = check_name(&name).is_ok() && !snapshots.names().any(|known| known == name);
        let fits = is_new && (floor..above).contains(&number);
        let Some(base) = base.filter(|_| fits) else {
            return Err(format!(
                "the clone '{}' with number {number} of {floor} to {above}, of snapshot {place} of {before}",
                name.escape_debug()
            ));
        };
        snapshots.clones.push(Cloned { name, number, base });
    }
    Ok(())
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
            committed in 0..sector::LAST,
            session in 0..sector::LAST,
            snapshots in proptest::collection::btree_map(0..900_u32, ("[a-z0-9._-]{1,40}", any::<bool>()), 0..MOST),
            bases in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
            junk in proptest::collection::vec(any::<u8>(), PAGE),
        ) {
            let pages = (range * ranges * share / 100).saturating_sub(2).max(1);
            let copies = records > 0 && range % 2 == 0;
            let pages = pages.saturating_sub(200).max(1);
            let mut shape = Shape { range, ranges, pages, maps: maps_of(pages), records, copies };
            shape.copies &= shape.reserved() + pages < shape.blocks();
            let all = snapshots.into_iter().map(|(number, (name, deleted))| Snapshot { name, number, deleted });
            let written = if records == 0 {
                Super { shape, identity, committed: u64::MAX, session, snapshots: Snapshots::default() }
            } else {
                let mut snapshots = Snapshots { epoch: 900, all: all.collect(), ..Snapshots::default() };
                add_clones(&mut snapshots, shape.epochs() as u32, &bases);
                Super { shape, identity, committed, session, snapshots }
            };
            prop_assert_eq!(Super::decode(&written.encode(1, 7, true)), Ok(written));
            let mut changed = junk;
            changed[..8].copy_from_slice(MAGIC);
            changed[8..12].copy_from_slice(&u32::from(records > 0).to_le_bytes());
            if !bases.is_empty() {
                changed[8] |= CLONES as u8;
            }
            changed[72..84].fill(0);
            if let Ok(found) = Super::decode(&changed) {
                prop_assert!(found.shape.pages + found.shape.reserved() < found.shape.blocks());
            }
        }
    }

    /// Adds a clone of each of these snapshots, if there is one.
    fn add_clones(snapshots: &mut Snapshots, epochs: u32, bases: &[prop::sample::Index]) {
        let names = (1..epochs).zip(bases).take(MOST - snapshots.all.len());
        for (number, base) in names.filter(|_| !snapshots.all.is_empty()) {
            snapshots.floor = epochs - number;
            let base = snapshots.all[base.index(snapshots.all.len())].number;
            snapshots.clones.push(Cloned { name: format!("C{number}"), number: snapshots.floor, base });
        }
    }

    #[test]
    fn a_damaged_clone_is_named() {
        let shape = Shape { range: 64, ranges: 8, pages: 400, maps: 1, records: 2, copies: false };
        let one = |name: &str, number| Snapshot { name: name.to_owned(), number, deleted: false };
        let all = vec![one("a", 3), one("b", 5)];
        let last = shape.epochs() as u32 - 1;
        let clones = vec![Cloned { name: "c".to_owned(), number: last, base: 5 }];
        let snapshots = Snapshots { epoch: 6, all, clones, floor: last };
        let page = Super { shape, identity: 1, committed: 0, session: 2, snapshots };
        let whole = page.encode(0, 1, false);
        assert_eq!(Super::decode(&whole), Ok(page));
        let at = places().nth(2).unwrap();
        for (changed, value, words) in [
            (at + LONGEST_NAME + 2, 2, "the clone 'c' with number"),
            (at, b'a', "the clone 'a' with number"),
            (at + 46, 0, "the clone 'c' with number"),
            (80, 65, "65 clones"),
            (87, 1, "1 clones with numbers from"),
        ] {
            let mut bytes = whole.clone();
            bytes[changed] = value;
            let found = Super::decode(&bytes).unwrap_err();
            assert!(found.contains(words), "{found}");
        }
    }

    #[test]
    fn a_volume_of_a_newer_version_is_refused() {
        let shape = Shape { range: 64, ranges: 8, pages: 400, maps: 1, records: 2, copies: false };
        let page = Super { shape, identity: 1, committed: 0, session: 2, snapshots: Snapshots::default() };
        let mut bytes = page.encode(0, 1, false);
        bytes[8] |= 8;
        assert!(Super::decode(&bytes).unwrap_err().contains("features 0x9"));
    }
}
