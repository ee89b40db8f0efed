//! Absorbing writes (sections 3.3 and 4.5): into the log of the write buffer, each run with its map
//! page right behind it.
//!
//! Writes that are absorbed in one instant form one run, and share its map page. Data and map page
//! go out together, so that a drive without a write cache need not turn round between them; a write
//! is acknowledged when both are written, so a flush finds nothing left to do. Which of the two
//! reached the disk at a crash is told by the checksums that a map page holds of its pages.
//!
//! Invariant: the log always has room for the map pages of what it took (`State::room`).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_util::future::join_all;
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS, runtime};

use super::bopt::MAP_ENTRIES;
use super::map::Slot;
use super::{Borg, State, did};

/// What a write took of the write buffer.
#[derive(Default)]
pub(super) struct Absorbed {
    /// Pages and the slots they go to.
    pub pages: Vec<(u64, Slot)>,
    /// The run that they are part of.
    pub run: Rc<Run>,
}

/// Pages absorbed in one instant, with their map pages.
#[derive(Default)]
pub(super) struct Run {
    entries: Cell<usize>,
    /// Of these, how many are settled.
    settled: Cell<usize>,
    /// Its map pages. They are the log's once all is settled: only then may a reconfiguration
    /// replace them.
    maps: RefCell<Vec<Slot>>,
    /// Whether somebody writes its map pages.
    led: Cell<bool>,
    written: RefCell<Option<Result<(), IoError>>>,
    waiting: RefCell<Vec<Waker>>,
}

impl State {
    /// Free pages of the log that are not needed for the map page of the run being gathered.
    fn room(&self) -> usize {
        let maps = self.run.as_ref().map_or(0, |run| run.entries.get().div_ceil(MAP_ENTRIES));
        self.log.free().saturating_sub(maps)
    }

    /// A page of the log for a map page that nobody reckoned with, if there is one.
    pub(super) fn spare_map_slot(&mut self) -> Option<Slot> {
        if self.room() > 0 { self.log.take_map() } else { None }
    }
}

impl Borg {
    /// Takes pages of the write buffer for the whole unmapped pages of a write, as far as there is
    /// room for them and for their map pages.
    pub(super) fn absorb(&self, at: Extent) -> Absorbed {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let first = at.start.0.div_ceil(PAGE_SECTORS);
        let whole = first..at.end().page().max(first);
        let pages: Vec<u64> = whole.filter(|&page| state.map.slot_of(page).is_none()).collect();
        // A run that grows by n pages needs at most 1 + n / MAP_ENTRIES more map pages.
        let room = state.room().saturating_sub(1 + pages.len() / MAP_ENTRIES);
        let mut left = &pages[..pages.len().min(room)];
        if left.is_empty() {
            return Absorbed::default();
        }
        let mut absorbed = Absorbed {
            pages: Vec::with_capacity(left.len()),
            run: state.run.get_or_insert_default().clone(),
        };
        while let Some((slot, got)) = state.log.take(left.len()) {
            absorbed.pages.extend(left[..got].iter().copied().zip(slot..));
            left = &left[got..];
        }
        absorbed.run.entries.set(absorbed.run.entries.get() + absorbed.pages.len());
        absorbed
    }

    /// Sees to it that a run's map pages are written: the first write of the run does it, when the
    /// instant's other writes have joined; the others wait.
    pub(super) async fn describe(&self, run: &Rc<Run>, how: &Hints) -> Result<(), IoError> {
        if run.led.replace(true) {
            return poll_fn(|context| {
                if let Some(written) = &*run.written.borrow() {
                    return Poll::Ready(written.clone());
                }
                run.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
        runtime::quiet().await;
        let maps: Vec<Extent> = {
            let mut state = self.state.borrow_mut();
            state.run = None;
            let maps = run.entries.get().div_ceil(MAP_ENTRIES);
            (0..maps)
                .map(|_| state.log.take(1).expect("absorbing left room for map pages").0)
                .inspect(|slot| run.maps.borrow_mut().push(*slot))
                .map(|slot| Extent::of_pages(self.division.page(slot), 1))
                .collect()
        };
        let written = self.write_map_pages(&maps, how).await;
        run.written.replace(Some(written.clone()));
        run.waiting.take().into_iter().for_each(Waker::wake);
        written
    }

    /// Maps what was absorbed and written; else gives its pages back, and all is as it was before.
    pub(super) fn settle(&self, absorbed: Absorbed, written: bool) {
        let mut state = self.state.borrow_mut();
        let run = &absorbed.run;
        run.settled.set(run.settled.get() + absorbed.pages.len());
        if run.settled == run.entries {
            state.log.keep_maps(run.maps.take());
        }
        for (page, slot) in absorbed.pages {
            if written {
                state.map.insert(page, slot, true);
            } else {
                state.log.give_back(slot);
            }
        }
    }

    /// Writes map pages, all at once.
    pub(super) async fn write_map_pages(&self, places: &[Extent], how: &Hints) -> Result<(), IoError> {
        let writes = places.iter().map(|place| {
            did("map page", *place, place.start.0);
            self.bopt.write(*place, Buffer::hollow_sectors(PAGE_SECTORS), how.clone())
        });
        let written: Result<Vec<()>, IoError> = join_all(writes).await.into_iter().collect();
        self.state.borrow_mut().map_pages += places.len() as u64;
        written.map(drop)
    }
}
