//! The profiler (section 4.1): the temporal, process and block attributes of every request that
//! reaches the layer, since the last reconfiguration.
//!
//! Requests are kept as they came, in chunks of a compact code: 6 to 11 bytes a request. Bounded: when the chunks
//! outgrow their memory, the oldest are added to the master graph early; they would be added later anyway. Only their
//! times and process names are lost, which the planner does not use.

mod chunk;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use seekless_core::{Extent, NameId, Nanos, Origin, ProcessId};

use super::code::{self, Reader, Unfit};
use chunk::Chunk;

/// One request. Its place and length are in units of the profile: a unit is a page up to 16 TiB, and several pages in
/// larger volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Sum of all pauses before it. A pause is the time from the last arrival or answer to the next arrival.
    pub paused: Nanos,
    /// Requests outstanding when it came.
    pub depth: u32,
    /// Process, of its client.
    pub process: ProcessId,
    /// Its executable.
    pub name: NameId,
    /// First unit.
    pub first: u32,
    /// Number of units.
    pub pages: u32,
    /// Whether it was a write.
    pub write: bool,
}

impl Access {
    /// The request from `origin` for `at`, which has a page for each unit of the profile.
    pub fn new(arrival: Arrival, origin: Origin, at: Extent, write: bool) -> Access {
        let (first, pages) = (at.pages().start as u32, at.page_count() as u32);
        let Arrival { paused, depth } = arrival;
        Access { paused, depth, process: process_of(origin), name: origin.name, first, pages, write }
    }
}

/// The process and client of a request as one number: of clients over a network no process is known, and recordings of
/// one machine have one client. Process numbers are below 2^24.
fn process_of(origin: Origin) -> ProcessId {
    match (origin.process, origin.stream) {
        (ProcessId(0), stream) => ProcessId(stream.0),
        (ProcessId(process), stream) => ProcessId(process ^ stream.0.rotate_right(8)),
    }
}

/// How a request came: from this a replay derives when it would have come if others had been answered sooner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Sum of all pauses before it, as of an [`Access`].
    pub paused: Nanos,
    /// Requests outstanding when it came.
    pub depth: u32,
}

/// The clock of arrivals.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Sum of the pauses so far.
    paused: Cell<Nanos>,
    /// Time of the last arrival or answer.
    last: Cell<Nanos>,
    outstanding: Cell<u32>,
}

/// A request that was not answered yet.
pub struct Outstanding<'a>(&'a Arrivals);

impl Arrivals {
    /// A request comes, and is outstanding until the guard is dropped. Once it is answered, call [`Arrivals::answer`].
    pub fn arrive(&self, now: Nanos) -> (Arrival, Outstanding<'_>) {
        self.paused.set(self.paused.get() + now.since(self.last.replace(now)));
        let depth = self.outstanding.get();
        self.outstanding.set(depth + 1);
        (Arrival { paused: self.paused.get(), depth }, Outstanding(self))
    }

    /// Sum of all pauses so far.
    pub fn paused(&self) -> Nanos {
        self.paused.get()
    }

    /// Goes on at `now` after pauses of this sum.
    pub fn restore(&self, paused: Nanos, now: Nanos) {
        self.paused.set(paused);
        self.last.set(now);
    }

    /// A request was answered.
    pub fn answer(&self, now: Nanos) {
        self.last.set(now);
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.outstanding.set(self.0.outstanding.get() - 1);
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
    /// All except the last are full. A copy of the window shares them.
    chunks: VecDeque<Arc<Chunk>>,
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

    /// The requests that are profiled.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Profiles these before any others; `requests` were profiled in total.
    pub fn restore(&mut self, window: Window, requests: u64) {
        (self.window, self.requests) = (window, requests);
    }

    /// Takes the oldest full chunks until the others fit into `memory` bytes. The open chunk stays.
    pub fn spill(&mut self, memory: u64) -> Window {
        let mut spilled = Window::default();
        while self.bytes() > memory && self.window.chunks.len() > 1 {
            spilled.chunks.extend(self.window.chunks.pop_front());
        }
        spilled
    }

    /// The memory of what it holds, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.window.chunks.len() * chunk::BYTES) as u64
    }

