//! On-disk format: a super page, a map, and slots.
//!
//! First two copies of the super page and two of the map ([`table`]), then slots. If the fast slots are on a device of
//! their own, these are on that one, and the other device has a page with a label, and then slots. A sector of the map
//! has the slots of consecutive units. Since the move of a unit changes one entry, no move needs two sectors to be
//! written together, and a power failure that tears a copy of the map leaves a valid one.
//!
//! Invariant: the super page is written when the label and the map are durable, once.

use seekless_core::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

use super::Kind;
use crate::Refused;
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{Part, Sector};
use crate::durable::session;
use crate::durable::table::{self, ENTRIES};
use crate::units::Bytes;

/// Pages of both copies of the super page.
const SUPER_PAGES: u64 = 2;
const SECTOR: usize = SECTOR_BYTES as usize;
/// The most bands of a zone.
const MOST_BANDS: u32 = 8;

/// Sizes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pages of a unit.
    pub unit: u64,
    /// Fast slots: those on the fast device, or those of the zone of the only one. Others have the numbers that follow.
    pub fast: u32,
    /// Other slots.
    pub slow: u32,
    /// Fast slots that are kept free, so that units can move there at once. Of two devices the other one has as many,
    /// and all others hold units at first; on one device all fast slots are free at first, and of the others none.
    pub spare: u32,
    /// Pages of a copy of the map.
    pub map_pages: u64,
    /// On one device, how many of the other slots lie before the fast ones; `None` with a device for each.
    pub before: Option<u32>,
    /// On one device, the fast slots are in bands of as many each: how many, and how many of the other slots lie
    /// between two.
    pub bands: u32,
    pub apart: u32,
}

/// Checks a size of units.
///
/// # Errors
/// One that is not 4 KiB to 1 MiB, in steps of 4 KiB.
pub fn check_unit(unit: Bytes) -> Result<(), Refused> {
    let Bytes(unit) = unit;
    if unit % PAGE_BYTES != 0 || !(PAGE_BYTES..=1 << 20).contains(&unit) {
        return Err(Refused::new("unit", format!("{unit} bytes"), "4KiB to 1MiB in steps of 4KiB"));
    }
    Ok(())
}

impl Shape {
    /// Shape of a volume with units of `unit` pages on devices of these sectors; `None` if there is no room for a unit
    /// on each, or there are too many.
    pub fn new(unit: u64, fast: u64, slow: u64) -> Option<Shape> {
        let (fast, slow) = (fast / PAGE_SECTORS, slow / PAGE_SECTORS);
        let map_pages = ((fast + slow) / unit).div_ceil(ENTRIES as u64 * PAGE_SECTORS).max(1);
        let slots = |pages: u64| u32::try_from(pages / unit).ok().filter(|slots| *slots < 1 << 30);
        let fast = slots(fast.saturating_sub(SUPER_PAGES + 2 * map_pages))?;
        let slow = slots(slow.saturating_sub(1))?;
        let spare = (fast / 16).max(1);
        let fits = fast > spare && slow > spare;
        fits.then_some(Shape { unit, fast, slow, spare, map_pages, before: None, bands: 1, apart: 0 })
    }

    /// Shape of a volume on one device of these sectors, with a zone of `zone` sectors behind the part `behind` of the
    /// other slots, in 1/1000; `None` if there is no room, or there are too many units.
    pub fn within(unit: u64, sectors: u64, zone: u64, behind: u32) -> Option<Shape> {
        let pages = sectors / PAGE_SECTORS;
        let map_pages = (pages / unit).div_ceil(ENTRIES as u64 * PAGE_SECTORS).max(1);
        let slots = pages.saturating_sub(SUPER_PAGES + 2 * map_pages) / unit;
        let slots = u32::try_from(slots).ok().filter(|slots| *slots < 1 << 30)?;
        let fast = u32::try_from(zone / PAGE_SECTORS / unit).ok()?;
        let (slow, spare) = (slots.checked_sub(fast)?, (fast / 16).max(1));
        let before = Some((u64::from(slow) * u64::from(behind) / 1_000) as u32);
        let fits = fast > spare && slow > fast;
        fits.then_some(Shape { unit, fast, slow, spare, map_pages, before, bands: 1, apart: 0 })
    }

