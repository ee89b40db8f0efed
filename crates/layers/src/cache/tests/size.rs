//! The size at run time, and a cache that keeps no data.

use seekless_core::ErrorKind;

use super::*;
use crate::cache::COMMANDS;

async fn command(cache: &Cache, text: &str) -> Result<(), IoError> {
    cache.command(text, Hints::default()).await
}

#[test]
fn a_smaller_cache_writes_back_what_it_has_no_room_for() {
    let ((), edges) = world(async || {
        let below = disk(8_000);
        let cache = cache(&below, "size = '1MiB'\ndirty = 1.0");
        for page in 0..200 {
            write(&*cache, page * 8, 8, 7).await.unwrap();
        }
        assert_eq!((counted(&cache, "pages_held"), now()), (200, Nanos::ZERO), "all of it is in memory");
        // A client goes on writing meanwhile.
        let (other, done) = (cache.clone(), Rc::new(RefCell::new(false)));
        let stops = done.clone();
        let client = runtime::spawn(async move {
            let mut written = 0;
            while !*stops.borrow() {
                write(&*other, 3_200 + written % 64 * 8, 8, 9).await.unwrap();
                written += 1;
            }
            written
        });
        command(&cache, "size=64KiB").await.unwrap();
        assert!(counted(&cache, "pages_held") <= 16 && counted(&cache, "pages_dirty") <= 16);
        agrees(&cache);
        done.replace(true);
        assert!(client.await > 1, "its writes wait for room, and get it");
        agrees(&cache);
        flush(&*cache).await.unwrap();
        assert_eq!(values(&*below, Extent::new(0, 1_600)).await.unwrap(), [7; 1_600]);
    });
    assert!(reached(&edges, "a cache that becomes smaller waits for pages in use"));
}

#[test]
fn a_larger_cache_keeps_more() {
    world(async || {
        for policy in ["lru", "clock", "2q", "arc", "s3-fifo", "sieve"] {
            let cache = cache(&disk(8_000), &format!("size = '64KiB'\npolicy = '{policy}'"));
            let hits = async || {
                for page in 0..64 {
                    value(&*cache, page * 8).await;
                }
                counted(&cache, "hits")
            };
            let few = (hits().await, hits().await).1;
            command(&cache, "size=512KiB").await.unwrap();
            assert_eq!(counted(&cache, "pages_at_most"), 128);
            hits().await;
            let before = counted(&cache, "hits");
            assert_eq!(hits().await - before, 64, "{policy}: {few} hits before");
        }
    });
}

#[test]
fn a_size_that_cannot_be_written_back_is_an_error_and_the_pages_stay() {
    world(async || {
        let below = with_error(&disk(8_000), "nth = 1\nops = ['write']");
        let cache = cache(&below, "size = '1MiB'\ndirty = 1.0");
        for page in 0..200 {
            write(&*cache, page * 8, 8, 7).await.unwrap();
        }
        assert_eq!(command(&cache, "size=64KiB").await.unwrap_err().kind(), ErrorKind::Medium);
        assert_eq!(counted(&cache, "pages_dirty"), 200);
        assert_eq!(values(&*cache, Extent::new(0, 1_600)).await.unwrap(), [7; 1_600]);
        command(&cache, "size=1MiB").await.unwrap();
        assert_eq!(counted(&cache, "pages_held"), 200);
    });
}

#[test]
fn a_size_that_is_none_is_refused() {
    world(async || {
        let cache = cache(&disk(8_000), "");
        for (text, kind, words) in [
            ("size=4KiB", ErrorKind::Invalid, "found 'size=4KiB', expected a size of 32KiB or more"),
            ("size=33000B", ErrorKind::Invalid, "in whole pages of 4KiB"),
            ("size=much", ErrorKind::Invalid, "found 'size=much'"),
            ("size", ErrorKind::Unsupported, "found the command 'size', expected size=64KiB or size=1MiB"),
        ] {
            let error = command(&cache, text).await.unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(counted(&cache, "pages_at_most"), 4_096);
        for text in COMMANDS {
            command(&cache, text).await.unwrap();
        }
    });
}

#[test]
fn a_cache_without_data_counts_what_one_with_data_hits() {
    world(async || {
        for (policy, write_to) in [("lru", "through"), ("sieve", "around"), ("arc", "through")] {
            let options = format!("size = '64KiB'\npolicy = '{policy}'\nwrite = '{write_to}'");
            let below = disk(8_000);
            let full = cache(&below, &options);
            let counting = cache(&disk(8_000), &format!("{options}\ndata = false"));
            let mut random = runtime::rng("accesses");
            for step in 0..2_000 {
                if step == 1_000 {
                    command(&full, "size=128KiB").await.unwrap();
                    command(&counting, "size=128KiB").await.unwrap();
                }
                let most = random.below(60) + 1;
                let (page, writes) = (random.below(most), random.chance(1, 4));
                for device in [&full, &counting] {
                    if writes {
                        write(&**device, page * 8, 8, step as u8).await.unwrap();
                    } else {
                        values(&**device, Extent::new(page * 8, 8)).await.unwrap();
                    }
                }
            }
            for name in ["hits", "misses", "passed_by", "pages_held", "pages_at_most"] {
                assert_eq!(counted(&full, name), counted(&counting, name), "{policy}: {name}");
            }
            assert!(counted(&full, "hits") > 300, "there is something to count");
            assert_eq!(counting.state.borrow().held(), 0);
        }
    });
}
