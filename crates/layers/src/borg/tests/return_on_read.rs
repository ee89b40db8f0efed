//! Dirty pages that long reads find scattered in the log.

use super::*;

/// A world in which these pages of version 2 are in the log, in this order, and the rest of the origin says 1.
async fn scattered(pages: impl IntoIterator<Item = u64>) -> World {
    let world = world(Options::default(), 400).await;
    write(&*world.disk, Extent::of_pages(0, 200), 1).await;
    for page in pages {
        write(&*world.borg, Extent::of_pages(page, 1), 2).await;
    }
    world
}

/// The version of a page on a device.
async fn version(device: &dyn BlockDevice, page: u64) -> u64 {
    let data = read(device, Extent::of_pages(page, 1)).await;
    u64::from_le_bytes(data[8..16].try_into().unwrap())
}

fn odd() -> Vec<u64> {
    (0..16).map(|number| (number * 7 % 16) * 2 + 1).collect()
}

#[test]
fn they_return_to_the_origin_with_the_data_that_were_read() {
    run(1, async {
        let world = scattered(odd()).await;
        assert_eq!(world.borg.dirty(), 16);
        let before = world.borg.store.metadata_pages();
        read(&*world.borg, Extent::of_pages(0, 32)).await;
        sleep(Nanos::from_millis(1_000)).await;
        assert_eq!((world.borg.dirty(), world.borg.return_on_read.returned()), (0, 16));
        assert!(world.borg.store.metadata_pages() > before, "durably unmapped");
        for page in 0..32 {
            assert_eq!(version(&*world.disk, page).await, 1 + page % 2, "page {page} on the origin");
            assert_eq!(version(&*world.borg, page).await, 1 + page % 2, "page {page}");
        }
    });
}

#[test]
fn a_page_that_is_written_meanwhile_stays() {
    run(1, async {
        let world = scattered(odd()).await;
        let at = Extent::of_pages(0, 32);
        let data = world.borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        data.put(0, &vec![0xAA; 4_096 * 32]);
        write(&*world.borg, Extent::of_pages(3, 1), 3).await;
        sleep(Nanos::from_millis(1_000)).await;
        assert!(world.borg.has_copy(3) && !world.borg.has_copy(5));
        assert_eq!(version(&*world.borg, 3).await, 3);
        assert_eq!(version(&*world.disk, 5).await, 2, "not what the reader made of its buffer");
    });
}

#[test]
fn short_reads_few_parts_and_reads_of_other_layers_return_nothing() {
    run(1, async {
        let world = scattered(odd()).await;
        read(&*world.borg, Extent::of_pages(0, 15)).await;
        read(&*world.borg, Extent::new(3, 31 * 8)).await;
        let (at, how) = (Extent::of_pages(0, 32), Hints { class: Class::Background, ..Hints::default() });
        world.borg.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap();
        write(&*world.borg, Extent::of_pages(100, 4), 2).await;
        read(&*world.borg, Extent::of_pages(95, 30)).await;
        sleep(Nanos::from_millis(1_000)).await;
        assert_eq!((world.borg.dirty(), world.borg.return_on_read.returned()), (20, 0));
    });
}

#[test]
fn a_write_that_begins_within_a_page_is_not_divided() {
    run(1, async {
        let world = world(Options::default(), 400).await;
        write(&*world.borg, Extent::new(4, 64), 5).await;
        assert_eq!(world.borg.dirty(), 0);
        assert_eq!(world.borg.traffic_of(Account::default()).splits, 0);
        write(&*world.borg, Extent::new(8, 64), 6).await;
        assert_eq!(world.borg.dirty(), 8);
    });
}