    /// Such a shape whose zone is in bands, of as many slots each: spread over the device, or one behind the other
    /// where the zone is. `None` if there are not two slots for each.
    pub fn in_bands(self, bands: u32, spread: bool) -> Option<Shape> {
        let each = self.fast.checked_div(bands).filter(|each| *each > 1)?;
        let shape = Shape { fast: each * bands, slow: self.slow + self.fast % bands, bands, ..self };
        let apart = shape.slow / bands;
        Some(if spread { Shape { before: Some(apart / 2), apart, ..shape } } else { shape })
    }

    /// Slots of a band.
    pub fn band(&self) -> u32 {
        self.fast / self.bands
    }

    /// Units.
    pub fn units(&self) -> u32 {
        if self.before.is_some() { self.slow } else { self.fast + self.slow - 2 * self.spare }
    }

    /// Sectors of the volume.
    pub fn sectors(&self) -> u64 {
        u64::from(self.units()) * self.unit_sectors()
    }

    /// Sectors of a unit.
    pub fn unit_sectors(&self) -> u64 {
        self.unit * PAGE_SECTORS
    }

    /// The slot in which a unit is at first: on one device that of its number, and no other unit is ever there; of two
    /// devices the fast one has the first units.
    pub fn first_slot(&self, unit: u32) -> u32 {
        match self.before {
            Some(_) => self.fast + unit,
            None if unit < self.fast - self.spare => unit,
            None => unit + self.spare,
        }
    }

    /// Sectors of the map of units.
    pub fn map_sectors(&self) -> u64 {
        u64::from(self.units()).div_ceil(ENTRIES as u64)
    }

    /// Where the map is.
    pub fn map_site(&self, kind: &Kind, identity: u128) -> table::Site {
        let part = Part::of(kind.map, identity);
        let copies = [self.map_at(0, 0), self.map_at(1, 0)];
        let entries = if kind.copies { self.fast } else { self.units() } as usize;
        table::Site { layer: kind.name, part, copies, entries }
    }

    /// Place of a copy of a sector of the map, on the fast device.
    pub fn map_at(&self, copy: u64, sector: u64) -> Lba {
        Lba((SUPER_PAGES + copy * self.map_pages) * PAGE_SECTORS + sector)
    }

    /// Start of a slot: its device, 0 for the one with the map, and where there.
    pub fn place(&self, slot: u32) -> (usize, Lba) {
        let slots = (SUPER_PAGES + 2 * self.map_pages) * PAGE_SECTORS;
        let at = |first: u64, number: u32| Lba(first + u64::from(number) * self.unit_sectors());
        match (slot.checked_sub(self.fast), self.before) {
            (None, before) => (0, at(slots, before.unwrap_or(0) + slot / self.band() * self.apart + slot)),
            (Some(other), None) => (1, at(PAGE_SECTORS, other)),
            (Some(other), Some(before)) => {
                let behind = other.checked_sub(before);
                let bands = behind.map_or(0, |behind| {
                    behind.checked_div(self.apart).map_or(self.bands, |bands| self.bands.min(bands + 1))
                });
                (0, at(slots, other + bands * self.band()))
            }
        }
    }

    /// Sectors that each device has at least: the one with the map, and the other.
    pub fn least_sectors(&self) -> [u64; 2] {
        let end = |slot| self.place(slot).1.0 + self.unit_sectors();
        let [fast, slow] = [end(self.fast - 1), end(self.fast + self.slow - 1)];
        if self.before.is_some() { [fast.max(slow), 0] } else { [fast, slow] }
    }
}

/// Structure of the super page.
pub fn super_part(kind: &Kind) -> Part {
    Part::of(kind.super_page, 0)
}

/// Place of a copy of the super page.
pub fn super_at(copy: u64) -> Extent {
    Extent::of_pages(copy, 1)
}

