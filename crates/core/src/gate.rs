//! A gate: many pass at once, until somebody closes it; then those who are inside finish, and those who come wait.
//!
//! Invariants: nobody is inside beside who closed it. First come, first served, whether to pass or to close it: who
//! waits is let in one after the other, in the order in which they came, and nobody who comes later overtakes them.
//!
//! Fault model: who waits or is inside may be dropped at any time; it leaves as if it had been done.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The gate.
#[derive(Default)]
pub struct Gate {
    inside: Cell<u64>,
    closed: Cell<bool>,
    line: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    alone: bool,
    waker: RefCell<Option<Waker>>,
}

/// Being inside, to the drop of it.
pub struct Inside<'a> {
    gate: &'a Gate,
    alone: bool,
}

impl Gate {
    /// Waits until it is open, and is inside with others.
    pub async fn pass(&self) -> Inside<'_> {
        self.enter(false).await
    }

    /// Waits until nobody is inside, and is inside alone.
    pub async fn close(&self) -> Inside<'_> {
        self.enter(true).await
    }

    /// Whether somebody closed it, or waits to.
    pub fn is_closed(&self) -> bool {
        self.closed.get() || self.line.borrow().iter().any(|waiter| waiter.alone)
    }

    /// Whether somebody waits.
    pub fn is_waited_for(&self) -> bool {
        !self.line.borrow().is_empty()
    }

    async fn enter(&self, alone: bool) -> Inside<'_> {
        if !self.line.borrow().is_empty() || !self.admits(alone) {
            let waiter = Rc::new(Waiter { alone, waker: RefCell::default() });
            self.line.borrow_mut().push_back(waiter.clone());
            let place = InLine { gate: self, waiter };
            poll_fn(|context| {
                if self.is_first(&place.waiter) && self.admits(alone) {
                    return Poll::Ready(());
                }
                place.waiter.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            })
            .await;
            // Inside before the place in line is left, which lets the next one look.
            return self.entered(alone);
        }
        self.entered(alone)
    }

    fn admits(&self, alone: bool) -> bool {
        !self.closed.get() && (!alone || self.inside.get() == 0)
    }

    fn entered(&self, alone: bool) -> Inside<'_> {
        if alone {
            self.closed.set(true);
        } else {
            self.inside.set(self.inside.get() + 1);
        }
        Inside { gate: self, alone }
    }

    fn is_first(&self, waiter: &Rc<Waiter>) -> bool {
        self.line.borrow().front().is_some_and(|first| Rc::ptr_eq(first, waiter))
    }

    /// The first in line looks again.
    fn call_first(&self) {
        let first = self.line.borrow().front().filter(|first| self.admits(first.alone)).cloned();
        first.and_then(|first| first.waker.take()).into_iter().for_each(Waker::wake);
    }
}

/// Leaves the line when it is let in, or dropped.
struct InLine<'a> {
    gate: &'a Gate,
    waiter: Rc<Waiter>,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.gate.line.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        self.gate.call_first();
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.alone {
            self.gate.closed.set(false);
        } else {
            self.gate.inside.set(self.gate.inside.get() - 1);
        }
        self.gate.call_first();
    }
}
