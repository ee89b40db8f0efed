//! The profiler (section 4.1): the temporal, process and block attributes of every request that
//! reaches the layer, since the last reconfiguration.
//!
//! Requests are kept as they came, in pages of a compact code: 5 to 10 bytes a request. Bounded:
//! when the pages outgrow their memory, the oldest are spilled into the master graph, which is to
//! have them in the end anyway, and holds each place and each way once. What is lost then are the
//! times and names of these requests, not what the planner knows of them.

mod page;

use std::collections::VecDeque;

use seekless_core::{Extent, NameId, Nanos, Origin, ProcessId};

use page::Page;

/// One request, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// When it reached the layer.
    pub time: Nanos,
    /// Process.
    pub process: ProcessId,
    /// Its executable.
    pub name: NameId,
    /// First page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
    /// Whether it was a write.
    pub write: bool,
}

impl Access {
    /// The request for `at`, from `origin`.
    pub fn new(time: Nanos, origin: Origin, at: Extent, write: bool) -> Access {
        let pages = at.pages();
        let (first, pages) = (pages.start as u32, (pages.end - pages.start) as u32);
        Access { time, process: origin.process, name: origin.name, first, pages, write }
    }
}

/// Requests since the last reconfiguration.
#[derive(Clone, Debug, Default)]
pub struct Profiler {
    window: Window,
    requests: u64,
}

/// Requests in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All except the last are full.
    pages: VecDeque<Page>,
}

impl Profiler {
    /// Adds a request, at a time not before the last one's.
    pub fn note(&mut self, access: &Access) {
        self.requests += 1;
        self.window.push(access);
    }

    /// Takes all requests.
    pub fn take(&mut self) -> Window {
        std::mem::take(&mut self.window)
    }

    /// Takes the oldest requests that exceed `bytes`. The open page stays.
    pub fn spill(&mut self, memory: u64) -> Window {
        let mut spilled = Window::default();
        while self.bytes() > memory && self.window.pages.len() > 1 {
            spilled.pages.extend(self.window.pages.pop_front());
        }
        spilled
    }

    /// The memory of what it holds, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.window.pages.len() * page::BYTES) as u64
    }

    /// Number of requests in total.
    pub fn requests(&self) -> u64 {
        self.requests
    }
}

impl Window {
    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.pages.iter().map(Page::requests).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Adds a request, not before the last one.
    fn push(&mut self, access: &Access) {
        if self.pages.back().is_none_or(Page::is_full) {
            self.pages.push_back(Page::default());
        }
        if let Some(page) = self.pages.back_mut() {
            page.push(access);
        }
    }

    /// The first `early` requests, and those after them.
    pub fn split(&self, early: u64) -> (Window, Window) {
        let mut parts = (Window::default(), Window::default());
        for (access, index) in self.iter().zip(0..) {
            let part = if index < early { &mut parts.0 } else { &mut parts.1 };
            part.push(&access);
        }
        parts
    }

    /// The requests.
    pub fn iter(&self) -> impl Iterator<Item = Access> {
        self.pages.iter().flat_map(Page::iter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accesses() -> impl Strategy<Value = Vec<Access>> {
        let near = (0..100_u32, 1..9_u32);
        let place = prop_oneof![near, (any::<u32>(), any::<u32>())];
        let who = prop_oneof![Just((7, 1)), (0..3_u32, 0..3_u32), (any::<u32>(), any::<u32>())];
        let wait = prop_oneof![0..1_000_u64, 0..u64::MAX / 1_000];
        prop::collection::vec((wait, who, place, any::<bool>()), 0..300).prop_map(|requests| {
            let mut time = Nanos(0);
            let access = |(wait, (process, name), (first, pages), write)| {
                time = Nanos(time.0 + wait);
                Access { time, process: ProcessId(process), name: NameId(name), first, pages, write }
            };
            requests.into_iter().map(access).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_noted_is_told_in_order(accesses in accesses()) {
            let mut profiler = Profiler::default();
            for access in &accesses {
                profiler.note(access);
            }
            let window = profiler.take();
            prop_assert_eq!(window.requests(), accesses.len() as u64);
            prop_assert_eq!(window.iter().collect::<Vec<_>>(), accesses);
            prop_assert!(profiler.take().is_empty());
        }

        #[test]
        fn a_window_splits_anywhere(accesses in accesses(), at in 0..400_usize) {
            let mut profiler = Profiler::default();
            for access in &accesses {
                profiler.note(access);
            }
            let (early, late) = profiler.take().split(at as u64);
            let at = at.min(accesses.len());
            prop_assert_eq!(early.iter().collect::<Vec<_>>(), &accesses[..at]);
            prop_assert_eq!(late.iter().collect::<Vec<_>>(), &accesses[at..]);
        }

        #[test]
        fn what_is_spilled_and_what_stays_are_all(accesses in accesses(), pages in 0..4_u64) {
            let (mut profiler, mut seen) = (Profiler::default(), Vec::new());
            for access in &accesses {
                profiler.note(access);
                seen.extend(profiler.spill(pages * page::BYTES as u64).iter());
                prop_assert!(profiler.bytes() <= pages.max(1) * page::BYTES as u64);
            }
            seen.extend(profiler.take().iter());
            prop_assert_eq!(profiler.requests(), accesses.len() as u64);
            prop_assert_eq!(seen, accesses);
        }
    }

    #[test]
    fn requests_that_follow_each_other_take_three_bytes() {
        let mut page = Page::default();
        let access =
            |i: u32| Access { time: Nanos(100 * u64::from(i)), first: i * 8, pages: 8, ..Access::default() };
        for i in 0..10 {
            page.push(&access(i));
        }
        let before = page.used();
        page.push(&access(10));
        assert_eq!(page.used() - before, 3, "place, length and time");
    }
}
