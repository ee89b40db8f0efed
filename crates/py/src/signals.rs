//! Work without the interpreter's lock, which a signal ends: Ctrl-C becomes `KeyboardInterrupt` within a second.
//!
//! Python runs its handlers of signals in its main thread only, so work in another thread goes on. What the work calls
//! in Python may raise as well: the work ends as it does at a signal.

// A person waits in real time.
#![allow(clippy::disallowed_methods)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use seekless_core::runtime;

use crate::{errors, layer};

/// Interval of checks: each takes the interpreter's lock.
const INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    /// What this thread's work has raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Ends the work of this thread with an exception; the first one counts.
pub fn raise(error: PyErr) {
    RAISED.with_borrow_mut(|raised| {
        raised.get_or_insert(error);
    });
}

/// Whether the work of this thread has to end.
fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Checks for signals.
#[derive(Clone)]
pub struct Signals(Rc<Cell<Instant>>);

impl Signals {
    /// Whether the work goes on.
    pub fn go_on(&self) -> bool {
        if has_raised() {
            return false;
        }
        if self.0.get().elapsed() < INTERVAL {
            return true;
        }
        self.0.set(Instant::now());
        #[allow(clippy::redundant_closure_for_method_calls)] // the method is of one lifetime
        let checked = Python::attach(|py| py.check_signals());
        checked.map_err(raise).is_ok()
    }
}

/// Does work without the lock. Runs in virtual time end by themselves at a signal; other work asks [`Signals`].
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Signals) -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        // Work may call Python, which may call this again.
        let outer = RAISED.take();
        layer::forget();
        let signals = Signals(Rc::new(Cell::new(Instant::now())));
        let check = signals.clone();
        let done = runtime::interruptible(move || !check.go_on(), || work(&signals));
        match RAISED.replace(outer) {
            Some(raised) => Err(raised),
            None => done.map_err(|error| errors::raised(&error)),
        }
    })
}
