//! The runtime's guarantees: order, quiet, nesting, streams, and the same bits every time.

use super::*;
use crate::request::{Class, Op};
use crate::units::Extent;

fn recorded() -> (Rc<RefCell<Vec<String>>>, impl Fn(&str) + Clone) {
    let lines: Rc<RefCell<Vec<String>>> = Rc::default();
    let record = {
        let lines = lines.clone();
        move |line: &str| lines.borrow_mut().push(format!("{} {line}", now().0))
    };
    (lines, record)
}

#[test]
fn the_clock_jumps_and_one_instant_keeps_its_order() {
    let (lines, record) = recorded();
    let runtime = Runtime::new(1);
    let wait = |ns: u64, name: &'static str, record: Rc<dyn Fn(&str)>| async move {
        sleep(Nanos(ns)).await;
        record(name);
    };
    let record: Rc<dyn Fn(&str)> = Rc::new(record);
    runtime
        .run(async {
            let tasks = [(50, "a"), (20, "b"), (50, "c"), (0, "d")]
                .map(|(ns, name)| spawn(wait(ns, name, record.clone())));
            for task in tasks {
                task.await;
            }
        })
        .unwrap();
    assert_eq!(*lines.borrow(), ["0 d", "20 b", "50 a", "50 c"]);
    assert_eq!(runtime.now(), Nanos(50));
}

#[test]
fn quiet_comes_after_every_task_of_the_instant() {
    let (lines, record) = recorded();
    Runtime::new(1)
        .run(async {
            let device = spawn({
                let record = record.clone();
                async move {
                    sleep(Nanos(10)).await;
                    quiet().await;
                    record("device picks");
                }
            });
            for _ in 0..3 {
                let record = record.clone();
                spawn(async move {
                    sleep(Nanos(10)).await;
                    record("client asks");
                    spawn(async move { record("helper asks") }).detach();
                })
                .detach();
            }
            device.await;
        })
        .unwrap();
    let lines = lines.borrow();
    assert_eq!((lines.len(), lines[6].as_str()), (7, "10 device picks"), "{lines:?}");
}

#[test]
fn a_world_nests_in_another_with_its_own_clock() {
    let outer = Runtime::new(1);
    outer
        .run(async {
            sleep(Nanos(5)).await;
            let inner = Runtime::new(1);
            inner.run(sleep(Nanos(1_000))).unwrap_err();
            inner.run(async { sleep(Nanos(1_000)).await }).unwrap();
            assert_eq!((inner.now(), now()), (Nanos(1_000), Nanos(5)));
        })
        .unwrap();
}

#[test]
fn a_stall_is_reported_without_waiting() {
    let runtime = Runtime::new(1);
    let stalled = runtime.run(async {
        sleep(Nanos(7)).await;
        std::future::pending::<()>().await;
    });
    assert_eq!(stalled, Err(Stalled { at: Nanos(7), interrupted: false }));
}

#[test]
fn an_interrupted_run_ends_soon_and_later_ones_go_on() {
    let asleep = || async {
        for _ in 0..100_000 {
            sleep(Nanos(1)).await;
        }
    };
    let checks = Rc::new(Cell::new(0));
    let counted = checks.clone();
    let check = move || counted.replace(counted.get() + 1) > 1;
    let ended = interruptible(check, || {
        // A world in a world ends with it.
        Runtime::new(1).run(async { Runtime::new(1).run(asleep()).unwrap_err() }).unwrap()
    });
    assert!(ended.interrupted && ended.at < Nanos(30_000), "{ended}");
    assert_eq!(checks.get(), 3);
    assert_eq!(Runtime::new(1).run(asleep()), Ok(()));
    assert!(!super::has_to_end());
    assert!(interruptible(|| true, super::has_to_end) && !super::has_to_end());
    assert_eq!(interruptible(|| false, || Runtime::new(1).run(asleep())), Ok(()));
}

#[test]
fn a_dropped_task_and_its_sleep_are_forgotten() {
    let runtime = Runtime::new(1);
    runtime
        .run(async {
            let held = Rc::new(());
            let task = spawn({
                let held = held.clone();
                async move {
                    sleep(Nanos(1_000_000)).await;
                    drop(held);
                }
            });
            sleep(Nanos(1)).await;
            drop(task);
            sleep(Nanos(1)).await;
            assert_eq!(Rc::strong_count(&held), 1);
        })
        .unwrap();
    assert_eq!(runtime.now(), Nanos(2));
}

