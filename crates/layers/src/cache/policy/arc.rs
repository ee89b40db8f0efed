//! ARC: pages accessed once (T1) and more often (T2), each an LRU queue, and the numbers of pages evicted from each
//! (B1, B2). An access of a page in B1 or B2 enlarges the share of its side.

use super::{Access, Policy, Queue};

pub struct Arc {
    once: Queue,
    often: Queue,
    evicted_once: Queue,
    evicted_often: Queue,
    /// The target size of `once`, p in the paper, with its fraction.
    target: f64,
    pages: u64,
    incoming: Incoming,
}

/// Where the page that room is made for was evicted from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Incoming {
    New,
    Once,
    Often,
}

impl Arc {
    pub fn new(pages: u64) -> Arc {
        Arc {
            once: Queue::default(),
            often: Queue::default(),
            evicted_once: Queue::default(),
            evicted_often: Queue::default(),
            target: 0.0,
            pages,
            incoming: Incoming::New,
        }
    }

    fn evict_once(&mut self) -> Option<u64> {
        let (page, _) = self.once.pop()?;
        self.evicted_once.push(page, false);
        Some(page)
    }

    fn evict_often(&mut self) -> Option<u64> {
        let (page, _) = self.often.pop()?;
        self.evicted_often.push(page, false);
        Some(page)
    }

    /// REPLACE of the paper.
    fn replace(&mut self) -> Option<u64> {
        let once = self.once.pages() as f64;
        if once > self.target || once >= self.target && self.incoming == Incoming::Often {
            self.evict_once().or_else(|| self.evict_often())
        } else {
            self.evict_often().or_else(|| self.evict_once())
        }
    }

    /// Forgets evicted pages above the bounds: `pages` on the side of T1, twice that in all.
    fn forget(&mut self) {
        while self.once.pages() + self.evicted_once.pages() > self.pages && self.evicted_once.pop().is_some()
        {
        }
        let all = |arc: &Arc| {
            arc.once.pages() + arc.often.pages() + arc.evicted_once.pages() + arc.evicted_often.pages()
        };
        while all(self) > 2 * self.pages && self.evicted_often.pop().is_some() {}
    }
}

impl Policy for Arc {
    fn miss(&mut self, page: u64) {
        let (once, often) = (self.evicted_once.pages() as f64, self.evicted_often.pages() as f64);
        self.incoming = if self.evicted_once.contains(page) {
            self.target = (self.target + (often / once).max(1.0)).min(self.pages as f64);
            Incoming::Once
        } else if self.evicted_often.contains(page) {
            self.target = (self.target - (once / often).max(1.0)).max(0.0);
            Incoming::Often
        } else {
            Incoming::New
        };
    }

    fn admit(&mut self, page: u64, _: Access) {
        let known = self.evicted_once.take(page).or_else(|| self.evicted_often.take(page)).is_some();
        if known {
            self.often.push(page, false);
        } else {
            self.once.push(page, false);
        }
        self.forget();
    }

    fn hit(&mut self, page: u64, _: Access) {
        match self.once.take(page) {
            Some(pinned) => self.often.push(page, pinned),
            None => drop(self.often.renew(page)),
        }
    }

    fn evict(&mut self) -> Option<u64> {
        let first = self.once.pages() + self.evicted_once.pages();
        // Case IV of the paper; in the others the remembered page leaves room for another one.
        if self.incoming == Incoming::New && first >= self.pages {
            if self.once.pages() >= self.pages {
                return self.once.pop().map(|(page, _)| page);
            }
            self.evicted_once.pop();
        } else if self.incoming == Incoming::New
            && first + self.often.pages() + self.evicted_often.pages() >= 2 * self.pages
        {
            self.evicted_often.pop();
        }
        self.replace()
    }

    fn remove(&mut self, page: u64) {
        self.once.take(page);
        self.often.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.once.pin(page, pinned);
        self.often.pin(page, pinned);
    }

    fn resize(&mut self, pages: u64) {
        self.pages = pages;
        self.target = self.target.min(pages as f64);
        self.forget();
    }
}
