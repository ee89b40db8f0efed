//! Programs are learned from their starts, recognized, told apart, and forgotten.

use proptest::prelude::*;

use super::*;

fn bounds() -> Bounds {
    Bounds { pages: 10_000, least: 4, starts: 2 }
}

fn read(process: u32, first: u64, pages: u64) -> Touched {
    Touched { process: ProcessId(process), first, end: first + pages }
}

/// A start of a program whose pages begin at `base`, after three that all programs read.
fn start(base: u64) -> Vec<Touched> {
    let shared = [1, 3, 5].map(|page| read(7, page, 1));
    shared.into_iter().chain((0..20).rev().map(|number| read(7, base + 4 * number, 2))).collect()
}

#[test]
fn a_program_is_used_once_it_was_seen_often_enough() {
    let mut sequences = Sequences::new(bounds());
    let trigger = [176, 172, 168];
    for before in 0..3 {
        let found = sequences.triggered(trigger);
        assert_eq!(found.count(), u32::from(before >= 2), "after {before} starts");
        assert!(sequences.learn(&start(100)));
    }
    let pages = sequences.common(sequences.triggered(trigger));
    assert_eq!(pages[..5], [1, 3, 5, 176, 177], "in the order of reading");
    assert_eq!(pages.len(), 43);
    assert_eq!(sequences.triggered([176, 168, 172]), Programs::default(), "in another order it is none");
}

#[test]
fn what_programs_share_is_fetched_for_any_of_them() {
    let mut sequences = Sequences::new(bounds());
    for _ in 0..2 {
        for base in [100, 1_000, 2_000] {
            sequences.learn(&start(base));
        }
    }
    assert_eq!(sequences.size().0, 3);
    let any = sequences.triggered([1, 3, 5]);
    assert_eq!((any.count(), sequences.common(any)), (3, vec![1, 3, 5]));
    let one = sequences.triggered([2_076, 2_072, 2_068]);
    assert_eq!((one.count(), sequences.common(one).len()), (1, 43));
}

#[test]
fn a_page_belongs_to_a_sequence_if_half_of_its_starts_read_it() {
    let mut sequences = Sequences::new(bounds());
    for round in 0..4 {
        let mut reads = start(100);
        reads.push(read(7, 5_000 + round, 1));
        if round < 2 {
            reads.push(read(7, 6_000, 1));
        }
        sequences.learn(&reads);
    }
    let pages = sequences.common(sequences.triggered([176, 172, 168]));
    assert!(pages.contains(&6_000), "two of four");
    assert!(pages.iter().all(|page| !(5_000..6_000).contains(page)), "one of four");
    // A new version of the program does not read it any more.
    for _ in 0..20 {
        sequences.learn(&start(100));
    }
    assert!(!sequences.common(sequences.triggered([176, 172, 168])).contains(&6_000));
}

#[test]
fn processes_do_not_disturb_each_other() {
    let mut sequences = Sequences::new(bounds());
    let apart: Vec<Touched> =
        start(100).into_iter().flat_map(|one| [one, read(9, one.first + 3_000, 1)]).collect();
    sequences.learn(&apart);
    sequences.learn(&apart);
    assert!(!sequences.triggered([176, 172, 168]).is_empty());
}

/// Reads at random, of a few pages again and again or of many pages once, are not learned in place of programs.
#[test]
fn noise_does_not_take_the_place_of_programs() {
    let mut sequences = Sequences::new(bounds());
    for base in [100, 1_000, 2_000].repeat(4) {
        assert!(sequences.learn(&start(base)));
    }
    let again: Vec<Touched> = (0..5_000).map(|number| read(7, 9_000 + number * 7_919 % 97, 1)).collect();
    assert!(!sequences.learn(&again));
    for round in 1..200 {
        let once: Vec<Touched> =
            (0..7_000).map(|number| read(7, (round << 32) + number * 7_919 % 1_000_003, 1)).collect();
        sequences.learn(&once);
        let known = sequences.size();
        assert!(known.1 <= 10_000 && known.2 <= 10_000, "{known:?}");
    }
    for base in [100, 1_000, 2_000] {
        assert_eq!(sequences.triggered([base + 76, base + 72, base + 68]).count(), 1, "{base}");
    }
    // A new program is learned all the same.
    for _ in 0..2 {
        assert!(sequences.learn(&start(7_000)));
    }
    assert_eq!(sequences.triggered([7_076, 7_072, 7_068]).count(), 1);
}

