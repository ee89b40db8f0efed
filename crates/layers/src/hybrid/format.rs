//! On-disk format: a super page and a map on the fast device, and a label on the other one.
//!
//! Fast: two copies of the super page, two copies of the map, slots. Over: a page with the label, slots. All metadata is
//! in sealed sectors. A sector of the map has the slots of consecutive units, four bytes each, plus one; each of its
//! copies counts by itself, since the move of a unit changes one entry. So no move needs two sectors to be written
//! together, and a power failure that tears a copy of the map leaves a valid one.
//!
//! Invariants: the super page is written when the label and the map are durable, once; both copies of a sector of the map
//! are written and durable before anything relies on them, so if one rots the other is as new.

use seekless_core::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part, Sector};

const SUPER: [u8; 8] = *b"SKLHYBR1";
const MAP: [u8; 8] = *b"SKLHYBRM";
const LABEL: [u8; 8] = *b"SKLHYBRD";
/// Pages of both copies of the super page.
const SUPER_PAGES: u64 = 2;
/// Entries of a sector of the map.
pub const ENTRIES: usize = sector::ROOM / 4;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Sizes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pages of a unit.
    pub unit: u64,
    /// Slots of the fast device; those of the other one have the numbers that follow.
    pub fast: u32,
    /// Slots of the other device.
    pub slow: u32,
    /// Slots of each device that hold no unit at first, so that units can move.
    pub spare: u32,
    /// Pages of a copy of the map.
    pub map_pages: u64,
}

impl Shape {
    /// Shape of a volume with units of `unit` pages on devices of these sectors; `None` if there is no room for a unit on
    /// each, or there are too many.
    pub fn new(unit: u64, fast: u64, slow: u64) -> Option<Shape> {
        let (fast, slow) = (fast / PAGE_SECTORS, slow / PAGE_SECTORS);
        let map_pages = ((fast + slow) / unit).div_ceil(ENTRIES as u64 * PAGE_SECTORS).max(1);
        let slots = |pages: u64| u32::try_from(pages / unit).ok().filter(|slots| *slots < 1 << 30);
        let fast = slots(fast.saturating_sub(SUPER_PAGES + 2 * map_pages))?;
        let slow = slots(slow.saturating_sub(1))?;
        let spare = (fast / 16).max(1);
        (fast > spare && slow > spare).then_some(Shape { unit, fast, slow, spare, map_pages })
    }

    /// Units.
    pub fn units(&self) -> u32 {
        self.fast + self.slow - 2 * self.spare
    }

    /// Sectors of a unit.
    pub fn unit_sectors(&self) -> u64 {
        self.unit * PAGE_SECTORS
    }

    /// The slot in which a unit is at first: the first units are on the fast device.
    pub fn first_slot(&self, unit: u32) -> u32 {
        if unit < self.fast - self.spare { unit } else { unit + self.spare }
    }

    /// Sectors of the map.
    pub fn map_sectors(&self) -> u64 {
        u64::from(self.units()).div_ceil(ENTRIES as u64)
    }

    /// Place of a copy of a sector of the map, on the fast device.
    pub fn map_at(&self, copy: u64, sector: u64) -> Lba {
        Lba((SUPER_PAGES + copy * self.map_pages) * PAGE_SECTORS + sector)
    }

    /// Start of a slot: whether it is on the fast device, and where there.
    pub fn place(&self, slot: u32) -> (bool, Lba) {
        let unit = self.unit_sectors();
        match slot.checked_sub(self.fast) {
            None => {
                let slots = (SUPER_PAGES + 2 * self.map_pages) * PAGE_SECTORS;
                (true, Lba(slots + u64::from(slot) * unit))
            }
            Some(slot) => (false, Lba(PAGE_SECTORS + u64::from(slot) * unit)),
        }
    }

    /// Sectors that each device has at least: the fast one, and the other.
    pub fn least_sectors(&self) -> (u64, u64) {
        let end = |slot| self.place(slot).1.0 + self.unit_sectors();
        (end(self.fast - 1), end(self.fast + self.slow - 1))
    }
}

/// Structure of the super page.
pub fn super_part() -> Part {
    Part::of(SUPER, 0)
}

/// Place of a copy of the super page.
pub fn super_at(copy: u64) -> Extent {
    Extent::of_pages(copy, 1)
}

/// Encodes a copy of the super page.
pub fn encode_super(shape: &Shape, identity: u128, copy: u64, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    put(&mut bytes, 0, &SUPER);
    put(&mut bytes, 16, &identity.to_le_bytes());
    put(&mut bytes, 32, &shape.unit.to_le_bytes());
    put(&mut bytes, 40, &shape.map_pages.to_le_bytes());
    for (at, count) in [(48, shape.fast), (52, shape.slow), (56, shape.spare)] {
        put(&mut bytes, at, &count.to_le_bytes());
    }
    super_part().seal(super_at(copy).start, generation, &mut bytes);
    bytes
}

