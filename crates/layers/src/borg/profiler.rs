//! The profiler (section 4.1): the temporal, process and block attributes of every request that
//! reaches the layer.

use seekless_core::{Extent, Nanos, Origin, ProcessId};

/// One request, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it reached the layer.
    pub time: Nanos,
    /// Who asked.
    pub process: ProcessId,
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
}

impl Profiler {
    /// A request reaches the layer.
    pub fn note(&mut self, time: Nanos, origin: Origin, at: Extent, write: bool) {
        let pages = at.pages();
        let (first, pages) = (pages.start as u32, (pages.end - pages.start) as u32);
        self.seen.push(Access { time, process: origin.process, first, pages, write });
    }

    /// A copy of the training window: everything seen (*cumulative*, section 6.2).
    pub fn window(&self) -> Vec<Access> {
        self.seen.clone()
    }

    /// How many requests were seen.
    pub fn requests(&self) -> usize {
        self.seen.len()
    }
}
