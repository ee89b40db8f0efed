//! Numbers of pages that were evicted lately, first in, first out.

use super::Queue;

/// Evicted pages, at most a given number; those that room is being made for are not forgotten meanwhile.
#[derive(Default)]
pub struct Evicted {
    pages: Queue,
    returning: Queue,
    at_most: u64,
}

impl Evicted {
    /// Remembers at most this many from now on.
    pub fn resize(&mut self, at_most: u64) {
        self.at_most = at_most;
        while self.pages.pages() > at_most && self.pages.pop().is_some() {}
        while self.returning.pages() > at_most && self.returning.pop().is_some() {}
    }

    pub fn add(&mut self, page: u64) {
        if self.at_most == 0 {
            return;
        }
        if self.pages.pages() >= self.at_most {
            self.pages.pop();
        }
        self.pages.push(page, false);
    }

    /// Room is made for a page, which may be one of these.
    pub fn miss(&mut self, page: u64) {
        if self.pages.take(page).is_none() {
            return;
        }
        if self.returning.pages() >= self.at_most {
            self.returning.pop();
        }
        self.returning.push(page, false);
    }

    /// A page is admitted; returns whether it was one of these.
    pub fn take(&mut self, page: u64) -> bool {
        self.returning.take(page).or_else(|| self.pages.take(page)).is_some()
    }
}
