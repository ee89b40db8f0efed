//! Eager writing: writes that wait for each other wait for no revolution, and all of them are found again.

use super::super::store::format::SCATTERED;
use super::*;

const WRITES: u64 = 300;

/// Writes pages one after the other, with pauses; returns the mean time of a write.
async fn write_one_by_one(borg: &Borg) -> Nanos {
    let mut took = Nanos::ZERO;
    for write in 0..WRITES {
        let at = Extent::of_pages(write * 7 % 1_000, 1 + write % 3);
        let begin = runtime::now();
        super::write(borg, at, 100 + write).await;
        took += runtime::now() - begin;
        sleep(Nanos(write * 977_777 % 5_000_000)).await;
    }
    Nanos(took.0 / WRITES)
}

fn features(borg: &Borg) -> u32 {
    borg.store.disk().super_page.features
}

#[test]
fn a_write_that_waits_for_the_last_one_does_not_wait_for_a_revolution() {
    let mean = |eager| {
        run(1, async move {
            let World { borg, .. } = world(Options { eager, ..Options::default() }, 6_000).await;
            write_one_by_one(&borg).await
        })
    };
    let (in_order, eager) = (mean(false), mean(true));
    assert!(in_order > Nanos::from_millis(4), "half a revolution is 4.2 ms: {in_order}");
    assert!(eager < Nanos::from_millis(2), "{eager}, {in_order} in order");
}

#[test]
fn what_lies_anywhere_is_found_after_a_kill_and_programs_that_do_not_look_there_are_kept_away() {
    run(2, async {
        let disk = disk();
        let bopt = || slice(&disk, ORIGIN, 6_000 * 8);
        let options = Options { idle_after: Nanos::ZERO, ..Options::default() };
        let borg = formatted(slice(&disk, 0, ORIGIN), bopt(), options.clone()).await;
        write_one_by_one(&borg).await;
        borg.flush(Hints::default()).await.unwrap();
        assert_eq!(features(&borg), SCATTERED);
        let mut expected = Vec::new();
        for page in 0..ORIGIN / 8 {
            expected.push(read(&*borg, Extent::of_pages(page, 1)).await);
        }
        drop(borg);
        // In order, from now on.
        let options = Options { eager: false, ..options };
        let borg = Borg::open(slice(&disk, 0, ORIGIN), bopt(), options.clone(), false).await.unwrap();
        for (page, expected) in (0..).zip(&expected) {
            assert_eq!(read(&*borg, Extent::of_pages(page, 1)).await, *expected, "page {page}");
        }
        write(&*borg, Extent::of_pages(5, 1), 7).await;
        assert_eq!(features(&borg), 0);
        let borg =
            Borg::open(slice(&disk, 0, ORIGIN), bopt(), Options { eager: true, ..options }, false).await;
        let borg = borg.unwrap();
        write(&*borg, Extent::of_pages(6, 1), 8).await;
        assert_eq!(features(&borg), SCATTERED);
        borg.stop().await.unwrap();
        assert_eq!(features(&borg), 0, "after a clean stop no log is read");
        for (page, version) in [(5, 7), (6, 8)] {
            let at = Extent::of_pages(page, 1);
            assert_eq!(read(&*borg, at).await, stamped(at, version).to_vec());
        }
    });
}
