//! Guarantees of a swap: nothing is lost, nothing is overtaken, and a failure changes nothing.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::*;
use crate::Top;
use crate::buffer::Buffer;
use crate::device::{ExtentState, IoFuture, Zeroes, io};
use crate::request::Op;
use crate::runtime::{Runtime, now, sleep, spawn};
use crate::units::{Extent, Nanos};

/// Requests by child: its name and the sector.
type Requests = Rc<RefCell<Vec<(&'static str, u64)>>>;

/// A child that takes time for each request, and records their sectors in order.
struct Child {
    name: &'static str,
    sectors: u64,
    requests: Requests,
    in_flight: Cell<u64>,
    fails: Cell<bool>,
}

impl Child {
    fn new(name: &'static str, sectors: u64, requests: &Requests) -> Rc<Child> {
        let (requests, in_flight, fails) = (requests.clone(), Cell::new(0), Cell::new(false));
        Rc::new(Child { name, sectors, requests, in_flight, fails })
    }

    async fn takes_time(&self, at: Extent) -> Result<(), IoError> {
        self.requests.borrow_mut().push((self.name, at.start.0));
        self.in_flight.set(self.in_flight.get() + 1);
        sleep(Nanos(100)).await;
        self.in_flight.set(self.in_flight.get() - 1);
        if self.fails.get() {
            return Err(IoError::new(ErrorKind::Medium, self.name, None, "it is broken"));
        }
        Ok(())
    }
}

#[test]
fn its_cache_counts_as_volatile_since_the_next_childs_may_be() {
    let child = Child::new("child", 8, &Requests::default());
    assert!(!child.geometry().volatile_cache);
    assert!(BlockDevice::geometry(&Switch::new(child.clone())).volatile_cache);
    assert!(Top::new(child).geometry().volatile_cache);
}

/// The sector that stands for a flush.
const FLUSH: u64 = 999;

impl BlockDevice for Child {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(self.sectors)
    }

    fn read(&self, at: Extent, into: Buffer, _: Hints) -> IoFuture<'_, Buffer> {
        io(async move { self.takes_time(at).await.map(|()| into) })
    }

    fn write(&self, at: Extent, _: Buffer, _: Hints) -> IoFuture<'_, ()> {
        io(self.takes_time(at))
    }

    fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
        io(self.takes_time(Extent::new(FLUSH, 1)))
    }

    fn discard(&self, at: Extent, _: Hints) -> IoFuture<'_, ()> {
        io(self.takes_time(at))
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move { self.takes_time(at).await.map(|()| Vec::new()) })
    }

    fn prefetch(&self, at: Extent, _: Hints) -> IoFuture<'_, ()> {
        io(self.takes_time(at))
    }

    fn estimate(&self, _: Op, _: Extent, _: &Hints) -> Option<Nanos> {
        Some(Nanos(self.sectors))
    }
}

/// Submits a request of one of the kinds, without waiting.
fn submit(switch: &Rc<Switch>, sector: u64) -> crate::runtime::Task<Result<(), IoError>> {
    let top = Top::over(switch.clone());
    spawn(async move {
        let (at, how) = (Extent::new(sector, 1), Hints::default());
        match sector % 6 {
            0 => top.read(at, Buffer::zeroed(512), how).await.map(drop),
            1 => top.write(at, Buffer::zeroed(512), how).await,
            2 => top.discard(at, how).await,
            3 => top.write_zeroes(at, how, Zeroes::default()).await,
            4 => top.extents(at).await.map(drop),
            _ => top.prefetch(at, how).await,
        }
    })
}

fn device(child: &Rc<Child>) -> Rc<dyn BlockDevice> {
    child.clone()
}

fn run(test: impl AsyncFnOnce(Requests)) -> BTreeSet<&'static str> {
    let runtime = Runtime::new(1);
    runtime.run(test(Requests::default())).expect("no task waits for ever");
    runtime.edges().into_iter().map(|(edge, _)| edge).collect()
}

#[test]
fn requests_during_a_swap_go_to_the_new_child_in_order() {
    let edges = run(async |requests| {
        let (old, new) = (Child::new("old", 60, &requests), Child::new("new", 60, &requests));
        let switch = Rc::new(Switch::new(device(&old)));
        let before: Vec<_> = (0..6).map(|sector| submit(&switch, sector)).collect();
        sleep(Nanos(10)).await;
        let swap = {
            let (switch, old, new) = (switch.clone(), old.clone(), device(&new));
            spawn(async move {
                let change = async {
                    assert_eq!(
                        (now(), old.in_flight.get()),
                        (Nanos(200), 0),
                        "after those in flight, and a flush"
                    );
                    sleep(Nanos(50)).await;
                    Ok(new)
                };
                switch.swap(change).await
            })
        };
        sleep(Nanos(10)).await;
        let held: Vec<_> = (6..30).map(|sector| submit(&switch, sector)).collect();
        swap.await.unwrap();
        assert_eq!(now(), Nanos(250));
        // Held requests have not had their turns yet.
        let last = submit(&switch, 30);
        for task in before.into_iter().chain(held).chain([last]) {
            task.await.unwrap();
        }
        let first = (0..6).map(|sector| ("old", sector)).chain([("old", FLUSH)]);
        assert_eq!(
            *requests.borrow(),
            first.chain((6..=30).map(|sector| ("new", sector))).collect::<Vec<_>>()
        );
    });
    assert!(edges.contains(EDGES[0]));
}