/// Encodes a copy of the super page.
pub fn encode_super(kind: &Kind, shape: &Shape, identity: u128, copy: u64, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    put(&mut bytes, 0, &kind.super_page);
    put(&mut bytes, 16, &identity.to_le_bytes());
    put(&mut bytes, 32, &shape.unit.to_le_bytes());
    put(&mut bytes, 40, &shape.map_pages.to_le_bytes());
    // Nothing with one band, as before there were several.
    put(&mut bytes, 64, &(shape.bands - 1).to_le_bytes());
    put(&mut bytes, 68, &shape.apart.to_le_bytes());
    let before = shape.before.map_or(0, |before| before + 1);
    for (at, count) in [(48, shape.fast), (52, shape.slow), (56, shape.spare), (60, before)] {
        put(&mut bytes, at, &count.to_le_bytes());
    }
    super_part(kind).seal(super_at(copy).start, generation, &mut bytes);
    bytes
}

/// Decodes a whole super page; the error is what was found.
pub fn decode_super(kind: &Kind, bytes: &[u8]) -> Result<(Shape, u128), String> {
    let features = u32_at(bytes, 8);
    if !bytes.starts_with(&kind.super_page) || features != 0 {
        return Err(format!("a super page with features {features:#x}"));
    }
    let [fast, slow, spare, before] = [48, 52, 56, 60].map(|at| u32_at(bytes, at));
    let before = before.checked_sub(1);
    let (bands, apart) = (u32_at(bytes, 64).saturating_add(1), u32_at(bytes, 68));
    let (unit, map_pages) = (u64_at(bytes, 32), u64_at(bytes, 40));
    let shape = Shape { unit, fast, slow, spare, map_pages, before, bands, apart };
    let last_band = u64::from(before.unwrap_or(0)) + u64::from(bands - 1) * u64::from(apart);
    let fits = (1..=256).contains(&shape.unit)
        && fast < 1 << 30
        && slow < 1 << 30
        && fast > spare
        && slow > spare
        && spare > 0
        && before.is_some() == kind.label.is_none()
        && bands <= if kind.copies { MOST_BANDS } else { 1 }
        && fast % bands == 0
        && last_band <= u64::from(slow)
        && shape.map_pages < 1 << 22
        && shape.map_sectors() <= shape.map_pages * PAGE_SECTORS;
    if fits { Ok((shape, u128_at(bytes, 16))) } else { Err(format!("a super page of {shape:?}")) }
}

/// Encodes the page of the device that is not the fast one: the label, and the numbers of sessions up to this one.
pub fn encode_label(label: [u8; 8], identity: u128, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    put(&mut bytes, 0, &label);
    let part = Part::of(label, identity);
    // In sectors of their own: programs that know no sessions look for a sector of generation 1.
    part.seal(Lba(0), 1, &mut bytes);
    session::put(part, &mut bytes, number);
    bytes
}

