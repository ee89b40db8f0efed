//! State of each segment: its number of live blocks, its age, and when it can be reused.
//!
//! A segment without live blocks is *pending*, and becomes free when the write that removed its last block is durable
//! elsewhere, a durable checkpoint is after everything written to it (recovery follows the log from there, and does not
//! read the segment), and no read of it is in flight.

use std::collections::{BTreeSet, VecDeque};

use seekless_core::invariant;

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of live blocks.
    pub live: u32,
    /// Sequence of the last write to it.
    pub written: u64,
    /// Sequence of the last write to it that did not fail, as far as is known; the last one if it was by a cleaner.
    pub recorded: u64,
    /// If pending, the sequence that removed its last block.
    pub emptied: u64,
    /// Reads in flight.
    pub pins: u32,
    /// Blocks that a cleaner is writing to it.
    pub coming: u32,
    /// Whether everything written to it is hollow.
    pub hollow: bool,
    /// Whether it is being cleaned.
    pub cleaning: bool,
    /// Whether some of its blocks could not be read: it is not cleaned again.
    pub spared: bool,
}

/// State of all segments.
#[derive(Default)]
pub struct Segments {
    each: Vec<Segment>,
    free: VecDeque<u32>,
    pending: BTreeSet<u32>,
}

impl Segments {
    /// Segments with these live blocks; those without any are free.
    pub fn new(each: Vec<Segment>) -> Segments {
        let free =
            (0..).zip(&each).filter(|(_, segment)| segment.live == 0).map(|(number, _)| number).collect();
        Segments { each, free, pending: BTreeSet::new() }
    }

    /// State of a segment.
    pub fn get(&self, segment: u32) -> &Segment {
        &self.each[segment as usize]
    }

    /// As `get`, to change it.
    pub fn get_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.each[segment as usize]
    }

    /// All segments, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).zip(&self.each)
    }

    /// Number of free segments.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// The pending segments.
    pub fn pending(&self) -> impl Iterator<Item = &Segment> {
        self.pending.iter().map(|&segment| self.get(segment))
    }

    /// Whether there are pending segments, and all of them wait for reads.
    pub fn all_pending_pinned(&self) -> bool {
        !self.pending.is_empty() && self.pending().all(|segment| segment.pins > 0)
    }

    /// Takes a free segment to be filled.
    pub fn take(&mut self) -> Option<u32> {
        let segment = self.free.pop_front()?;
        *self.get_mut(segment) = Segment { hollow: true, ..Segment::default() };
        Some(segment)
    }

    /// Returns a segment that was taken.
    pub fn give_back(&mut self, segment: u32) {
        self.free.push_front(segment);
    }

    /// Makes a segment pending that has no live blocks and is not open; `sequence` removed its last block.
    pub fn emptied(&mut self, segment: u32, sequence: u64) {
        invariant!("a segment is freed when no block lies in it", self.get(segment).live == 0);
        self.get_mut(segment).emptied = sequence;
        self.pending.insert(segment);
    }

    /// Frees pending segments: everything up to `durable` is durable, and the checkpoint on disk is after `checkpoint`.
    pub fn free_up(&mut self, durable: u64, checkpoint: u64) {
        let each = &self.each;
        let freed: Vec<u32> = self
            .pending
            .iter()
            .copied()
            .filter(|&segment| {
                let segment = &each[segment as usize];
                segment.emptied <= durable && segment.written <= checkpoint && segment.pins == 0
            })
            .collect();
        for segment in freed {
            self.pending.remove(&segment);
            self.free.push_back(segment);
        }
    }
}
