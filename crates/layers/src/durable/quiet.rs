//! Delayed work: a structure gets its second copy after a while without writes.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use seekless_core::runtime;

/// Whether a task waits for it.
#[derive(Default)]
pub struct Quiet(Rc<Cell<bool>>);

impl Quiet {
    /// Calls `then` once `generation` has not changed for a [`runtime::pause`] from `now`. One task waits at a time.
    pub fn wait<T: 'static>(
        &self,
        of: Weak<T>,
        mut now: u64,
        generation: impl Fn(&T) -> u64 + 'static,
        then: impl AsyncFnOnce(&T) + 'static,
    ) {
        if self.0.replace(true) {
            return;
        }
        let waits = self.0.clone();
        let work = async move {
            loop {
                runtime::sleep(runtime::pause()).await;
                let Some(of) = of.upgrade() else { return };
                let before = std::mem::replace(&mut now, generation(&of));
                if before == now {
                    waits.set(false);
                    return then(&of).await;
                }
            }
        };
        runtime::spawn(work).detach();
    }
}
