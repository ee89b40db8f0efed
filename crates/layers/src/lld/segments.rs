//! What is known of each segment: how many of its blocks are live, how old it is, and when it can be used again.
//!
//! A segment without live blocks is *pending*, and then free: when what took its last block away is durable
//! elsewhere, a durable checkpoint lies behind what was written to it (a start goes along the log from there, and
//! meets it no more), and nobody reads from it.

use std::collections::{BTreeSet, VecDeque};

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its live blocks.
    pub live: u32,
    /// The sequence of what was written to it last.
    pub written: u64,
    /// Of a pending one, the sequence that took its last block away.
    pub emptied: u64,
    /// Reads of it that are under way.
    pub pins: u32,
    /// Blocks that a cleaner is writing to it.
    pub coming: u32,
    /// All that was written to it has a length only.
    pub hollow: bool,
    /// It is being cleaned.
    pub cleaning: bool,
    /// Some of its blocks could not be read: it is not cleaned again.
    pub spared: bool,
}

/// All of them.
#[derive(Default)]
pub struct Segments {
    each: Vec<Segment>,
    free: VecDeque<u32>,
    pending: BTreeSet<u32>,
}

impl Segments {
    /// These; those without live blocks are free.
    pub fn new(each: Vec<Segment>) -> Segments {
        let free =
            (0..).zip(&each).filter(|(_, segment)| segment.live == 0).map(|(number, _)| number).collect();
        Segments { each, free, pending: BTreeSet::new() }
    }

    /// One of them.
    pub fn of(&self, segment: u32) -> &Segment {
        &self.each[segment as usize]
    }

    /// The same to change it.
    pub fn get(&mut self, segment: u32) -> &mut Segment {
        &mut self.each[segment as usize]
    }

    /// All, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).zip(&self.each)
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Those that are empty and not free yet.
    pub fn pending(&self) -> impl Iterator<Item = &Segment> {
        self.pending.iter().map(|&segment| self.of(segment))
    }

    /// A free one, to be filled.
    pub fn take(&mut self) -> Option<u32> {
        let segment = self.free.pop_front()?;
        *self.get(segment) = Segment { hollow: true, ..Segment::default() };
        Some(segment)
    }

    /// It is not filled after all.
    pub fn give_back(&mut self, segment: u32) {
        self.free.push_front(segment);
    }

    /// It has no live blocks, and is not being filled; what took the last one away has this sequence.
    pub fn emptied(&mut self, segment: u32, sequence: u64) {
        self.get(segment).emptied = sequence;
        self.pending.insert(segment);
    }

    /// Frees what can be: all up to `durable` is, and the checkpoint on disk lies behind `checkpoint`.
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
