//! A queue of pages, with a small count for each.
//!
//! Invariants: a page is in a queue once. A pinned page keeps its place, but is passed over.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Pages in the order in which they entered.
#[derive(Default)]
pub struct Queue {
    entries: FxHashMap<u64, Entry>,
    /// Pages that are not pinned, by place.
    free: BTreeMap<u64, u64>,
    next: u64,
}

/// A page of a queue.
#[derive(Clone, Copy, Default)]
struct Entry {
    place: u64,
    pinned: bool,
    count: u8,
}

impl Queue {
    /// Number of pages, with the pinned ones.
    pub fn pages(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether a page is in the queue.
    pub fn contains(&self, page: u64) -> bool {
        self.entries.contains_key(&page)
    }

    /// Adds a page that is not in the queue, with count 0.
    pub fn push(&mut self, page: u64, pinned: bool) {
        let entry = Entry { place: self.next, pinned, count: 0 };
        self.next += 1;
        self.entries.insert(page, entry);
        if !pinned {
            self.free.insert(entry.place, page);
        }
    }

    /// Removes a page; returns whether it was pinned, or `None` if it was not in the queue.
    pub fn take(&mut self, page: u64) -> Option<bool> {
        let entry = self.entries.remove(&page)?;
        self.free.remove(&entry.place);
        Some(entry.pinned)
    }

    /// Moves a page to the end, with count 0; false if it is not in the queue.
    pub fn renew(&mut self, page: u64) -> bool {
        let pinned = self.take(page);
        pinned.inspect(|&pinned| self.push(page, pinned)).is_some()
    }

    /// The first page that is not pinned, removed, with its count.
    pub fn pop(&mut self) -> Option<(u64, u8)> {
        let (_, page) = self.free.pop_first()?;
        self.entries.remove(&page).map(|entry| (page, entry.count))
    }

    /// The first page that is not pinned, from a place on.
    pub fn first_from(&self, place: u64) -> Option<(u64, u64)> {
        self.free.range(place..).next().map(|(&place, &page)| (place, page))
    }

    /// The count of a page, which can be changed.
    pub fn count(&mut self, page: u64) -> Option<&mut u8> {
        self.entries.get_mut(&page).map(|entry| &mut entry.count)
    }

    /// Whether a page is pinned, if it is in the queue.
    pub fn pin(&mut self, page: u64, pinned: bool) {
        let Some(entry) = self.entries.get_mut(&page).filter(|entry| entry.pinned != pinned) else { return };
        entry.pinned = pinned;
        if pinned {
            self.free.remove(&entry.place);
        } else {
            self.free.insert(entry.place, page);
        }
    }
}
