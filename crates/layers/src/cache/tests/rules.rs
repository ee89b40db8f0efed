//! What is durable when, what waits for what, and what becomes of it if something fails.

use seekless_core::{ErrorKind, Op};

use super::*;
use crate::fault::{Act, Fault};

const SMALL: &str = "size = '64KiB'\nprewrite = true";

#[test]
fn writes_are_answered_from_memory_and_a_flush_brings_them_below_in_few_requests() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&below, "");
        for page in (0..64).rev() {
            write(&*cache, page * 8, 8, 3).await.unwrap();
        }
        assert_eq!((now(), counted(&cache, "pages_dirty")), (Nanos::ZERO, 64));
        assert_eq!(value(&*below, 0).await, 0);
        let began = now();
        flush(&*cache).await.unwrap();
        assert!(now().since(began) < Nanos::from_millis(30), "64 requests would take longer");
        assert_eq!((value(&*below, 0).await, value(&*below, 511).await), (3, 3));
        let began = now();
        assert_eq!(values(&*cache, Extent::new(0, 512)).await.unwrap(), [3; 512]);
        assert_eq!((now(), counted(&cache, "hits")), (began, 64));
    });
}

#[test]
fn a_page_written_again_during_write_back_stays_dirty() {
    let ((), edges) = world(async || {
        let below = disk(8_000);
        let cache = cache(&below, SMALL);
        write(&*cache, 8, 8, 1).await.unwrap();
        // There are no other requests, so nothing is free.
        sleep(Nanos::from_millis(1_000)).await;
        assert_eq!((cache.state.borrow().flying.len(), counted(&cache, "pages_held")), (1, 1));
        write(&*cache, 10, 2, 2).await.unwrap();
        agrees(&cache);
        sleep(Nanos::from_millis(1)).await;
        assert_eq!((cache.state.borrow().flying.len(), counted(&cache, "pages_dirty")), (0, 1));
        flush(&*cache).await.unwrap();
        assert_eq!(values(&*below, Extent::new(8, 8)).await.unwrap(), [1, 1, 2, 2, 1, 1, 1, 1]);
        assert_eq!((counted(&cache, "overwritten"), counted(&cache, "written_back")), (1, 1));
    });
    assert!(reached(&edges, "a page is overwritten while it is written back"));
}

#[test]
fn prewrites_are_promoted_by_age_and_by_waiters() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&below, SMALL);
        write(&*cache, 8, 8, 1).await.unwrap();
        sleep(Nanos::from_millis(29_900)).await;
        assert_eq!(counted(&cache, "written_back"), 0);
        sleep(Nanos::from_millis(300)).await;
        assert_eq!((counted(&cache, "promoted"), value(&*below, 8).await), (1, 1));
        write(&*cache, 8, 8, 2).await.unwrap();
        sleep(Nanos::from_millis(1_000)).await;
        flush(&*cache).await.unwrap();
        assert_eq!((counted(&cache, "promoted"), value(&*below, 8).await), (2, 2));
        write(&*cache, 8, 8, 3).await.unwrap();
        sleep(Nanos::from_millis(1_000)).await;
        write_fua(&*cache, 9, 1, 4).await.unwrap();
        assert_eq!(value(&*below, 9).await, 4, "it does not wait for what it overwrites");
        assert_eq!(counted(&cache, "pages_dirty"), 1, "the rest of the page is not durable for it");
        assert_eq!(values(&*cache, Extent::new(8, 3)).await.unwrap(), [3, 4, 3]);
        cache.stop().await.unwrap();
        assert_eq!(values(&*below, Extent::new(8, 3)).await.unwrap(), [3, 4, 3]);
        assert_eq!(counted(&cache, "prewritten"), 0);
    });
}

#[test]
fn what_could_not_be_written_back_stays_dirty_and_its_flush_fails() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&with_error(&below, "nth = 1\nops = ['write']"), SMALL);
        write(&*cache, 8, 8, 1).await.unwrap();
        assert_eq!(flush(&*cache).await.unwrap_err().kind(), ErrorKind::Medium);
        assert_eq!((counted(&cache, "pages_dirty"), counted(&cache, "write_backs_failed")), (1, 1));
        flush(&*cache).await.unwrap();
        assert_eq!(value(&*below, 8).await, 1);
    });
}

