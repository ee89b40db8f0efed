//! Maps of files for defragmentation: any text is refused with what was expected, or is files whose units are arranged
//! without being moved twice.

use std::collections::BTreeSet;

use seekless_layers::defrag::extents::{arranged, parse};

/// Blocks of the volume.
const BLOCKS: u64 = 1 << 20;

/// A map of files, and one that is refused.
pub fn seeds() -> [Vec<u8>; 2] {
    let map = "# files\n/a: 3 1 2\n/b c:d: 40-41 5 100\n\n/whole: 10-14\n/empty:\n";
    [map.into(), "/a: 1-2\n/b: 9-7\n".into()]
}

pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let files = match parse(&text, BLOCKS) {
        Ok(files) => files,
        Err(refused) => return assert!(refused.to_string().contains("expected"), "{refused}"),
    };
    for (block, start, unit, most) in [(8, 0, 8, 100), (1, 7, 16, 3), (64, 0, 8, 1_000)] {
        let units = arranged(&files, (block, start, unit), most);
        let once: BTreeSet<u32> = units.iter().copied().collect();
        assert!(units.len() <= most as usize && once.len() == units.len());
        assert!(units.iter().all(|one| u64::from(*one) <= (start + BLOCKS * block) / unit));
    }
}
