//! S3-FIFO: new pages enter a small queue; those used there enter the main queue, the others are evicted and
//! remembered. A remembered page enters the main queue at once.
//!
//! The parameters are libCacheSim's: a tenth of the cache for new pages, nine tenths as many remembered ones, two uses
//! to enter the main queue. Until the first eviction, pages that the small queue has no room for enter the main one.

use super::evicted::Evicted;
use super::{Access, Policy, Queue};

/// Uses in the small queue from which a page enters the main queue.
const TO_MAIN: u8 = 2;
/// The highest count: a page passes the end of the main queue at most this many times without a use.
const COUNTED: u8 = 3;

#[derive(Default)]
pub struct S3Fifo {
    small: Queue,
    main: Queue,
    evicted: Evicted,
    small_at_most: u64,
    main_at_most: u64,
    /// Whether a page was evicted.
    full: bool,
}

impl S3Fifo {
    pub fn new(pages: u64) -> S3Fifo {
        let mut empty = S3Fifo::default();
        empty.resize(pages);
        empty
    }

    fn evict_small(&mut self) -> Option<u64> {
        loop {
            let (page, uses) = self.small.pop()?;
            if uses >= TO_MAIN {
                self.main.push(page, false);
                continue;
            }
            self.evicted.add(page);
            return Some(page);
        }
    }

    fn evict_main(&mut self) -> Option<u64> {
        loop {
            let (page, uses) = self.main.pop()?;
            if uses == 0 {
                return Some(page);
            }
            self.main.push(page, false);
            if let Some(count) = self.main.count(page) {
                *count = uses - 1;
            }
        }
    }
}

impl Policy for S3Fifo {
    fn miss(&mut self, page: u64) {
        self.evicted.miss(page);
    }

    fn admit(&mut self, page: u64, _: Access) {
        let known = self.evicted.take(page);
        let overflows = !self.full && self.small.pages() >= self.small_at_most;
        let queue = if known || overflows { &mut self.main } else { &mut self.small };
        queue.push(page, false);
    }

    fn hit(&mut self, page: u64, _: Access) {
        let queue = if self.small.contains(page) { &mut self.small } else { &mut self.main };
        if let Some(count) = queue.count(page) {
            *count = COUNTED.min(*count + 1);
        }
    }

    fn evict(&mut self) -> Option<u64> {
        self.full = true;
        if self.main.pages() > self.main_at_most {
            self.evict_main().or_else(|| self.evict_small())
        } else {
            self.evict_small().or_else(|| self.evict_main())
        }
    }

    fn remove(&mut self, page: u64) {
        self.small.take(page);
        self.main.take(page);
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        self.small.pin(page, pinned);
        self.main.pin(page, pinned);
    }

    fn resize(&mut self, pages: u64) {
        self.small_at_most = pages.div_ceil(10);
        self.main_at_most = pages - self.small_at_most;
        self.evicted.resize(pages * 9 / 10);
    }
}
