//! The profiler (section 4.1): the temporal, process and block attributes of every request that
//! reaches the layer.

use seekless_core::{Extent, NameId, Nanos, Origin, ProcessId};

/// One request, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it reached the layer.
    pub time: Nanos,
    /// Who asked.
    pub process: ProcessId,
    /// Its executable.
    pub name: NameId,
    /// The first page it touches.
    pub first: u32,
    /// How many pages.
    pub pages: u32,
    /// Whether it wrote.
    pub write: bool,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Profiler {
    seen: Vec<Access>,
    requests: u64,
}

impl Profiler {
    /// A request reaches the layer.
    pub fn note(&mut self, time: Nanos, origin: Origin, at: Extent, write: bool) {
        let pages = at.pages();
        let (first, pages) = (pages.start as u32, (pages.end - pages.start) as u32);
        self.seen.push(Access { time, process: origin.process, name: origin.name, first, pages, write });
    }

    /// What was seen since the last time.
    pub fn take(&mut self) -> Vec<Access> {
        self.requests += self.seen.len() as u64;
        std::mem::take(&mut self.seen)
    }

    /// How many requests were seen.
    pub fn requests(&self) -> u64 {
        self.requests + self.seen.len() as u64
    }
}