#[test]
fn a_change_that_fails_leaves_the_old_child_in_use() {
    let edges = run(async |requests| {
        let old = Child::new("old", 60, &requests);
        let switch = Rc::new(Switch::new(device(&old)));
        let held = submit(&switch, 1);
        let refused = IoError::new(ErrorKind::NoSpace, "new", None, "it is full");
        let error = switch.swap(async { Err(refused.clone()) }).await.unwrap_err();
        assert_eq!(error, refused);
        held.await.unwrap();
        let small = Child::new("small", 59, &requests);
        let error = switch.swap(async { Ok(device(&small)) }).await.unwrap_err();
        assert!(error.to_string().contains("found a child of 59 sectors, expected 60 or more"), "{error}");
        submit(&switch, 2).await.unwrap();
        assert!(requests.borrow().iter().all(|(name, _)| *name == "old"));
        assert_eq!(Top::over(switch).geometry().sectors, 60);
    });
    assert_eq!(edges, BTreeSet::from([EDGES[1]]));
}

#[test]
fn a_page_of_which_a_write_failed_is_rewritten_before_the_child_changes() {
    let edges = run(async |requests| {
        let (old, new) = (Child::new("old", 60, &requests), Child::new("new", 60, &requests));
        let switch = Rc::new(Switch::new(device(&old)));
        let top = Top::over(switch.clone());
        let how = Hints::default;
        old.fails.set(true);
        for sector in [1, 17, 33, 58] {
            top.write(Extent::new(sector, 1), Buffer::zeroed(512), how()).await.unwrap_err();
        }
        top.discard(Extent::new(41, 1), how()).await.unwrap_err();
        assert!(switch.swap(async { Ok(device(&new)) }).await.is_err(), "it cannot be rewritten");
        old.fails.set(false);
        // A whole page, through the switch as a device; a part; and one that may have had no effect.
        switch.write(Extent::new(16, 8), Buffer::zeroed(4_096), how()).await.unwrap();
        switch.write(Extent::new(33, 1), Buffer::zeroed(512), how()).await.unwrap();
        top.discard(Extent::new(40, 8), how()).await.unwrap();
        requests.borrow_mut().clear();
        switch.swap(async { Ok(device(&new)) }).await.unwrap();
        let rewritten = [0, 32, 40, 56].map(|first| [("old", first); 2]).concat();
        assert_eq!(*requests.borrow(), [rewritten, vec![("old", FLUSH)]].concat());
        requests.borrow_mut().clear();
        switch.swap(async { Ok(device(&old)) }).await.unwrap();
        assert_eq!(*requests.borrow(), [("new", FLUSH)], "once");
    });
    assert!(edges.contains(EDGES[2]));
}

#[test]
fn a_child_that_cannot_flush_stays() {
    run(async |requests| {
        let old = Child::new("old", 60, &requests);
        old.fails.set(true);
        let switch = Rc::new(Switch::new(device(&old)));
        let new = Child::new("new", 60, &requests);
        let changed = Cell::new(false);
        let change = async {
            changed.set(true);
            Ok(device(&new))
        };
        assert_eq!(switch.swap(change).await.unwrap_err().kind(), ErrorKind::Medium);
        assert!(!changed.get(), "nothing is changed over what may be lost");
        assert!(Rc::ptr_eq(&switch.child(), &device(&old)));
    });
}

#[test]
fn a_change_that_is_dropped_lets_requests_go_on() {
    run(async |requests| {
        let old = Child::new("old", 60, &requests);
        let switch = Rc::new(Switch::new(device(&old)));
        let swap = {
            let switch = switch.clone();
            spawn(async move { switch.swap(std::future::pending()).await })
        };
        sleep(Nanos(500)).await;
        let held = submit(&switch, 1);
        sleep(Nanos(500)).await;
        assert!(!held.is_finished());
        drop(swap);
        held.await.unwrap();
    });
}

#[test]
fn changes_go_one_after_the_other_and_requests_between_them() {
    run(async |requests| {
        let children: Vec<_> = ["a", "b", "c"].map(|name| Child::new(name, 60, &requests)).to_vec();
        let switch = Rc::new(Switch::new(device(&children[0])));
        let swap = |to: usize| {
            let (switch, new) = (switch.clone(), device(&children[to]));
            spawn(async move {
                let change = async {
                    sleep(Nanos(100)).await;
                    Ok(new)
                };
                switch.swap(change).await
            })
        };
        let (first, between, second) = (swap(1), submit(&switch, 7), swap(2));
        let after = submit(&switch, 8);
        for task in [first, between, second, after] {
            task.await.unwrap();
        }
        assert_eq!(*requests.borrow(), [("a", FLUSH), ("b", 7), ("b", FLUSH), ("c", 8)]);
        assert_eq!(
            Top::over(switch).estimate(Op::Read, Extent::new(0, 1), &Hints::default()),
            Some(Nanos(60))
        );
    });
}

#[test]
fn every_edge_is_listed_and_stands_in_the_code() {
    let source = [include_str!("mod.rs"), include_str!("failed_writes.rs")].concat();
    let named = source.split("edge(\"").skip(1).filter_map(|rest| rest.split('"').next());
    assert_eq!(named.collect::<BTreeSet<_>>(), EDGES.iter().copied().collect());
}