/// Decodes a whole super page; the error is what was found.
pub fn decode_super(bytes: &[u8]) -> Result<(Shape, u128), String> {
    let features = u32_at(bytes, 8);
    if !bytes.starts_with(&SUPER) || features != 0 {
        return Err(format!("a super page with features {features:#x}"));
    }
    let [fast, slow, spare] = [48, 52, 56].map(|at| u32_at(bytes, at));
    let shape = Shape { unit: u64_at(bytes, 32), map_pages: u64_at(bytes, 40), fast, slow, spare };
    let fits = (1..=256).contains(&shape.unit)
        && fast < 1 << 30
        && slow < 1 << 30
        && fast > spare
        && slow > spare
        && spare > 0
        && shape.map_pages < 1 << 22
        && shape.map_sectors() <= shape.map_pages * PAGE_SECTORS;
    if fits { Ok((shape, u128_at(bytes, 16))) } else { Err(format!("a super page of {shape:?}")) }
}

/// Encodes the label of the device that is not the fast one.
pub fn encode_label(identity: u128) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    put(&mut bytes, 0, &LABEL);
    Part::of(LABEL, identity).seal(Lba(0), 1, &mut bytes);
    bytes
}

/// Whether this is the label of the volume with this identity, or a sector of it is.
pub fn is_label(bytes: &[u8], identity: u128) -> bool {
    let whole = |(sector, at)| Part::of(LABEL, identity).look(Lba(at), sector) == Sector::Whole(1);
    bytes.chunks(SECTOR).zip(0..).any(whole)
}

/// Structure of the map.
pub fn map_part(identity: u128) -> Part {
    Part::of(MAP, identity)
}

/// Encodes a copy of a sector of the map, for its place.
pub fn encode_map(slots: &[u32], identity: u128, at: Lba, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    for (slot, place) in slots.iter().zip(sector::places(0, 4)) {
        put(&mut bytes, place, &(slot + 1).to_le_bytes());
    }
    map_part(identity).seal(at, generation, &mut bytes);
    bytes
}

/// Decodes the first `units` slots of a whole sector of the map. Zero, which is no slot, becomes `u32::MAX`.
pub fn decode_map(bytes: &[u8], units: usize) -> Vec<u32> {
    sector::places(0, 4).take(units).map(|place| u32_at(bytes, place).wrapping_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn metadata_is_read_as_it_was_written(
            unit in 1..257_u64,
            fast in 0..1_u64 << 30,
            slow in 0..1_u64 << 36,
            slots in proptest::collection::vec(0..u32::MAX - 1, ENTRIES),
            identity: u128,
        ) {
            let Some(shape) = Shape::new(unit, fast, slow) else { return Ok(()) };
            prop_assert_eq!(decode_super(&encode_super(&shape, identity, 1, 1)), Ok((shape, identity)));
            let (least_fast, least_slow) = shape.least_sectors();
            prop_assert!(least_fast <= fast && least_slow <= slow);
            prop_assert!(shape.map_at(1, shape.map_sectors()).0 <= shape.place(0).1.0);
            prop_assert_eq!(shape.first_slot(shape.units() - 1) + shape.spare, shape.fast + shape.slow - 1);
            let at = shape.map_at(1, 7);
            let bytes = encode_map(&slots, identity, at, 3);
            prop_assert_eq!(map_part(identity).look(at, &bytes), Sector::Whole(3));
            prop_assert_eq!(decode_map(&bytes, ENTRIES), slots);
            prop_assert!(is_label(&encode_label(identity), identity));
            prop_assert!(!is_label(&encode_label(identity), identity ^ 1));
        }

        /// Any bytes are a super page that can be followed, or none.
        #[test]
        fn made_up_super_pages_are_refused_or_can_be_followed(fields: [u64; 2], counts: [u32; 3]) {
            let mut bytes = encode_super(&Shape::new(16, 1 << 20, 1 << 20).unwrap(), 1, 0, 1);
            for (field, at) in fields.iter().zip([32, 40]) {
                put(&mut bytes, at, &(field % 300).to_le_bytes());
            }
            for (count, at) in counts.iter().zip([48, 52, 56]) {
                put(&mut bytes, at, &count.to_le_bytes());
            }
            if let Ok((shape, _)) = decode_super(&bytes) {
                prop_assert!(shape.units() > 0 && shape.least_sectors().0 > shape.map_at(1, shape.map_sectors()).0);
            }
        }
    }
}