#[test]
fn after_a_flush_below_that_failed_none_succeeds() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&with_error(&below, "nth = 1\nops = ['flush']"), SMALL);
        write(&*cache, 8, 8, 1).await.unwrap();
        for _ in 0..2 {
            assert_eq!(flush(&*cache).await.unwrap_err().kind(), ErrorKind::Medium);
        }
        assert_eq!(cache.detach().await.unwrap_err().kind(), ErrorKind::Medium);
        assert_eq!(value(&*cache, 8).await, 1, "it can be read");
    });
}

#[test]
fn one_sector_that_cannot_be_written_stops_nobody_else() {
    world(async || {
        let below = disk(8_000);
        let cache =
            cache(&with_error(&below, "for_ever = true\nops = ['write']\nat = '4KiB'\nsize = '512B'"), SMALL);
        for page in 0..200 {
            write(&*cache, page * 8, 8, 1).await.unwrap();
            agrees(&cache);
        }
        assert!(flush(&*cache).await.is_err());
        // It does not wait for those that are on their way.
        sleep(Nanos::from_millis(100)).await;
        assert_eq!(counted(&cache, "pages_dirty"), 1);
        assert_eq!(values(&*cache, Extent::new(8, 8)).await.unwrap(), [1; 8], "it is not lost");
        let below = values(&*below, Extent::new(0, 1_600)).await.unwrap();
        assert!((0..1_600).filter(|&sector| below[sector] == 0).eq(8..16), "its neighbours are written");
    });
}

#[test]
fn where_nothing_can_be_written_a_write_fails_and_does_not_hang() {
    world(async || {
        let cache =
            cache(&with_error(&disk(8_000), "for_ever = true\nops = ['write']\nkind = 'no space'"), SMALL);
        let mut done = Vec::new();
        for page in 0..12 {
            done.push(write(&*cache, page * 8, 8, 1).await.map_err(|error| error.kind()));
        }
        assert_eq!(done[..8], [Ok(()); 8]);
        assert_eq!(done[8..], [Err(ErrorKind::NoSpace); 4]);
    });
}

#[test]
fn a_writer_above_the_dirty_limit_waits() {
    world(async || {
        let below = disk(80_000);
        let cache = cache(&below, "size = '64KiB'\ndirty = 0.25");
        for page in 0..40 {
            write(&*cache, page * 1_600, 8, 7).await.unwrap();
            assert!(counted(&cache, "pages_dirty") <= 4);
            agrees(&cache);
        }
        assert!(counted(&cache, "waits_for_room") > 10 && now() > Nanos::from_millis(50));
        cache.detach().await.unwrap();
        assert_eq!((value(&*below, 0).await, value(&*below, 39 * 1_600).await), (7, 7));
    });
}

#[test]
fn large_requests_and_scans_pass_by_and_see_what_is_dirty() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&below, "size = '128KiB'");
        write(&*below, 0, 400, 9).await.unwrap();
        write(&*cache, 17, 3, 1).await.unwrap();
        let expected: Vec<u8> =
            (0..400).map(|sector| if (17..20).contains(&sector) { 1 } else { 9 }).collect();
        assert_eq!(values(&*cache, Extent::new(0, 400)).await.unwrap(), expected);
        let at = Extent::new(16, 8);
        let how = Hints { class: Class::Background, ..Hints::default() };
        let read = cache.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap();
        assert_eq!(read.cut_sectors(1, 1).to_vec()[0], 1);
        assert_eq!(counted(&cache, "pages_held"), 1, "nothing of it is kept");
        write(&*cache, 2, 200, 4).await.unwrap();
        assert_eq!((value(&*below, 17).await, counted(&cache, "pages_dirty")), (4, 0));
        assert_eq!(values(&*cache, Extent::new(16, 8)).await.unwrap(), [4; 8]);
    });
}

#[test]
fn what_is_dirty_is_no_hole_and_what_is_known_is_near() {
    world(async || {
        let below = disk(8_000);
        let cache = cache(&below, "");
        write(&*cache, 8, 2, 1).await.unwrap();
        let found = cache.extents(Extent::new(0, 32)).await.unwrap();
        assert!(found.iter().all(|state| state.content == Content::Unknown));
        let how = Hints::default();
        assert_eq!(cache.estimate(Op::Read, Extent::new(8, 1), &how), Some(Nanos::ZERO));
        assert_eq!(
            cache.estimate(Op::Read, Extent::new(10, 1), &how),
            below.estimate(Op::Read, Extent::new(10, 1), &how)
        );
        cache.prefetch(Extent::new(800, 8), how.clone()).await.unwrap();
        assert_eq!(cache.estimate(Op::Read, Extent::new(800, 1), &how), Some(Nanos::ZERO));
        assert!(cache.geometry().volatile_cache);
    });
}

