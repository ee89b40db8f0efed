//! The map against an ordered map, with pages that are anywhere and pages that were made to collide.

use super::*;
use proptest::prelude::*;

/// 20 TB.
const LARGE: u64 = 20_000_588_955_648 / 4096;

/// Applies steps to the map and to a model of it, and compares all that can be asked after each.
fn behaves(
    pages: u64,
    slots: u32,
    steps: impl Iterator<Item = (u64, Slot, bool)>,
) -> Result<(), TestCaseError> {
    let mut map = BorgMap::new(pages, slots);
    let mut model: BTreeMap<u64, (Slot, bool)> = BTreeMap::new();
    for (page, slot, dirty) in steps {
        if map.page_at(slot).is_some() {
            prop_assert_eq!(map.remove(page), model.remove(&page).map(|(slot, _)| slot));
        } else {
            let was = model.insert(page, (slot, dirty));
            prop_assert_eq!(map.insert(page, slot, dirty), was.map(|(slot, _)| slot));
        }
        prop_assert_eq!(map.mapped(), model.len());
        prop_assert_eq!(map.dirty(), model.values().filter(|(_, dirty)| *dirty).count());
        let mut all: Vec<_> = model.iter().map(|(page, (slot, dirty))| (*slot, *page, *dirty)).collect();
        all.sort_unstable();
        prop_assert_eq!(map.iter().collect::<Vec<_>>(), all);
        for (page, (slot, _)) in &model {
            prop_assert_eq!((map.slot_of(*page), map.page_at(*slot)), (Some(*slot), Some(*page)));
        }
    }
    Ok(())
}

/// Up to `wanted` of the first `pages` pages that can only be in the first bucket, by both hashes.
fn colliding(pages: u64, slots: u32, wanted: usize) -> Vec<u64> {
    let shape = Shape::new(pages, slots);
    (0..pages).filter(|page| shape.ways(*page).iter().all(|way| way.bucket == 0)).take(wanted).collect()
}

proptest! {
    #[test]
    fn it_is_a_map_and_its_inverse(steps in prop::collection::vec((0..2_000_u64, 0..300_u32, any::<bool>()), 1..200)) {
        behaves(2_000, 300, steps.into_iter())?;
    }

    #[test]
    fn volumes_of_any_size_have_a_map(
        bits in 0..50_u32,
        slots in 1..400_u32,
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<bool>()), 1..60),
    ) {
        let pages = (1_u64 << bits) + 3;
        behaves(pages, slots, steps.into_iter().map(|(page, slot, dirty)| (page % pages, slot % slots, dirty)))?;
    }

    #[test]
    fn pages_that_collide_are_found_all_the_same(steps in prop::collection::vec((0..60_usize, 0..300_u32, any::<bool>()), 1..200)) {
        let colliding = colliding(1 << 20, 300, 60);
        prop_assert_eq!(colliding.len(), 60);
        behaves(1 << 20, 300, steps.into_iter().map(|(page, slot, dirty)| (colliding[page], slot, dirty)))?;
    }
}

#[test]
fn every_page_of_a_small_volume_can_be_undone() {
    for (pages, slots) in [(1, 1), (2, 1), (1_000, 7), (65_536, 5_000), (100_003, 90_000)] {
        let shape = Shape::new(pages, slots);
        for page in 0..pages {
            for way in shape.ways(page) {
                assert_eq!(shape.page(way), page, "of {pages} pages and {slots} slots");
            }
        }
    }
}

/// The pages of a full map of 8 GiB: in runs, and one by one over all of a drive.
fn full(pages: u64, longest: u64) -> (BorgMap, Vec<u64>) {
    const SLOTS: u32 = 2_097_152;
    let mut map = BorgMap::new(pages, SLOTS);
    let mut mapped = Vec::new();
    let mut random = 1_u64;
    while mapped.len() < SLOTS as usize {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = (random >> 20) % pages;
        for page in first..(first + 1 + (random >> 10) % longest).min(pages) {
            if mapped.len() < SLOTS as usize && map.slot_of(page).is_none() {
                map.insert(page, mapped.len() as Slot, false);
                mapped.push(page);
            }
        }
    }
    (map, mapped)
}

#[test]
fn at_8_gib_it_takes_at_most_a_fifth_of_a_percent() {
    for (pages, longest) in [(LARGE, 1), (LARGE, 64), (1 << 36, 1), (1 << 22, 1)] {
        let (map, mapped) = full(pages, longest);
        assert!(map.bytes() * 500 <= 8 << 30, "{} bytes for {pages} pages", map.bytes());
        assert!(map.overflow.is_empty(), "{} pages are homeless", map.overflow.len());
        for (page, slot) in mapped.into_iter().zip(0..).step_by(7) {
            assert_eq!((map.slot_of(page), map.page_at(slot)), (Some(slot), Some(page)));
        }
    }
}
