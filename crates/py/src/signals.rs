//! Work without the interpreter's lock, which a signal ends: Ctrl-C becomes `KeyboardInterrupt` within a second.
//!
//! Python runs its handlers of signals in its main thread only, so work in another thread goes on.

// A person waits in real time.
#![allow(clippy::disallowed_methods)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use seekless_core::runtime;

use crate::errors;

/// Interval of checks: each takes the interpreter's lock.
const INTERVAL: Duration = Duration::from_millis(50);

/// Checks for signals.
#[derive(Clone)]
pub struct Signals(Rc<State>);

struct State {
    last: Cell<Instant>,
    raised: RefCell<Option<PyErr>>,
}

impl Signals {
    /// Whether the work goes on.
    pub fn go_on(&self) -> bool {
        if self.0.raised.borrow().is_some() {
            return false;
        }
        if self.0.last.get().elapsed() < INTERVAL {
            return true;
        }
        self.0.last.set(Instant::now());
        #[allow(clippy::redundant_closure_for_method_calls)] // the method is of one lifetime
        let checked = Python::attach(|py| py.check_signals());
        let goes_on = checked.is_ok();
        self.0.raised.replace(checked.err());
        goes_on
    }
}

/// Does work without the lock. Runs in virtual time end by themselves at a signal; other work asks [`Signals`].
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Signals) -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let state = State { last: Cell::new(Instant::now()), raised: RefCell::new(None) };
        let signals = Signals(Rc::new(state));
        let check = signals.clone();
        let done = runtime::interruptible(move || !check.go_on(), || work(&signals));
        match signals.0.raised.take() {
            Some(signal) => Err(signal),
            None => done.map_err(|error| errors::raised(&error)),
        }
    })
}
