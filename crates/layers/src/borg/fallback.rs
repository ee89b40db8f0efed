//! Writes that the BOPT does not take go to the origin: one without space, or that is gone, must not make the volume
//! unwritable.
//!
//! A write that could not be absorbed is written again without the log, under the same locks: pages without a copy to
//! the origin, clean copies are dropped before, and dirty ones are overwritten in place, since after a crash they
//! count. From then on nothing is absorbed, until a checkpoint shows that the BOPT takes writes again.
//!
//! Invariants: after a crash no copy or batch wins over a later write to the origin. So a page of a batch that failed,
//! and that may be whole on disk, takes no other data before metadata overrules that batch. A clean copy is dropped on
//! disk too; in memory alone only if nothing in the BOPT is or may be found dirty, since it is then compared with the
//! origin at the next start. Nothing is absorbed before such a drop is durable.
//!
//! Faults: what cannot be done without the BOPT remains an error of its request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Nanos, PAGE_BYTES, Size, Ticket, mutant};

use super::indirector::{Attempt, Try};
use super::locking::Counted;
use super::{Borg, did};

/// Time after which the BOPT is tried again, at first; it doubles with each failure.
const FIRST_PAUSE: Nanos = Nanos::from_millis(10);
/// The longest such time. After as long without a failure the BOPT counts as well again.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(64_000);

/// State of the fallback.
#[derive(Default)]
pub(super) struct Fallback {
    /// Whether nothing is absorbed.
    on: Cell<bool>,
    /// When the BOPT is tried next, and the time between the last failure and that.
    next: Cell<(Nanos, Nanos)>,
    /// Writes that are attempted again.
    again: Cell<u64>,
    /// Whether a task tries it.
    trying: Cell<bool>,
    /// Why the BOPT takes no writes; `None` once it has absorbed them for a while.
    why: RefCell<Option<IoError>>,
    /// Writes that went to the origin after they could not be absorbed.
    writes: Cell<u64>,
    /// Called with the reason when this begins.
    #[allow(clippy::type_complexity)] // a callback
    tell: RefCell<Option<Rc<dyn Fn(&str)>>>,
}

impl Fallback {
    /// Writes that went to the origin after they could not be absorbed.
    pub fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// Has `tell` called with the reason when this begins.
    pub fn on_trouble(&self, tell: Rc<dyn Fn(&str)>) {
        self.tell.replace(Some(tell));
    }

    /// A write was absorbed. If there was no failure for long enough, the BOPT counts as well again.
    pub fn absorbed(&self) {
        let (next, _) = self.next.get();
        if self.why.borrow().is_some() && runtime::now() >= next + LONGEST_PAUSE {
            self.next.take();
            self.why.take();
        }
    }

    /// Absorbs again.
    #[cfg(test)]
    pub fn end(&self) {
        self.on.set(false);
    }

    /// Absorbs nothing for a while.
    fn begin(&self) {
        if !self.on.replace(true) {
            self.pause();
        }
    }

    /// The BOPT is tried again after twice the last pause.
    fn pause(&self) {
        let pause = Nanos((2 * self.next.get().1.0).clamp(FIRST_PAUSE.0, LONGEST_PAUSE.0));
        self.next.set((runtime::now() + pause, pause));
    }
}

impl Borg {
    /// Whether nothing is absorbed, since the BOPT takes no writes.
    pub(super) fn does_without_log(&self) -> bool {
        self.fallback.on.get() || self.fallback.again.get() > 0 || self.store.bopt_failed().is_some()
    }

    /// Whether this many pages can be absorbed now.
    pub(super) fn can_absorb(&self, pages: u64) -> bool {
        !self.does_without_log() && self.store.has_room(pages)
    }

    /// Why writes are not absorbed, in words.
    pub(super) fn absorbing_trouble(&self) -> Option<String> {
        let error = self.fallback.why.borrow().clone()?;
        let dirty = self.store.dirty() as u64;
        let held = if dirty == 0 {
            "nothing in it is newer than the device below".to_owned()
        } else {
            format!("{} in it are newer than the device below", Size(dirty * PAGE_BYTES))
        };
        Some(format!("the BOPT takes no writes, so they go to the device below: {error}; {held}"))
    }

    /// Absorbs nothing for a while, and warns once.
    fn absorb_nothing(&self, error: &IoError) {
        let fallback = &self.fallback;
        fallback.begin();
        if fallback.why.borrow().is_none() {
            fallback.why.replace(Some(error.clone()));
            if let (Some(why), Some(tell)) = (self.absorbing_trouble(), &*fallback.tell.borrow()) {
                tell(&why);
            }
        }
    }

