//! The queue in front of a device: order of classes, yielding, depth, merging, errors, tickets.

use proptest::prelude::*;
use seekless_core::runtime::{Runtime, now, sleep, spawn};
use seekless_core::{Geometry, Nanos, Ticket};

use super::*;
use crate::component::{Disk, Simulated};
use crate::queue::Yielding;
use crate::scheduler::Policy;
use crate::spec;

/// Time that the device of the tests takes for a command.
const SERVICE: Nanos = Nanos::from_millis(10);

/// A device that takes a fixed time for each command, any number at once, and notes what it does.
#[derive(Default)]
struct Noting {
    /// Commands in the order in which they came.
    came: RefCell<Vec<(Op, Extent, Class)>>,
    /// Commands in it, of all classes and of background and free ones, and the most that there were.
    now: Cell<[u32; 2]>,
    most: Cell<[u32; 2]>,
    /// The sector that cannot be read.
    rotten: Option<u64>,
    fast_zeroes: Cell<bool>,
}

impl Noting {
    async fn serve(&self, op: Op, at: Extent, how: &Hints) {
        self.came.borrow_mut().push((op, at, how.class));
        let counts = [1, u32::from(how.class > Class::Foreground)];
        let ([all, some], [most, most_of_some]) = (self.now.get(), self.most.get());
        let (all, some) = (all + counts[0], some + counts[1]);
        self.now.set([all, some]);
        self.most.set([most.max(all), most_of_some.max(some)]);
        sleep(SERVICE).await;
        let [all, some] = self.now.get();
        self.now.set([all - counts[0], some - counts[1]]);
    }

    fn starts(&self) -> Vec<u64> {
        self.came.borrow().iter().map(|(_, at, _)| at.start.0).collect()
    }
}

impl BlockDevice for Noting {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(1 << 30)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.serve(Op::Read, at, &how).await;
            if self.rotten.is_some_and(|rotten| at.overlaps(Extent::new(rotten, 1))) {
                return Err(IoError::new(ErrorKind::Medium, "noting", Some(at), "unreadable"));
            }
            for sector in 0..at.sectors {
                let byte = ((at.start.0 + sector) % 251) as u8;
                into.put(512 * sector as usize, &[byte; 512]);
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, _from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.serve(Op::Write, at, &how).await;
            Ok(())
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.serve(Op::Flush, Extent::default(), &how).await;
            Ok(())
        })
    }

    fn write_zeroes(&self, _at: Extent, _how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.fast_zeroes.set(zeroes.only_if_fast);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn options(depth: u32, anticipation_ms: u64) -> QueueOptions {
    let yielding = Yielding { anticipation: Nanos::from_millis(anticipation_ms), most: 1 };
    QueueOptions { depth: Some(depth), yielding: Some(yielding), ..QueueOptions::default() }
}

fn on<T>(
    device: Noting,
    options: QueueOptions,
    work: impl AsyncFnOnce(Rc<QueuedDevice>, Rc<Noting>) -> T,
) -> T {
    let run = async {
        let device = Rc::new(device);
        let queued = Rc::new(QueuedDevice::new(0, device.clone(), options));
        work(queued, device).await
    };
    Runtime::new(1).run(run).unwrap()
}

fn hints(class: Class) -> Hints {
    Hints { class, ..Hints::default() }
}

/// Reads 8 sectors; how long that took.
async fn read(device: &dyn BlockDevice, start: u64, how: Hints) -> Result<Nanos, ErrorKind> {
    let began = now();
    let answer = device.read(Extent::new(start, 8), Buffer::zeroed(8 * 512), how).await;
    let buffer = answer.map_err(|error| error.kind())?;
    let expected: Vec<u8> = (start..start + 8).flat_map(|sector| [(sector % 251) as u8; 512]).collect();
    assert_eq!(buffer.to_vec(), expected, "each request gets its own sectors");
    Ok(now().since(began))
}

/// A background client that always has `outstanding` requests, until it is dropped.
fn background(device: &Rc<QueuedDevice>, outstanding: u64) -> Vec<runtime::Task<()>> {
    let client = |number: u64| {
        let device = device.clone();
        spawn(async move {
            for i in 0.. {
                read(&*device, (number << 20) + i * 16, hints(Class::Background)).await.unwrap();
            }
        })
    };
    (0..outstanding).map(client).collect()
}

#[test]
fn a_reader_beside_background_work_waits_for_one_command_of_it() {
    for (depth, anticipation) in [(1, 2), (32, 2), (1, 0), (32, 0)] {
        on(Noting::default(), options(depth, anticipation), async |queued, noting| {
            let mover = background(&queued, 64);
            sleep(Nanos::from_millis(55)).await;
            let mut times = Vec::new();
            for i in 0..500 {
                times.push(read(&*queued, (1 << 29) + i * 1000, Hints::default()).await.unwrap());
            }
            drop(mover);
            times.sort();
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            assert!(longest <= Nanos(2 * SERVICE.0), "depth {depth}: {longest}");
            assert!(anticipation == 0 || median == SERVICE, "depth {depth}: {median}");
            let moved = noting.came.borrow().iter().filter(|(.., class)| *class == Class::Background).count();
            assert!(moved > 100, "depth {depth}: the background has its share: {moved}");
        });
    }
}

#[test]
fn without_a_queue_the_reader_waits_for_all() {
    let spec = spec::find("wd2500aaks").unwrap();
    let slowest = |queued: bool| {
        let run = async {
            let inside = QueueOptions { depth: Some(32), ..QueueOptions::default() };
            let disk = Rc::new(Disk::new(0, &spec, inside)).device();
            // As a kernel does, the disk does not know classes.
            let front =
                if queued { options(32, 2) } else { QueueOptions { policy: Policy::Fcfs, ..options(32, 0) } };
            let class = if queued { Class::Background } else { Class::Foreground };
            let device = Rc::new(QueuedDevice::new(1, Rc::new(Classless(disk)), front));
            let mover = (0..32).map(|client: u64| {
                let device = device.clone();
                spawn(async move {
                    for i in 0.. {
                        let at = Extent::new((client * 7_654_321 + i * 1_234_567) % 400_000_000, 8);
                        device.read(at, Buffer::hollow_sectors(8), hints(class)).await.unwrap();
                    }
                })
            });
            let mover: Vec<_> = mover.collect();
            let mut times = Vec::new();
            for i in 0..300_u64 {
                let (began, at) = (now(), Extent::new(i * 31_234_567 % 400_000_000, 8));
                device.read(at, Buffer::hollow_sectors(8), Hints::default()).await.unwrap();
                times.push(now().since(began));
            }
            drop(mover);
            times.sort();
            times[times.len() * 99 / 100]
        };
        Runtime::new(1).run(run).unwrap()
    };
    let (with, without) = (slowest(true), slowest(false));
    assert!(with.0 * 4 < without.0, "{with} with a queue, {without} without");
}

/// A device that takes no notice of classes.
struct Classless(Rc<dyn BlockDevice>);

impl BlockDevice for Classless {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.0)
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        self.0.read(at, into, Hints::default())
    }
}

