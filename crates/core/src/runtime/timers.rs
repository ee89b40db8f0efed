//! Timers: a heap of (time, sequence), with the wake-ups in a table so that a dropped sleep costs nothing and an entry
//! in the heap stays three words.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use slab::Slab;

use super::{Wake, World};
use crate::units::Nanos;

/// The timers of a world.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    waiting: Slab<(u64, Wake)>,
    set: u64,
}

impl Timers {
    pub fn set(&mut self, at: Nanos, wake: Wake) -> usize {
        self.set += 1;
        let slot = self.waiting.insert((self.set, wake));
        self.heap.push(Reverse((at, self.set, slot)));
        slot
    }

    /// A dropped sleep leaves its entry in the heap; its sequence number shows that it is stale.
    fn is_set(&self, sequence: u64, slot: usize) -> bool {
        self.waiting.get(slot).is_some_and(|(waiting, _)| *waiting == sequence)
    }

    /// When the next live timer is due.
    pub fn next_at(&mut self) -> Option<Nanos> {
        while let Some(&Reverse((at, sequence, slot))) = self.heap.peek() {
            if self.is_set(sequence, slot) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next live timer.
    pub fn pop(&mut self) -> Option<(Nanos, u64, Wake)> {
        self.next_at()?;
        let Reverse((at, sequence, slot)) = self.heap.pop()?;
        Some((at, sequence, self.waiting.remove(slot).1))
    }
}

/// See [`super::sleep_until`].
pub struct Sleep {
    world: Rc<World>,
    at: Nanos,
    slot: Option<(u64, usize)>,
}

impl Sleep {
    pub fn new(world: Rc<World>, at: Nanos) -> Sleep {
        Sleep { world, at, slot: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now.get() >= self.at {
            return Poll::Ready(());
        }
        let world = self.world.clone();
        let mut timers = world.timers.borrow_mut();
        match self.slot {
            Some((sequence, slot)) if timers.is_set(sequence, slot) => {
                timers.waiting[slot].1 = Wake::Task(context.waker().clone());
            }
            _ => {
                let slot = timers.set(self.at, Wake::Task(context.waker().clone()));
                self.slot = Some((timers.set, slot));
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some((sequence, slot)) = self.slot else { return };
        let Ok(mut timers) = self.world.timers.try_borrow_mut() else { return };
        if timers.is_set(sequence, slot) {
            timers.waiting.remove(slot);
        }
    }
}
