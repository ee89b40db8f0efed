//! Sequences that the launch prefetcher has kept: any bytes are refused with what was expected, or are sequences that
//! recognize, learn, and are written again as they were read.

use seekless_core::ProcessId;
use seekless_layers::pattern::{Bounds, Sequences, Touched};

/// Pages of the volume.
const PAGES: u64 = 1 << 20;
const BOUNDS: Bounds = Bounds { pages: 4_000, least: 4, starts: 1 };

fn start(base: u64) -> Vec<Touched> {
    let read =
        |number: u64| Touched { process: ProcessId(1), first: base + 7 * number, end: base + 7 * number + 2 };
    (0..12).map(read).collect()
}

/// What was learned from starts of two programs, and nothing.
pub fn seeds() -> [Vec<u8>; 2] {
    let mut sequences = Sequences::new(BOUNDS);
    let none = sequences.encode(u64::MAX);
    for base in [100, 500, 100] {
        sequences.learn(&start(base));
    }
    [sequences.encode(u64::MAX), none]
}

pub fn run(input: &[u8]) {
    let mut sequences = match Sequences::decode(input, BOUNDS, PAGES) {
        Ok(sequences) => sequences,
        Err(found) => return assert!(found.contains("expected"), "{found}"),
    };
    let (_, pages, triggers) = sequences.size();
    assert!(pages <= BOUNDS.pages && triggers <= BOUNDS.pages, "{pages} pages and {triggers} triggers");
    let again = sequences.encode(u64::MAX);
    let same = Sequences::decode(&again, BOUNDS, PAGES).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(same.encode(u64::MAX), again);
    assert!(sequences.encode(200).len() <= 200);
    for base in [100, 9_000] {
        assert!(sequences.learn(&start(base)));
        let programs = sequences.triggered([base, base + 7, base + 14]);
        assert!(sequences.common(programs).iter().all(|page| *page < PAGES));
    }
}