    /// Number of requests in total.
    pub fn requests(&self) -> u64 {
        self.requests
    }
}

impl Window {
    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.requests()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a request, not before the last one.
    fn push(&mut self, access: &Access) {
        if self.chunks.back().is_none_or(|chunk| chunk.is_full()) {
            self.chunks.push_back(Arc::default());
        }
        if let Some(chunk) = self.chunks.back_mut() {
            Arc::make_mut(chunk).push(access);
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
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Encodes it.
    pub fn encode(&self, code: &mut Vec<u8>) {
        code::put(code, self.chunks.len() as u64);
        for chunk in &self.chunks {
            code::put(code, chunk.code().len() as u64);
            code.extend(chunk.code());
        }
    }

    /// The window that was encoded, of a volume of `pages` units.
    pub fn decode(code: &mut Reader<'_>, pages: u64) -> Result<Window, Unfit> {
        let mut window = Window::default();
        for _ in 0..code.count(1)? {
            let bytes = code.count(1)?;
            window.chunks.push_back(Arc::new(Chunk::decode(code.bytes(bytes)?)?));
        }
        let mut paused = Nanos::ZERO;
        for access in window.iter() {
            let end = u64::from(access.first) + u64::from(access.pages);
            code.ensure(end <= pages && access.paused >= paused, "requests in order, in the volume")?;
            paused = access.paused;
        }
        Ok(window)
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
            let mut paused = Nanos(0);
            let access = |(wait, (process, name), (first, pages), write)| {
                paused = Nanos(paused.0 + wait);
                Access {
                    paused,
                    depth: (wait % 300) as u32,
                    process: ProcessId(process),
                    name: NameId(name),
                    first,
                    pages,
                    write,
                }
            };
            requests.into_iter().map(access).collect()
        })
    }

    proptest! {
        #[test]
        fn requests_are_taken_in_the_order_in_which_they_came(accesses in accesses()) {
            let mut profiler = Profiler::default();
            for access in &accesses {
                profiler.note(access);
            }
            let window = profiler.take();
            prop_assert_eq!(window.requests(), accesses.len() as u64);
            prop_assert_eq!(window.iter().collect::<Vec<_>>(), &accesses[..]);
            prop_assert!(profiler.take().is_empty());
            let mut code = Vec::new();
            window.encode(&mut code);
            let mut reader = Reader::new(&code);
            let again = Window::decode(&mut reader, 1 << 40).unwrap();
            prop_assert!(reader.is_at_end());
            prop_assert_eq!(again.iter().collect::<Vec<_>>(), &accesses[..]);
            // It goes on as the original does.
            let (mut one, mut other) = (window, again);
            for access in &accesses {
                let later = Access { paused: Nanos(access.paused.0 + (1 << 60)), ..*access };
                one.push(&later);
                other.push(&later);
            }
            let codes = |window: &Window| window.chunks.iter().map(|chunk| chunk.code().to_vec()).collect::<Vec<_>>();
            prop_assert_eq!(codes(&one), codes(&other));
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
                seen.extend(profiler.spill(pages * chunk::BYTES as u64).iter());
                prop_assert!(profiler.bytes() <= pages.max(1) * chunk::BYTES as u64);
            }
            seen.extend(profiler.take().iter());
            prop_assert_eq!(profiler.requests(), accesses.len() as u64);
            prop_assert_eq!(seen, accesses);
        }
    }

    #[test]
    fn requests_that_follow_each_other_take_four_bytes() {
        let mut chunk = Chunk::default();
        let access = |i: u32| Access {
            paused: Nanos(100 * u64::from(i)),
            first: i * 8,
            pages: 8,
            ..Access::default()
        };
        for i in 0..10 {
            chunk.push(&access(i));
        }
        let before = chunk.used();
        chunk.push(&access(10));
        assert_eq!(chunk.used() - before, 4, "place, length, time and depth");
    }
}
