//! Hits of eviction policies on a recording that ships, against what libCacheSim has printed for it.

use std::path::Path;

use seekless_lab::hits::Simulated;
use seekless_layers::cache::policy::Kind;
use seekless_trace::ReadOptions;

/// Hits of libCacheSim 0.3.5 at 16 and 64 MiB, on the pages of the recording as objects of 4 KiB; its ARC with objects
/// and sizes in pages, since it moves its target by bytes otherwise.
const EXPECTED: [(Kind, [u64; 2]); 6] = [
    (Kind::Lru, [10_341, 23_396]),
    (Kind::Clock, [10_419, 23_734]),
    (Kind::TwoQ, [10_836, 20_766]),
    (Kind::Arc, [15_165, 24_225]),
    (Kind::S3Fifo, [20_725, 23_679]),
    (Kind::Sieve, [14_883, 24_172]),
];

#[test]
fn hits_are_those_of_libcachesim() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let files = [root.join("data/svnserver2")];
    let trace = seekless_trace::load(&files, &ReadOptions::default()).unwrap();
    for (kind, expected) in EXPECTED {
        for (size, expected) in [16 << 20, 64 << 20].into_iter().zip(expected) {
            let mut cache = Simulated::new(kind, size);
            trace.records.iter().for_each(|record| cache.follow(record));
            let hits = cache.hits();
            assert_eq!((hits.accesses, hits.hits), (67_056, expected), "{kind}, {size} bytes");
        }
    }
}