/// Answers the first write late, so that others overtake it.
struct FirstLate(std::cell::Cell<bool>);

impl Fault for FirstLate {
    fn meet(&self, op: Op, _: Extent, _: u64) -> Act {
        let first = op == Op::Write && !self.0.replace(true);
        if first { Act::Wait(Nanos::from_millis(500)) } else { Act::Pass }
    }
}

#[test]
fn versions_of_a_page_never_overtake_each_other() {
    world(async || {
        let below = disk(8_000);
        let late: Rc<dyn BlockDevice> =
            Rc::new(Faulty::new(below.clone(), FirstLate(std::cell::Cell::default())));
        let cache = cache(&late, "");
        write(&*cache, 8, 8, 1).await.unwrap();
        let device = cache.clone();
        let first = runtime::spawn(async move { flush(&*device).await });
        sleep(Nanos::from_millis(10)).await;
        write(&*cache, 8, 8, 2).await.unwrap();
        flush(&*cache).await.unwrap();
        assert!(now() >= Nanos::from_millis(500));
        assert_eq!(value(&*below, 8).await, 2);
        first.await.unwrap();
    });
}

#[test]
fn options_that_cannot_be_are_refused() {
    let refused = |options: &str| {
        let options: Options = toml::from_str(options).unwrap();
        options.check().unwrap_err().to_string()
    };
    assert!(refused("size = '30KiB'").contains("32KiB or more"));
    assert!(refused("dirty = 0.0").contains("above 0 to 1"));
    assert!(refused("settle = '10us'").contains("1ms or more"));
    assert!(refused("prefetch = '4KiB'").contains("8KiB to 1048576 bytes"));
    assert!(refused("prefetch = '2MiB'").contains("8KiB to 1048576 bytes"));
}

#[test]
fn writes_go_back_through_or_around() {
    for (option, below_has, then_hits) in [("back", 0, 1), ("through", 7, 1), ("around", 7, 0)] {
        world(async || {
            let disk = disk(1 << 12);
            let cache = cache(&disk, &format!("write = '{option}'"));
            write(&*cache, 8, 8, 7).await.unwrap();
            assert_eq!(value(&*disk, 8).await, below_has, "{option}");
            assert_eq!(value(&*cache, 8).await, 7, "{option}");
            assert_eq!(counted(&cache, "hits"), then_hits, "{option}");
            // Wherever it goes, a cached page changes with it.
            write(&*cache, 8, 8, 9).await.unwrap();
            assert_eq!(value(&*cache, 8).await, 9, "{option}");
            assert_eq!(counted(&cache, "hits"), then_hits + 1, "{option}");
            assert_eq!(counted(&cache, "pages_dirty"), u64::from(option == "back"));
        });
    }
    let refused =
        toml::from_str::<Options>("write = 'around'\nprewrite = true").unwrap().check().unwrap_err();
    assert!(refused.to_string().contains("prewrite"), "{refused}");
}

#[test]
fn the_policy_decides_which_page_leaves() {
    let rest = |policy: &str| {
        let (kept, _) = world(async || {
            let disk = disk(1 << 12);
            let cache = cache(&disk, &format!("size = '32KiB'\npolicy = '{policy}'"));
            // Eight pages; the first is read again; a ninth takes the place of one.
            for page in [0, 1, 2, 3, 4, 5, 6, 7, 0, 8] {
                value(&*cache, page * 8).await;
            }
            let state = cache.state.borrow();
            (0..9).filter(|&page| state.page(page).is_none()).collect::<Vec<u64>>()
        });
        kept
    };
    assert_eq!(rest("lru"), [1]);
    assert_eq!(rest("clock"), [1]);
    assert_eq!(rest("sieve"), [1]);
    assert_eq!(rest("2q"), [0], "a queue for new pages does not count uses");
    assert_eq!(rest("drop-when-read"), [0, 1, 2, 3, 4, 5, 6, 7, 8], "each leaves at once");
}

#[test]
fn a_dirty_page_that_was_read_leaves_when_it_is_written_back() {
    world(async || {
        let disk = disk(1 << 12);
        let cache = cache(&disk, "policy = 'drop-when-read'");
        write(&*cache, 0, 8, 1).await.unwrap();
        assert_eq!(value(&*cache, 0).await, 1);
        assert_eq!(counted(&cache, "pages_held"), 1);
        flush(&*cache).await.unwrap();
        assert_eq!(counted(&cache, "pages_held"), 0);
        assert_eq!(value(&*disk, 0).await, 1);
    });
}