#[test]
fn free_requests_wait_for_a_pause_and_then_go() {
    on(Noting::default(), options(4, 3), async |queued, _| {
        let free = {
            let queued = queued.clone();
            spawn(async move {
                sleep(Nanos(1)).await;
                read(&*queued, 80, hints(Class::Free)).await.unwrap();
                now()
            })
        };
        for i in 0..50 {
            read(&*queued, 1000 * i, Hints::default()).await.unwrap();
            sleep(Nanos::from_millis(2)).await;
        }
        let last = Nanos(50 * SERVICE.0 + 49 * 2_000_000);
        assert_eq!(free.await, last + Nanos::from_millis(3) + SERVICE);
    });
}

#[test]
fn a_merged_command_answers_each_request_and_its_error_only_the_one_that_has_it() {
    let read_all = async |queued: Rc<QueuedDevice>| {
        let reads = (0..4).map(|i| {
            let queued = queued.clone();
            spawn(async move { read(&*queued, 8 * i, Hints::default()).await.map(drop) })
        });
        let mut answers = Vec::new();
        for read in reads.collect::<Vec<_>>() {
            answers.push(read.await);
        }
        answers
    };
    on(Noting::default(), options(1, 0), async |queued, noting| {
        assert_eq!(read_all(queued).await, [Ok(()); 4]);
        assert_eq!(noting.came.borrow()[..], [(Op::Read, Extent::new(0, 32), Class::Foreground)]);
    });
    let rotten = Noting { rotten: Some(17), ..Noting::default() };
    on(rotten, options(1, 0), async |queued, noting| {
        let expected = [Ok(()), Ok(()), Err(ErrorKind::Medium), Ok(())];
        assert_eq!(read_all(queued).await, expected);
        assert_eq!(noting.starts(), [0, 0, 8, 16, 24]);
    });
}

