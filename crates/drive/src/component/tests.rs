//! The simulated disk: bytes, order, merging, classes, tickets.

use std::cell::{Cell, RefCell};

use seekless_core::runtime::{Runtime, now, sleep, spawn};
use seekless_core::{Class, ErrorKind, Ticket};

use super::*;
use crate::scheduler::Policy;
use crate::spec::{self, QueueSpec};

fn on_a_disk<T>(options: QueueOptions, work: impl AsyncFnOnce(Rc<Disk>) -> T) -> T {
    let spec = spec::find("wd2500aaks").unwrap();
    let runtime = Runtime::new(1);
    runtime.run(async { work(Rc::new(Disk::new(0, &spec, options))).await }).unwrap()
}

fn hints(class: Class) -> Hints {
    Hints { class, ..Hints::default() }
}

/// Issues reads of 8 sectors at once, and returns the order in which they are answered.
async fn order_of(disk: &Rc<Disk>, starts: &[(u64, Class)]) -> Vec<u64> {
    let done: Rc<RefCell<Vec<u64>>> = Rc::default();
    let tasks: Vec<_> = starts
        .iter()
        .map(|&(start, class)| {
            let (disk, done) = (disk.clone(), done.clone());
            spawn(async move {
                disk.read(Extent::new(start, 8), Buffer::hollow_sectors(8), hints(class)).await.unwrap();
                done.borrow_mut().push(start);
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    done.take()
}

#[test]
fn bytes_come_back_as_written_and_zero_elsewhere() {
    on_a_disk(QueueOptions::default(), async |disk| {
        let bytes: Vec<u8> = (0..1024).map(|i| (i % 251) as u8).collect();
        disk.write(Extent::new(100, 2), Buffer::from_vec(bytes.clone()), Hints::default()).await.unwrap();
        let back =
            disk.read(Extent::new(99, 4), Buffer::zeroed(2048), Hints::default()).await.unwrap().to_vec();
        assert_eq!(
            (&back[512..1536], &back[..512], &back[1536..]),
            (&bytes[..], &[0; 512][..], &[0; 512][..])
        );
        disk.write_zeroes(Extent::new(100, 1), Hints::default(), Zeroes::default()).await.unwrap();
        let back =
            disk.read(Extent::new(100, 2), Buffer::zeroed(1024), Hints::default()).await.unwrap().to_vec();
        assert_eq!((&back[..512], &back[512..]), (&[0; 512][..], &bytes[512..]));
        disk.flush(Hints::default()).await.unwrap();
    });
}

#[test]
fn schedulers_order_waiting_requests() {
    let requests = [(900_000, Class::Foreground), (100_000, Class::Foreground), (500_000, Class::Foreground)];
    for (policy, order) in
        [(Policy::Fcfs, [900_000, 100_000, 500_000]), (Policy::CLook, [100_000, 500_000, 900_000])]
    {
        let options = QueueOptions { policy, ..QueueOptions::default() };
        assert_eq!(on_a_disk(options, async |disk| order_of(&disk, &requests).await), order);
    }
}

const ALL: [Policy; 7] = [
    Policy::Fcfs,
    Policy::Look,
    Policy::CLook,
    Policy::Sstf,
    Policy::Sptf,
    Policy::SptfSw(40),
    Policy::Asptf(6),
];

#[test]
fn classes_stay_above_every_scheduler() {
    // The head is at sector 0: nearest last.
    let requests: Vec<(u64, Class)> = [Class::Background, Class::Foreground, Class::Urgent]
        .into_iter()
        .zip([0, 100_000_000, 400_000_000])
        .flat_map(|(class, from)| (0..5).map(move |i| (from + i * 7_654_321, class)))
        .collect();
    for policy in ALL {
        let options = QueueOptions { policy, ..QueueOptions::default() };
        let run = || on_a_disk(options, async |disk| (order_of(&disk, &requests).await, disk.all()));
        let (order, work) = run();
        let ranks: Vec<u64> = order.iter().map(|start| start / 100_000_000).collect();
        assert_eq!(ranks, [[4; 5], [1; 5], [0; 5]].concat(), "{policy}");
        assert_eq!((order, work), run(), "{policy}: the same requests go in the same order");
    }
}

/// Clients that always read the next sectors starve others, where a scheduler goes by place.
#[test]
fn no_request_starves_beyond_the_limit() {
    let limit = Nanos::from_millis(300);
    for policy in ALL {
        let waited = |starvation_limit| {
            let options = QueueOptions { policy, starvation_limit, ..QueueOptions::default() };
            on_a_disk(options, async |disk| {
                let stream = |from: u64| {
                    let disk = disk.clone();
                    spawn(async move {
                        for i in 0..4_000 {
                            let at = Extent::new(from + i * 16, 8);
                            disk.write(at, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                        }
                    })
                };
                let streams = [stream(200_000_000), stream(200_000_008)];
                sleep(Nanos::from_millis(20)).await;
                let began = now();
                let far = Extent::new(100, 8);
                disk.read(far, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                drop(streams);
                now().since(began)
            })
        };
        let most = limit + Nanos::from_millis(40);
        assert!(waited(limit) <= most, "{policy}: waited {} s", waited(limit).seconds());
        if matches!(policy, Policy::CLook | Policy::Sstf | Policy::Look) {
            assert!(waited(Nanos::ZERO) > most, "{policy}: without a limit it does starve");
        }
    }
}

#[test]
fn adjacent_requests_are_merged_unless_disabled() {
    for (merge, commands) in [(true, 2), (false, 5)] {
        let options = QueueOptions { merge, policy: Policy::Fcfs, ..QueueOptions::default() };
        on_a_disk(options, async |disk| {
            let foreground = |start| (start, Class::Foreground);
            let starts =
                [foreground(1016), foreground(1008), foreground(1024), foreground(2000), foreground(1000)];
            order_of(&disk, &starts).await;
            let work = disk.all();
            assert_eq!((work.commands, work.requests, work.blocks_read), (commands, 5, 40));
        });
    }
}

#[test]
fn urgent_is_first_and_free_last() {
    let requests = [
        (1_000_000, Class::Free),
        (2_000_000, Class::Background),
        (3_000_000, Class::Foreground),
        (4_000_000, Class::Urgent),
    ];
    let order = on_a_disk(QueueOptions::default(), async |disk| order_of(&disk, &requests).await);
    assert_eq!(order, [4_000_000, 3_000_000, 2_000_000, 1_000_000]);
}

/// Two foreground clients that pause after each request, and two background ones that ask for a share of their own;
/// the busy time in per cent of 100 seconds, and the longest response of the foreground.
fn shares(options: QueueOptions, pause: Nanos, asked_pct: u8) -> ([f64; 2], Nanos) {
    on_a_disk(options, async |disk| {
        let longest: Rc<Cell<Nanos>> = Rc::default();
        let client = |class: Class, from: u64, account: u16| {
            let (disk, longest) = (disk.clone(), longest.clone());
            let (is_foreground, share_pct) = (class == Class::Foreground, asked_pct);
            spawn(async move {
                let how = Hints { account: Account(account), share_pct, ..hints(class) };
                for i in 0.. {
                    let (at, begin) = (Extent::new(from + i * 7_777_777 % 100_000_000, 8), now());
                    disk.read(at, Buffer::hollow_sectors(8), how.clone()).await.unwrap();
                    if is_foreground {
                        longest.set(longest.get().max(now().since(begin)));
                        sleep(pause).await;
                    }
                }
            })
        };
        let clients = [
            client(Class::Foreground, 0, 0),
            client(Class::Foreground, 100_000_000, 0),
            client(Class::Background, 200_000_000, 1),
            client(Class::Background, 300_000_000, 1),
        ];
        sleep(Nanos(100_000_000_000)).await;
        drop(clients);
        ([0, 1].map(|account| disk.account(Account(account)).busy().seconds()), longest.get())
    })
}

#[test]
fn the_background_has_a_guaranteed_share() {
    for (share, asked, expected) in [(10, 0, 10), (20, 0, 20), (50, 0, 50), (20, 60, 60), (20, 10, 20)] {
        let options = QueueOptions { background_share_pct: share, ..QueueOptions::default() };
        let ([foreground, background], _) = shares(options, Nanos::ZERO, asked);
        let got = 100.0 * background / (foreground + background);
        assert!((got - f64::from(expected)).abs() < 2.0, "{got} for {share} and {asked} per cent");
    }
}

/// Where the background has more than its share in the pauses of the foreground, a foreground request waits for the
/// one command that is being served, never for a burst.
#[test]
fn pauses_count_towards_the_share() {
    let ([foreground, background], longest) = shares(QueueOptions::default(), Nanos::from_millis(100), 60);
    assert!(background > 60.0 && foreground > 10.0, "{foreground} {background}");
    assert!(longest < Nanos::from_millis(80), "{longest}");
    let ([foreground, background], longest) = shares(QueueOptions::default(), Nanos::ZERO, 60);
    assert!(foreground > 38.0 && background > 58.0, "{foreground} {background}");
    assert!(longest > Nanos::from_millis(100), "{longest}: this one waits for bursts");
}

#[test]
fn a_ticket_promotes_and_aborts_waiting_requests() {
    on_a_disk(QueueOptions::default(), async |disk| {
        let (promoted, aborted) = (Ticket::new(), Ticket::new());
        let background = |start: u64, ticket: &Ticket| {
            let (disk, how) =
                (disk.clone(), Hints { ticket: Some(ticket.clone()), ..hints(Class::Background) });
            spawn(async move {
                let result = disk.read(Extent::new(start, 8), Buffer::hollow_sectors(8), how).await;
                (result.map(drop).map_err(|error| error.kind()), now())
            })
        };
        let first = background(1_000_000, &promoted);
        let second = background(2_000_000, &aborted);
        let foreground: Vec<_> = (0..20)
            .map(|i| {
                let disk = disk.clone();
                spawn(async move {
                    let at = Extent::new(100_000_000 + i * 100_000, 8);
                    disk.read(at, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                })
            })
            .collect();
        sleep(Nanos(1)).await;
        promoted.promote(Class::Urgent);
        aborted.abort();
        assert_eq!(second.await, (Err(ErrorKind::Aborted), now()));
        assert_eq!(first.await.0, Ok(()));
        assert!(disk.all().commands <= 3, "the promoted read did not wait for the others");
        for task in foreground {
            task.await;
        }
    });
}

/// Reads of 8 sectors anywhere, all submitted at once: the order in which they are answered, and their total time.
fn strewn(options: QueueOptions, own: QueueSpec) -> (Vec<u64>, Nanos) {
    let spec = Spec { queue: own, ..spec::find("wd2500aaks").unwrap() };
    Runtime::new(1)
        .run(async {
            let disk = Rc::new(Disk::new(0, &spec, options));
            let requests: Vec<_> =
                (0..200_u64).map(|i| (i * 7_654_321 * 31 % 400_000_000, Class::Foreground)).collect();
            (order_of(&disk, &requests).await, now())
        })
        .unwrap()
}

fn fcfs(depth: u32) -> QueueOptions {
    QueueOptions { policy: Policy::Fcfs, depth: Some(depth), ..QueueOptions::default() }
}

#[test]
fn a_drive_orders_the_commands_that_it_holds_by_itself() {
    let own = |depth, window| QueueSpec { depth, window, ..QueueSpec::default() };
    let (one, slow) = strewn(fcfs(1), own(32, 0));
    let (_, unqueued) = strewn(QueueOptions { policy: Policy::Fcfs, ..QueueOptions::default() }, own(1, 0));
    assert_eq!(one[0], 0);
    assert!(slow > unqueued, "a command that comes when the one before is done is handled then");
    let (windowless, held) = strewn(fcfs(32), own(32, 1));
    assert_eq!(windowless, one, "a window of one leaves no choice");
    assert!(held < slow, "but a command that is there is handled meanwhile");
    let (_, few) = strewn(fcfs(32), own(32, 4));
    let (order, fast) = strewn(fcfs(32), own(32, 0));
    assert!(fast.seconds() < 0.6 * held.seconds() && fast < few && few < held, "{fast} {few} {held}");
    assert_ne!(order, one);
    // As if it had the whole queue, which SPTF in front of a drive that holds one command does.
    let sees = QueueOptions { policy: Policy::Sptf, ..QueueOptions::default() };
    assert!(strewn(sees, own(1, 0)).1 < fast);
}

#[test]
fn a_starved_command_in_the_drive_is_next() {
    let own = |starvation_ms| QueueSpec { depth: 32, starvation_ms, ..QueueSpec::default() };
    let (never, fast) = strewn(fcfs(32), own(0.0));
    let (soon, slow) = strewn(fcfs(32), own(50.0));
    assert!(never != soon && fast < slow);
}

#[test]
fn an_unqueued_flush_is_issued_alone() {
    let finished = |queued_flush| {
        let own = QueueSpec { depth: 32, queued_flush, ..QueueSpec::default() };
        let mut spec = Spec { queue: own, ..spec::find("wd2500aaks").unwrap() };
        spec.set_write_cache(true);
        spec.cache.write_buffer_sectors = 4_096;
        Runtime::new(1)
            .run(async {
                let disk = Rc::new(Disk::new(0, &spec, fcfs(32)));
                let done: Rc<RefCell<Vec<&str>>> = Rc::default();
                let ask = |what: &'static str, start: u64| {
                    let (disk, done) = (disk.clone(), done.clone());
                    spawn(async move {
                        if what == "flush" {
                            disk.flush(Hints::default()).await.unwrap();
                        } else {
                            let at = Extent::new(start, 8);
                            disk.read(at, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                        }
                        done.borrow_mut().push(what);
                    })
                };
                let mut tasks: Vec<_> = (0..3).map(|i| ask("before", i * 100_000_000)).collect();
                sleep(Nanos(1_000)).await;
                tasks.push(ask("flush", 0));
                sleep(Nanos(1_000)).await;
                tasks.extend((0..3).map(|i| ask("after", i * 90_000_000)));
                for task in tasks {
                    task.await;
                }
                done.take()
            })
            .unwrap()
    };
    assert_eq!(finished(false), ["before", "before", "before", "flush", "after", "after", "after"]);
    assert_eq!(finished(true)[..2], ["before", "flush"], "the next after the one at work");
}

/// Bytes are right, whatever the drive's order.
#[test]
fn bytes_come_back_with_a_queue_and_a_write_cache() {
    let own = QueueSpec { depth: 32, ..QueueSpec::default() };
    let mut spec = Spec { queue: own, ..spec::find("wd2500aaks").unwrap() };
    spec.set_write_cache(true);
    spec.cache.write_buffer_sectors = 64;
    Runtime::new(1)
        .run(async {
            let disk = Rc::new(Disk::new(0, &spec, fcfs(32)));
            let tasks: Vec<_> = (0..64_u64)
                .map(|i| {
                    let disk = disk.clone();
                    spawn(async move {
                        let at = Extent::new(i * 1_000_003, 2);
                        let bytes = vec![i as u8 + 1; 1024];
                        let how = Hints { fua: i % 5 == 0, ..Hints::default() };
                        disk.write(at, Buffer::from_vec(bytes.clone()), how).await.unwrap();
                        let back = disk.read(at, Buffer::zeroed(1024), Hints::default()).await.unwrap();
                        assert_eq!(back.to_vec(), bytes);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            disk.flush(Hints::default()).await.unwrap();
        })
        .unwrap();
}

/// Clients that flush continuously do not starve others, whatever the order.
#[test]
fn continuous_flushes_starve_no_request() {
    for (depth, queued_flush) in [(None, false), (Some(1), false), (Some(32), false), (Some(32), true)] {
        let own = QueueSpec { depth: 32, queued_flush, ..QueueSpec::default() };
        let spec = Spec { queue: own, ..spec::find("wd2500aaks").unwrap() };
        Runtime::new(1)
            .run(async {
                let disk = Rc::new(Disk::new(0, &spec, QueueOptions { depth, ..QueueOptions::default() }));
                let flushing = || {
                    let disk = disk.clone();
                    spawn(async move {
                        for _ in 0..2_000 {
                            disk.flush(Hints::default()).await.unwrap();
                        }
                    })
                };
                let clients = [flushing(), flushing()];
                sleep(Nanos(1_000)).await;
                order_of(&disk, &[(100, Class::Foreground), (9_000_000, Class::Foreground)]).await;
                let waited = now();
                assert!(waited < Nanos::from_millis(60), "depth {depth:?}, {queued_flush}: {waited}");
                drop(clients);
            })
            .unwrap();
    }
}
