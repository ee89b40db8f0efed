//! Pages that are copied as clients read them.

use super::*;

/// Copies 1 MiB of what is read.
fn copies() -> Options {
    Options { copy_on_read: Bytes(1 << 20), ..Options::default() }
}

/// Slots of the read cache that make batches of four pages.
const BOPT: u64 = 400;

/// All of the origin says 1.
async fn copying() -> World {
    let world = world(copies(), BOPT).await;
    write(&*world.disk, Extent::of_pages(0, 100), 1).await;
    world
}

/// Reads pages one by one, then waits for what goes on in the background.
async fn read_each(world: &World, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        read(&*world.borg, Extent::of_pages(page, 1)).await;
    }
    sleep(Nanos::from_millis(1_000)).await;
}

/// The version that a read of a page returns.
async fn version(device: &dyn BlockDevice, page: u64) -> u64 {
    let data = read(device, Extent::of_pages(page, 1)).await;
    u64::from_le_bytes(data[8..16].try_into().unwrap())
}

#[test]
fn pages_get_copies_next_to_each_other_in_the_order_in_which_they_were_read() {
    run(1, async {
        let world = copying().await;
        let pages = [70, 20, 90, 40];
        read_each(&world, pages).await;
        let slots: Vec<Slot> = pages.map(|page| world.borg.store.slot_of(page).unwrap()).to_vec();
        assert!(slots.windows(2).all(|two| two[1] == two[0] + 1), "{slots:?}");
        write(&*world.disk, Extent::of_pages(0, 100), 99).await;
        for page in pages {
            assert_eq!(version(&*world.borg, page).await, 1, "page {page} is read from its copy");
        }
        assert_eq!(version(&*world.borg, 21).await, 99);
    });
}

#[test]
fn a_page_that_is_written_while_it_waits_gets_no_copy() {
    run(1, async {
        let world = copying().await;
        world.borg.writes.set(Writes { absorbs: false, drains: false });
        read_each(&world, [10, 20, 30]).await;
        write(&*world.borg, Extent::of_pages(20, 1), 7).await;
        world.borg.discard(Extent::of_pages(30, 1), Hints::default()).await.unwrap();
        read_each(&world, [40, 50, 60]).await;
        for page in [10, 40, 50, 60] {
            assert!(world.borg.has_copy(page), "page {page}");
        }
        assert!(!world.borg.has_copy(20) && !world.borg.has_copy(30));
        assert_eq!(version(&*world.borg, 20).await, 7);
    });
}

#[test]
fn a_page_that_was_written_gets_no_copy_without_a_judgement() {
    run(1, async {
        let world = copying().await;
        world.borg.writes.set(Writes { absorbs: false, drains: false });
        write(&*world.borg, Extent::of_pages(30, 1), 7).await;
        read_each(&world, [10, 20, 30, 40, 50]).await;
        let copied = [10, 20, 30, 40, 50].map(|page| world.borg.has_copy(page));
        assert_eq!(copied, [true, true, false, true, true]);
    });
}

#[test]
fn a_buffer_that_the_reader_changes_does_not_change_the_copy() {
    run(1, async {
        let world = copying().await;
        let at = Extent::of_pages(10, 4);
        let mine = world.borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        mine.put(0, &[0xAA; 4 * 4_096]);
        sleep(Nanos::from_millis(1_000)).await;
        assert!(world.borg.has_copy(10));
        assert_eq!(version(&*world.borg, 10).await, 1);
    });
}

#[test]
fn long_reads_parts_of_pages_and_those_of_other_layers_are_not_copied() {
    run(1, async {
        let world = copying().await;
        read(&*world.borg, Extent::of_pages(0, 65)).await;
        for page in 70..80 {
            read(&*world.borg, Extent::new(page * 8, 7)).await;
            let how = Hints { class: Class::Background, ..Hints::default() };
            let at = Extent::of_pages(page, 1);
            world.borg.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap();
        }
        sleep(Nanos::from_millis(1_000)).await;
        assert!(world.borg.store.is_empty());
    });
}

#[test]
fn an_allowance_that_is_used_up_ends_it() {
    run(1, async {
        let options = Options { copy_on_read: Bytes(10 * 4_096), ..Options::default() };
        let world = world(options, BOPT).await;
        read_each(&world, 0..100).await;
        assert!((1..=10).contains(&world.borg.store.mapped()), "{}", world.borg.store.mapped());
        let paper = Options { rehearse: false, ..copies() };
        let world = super::world(paper, BOPT).await;
        read_each(&world, 0..100).await;
        assert!(world.borg.store.is_empty(), "without rehearsal there is none");
    });
}

#[test]
fn a_full_read_cache_takes_no_more_and_harms_nothing() {
    run(1, async {
        let world = world(copies(), 60).await;
        write(&*world.disk, Extent::of_pages(0, 100), 1).await;
        let full = world.borg.store.layout().cached_slots() as usize;
        for _ in 0..full {
            read_each(&world, 0..100).await;
        }
        let held = world.borg.store.mapped();
        // Those of the last ones that were being read get no copy.
        assert!((full / 2..=full).contains(&held), "{held} of {full}");
        for page in 0..100 {
            assert_eq!(version(&*world.borg, page).await, 1);
        }
        assert_eq!(world.borg.store.mapped(), held);
    });
}
