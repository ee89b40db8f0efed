//! Encoded metadata decodes to the same; damaged metadata is not whole.

use proptest::prelude::*;
use seekless_core::Buffer;

use super::*;
use crate::durable::CopyState;

fn layout() -> Layout {
    Layout { segment: 64, read_cache: 3, write_buffer: 2 }
}

/// A super page with all that one can have.
fn full(version: u32) -> Super {
    let mark = Some(Mark { inode: 3, bytes: 512_512, modified: 5, changed: 6 });
    // The last page of the origin, 125, is cut short.
    let samples = (0..SAMPLES as u64).map(|sample| (62 + sample, sample as u32 * 77)).collect();
    let anchor = Anchor { segment: 4, offset: 7, sequence: 1 << 33 };
    let counts = Super { generation: 9, identity: 1 << 99, sessions: 4, generations: 88, ..blank(version) };
    Super {
        samples,
        mark,
        anchor,
        require: true,
        firsts: version != OLD,
        uncompared: version != OLD,
        ..counts
    }
}

fn blank(version: u32) -> Super {
    Super { version, ..Super::blank(layout(), 400, 1_001) }
}

fn decoded(page: &Super, bytes: &[u8]) -> Result<Option<Super>, String> {
    if page.version == OLD {
        return old::decode_super(1, bytes).map(|found| match found {
            PageState::Whole(page) => Some(page),
            _ => None,
        });
    }
    match sealed::super_copy_state(1, bytes) {
        CopyState::Whole(generation) => sealed::decode_super(generation, bytes).map(Some),
        _ => Ok(None),
    }
}

#[test]
fn a_super_page_that_is_whole_and_makes_no_sense_is_refused() {
    for version in [OLD, SEALED] {
        let sound = full(version);
        assert_eq!(decoded(&sound, &sound.encode(1)), Ok(Some(sound.clone())));
        let anchor = Anchor { offset: 65, ..sound.anchor };
        for wrong in [
            Super { samples: vec![(126, 7)], ..sound.clone() },
            Super { pages: 300, ..sound.clone() },
            Super { layout: Layout { segment: 0, ..layout() }, ..sound.clone() },
            Super { anchor, ..sound.clone() },
        ] {
            let decoded = decoded(&wrong, &wrong.encode(1)).expect_err("it cannot be");
            assert!(decoded.contains("pages"), "{decoded}");
        }
    }
}

fn map_decoded(version: u32, page_id: &PageIdentity, slots: u32, bytes: &[u8]) -> Option<(u64, MapPage)> {
    if version == OLD {
        return old::decode_map(page_id.at, page_id.identity, 2, slots, bytes);
    }
    match sealed::map_copy_state(page_id.at, page_id.identity, bytes) {
        CopyState::Whole(generation) => Some((generation, sealed::decode_map(2, slots, bytes)?)),
        _ => None,
    }
}

proptest! {
    #[test]
    fn what_is_damaged_is_not_whole(
        version in OLD..=SEALED,
        entries in proptest::collection::vec(proptest::option::of((0..1_u64 << 50, any::<bool>())), 1..=512),
        damage in (0..PAGE, 0..8_u32),
        elsewhere in 1..100_u64,
        first in proptest::option::of(1..78_u64),
        both_written: bool,
    ) {
        let page = Super { both_written: both_written && version != OLD, ..full(version) };
        let mut bytes = page.encode(1);
        prop_assert_eq!(decoded(&page, &bytes), Ok(Some(page.clone())));
        bytes[damage.0] ^= 1 << damage.1;
        prop_assert_eq!(decoded(&page, &bytes), Ok(None));

        let page_id = PageIdentity { at: 70, generation: 5, identity: 1 << 80 };
        let slots = entries.len() as u32;
        let log_reaches = if version == OLD { 0 } else { 78 };
        let first = first.filter(|_| version != OLD);
        let page = MapPage { segment: 2, covered: 77, log_reaches, first, entries };
        let disk = Super { identity: page_id.identity, both_written, ..blank(version) };
        let mut bytes = page.encode(&disk, page_id.at, page_id.generation);
        prop_assert_eq!(map_decoded(version, &page_id, slots, &bytes), Some((5, page)));
        let moved = PageIdentity { at: 70 + elsewhere, ..page_id };
        let foreign = PageIdentity { identity: page_id.identity + u128::from(elsewhere), ..page_id };
        for other in [moved, foreign] {
            prop_assert_eq!(map_decoded(version, &other, slots, &bytes), None);
        }
        bytes[damage.0] ^= 1 << damage.1;
        prop_assert_eq!(map_decoded(version, &page_id, slots, &bytes), None);
    }

    #[test]
    fn the_page_of_a_run_is_that_one_and_whole(
        version in OLD..=SEALED,
        pages in 0..400_usize,
        damage in (0..PAGE, 0..8_u32),
    ) {
        let entries: Vec<_> = (0..pages.min(batch::entries(version)) as u64).map(|page| (page, 7)).collect();
        let data = vec![Buffer::zeroed(PAGE_BYTES); entries.len()];
        let page = BatchHeader { session: 3, durable_before: 4, next: 5, entries };
        let page_id = PageIdentity { at: 70, generation: 5, identity: 1 << 80 };
        let mut bytes = page.encode(version, &page_id, &data);
        prop_assert_eq!(BatchHeader::decode(version, &page_id, &bytes), Some(page.clone()));
        prop_assert_eq!(BatchHeader::decode(OLD + SEALED - version, &page_id, &bytes), None);
        prop_assert_eq!(BatchHeader::decode(version, &PageIdentity { generation: 6, ..page_id }, &bytes), None);
        bytes[damage.0] ^= 1 << damage.1;
        // Parity is no part of what it tells.
        let untouched = version == SEALED && damage.0 >= crate::durable::parity::AT;
        prop_assert_eq!(BatchHeader::decode(version, &page_id, &bytes), untouched.then_some(page));
    }
}