    /// Writes again what could not be absorbed, without the log.
    pub(super) async fn write_without_log(
        &self,
        (at, from): (Extent, &Buffer),
        how: &Hints,
        failed: &Attempt,
    ) -> Result<Attempt, IoError> {
        edge("a write that cannot be absorbed goes to the origin");
        if let Some(error) = &failed.refused {
            self.absorb_nothing(error);
        }
        let _again = Counted::of(&self.fallback.again);
        let again = self.attempt_write((at, from), how, Try { absorbs: false, lone: false }).await;
        match &again {
            Ok(again) if again.written.iter().all(Result::is_ok) => {
                self.fallback.writes.set(self.fallback.writes.get() + 1);
            }
            Ok(_) => {}
            // What the first attempt wrote may take effect.
            Err(_) => {
                self.note_outcome(at, &failed.written, Some(&failed.joined));
                self.invalidate_copies(at);
            }
        }
        self.tally(how, |traffic| {
            // Counted twice.
            traffic.pages = traffic.pages.saturating_sub(if again.is_ok() { at.page_count() } else { 0 });
            traffic.hits = traffic.hits.saturating_sub(failed.absorbed);
            traffic.absorbed = traffic.absorbed.saturating_sub(failed.absorbed);
        });
        again
    }

    /// Has metadata overrule batches that failed and that hold other data of these pages.
    pub(super) async fn overrule_failed_batches(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        if self.store.is_uncertain(at) {
            edge("a page of a batch that failed is written: the batch is overruled first");
            self.store.repair(&Hints { fua: false, ..how.clone() }).await?;
        }
        Ok(())
    }

    /// Drops clean copies of these pages, before they are written to the origin; the caller holds their locks. Returns
    /// whether there were any.
    pub(super) async fn drop_clean(&self, at: Extent, how: &Hints) -> Result<bool, IoError> {
        let is_clean = |page: &u64| self.store.lookup(*page).is_some_and(|entry| !entry.dirty);
        let clean: Vec<u64> = at.pages().filter(is_clean).collect();
        if clean.is_empty() {
            return Ok(false);
        }
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let mut update = self.store.update(&how).await;
        let durably = async {
            update.persist_stale(&how).await?;
            for &page in &clean {
                did("dropped for origin", Extent::of_pages(page, 1), page * seekless_core::PAGE_SECTORS);
                update.unmap(page);
            }
            update.persist(&how).await
        };
        match durably.await {
            Err(error)
                if self.can_do_without_bopt() && self.store.will_find_nothing_dirty()
                    || mutant::is("borg: a clean copy is dropped in memory beside dirty pages") =>
            {
                edge("a clean copy is dropped in memory alone: the BOPT takes no writes");
                update.forget(&clean);
                self.absorb_nothing(&error);
                Ok(true)
            }
            done => done.map(|()| true),
        }
    }

    /// Whether everything is on the origin, so that flushes need not reach the BOPT: nothing in it is newer, and its
    /// copies are compared with the origin after a crash.
    pub(super) fn can_do_without_bopt(&self) -> bool {
        !self.options.trust_origin && self.store.dirty() == 0
    }

    /// Makes everything completed durable. If nothing in the BOPT is newer than the origin, the origin is enough.
    pub(super) async fn flush_all(&self, how: &Hints) -> Result<(), IoError> {
        let flushed = self.store.flush(!self.options.trust_origin, how).await;
        if let Some(error) = self.store.bopt_failed() {
            self.absorb_nothing(&error);
        }
        flushed
    }

    /// Writes pending metadata, unless nothing depends on it.
    pub(super) async fn repair_or_spare(&self, how: &Hints) -> Result<(), IoError> {
        match self.store.repair(how).await {
            Err(_) if self.can_do_without_bopt() => Ok(()),
            done => done,
        }
    }

    /// Tries whether the BOPT takes writes again, if that is due, in the background.
    pub(super) fn try_bopt_if_due(&self) {
        let fallback = &self.fallback;
        let is_due = fallback.on.get() && runtime::now() >= fallback.next.get().0;
        if !is_due || fallback.trying.get() || self.store.bopt_failed().is_some() || self.store.is_given_up()
        {
            return;
        }
        let Some(borg) = self.me.upgrade() else { return };
        fallback.trying.set(true);
        let (class, ticket, account) = (Class::Background, Some(Ticket::new()), self.payer());
        let how = Hints { class, ticket, account, ..Hints::default() };
        let work = async move {
            let written = borg.store.checkpoint(&how).await;
            let fallback = &borg.fallback;
            // Something may have been dropped in memory alone meanwhile.
            if written.is_ok() && !borg.store.has_pending_metadata() {
                edge("the BOPT takes writes again");
                fallback.on.set(false);
            } else {
                fallback.pause();
            }
            fallback.trying.set(false);
        };
        runtime::spawn(work).detach();
    }
}