#[test]
fn tickets_abort_and_promote_requests_that_yield() {
    on(Noting::default(), options(8, 1_000), async |queued, noting| {
        read(&*queued, 0, Hints::default()).await.unwrap();
        let ticketed = |start: u64, ticket: &Ticket| {
            let (queued, how) =
                (queued.clone(), Hints { ticket: Some(ticket.clone()), ..hints(Class::Free) });
            spawn(async move { (read(&*queued, start, how).await.map(drop), now()) })
        };
        let (promoted, aborted) = (Ticket::new(), Ticket::new());
        let (first, second) = (ticketed(1_000, &promoted), ticketed(2_000, &aborted));
        sleep(Nanos::from_millis(100)).await;
        assert_eq!(noting.starts(), [0], "both yield");
        assert_eq!(queued.counts()[Class::Free as usize].waiting, 2);
        aborted.abort();
        assert_eq!(second.await, (Err(ErrorKind::Aborted), now()));
        promoted.promote(Class::Foreground);
        assert_eq!(first.await, (Ok(()), Nanos::from_millis(110) + SERVICE));
        assert_eq!(noting.starts(), [0, 1_000]);
        let counts = queued.counts()[Class::Foreground as usize];
        assert_eq!((counts.issued, counts.waited), (2, Nanos::from_millis(100)));
    });
}

#[test]
fn flushes_are_answered_by_one_and_zeroes_keep_their_flags() {
    on(Noting::default(), options(1, 5), async |queued, noting| {
        let how = hints(Class::Background);
        let mover = background(&queued, 2);
        let flushes: Vec<_> = (0..5)
            .map(|_| {
                let (queued, how) = (queued.clone(), how.clone());
                spawn(async move { queued.flush(how).await.unwrap() })
            })
            .collect();
        for flush in flushes {
            flush.await;
        }
        drop(mover);
        let flushes = noting.came.borrow().iter().filter(|(op, ..)| *op == Op::Flush).count();
        assert_eq!(flushes, 1);
        let zeroes = Zeroes { only_if_fast: true, may_unmap: false };
        queued.write_zeroes(Extent::new(0, 8), how, zeroes).await.unwrap();
        assert!(noting.fast_zeroes.get());
    });
}

#[derive(Clone, Debug)]
struct Ticketed {
    after_ms: u64,
    start: u64,
    class: Class,
    write: bool,
    /// Promoted or aborted after this many milliseconds.
    ticket: Option<(u64, bool)>,
}

fn ticketed() -> impl Strategy<Value = Ticketed> {
    let class = prop::sample::select(Class::ALL.to_vec());
    let ticket = prop::option::of((0..60_u64, any::<bool>()));
    (0..300_u64, 0..64_u64, class, any::<bool>(), ticket).prop_map(
        |(after_ms, page, class, write, ticket)| Ticketed { after_ms, start: 8 * page, class, write, ticket },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each request is answered once; no more than the depth are in the device, nor more of the background than may be;
    /// and the same requests go in the same order.
    #[test]
    fn all_requests_are_answered_and_the_depth_is_kept(
        requests in prop::collection::vec(ticketed(), 1..80),
        depth in 1..6_u32,
        anticipation in 0..20_u64,
        most in 1..3_u32,
        merge: bool,
        policy in prop::sample::select(vec![Policy::Fcfs, Policy::CLook, Policy::Look, Policy::Sstf]),
    ) {
        let yielding = Yielding { anticipation: Nanos::from_millis(anticipation), most };
        let options = QueueOptions { merge, policy, yielding: Some(yielding), ..options(depth, 0) };
        let run = || on(Noting::default(), options, async |queued, noting| {
            let mut tasks = Vec::new();
            for request in requests.clone() {
                let queued = queued.clone();
                tasks.push(spawn(async move {
                    let Ticketed { after_ms, start, class, write, ticket } = request;
                    sleep(Nanos::from_millis(after_ms)).await;
                    let mut how = hints(class);
                    if let Some((later, aborts)) = ticket {
                        let ticket = Ticket::new();
                        how.ticket = Some(ticket.clone());
                        spawn(async move {
                            sleep(Nanos::from_millis(later)).await;
                            if aborts { ticket.abort() } else { ticket.promote(Class::Urgent) }
                        }).detach();
                    }
                    let aborts = ticket.is_some_and(|(_, aborts)| aborts);
                    let answer = if write {
                        let at = Extent::new(start, 8);
                        let done = queued.write(at, Buffer::hollow_sectors(8), how).await;
                        done.map_err(|error| error.kind())
                    } else {
                        read(&*queued, start, how).await.map(drop)
                    };
                    assert!(answer.is_ok() || (aborts && answer == Err(ErrorKind::Aborted)));
                    (start, now())
                }));
            }
            let mut ends = Vec::new();
            for task in tasks {
                ends.push(task.await);
            }
            let [all, yielding] = noting.most.get();
            assert!(all <= depth && yielding <= most, "{all} in the device, {yielding} that yield");
            assert_eq!(queued.in_device(), 0);
            assert!(queued.counts().iter().all(|counts| counts.waiting == 0));
            ends
        });
        prop_assert_eq!(run(), run());
    }
}
