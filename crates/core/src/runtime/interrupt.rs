//! Runs that end before their time: all tasks wait, or the run was interrupted from outside, such as by a Python
//! program's Ctrl-C.
//!
//! Invariant: a run that is not interrupted has the same events as one that cannot be.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::units::Nanos;

/// Advances of a world between two checks: less than a hundredth of a second.
const ADVANCES: u32 = 4096;

thread_local! {
    static CHECK: RefCell<Option<Rc<dyn Fn() -> bool>>> = const { RefCell::new(None) };
    static ADVANCED: Cell<u32> = const { Cell::new(0) };
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// All tasks wait, and no timer will wake one; or the run was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// Time of the stall.
    pub at: Nanos,
    /// Whether it was interrupted from outside: see [`interruptible`].
    pub interrupted: bool,
}

impl Stalled {
    /// A run of this thread that ended early at `at`.
    pub fn new(at: Nanos) -> Stalled {
        Stalled { at, interrupted: INTERRUPTED.get() }
    }
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interrupted {
            return write!(f, "the run was interrupted at {}", self.at);
        }
        write!(f, "the run stalled at {}: every task waits and no timer is set", self.at)
    }
}

impl std::error::Error for Stalled {}

/// Restores the check of an outer call when it is dropped, also by a panic.
struct Outer(Option<Rc<dyn Fn() -> bool>>);

impl Drop for Outer {
    fn drop(&mut self) {
        CHECK.with(|check| check.replace(self.0.take()));
        INTERRUPTED.set(false);
    }
}

/// Carries out `work`, whose runs in virtual time end as soon as `check`, called again and again, returns true. They
/// end as stalled runs do: with an error, which the caller knows to be its own interruption.
pub fn interruptible<T>(check: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let _outer = Outer(CHECK.with(|current| current.replace(Some(Rc::new(check)))));
    work()
}

/// Whether the runs of this thread have to end.
pub(super) fn is_interrupted() -> bool {
    let advanced = ADVANCED.get().wrapping_add(1);
    ADVANCED.set(advanced);
    if advanced % ADVANCES == 0 { has_to_end() } else { INTERRUPTED.get() }
}

/// Whether work inside [`interruptible`] has to end, for long work that is no run: it asks every few milliseconds, and
/// its result is of no use after this. False outside of it.
pub fn has_to_end() -> bool {
    if !INTERRUPTED.get() {
        let check = CHECK.with(|check| check.borrow().clone());
        INTERRUPTED.set(check.is_some_and(|check| check()));
    }
    INTERRUPTED.get()
}
