//! Prewriting and prefetching: that they are free, and that what is written meanwhile wins.

use super::*;

/// Reads these pages one after the other; when each was answered.
async fn answered(cache: &Cache, pages: impl Iterator<Item = u64>) -> Vec<Nanos> {
    let mut times = Vec::new();
    for page in pages {
        values(cache, Extent::of_pages(page, 1)).await.unwrap();
        times.push(now());
    }
    times
}

/// Scattered pairs of neighbouring pages: the first is used, so the surroundings of the second are prefetched.
fn pairs(pairs: u64) -> impl Iterator<Item = u64> {
    (0..pairs).flat_map(|pair| [0, 40].map(|more| pair * 7_919 % 50_000 * 10 + more))
}

#[test]
fn reads_that_miss_are_not_delayed_by_what_is_asked_for_around_them() {
    let run = |prefetch: &str| {
        world(async || {
            let cache = cache(&disk(600_000 * 8), &format!("size = '16MiB'\nprefetch = '{prefetch}'"));
            let times = answered(&cache, pairs(200)).await;
            (times, counted(&cache, "hits"), counted(&cache, "prefetched"))
        })
        .0
    };
    let (alone, with) = (run("0"), run("512KiB"));
    assert_eq!((alone.1, alone.2, with.1), (0, 0, 0), "nothing that is fetched is used");
    assert!(with.2 > 1_000, "{} pages", with.2);
    assert!(alone.0 == with.0, "each read is answered at the same time");
}

#[test]
fn what_is_prewritten_delays_no_read() {
    let run = |prewrite: bool| {
        world(async || {
            let options = format!("size = '16MiB'\nprewrite = {prewrite}\nexpire = '1h'");
            let cache = cache(&disk(600_000 * 8), &options);
            for page in 0..1_000 {
                write(&*cache, page * 4_800, 8, 1).await.unwrap();
            }
            sleep(Nanos::from_millis(200)).await;
            let times = answered(&cache, pairs(300).map(|page| page + 5)).await;
            (times, counted(&cache, "prewritten"), counted(&cache, "written_back"))
        })
        .0
    };
    let (alone, with) = (run(false), run(true));
    assert_eq!(alone.2, 0);
    assert!(with.1 > 100 && with.1 == with.2, "{} pages of {}", with.1, with.2);
    assert!(alone.0 == with.0, "each read is answered at the same time");
}

/// Page 100 is used and the surroundings of page 102 are requested, but no request comes whose waits could fetch them.
async fn fetching() -> (Rc<dyn BlockDevice>, Rc<Cache>) {
    let below = disk(8_000);
    write(&*below, 0, 2_000, 1).await.unwrap();
    let cache = cache(&below, "size = '256KiB'\nprefetch = '16KiB'");
    write(&*cache, 800, 8, 1).await.unwrap();
    cache.fetch_around(Extent::of_pages(102, 1));
    sleep(Nanos::from_millis(1)).await;
    assert_eq!(
        (counted(&cache, "pages_held"), counted(&cache, "prefetched")),
        (4, 0),
        "101, 103, 104 are to come"
    );
    (below, cache)
}

#[test]
fn what_is_written_while_it_is_fetched_wins() {
    world(async || {
        let (_, cache) = fetching().await;
        write(&*cache, 824, 3, 2).await.unwrap();
        write_fua(&*cache, 832, 8, 3).await.unwrap();
        sleep(Nanos::from_millis(1)).await;
        assert_eq!(values(&*cache, Extent::of_pages(103, 1)).await.unwrap(), [2, 2, 2, 1, 1, 1, 1, 1]);
        assert_eq!(values(&*cache, Extent::of_pages(104, 1)).await.unwrap(), [3; 8]);
        agrees(&cache);
    });
}

#[test]
fn detaching_and_eviction_do_not_wait_for_prefetches() {
    world(async || {
        let (_, cache) = fetching().await;
        for page in 200..400 {
            write(&*cache, page * 8, 8, 5).await.unwrap();
            agrees(&cache);
        }
        cache.fetch_around(Extent::of_pages(398, 1));
        cache.detach().await.unwrap();
        let state = cache.state.borrow();
        assert_eq!((state.held(), state.dirty()), (state.held_by_pages(), 0));
    });
}
