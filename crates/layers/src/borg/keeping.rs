//! The learned workload is kept: read at opening, written at a clean stop, after each reconfiguration and from time to
//! time.
//!
//! Invariants: no request waits for it; of two states the later one is written last. Faults: what cannot be read or was
//! not written whole is learned anew; an error of a write in the background is retried at the next time.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::runtime;
use seekless_core::{Class, Extent, Hints, IoError, Mode, Nanos, PAGE_SECTORS, RangeLocks, Ticket};

use super::Borg;
use super::saved::{Bounds, Saved};
use super::store::LearnedState;

/// Time between two writes of what is learned while there are requests.
const INTERVAL: Nanos = Nanos::from_millis(600_000);
/// Virtual time of encoding per byte.
const ENCODE_NS: u64 = 20;

/// State of keeping.
#[derive(Default)]
pub(super) struct Keeping {
    /// Whether anything is kept: not in rehearsals, nor without an area.
    enabled: Cell<bool>,
    /// Held by the task that writes.
    writing: RangeLocks,
    /// Whether a task is writing, or waits to.
    waiting: Cell<bool>,
    /// When it was last written, and what was known then.
    last: Cell<(Nanos, u64)>,
    /// Requests that were known when the layer was opened.
    pub recalled: Cell<u64>,
    /// Whether what was found at opening was not whole.
    pub damaged: Cell<bool>,
}

impl Borg {
    /// Takes up what was learned before, if it was kept.
    pub(super) async fn recall(&self) -> Result<(), IoError> {
        let keeping = &self.keeping;
        keeping.enabled.set(true);
        keeping.last.set((runtime::now(), 0));
        let saved = match self.store.read_learned().await? {
            LearnedState::Nothing => return Ok(()),
            LearnedState::Damaged => None,
            LearnedState::Bytes(bytes) => {
                let (granularity, pages) =
                    (self.granularity, self.origin.geometry().sectors.div_ceil(PAGE_SECTORS));
                let units = pages.div_ceil(1 << granularity);
                let bounds = Bounds { units, granularity, cached_slots: self.store.layout().cached_slots() };
                let learned = self.learned.borrow();
                learned.analyzer().and_then(|empty| Saved::decode(&bytes, empty, &bounds).ok())
            }
        };
        let Some(saved) = saved else {
            keeping.damaged.set(true);
            return Ok(());
        };
        keeping.recalled.set(saved.requests);
        if self.rehearses {
            self.writes.set(saved.writes.unwrap_or_default());
        }
        self.watch.set(self.watch.get().resumed(saved.watch));
        self.arrivals.restore(saved.paused, runtime::now());
        let mut learned = self.learned.borrow_mut();
        learned.restore(saved);
        keeping.last.set((runtime::now(), learned.changes()));
        Ok(())
    }

    /// Writes what was learned if that is due, in the background.
    pub(super) fn keep_from_time_to_time(&self) {
        if runtime::now().since(self.keeping.last.get().0) >= INTERVAL {
            self.keep_soon();
        }
    }

    /// Writes what was learned, in the background.
    pub(super) fn keep_soon(&self) {
        if !self.keeping.enabled.get() || self.keeping.waiting.get() {
            return;
        }
        let Some(borg) = self.me.upgrade() else { return };
        self.keeping.waiting.set(true);
        let how = Hints {
            class: Class::Background,
            ticket: Some(Ticket::new()),
            account: self.payer(),
            ..Hints::default()
        };
        runtime::spawn(async move {
            // Retried at the next time.
            drop(borg.keep(&how).await);
            borg.keeping.waiting.set(false);
        })
        .detach();
    }

    /// Writes what was learned since the last time.
    pub(super) async fn keep(self: &Rc<Self>, how: &Hints) -> Result<(), IoError> {
        let room = self.store.learned_room();
        if !self.keeping.enabled.get() || room == 0 {
            return Ok(());
        }
        let _alone = self
            .keeping
            .writing
            .lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone())
            .await;
        let changes = self.learned.borrow().changes();
        if changes == self.keeping.last.get().1 {
            return Ok(());
        }
        let Some(saved) = self.saved() else { return Ok(()) };
        let encode = move || saved.encode_within(room);
        let cost = |bytes: &Option<Vec<u8>>| Nanos(bytes.as_ref().map_or(0, Vec::len) as u64 * ENCODE_NS);
        let Some(bytes) = runtime::offload(encode, cost).await else { return Ok(()) };
        self.store.write_learned(&bytes, how).await?;
        self.keeping.last.set((runtime::now(), changes));
        Ok(())
    }

    /// What there is to keep; `None` while it is in use elsewhere.
    fn saved(&self) -> Option<Saved> {
        let saved = self.learned.borrow().saved()?;
        let writes = self.rehearses.then(|| self.writes.get());
        Some(Saved { writes, watch: self.watch.get().state(), paused: self.arrivals.paused(), ..saved })
    }
}
