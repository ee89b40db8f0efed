//! Movers that hold back, and that end early.

use super::*;

/// Pages that are read twice, so that they are all planned.
const PAGES: u64 = 70;

async fn reads(options: Options) -> World {
    let world = world(options, 400).await;
    write(&*world.disk, Extent::of_pages(0, PAGES), 1).await;
    for _ in 0..2 {
        read(&*world.borg, Extent::of_pages(0, PAGES)).await;
    }
    world
}

async fn reconfigure(borg: &Borg) -> Nanos {
    let begin = runtime::now();
    borg.reconfigure_now(Account(1)).await.unwrap();
    runtime::now().since(begin)
}

fn mapped(borg: &Borg) -> u64 {
    borg.store.mapped() as u64
}

#[test]
fn what_moves_is_as_slow_as_the_rate() {
    run(1, async {
        let World { borg, .. } = reads(Options::default()).await;
        assert!(reconfigure(&borg).await < Nanos::from_millis(1_000));
        let slow = Options { move_rate: crate::units::Bytes(64 << 10), ..Options::default() };
        let World { borg, .. } = reads(slow).await;
        let took = reconfigure(&borg).await;
        // The last of ten batches begins when nine have been paid for, at 16 pages a second.
        assert!(took >= Nanos::from_millis(3_937) && took < Nanos::from_millis(4_500), "{took}");
        assert_eq!(mapped(&borg), PAGES);
    });
}

/// Pages written in descending order, in rounds of 16: each round is of the lowest addresses that are left.
#[test]
fn a_drain_in_rounds_passes_over_the_origin_once() {
    run(1, async {
        let slow = crate::units::Bytes(64 << 10);
        let slow = Options { move_rate: slow, drain_below: 0.0, ..Options::default() };
        let World { borg, .. } = world(slow, 400).await;
        for page in (0..PAGES).rev() {
            write(&*borg, Extent::of_pages(page, 1), 1).await;
        }
        let draining = spawn({
            let borg = borg.clone();
            async move { borg.drain_in_order().await.unwrap() }
        });
        sleep(Nanos::from_millis(1_500)).await;
        let left = borg.store.pages_where(|entry| entry.dirty);
        assert!((1..PAGES as usize).contains(&left.len()), "{}", left.len());
        assert_eq!(left, (PAGES - left.len() as u64..PAGES).collect::<Vec<_>>());
        draining.await;
        assert_eq!(borg.store.dirty(), 0);
    });
}

#[test]
fn a_pause_of_the_clients_is_waited_for_but_not_for_ever() {
    run(1, async {
        let idle = Options { move_idle: Nanos::from_millis(50), ..Options::default() };
        let World { borg, .. } = reads(idle).await;
        // Clients pause for 20 ms, and then go on.
        let clients = {
            let borg = borg.clone();
            spawn(async move {
                for _ in 0..1_000 {
                    read(&*borg, Extent::of_pages(500, 1)).await;
                    sleep(Nanos::from_millis(20)).await;
                }
            })
        };
        sleep(Nanos::from_millis(10)).await;
        let begin = runtime::now();
        let moving = spawn({
            let borg = borg.clone();
            async move { reconfigure(&borg).await }
        });
        sleep(Nanos::from_millis(4_000)).await;
        assert_eq!(mapped(&borg), 0, "there was no pause");
        clients.await;
        let paused = runtime::now().since(begin);
        assert!((7..PAGES).contains(&mapped(&borg)), "a batch each 5 s: {}", mapped(&borg));
        assert!(moving.await < paused + Nanos::from_millis(1_000), "in the pause it goes on");
        assert_eq!(mapped(&borg), PAGES + 1, "all, and what the clients read");
    });
}

#[test]
fn a_stop_does_not_wait_for_what_holds_back() {
    run(1, async {
        let slow = Options { move_rate: crate::units::Bytes(4 << 10), ..Options::default() };
        let World { borg, disk } = reads(slow).await;
        let moving = spawn({
            let borg = borg.clone();
            async move { reconfigure(&borg).await }
        });
        sleep(Nanos::from_millis(3_500)).await;
        let begin = runtime::now();
        borg.stop().await.unwrap();
        assert!(runtime::now().since(begin) < Nanos::from_millis(500));
        assert!(moving.await < Nanos::from_millis(4_000));
        let part = mapped(&borg);
        assert!((1..PAGES).contains(&part), "{part} pages");
        // What was begun goes on with the next one; and who empties the layer does not hold back.
        write(&*borg, Extent::of_pages(3, 1), 2).await;
        let begin = runtime::now();
        borg.detach().await.unwrap();
        assert!(runtime::now().since(begin) < Nanos::from_millis(1_000));
        assert_eq!(read(&*disk, Extent::of_pages(3, 1)).await, stamped(Extent::of_pages(3, 1), 2).to_vec());
    });
}

#[test]
fn a_copy_is_in_progress_only_while_a_mover_runs() {
    run(1, async {
        let World { borg, .. } = reads(Options::default()).await;
        borg.reconfigure_now(Account(1)).await.unwrap();
        assert_eq!(mapped(&borg), PAGES);
        assert!(!borg.movers.invalidate(Extent::of_pages(0, PAGES)));
    });
}