/// Whether this is the label of the volume with this identity, or a sector of it is.
pub fn is_label(label: [u8; 8], bytes: &[u8], identity: u128) -> bool {
    let part = Part::of(label, identity);
    let mut sectors = bytes.chunks(SECTOR).zip(0..);
    sectors.any(|(sector, at)| matches!(part.look(Lba(at), sector), Sector::Whole(_)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::durable::session::Number;
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 2] = [crate::hybrid::KIND, crate::hot::KIND];

    /// A volume of either kind.
    fn shape(two: bool, unit: u64, fast: u64, slow: u64, behind: u32) -> (&'static Kind, Option<Shape>) {
        let shape = if two { Shape::new(unit, fast, slow) } else { Shape::within(unit, slow, fast, behind) };
        (&KINDS[usize::from(!two)], shape)
    }

    proptest! {
        #[test]
        fn metadata_is_read_as_it_was_written(
            two: bool,
            unit in 1..257_u64,
            fast in 0..1_u64 << 30,
            slow in 0..1_u64 << 36,
            behind in 0..1_001_u32,
            identity: u128,
            number in session::FIRST..1 << 60,
            rotten in 0..8_usize,
        ) {
            let (kind, Some(shape)) = shape(two, unit, fast, slow, behind) else { return Ok(()) };
            prop_assert_eq!(decode_super(kind, &encode_super(kind, &shape, identity, 1, 1)), Ok((shape, identity)));
            let [least, least_other] = shape.least_sectors();
            let first = if two { fast } else { slow };
            prop_assert!(least <= first && least_other <= slow);
            prop_assert!(shape.map_at(1, shape.map_sectors()).0 <= shape.place(0).1.0);
            if let Some(label) = kind.label {
                let mut page = encode_label(label, identity, number);
                prop_assert!(is_label(label, &page, identity) && !is_label(label, &page, identity ^ 1));
                prop_assert_eq!(Number::in_page(Part::of(label, identity), &page), Number::of(number, false));
                page[rotten * SECTOR] ^= 1;
                prop_assert!(is_label(label, &page, identity));
                prop_assert_eq!(Number::in_page(Part::of(label, identity), &page), Number::of(number, false));
            }
        }

        /// No two slots overlap, and units that follow each other do so on the device, but for the gaps that are kept
        /// free.
        #[test]
        fn units_are_in_slots_of_their_own_in_order(two: bool, fast in 0..4_000_u64, slow in 0..20_000_u64, behind in 0..1_001_u32) {
            let (_, Some(shape)) = shape(two, 2, fast, slow, behind) else { return Ok(()) };
            let slots = 0..shape.fast + shape.slow;
            let places: BTreeSet<_> = slots.clone().map(|slot| shape.place(slot)).collect();
            prop_assert_eq!(places.len(), slots.len());
            prop_assert!(places.iter().all(|(_, at)| at.0 % 8 == 0));
            let first: Vec<u32> = (0..shape.units()).map(|unit| shape.first_slot(unit)).collect();
            prop_assert!(first.iter().all(|slot| slots.contains(slot)));
            prop_assert!(first.windows(2).all(|two| shape.place(two[0]) < shape.place(two[1])));
            let gaps = first.windows(2).filter(|two| {
                let [one, next] = [0, 1].map(|which| shape.place(two[which]));
                one.0 == next.0 && one.1 + shape.unit_sectors() != next.1
            });
            prop_assert!(gaps.count() <= 1);
        }

        /// Any bytes are a super page that can be followed, or none.
        #[test]
        fn made_up_super_pages_are_refused_or_can_be_followed(two: bool, fields: [u64; 2], counts: [u32; 4]) {
            let (kind, shape) = shape(two, 16, 1 << 20, 1 << 22, 500);
            let mut bytes = encode_super(kind, &shape.unwrap(), 1, 0, 1);
            for (field, at) in fields.iter().zip([32, 40]) {
                put(&mut bytes, at, &(field % 300).to_le_bytes());
            }
            for (count, at) in counts.iter().zip([48, 52, 56, 60]) {
                put(&mut bytes, at, &count.to_le_bytes());
            }
            if let Ok((shape, _)) = decode_super(kind, &bytes) {
                prop_assert!(shape.units() > 0 && shape.least_sectors()[0] > shape.map_at(1, shape.map_sectors()).0);
                prop_assert!(shape.first_slot(shape.units() - 1) < shape.fast + shape.slow);
            }
        }
    }

    #[test]
    fn bands_can_be_followed_or_are_refused() {
        let shape = Shape::within(1, 8 * 200, 8 * 48, 500).unwrap().in_bands(3, true).unwrap();
        let mut known = 0;
        for (bands, apart, before) in
            (0..20_u32).flat_map(|bands| [0, 1, 50, 80, u32::MAX].map(|apart| (bands, apart, bands * 9)))
        {
            let mut bytes = encode_super(&crate::replicas::KIND, &shape, 1, 0, 1);
            for (at, count) in [(60, before + 1), (64, bands), (68, apart)] {
                put(&mut bytes, at, &count.to_le_bytes());
            }
            assert!(bands == 0 || decode_super(&crate::hot::KIND, &bytes).is_err());
            let Ok((shape, _)) = decode_super(&crate::replicas::KIND, &bytes) else { continue };
            known += 1;
            let places: BTreeSet<_> = (0..shape.fast + shape.slow).map(|slot| shape.place(slot)).collect();
            assert_eq!(places.len() as u32, shape.fast + shape.slow, "{shape:?}");
            assert!(shape.bands <= MOST_BANDS && places.last().unwrap().1.0 < shape.least_sectors()[0]);
        }
        assert!(known > 5, "{known}");
    }
}
