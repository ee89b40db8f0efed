//! Forks: copies of the store's state, to try a change on devices that keep no data.
//!
//! A fork has no device until it is opened over others than its original's. Its log begins in a free segment, as after
//! a clean stop.

use std::collections::BTreeSet;
use std::rc::Rc;

use seekless_core::BlockDevice;

use super::format::Super;
use super::layout::Layout;
use super::learned::Copies;
use super::log::Log;
use super::map::{BorgMap, Slot};
use super::metadata::Supers;
use super::segments::Segments;
use super::session::Session;
use super::sums::Sums;
use super::table::Table;
use super::{Disk, Setup, Store};
use crate::canary::Canary;

/// State of a store, to be opened on another thread or in another runtime.
#[derive(Clone)]
pub struct Fork {
    map: BorgMap,
    segments: Segments,
    super_page: Super,
    sequence: u64,
    taken: u64,
    eager: bool,
}

impl Store {
    /// Copies the current state.
    pub fn fork(&self) -> Fork {
        let (table, disk) = (self.table.borrow(), self.disk.borrow());
        Fork {
            map: table.map.clone(),
            segments: table.segments.clone(),
            super_page: disk.super_page.clone(),
            sequence: table.log.sequence,
            taken: table.log.next_to_take() - 1,
            eager: self.eager,
        }
    }

    /// A store with the entries of `fork`, over devices that keep no data.
    pub fn from_map(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>, fork: Fork) -> Rc<Store> {
        let Fork { map, mut segments, super_page, sequence, taken, eager } = fork;
        let layout = super_page.layout;
        let logged = layout.read_cache..layout.segments();
        let free: BTreeSet<u32> = logged
            .filter(|segment| {
                let is_reserved = super_page.learned.is_some_and(|area| area.has(layout, *segment));
                let segment = segments.get(*segment);
                segment.valid == 0 && segment.changes == 0 && !is_reserved
            })
            .collect();
        for segment in &free {
            segments.get_mut(*segment).taken = 0;
        }
        let log = Log::new(layout, super_page.version, free, sequence, taken);
        let newest = super_page.generation;
        let disk = Disk {
            super_page,
            supers: Supers { newest, ..Supers::default() },
            maps_written: false,
            session: Session::Unchanged,
            torn: Vec::new(),
            failed: None,
            bopt_failed: None,
            anchor_taken: taken + 1,
            metadata_pages: 0,
            learned: Copies::default(),
        };
        let table = Table::new(map, segments, log, Sums::new(layout));
        let setup = Setup { layout, timing_only: true, eager, canary: Canary::default(), lenient: false };
        Store::over(origin, bopt, setup, table, disk)
    }
}

impl Fork {
    /// Layout of the BOPT.
    pub fn layout(&self) -> Layout {
        self.super_page.layout
    }

    /// The fork as if all of the log had been drained.
    pub fn drained(&self) -> Fork {
        let mut drained = self.clone();
        let layout = self.super_page.layout;
        for segment in layout.read_cache..layout.segments() {
            let used = self.segments.get(segment).valid > 0;
            for slot in layout.slots_of(segment).filter(|_| used) {
                if let Some(page) = self.map.page_at(slot) {
                    drained.map.remove(page);
                }
            }
            let entry = drained.segments.get_mut(segment);
            (entry.valid, entry.changes) = (0, 0);
        }
        drained
    }

    /// The fork as if these pages had no clean copy in the read cache.
    pub fn without(mut self, pages: &[u64]) -> Fork {
        let layout = self.super_page.layout;
        for &page in pages {
            let slot =
                self.map.slot_of(page).filter(|slot| !layout.is_logged(*slot) && !self.map.is_dirty(*slot));
            if let Some(slot) = slot {
                self.map.remove(page);
                self.segments.get_mut(layout.segment_of(slot).0).valid -= 1;
            }
        }
        self
    }

    /// The fork as if these pages, unless they have one, had a clean copy: in vacant slots, in this order.
    pub fn with(mut self, pages: impl Iterator<Item = u64>) -> Fork {
        let layout = self.super_page.layout;
        let mut slots = 0..layout.cached_slots();
        for page in pages {
            if self.map.slot_of(page).is_some() {
                continue;
            }
            let Some(slot) = slots.find(|slot| self.map.page_at(*slot).is_none()) else { break };
            self.map.insert(page, slot, false);
            self.segments.get_mut(layout.segment_of(slot).0).valid += 1;
        }
        self
    }

    /// Whether a page has this slot, and is dirty there.
    pub fn holds_dirty(&self, page: u64, slot: Slot) -> bool {
        self.map.slot_of(page) == Some(slot) && self.map.is_dirty(slot)
    }

    /// The entries.
    pub fn map(&self) -> &BorgMap {
        &self.map
    }
}