#[test]
fn a_dropped_world_drops_its_tasks() {
    let held = Rc::new(());
    let runtime = Runtime::new(1);
    runtime
        .run(async {
            for _ in 0..3 {
                let (held, waker) = (held.clone(), Rc::new(RefCell::new(None)));
                // A cycle: the task holds the place where its own waker is stored.
                spawn(poll_fn(move |context| {
                    waker.replace(Some(context.waker().clone()));
                    if Rc::strong_count(&held) == 0 { Poll::Ready(()) } else { Poll::Pending }
                }))
                .detach();
            }
            sleep(Nanos(1)).await;
        })
        .unwrap();
    assert_eq!(Rc::strong_count(&held), 4);
    drop(runtime);
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_dropped_sleep_does_not_come_before_quiet() {
    let runtime = Runtime::new(1);
    runtime
        .run(async {
            let task = spawn(sleep(Nanos(10)));
            spawn(async { sleep(Nanos(20)).await }).detach();
            sleep(Nanos(10)).await;
            let other = spawn(sleep(Nanos(0)));
            drop(task);
            drop(other);
            quiet().await;
            assert_eq!(now(), Nanos(10));
        })
        .unwrap();
}

#[test]
fn offloaded_work_arrives_after_its_cost() {
    let runtime = Runtime::new(1);
    let sum = runtime.run(async { offload(|| (1..=100_u64).sum::<u64>(), |sum| Nanos(*sum)).await }).unwrap();
    assert_eq!((sum, runtime.now()), (5050, Nanos(5050)));
}

/// Debug and release must agree: the number below was printed by a debug build, and this test runs in both.
#[test]
fn equal_inputs_give_equal_hashes_in_every_build() {
    let run = |seed| {
        let runtime = Runtime::new(seed);
        runtime
            .run(async {
                let mut rng = rng("client");
                for id in 0..100 {
                    sleep(Nanos(rng.below(1_000))).await;
                    let extent = Extent::new(rng.below(1 << 40), 8);
                    event(&Event::Request { device: 1, id, op: Op::Read, extent, class: Class::Foreground });
                }
            })
            .unwrap();
        runtime.event_hash()
    };
    assert_eq!(run(42), run(42));
    assert_ne!(run(42), run(43));
    assert_eq!(run(42), 0x65fc_2a30_f589_4f82);
}

#[test]
fn edges_are_counted_in_their_own_world_and_are_no_events() {
    let outer = Runtime::new(1);
    outer
        .run(async {
            edge("second");
            edge("first");
            let inner = Runtime::new(2);
            inner.run(async { edge("inner") }).unwrap();
            assert_eq!(inner.edges(), [("inner", 1)]);
            // Equal, and elsewhere in memory.
            edge(String::from("second").leak());
        })
        .unwrap();
    assert_eq!(outer.edges(), [("first", 1), ("second", 2)]);
    assert_eq!((outer.events(), outer.event_hash()), (0, Runtime::new(1).event_hash()));
}

/// An environment in which every turn takes a millisecond more than requested, and which wakes its waiter in the third.
struct Late {
    turns: Cell<u32>,
    now: Cell<Nanos>,
    waiter: RefCell<Option<Waker>>,
}

impl Driver for Late {
    fn turn(&self, until: Option<Nanos>) -> Nanos {
        self.turns.set(self.turns.get() + 1);
        if self.turns.get() == 3 {
            self.waiter.take().into_iter().for_each(Waker::wake);
        }
        self.now.set(until.unwrap_or(self.now.get()) + Nanos::from_millis(1));
        self.now.get()
    }
}

#[test]
fn a_live_run_takes_the_time_of_the_world_outside_and_waits_for_it() {
    let driver = Late { turns: Cell::new(0), now: Cell::default(), waiter: RefCell::default() };
    let runtime = Runtime::new(1);
    let ran = runtime.run_live(
        async {
            sleep(Nanos::from_millis(5)).await;
            assert_eq!(now(), Nanos::from_millis(6), "a turn is as late as it is");
            quiet().await;
            assert_eq!((now(), driver.turns.get()), (Nanos::from_millis(6), 1), "quiet needs no turn");
            let mut polled = false;
            poll_fn(|context| {
                driver.waiter.replace(Some(context.waker().clone()));
                if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            driver.turns.get()
        },
        &driver,
    );
    assert_eq!(ran, Ok(3));
}