#[test]
fn the_oldest_sequences_make_room() {
    let mut sequences = Sequences::new(Bounds { pages: 200, ..bounds() });
    for base in [100, 1_000, 2_000, 3_000, 4_000] {
        sequences.learn(&start(base));
        sequences.learn(&start(base));
    }
    assert_eq!(sequences.size().0, 4, "43 pages each");
    assert!(sequences.triggered([176, 172, 168]).is_empty(), "the first is forgotten");
    assert!(!sequences.triggered([4_076, 4_072, 4_068]).is_empty());
    assert!(!sequences.learn(&[read(7, 0, 201)]), "larger than all may be");
    assert!(!sequences.learn(&[read(7, 0, 3)]), "too small");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_and_only_pages_that_were_read_are_named(
        starts in prop::collection::vec(
            (0_u64..100, prop::collection::vec((0_u32..3, 0_u64..40, 1_u64..4), 1..40)), 1..90),
        pages in 40_u64..400,
    ) {
        let mut sequences = Sequences::new(Bounds { pages, least: 4, starts: 1 });
        let mut touched = FxHashSet::default();
        for (program, reads) in starts {
            let reads: Vec<Touched> =
                reads.into_iter().map(|(process, first, count)| read(process, program * 50 + first, count)).collect();
            touched.extend(reads.iter().flat_map(|read| read.first..read.end));
            sequences.learn(&reads);
            let (known, counted, named) = sequences.size();
            prop_assert!(known <= 64 && counted <= pages && named <= pages);
            for trigger in triggers(&reads) {
                let found = sequences.triggered(trigger);
                let common = sequences.common(found);
                prop_assert!(found.numbers().all(|number| sequences.known[number].is_some()));
                prop_assert!(common.iter().all(|page| touched.contains(page)));
                for one in found.numbers() {
                    let all = sequences.common(Programs(1 << one));
                    prop_assert!(common.iter().all(|page| all.contains(page)), "in each of them");
                }
            }
        }
    }
}

/// What they answer to triggers.
fn answers(sequences: &Sequences, bases: &[u64]) -> Vec<Vec<u64>> {
    let by = |base: &u64| sequences.triggered([base + 76, base + 72, base + 68]);
    bases.iter().map(|base| sequences.common(by(base))).chain([sequences.sample(9)]).collect()
}

#[test]
fn sequences_are_kept_as_bytes_the_last_ones_first() {
    let mut sequences = Sequences::new(bounds());
    for base in [100, 1_000, 2_000, 100, 2_000, 1_000, 100] {
        sequences.learn(&start(base));
    }
    let bases = [100, 1_000, 2_000];
    let bytes = sequences.encode(u64::MAX);
    let mut again = Sequences::decode(&bytes, bounds(), 5_000).ok().unwrap();
    assert_eq!(answers(&again, &bases), answers(&sequences, &bases));
    assert_eq!(again.encode(u64::MAX), bytes);
    again.learn(&start(1_000));
    sequences.learn(&start(1_000));
    assert_eq!(again.encode(u64::MAX), sequences.encode(u64::MAX));
    // The one that was started longest ago has no room.
    let less = sequences.encode(bytes.len() as u64 - 8);
    assert!(less.len() < bytes.len() - 1_000);
    let less = Sequences::decode(&less, bounds(), 5_000).ok().unwrap();
    let [first, second, third, _] = &answers(&less, &bases)[..] else { panic!() };
    assert_eq!((first.len(), second.len(), third.len()), (43, 43, 0));
    // Or it is forgotten, where less may be learned.
    let bounds = Bounds { pages: 90, ..bounds() };
    let fewer = Sequences::decode(&bytes, bounds, 5_000).ok().unwrap();
    assert_eq!((fewer.size().0, answers(&fewer, &bases)[2].len()), (2, 0));
    let error = |bytes: &[u8], pages| Sequences::decode(bytes, bounds, pages).err().unwrap();
    assert!(error(&bytes, 1_000).contains("expected a page below 1000"));
    assert!(error(&bytes[..bytes.len() - 1], 5_000).contains("the end of the bytes"));
    assert!(error(&[], 5_000).contains("expected a number of starts"));
}

proptest! {
    /// Any changes of the bytes are refused, or give sequences that work and are written again as they were read.
    #[test]
    fn changed_bytes_are_refused_or_followed(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..300_u64), 1..4),
        cut in any::<prop::sample::Index>(),
        cuts: bool,
    ) {
        let mut sequences = Sequences::new(bounds());
        for base in [100, 1_000, 100, 1_000] {
            sequences.learn(&start(base));
        }
        let mut bytes = sequences.encode(u64::MAX);
        for (at, value) in &changes {
            let at = at.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(mut changed) = Sequences::decode(&bytes, bounds(), 5_000) {
            let again = changed.encode(u64::MAX);
            let same = Sequences::decode(&again, bounds(), 5_000).ok().unwrap();
            prop_assert_eq!(same.encode(u64::MAX), again);
            changed.learn(&start(100));
        }
    }
}
