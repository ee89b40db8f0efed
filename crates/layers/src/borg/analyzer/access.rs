//! An access graph by pages, in order of pages, which makes merging two of them one pass.
//!
//! An edge leads from the last page of a request to the first page of the next. When a range is
//! split, the page that an edge came from is still the last of a range, and the one it leads to the
//! first of one: so edges never change, and need no vertex numbers until planning.
//! Transitions inside a request follow from the ranges: every access to a range that is split passes
//! from one part to the other.

use std::cmp::Ordering;

use super::Edges;
use super::graph::{Graph, Vertex};
use crate::borg::profiler::Access;

/// A range of pages within which no request begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub start: u32,
    /// The page after the last.
    pub end: u32,
    /// Requests that touched it.
    pub requests: u32,
    /// Requests that touched it and went on to the range after it.
    pub passed: u32,
    /// Reads that touched it.
    pub reads: u32,
    /// Number of the first request that touched it.
    pub touched: u32,
}

/// Jumps, from page to page, each as often as it happened.
type Ways = Vec<(u32, u32)>;

/// A jump from a request to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// The last page of the first request, and the first page of the next.
    pub way: (u32, u32),
    pub weight: u32,
}

/// Ranges and jumps, all sorted, weights never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessGraph {
    pub(super) ranges: Vec<Range>,
    /// From a process's request to its next.
    pub(super) jumps: Vec<Jump>,
    /// From a request to the next of any process; none, unless these are analysed too.
    pub(super) global: Vec<Jump>,
}

impl AccessGraph {
    /// The graph of some requests, none of them empty and the first the one numbered `number`, and of the jumps
    /// between them: by process, and between all.
    pub fn new(window: &[Access], number: u32, jumps: Ways, global: Ways) -> AccessGraph {
        let mut ranges = split(window);
        ranges.shrink_to_fit();
        number_first_requests(&mut ranges, window, number);
        AccessGraph { ranges, jumps: counted(jumps), global: counted(global) }
    }

    /// How many ranges and jumps.
    pub fn size(&self) -> usize {
        self.ranges.len() + self.jumps.len() + self.global.len()
    }

    /// Its memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let jumps = self.jumps.capacity() + self.global.capacity();
        (self.ranges.capacity() * size_of::<Range>() + jumps * size_of::<Jump>()) as u64
    }

    /// The union of both graphs, with weights added.
    pub fn merge(&self, other: &AccessGraph) -> AccessGraph {
        let mut ranges = merge_ranges(&self.ranges, &other.ranges);
        ranges.shrink_to_fit();
        let [jumps, global] =
            [(&self.jumps, &other.jumps), (&self.global, &other.global)].map(|(one, other)| {
                let mut jumps = merge_jumps(one, other);
                jumps.shrink_to_fit();
                jumps
            });
        AccessGraph { ranges, jumps, global }
    }

    /// Halves all weights; zero weights are removed. No jump outlives its target range, since none weighs more.
    pub fn age(&mut self) {
        for range in &mut self.ranges {
            (range.requests, range.passed) = (range.requests / 2, range.passed / 2);
            // What was ever read stays known as read.
            range.reads = range.reads.div_ceil(2);
        }
        self.ranges.retain(|range| range.requests > 0);
        self.ranges.shrink_to_fit();
        for jumps in [&mut self.jumps, &mut self.global] {
            for jump in jumps.iter_mut() {
                jump.weight /= 2;
            }
            jumps.retain(|jump| jump.weight > 0);
            jumps.shrink_to_fit();
        }
    }

    /// The graph with numbered vertices. Self-loops are dropped.
    pub fn numbered(&self, edges: Edges) -> Graph {
        let jumps = match edges {
            Edges::Process => &self.jumps,
            Edges::Global => &self.global,
        };
        let starts = Starts::new(&self.ranges);
        let mut edges = Vec::with_capacity(self.ranges.len() + jumps.len());
        let mut jumps = jumps.iter().peekable();
        for (from, range) in (0_u32..).zip(&self.ranges) {
            // What passes along is one more edge to the next vertex, or a part of the one there is.
            let mut passed = range.passed;
            while let Some(jump) = jumps.next_if(|jump| jump.way.0 < range.end) {
                // The range that it leads from may have aged away.
                if jump.way.0 + 1 != range.end {
                    continue;
                }
                let (to, mut weight) = (starts.find(jump.way.1), jump.weight);
                if to > from && passed > 0 {
                    if to == from + 1 {
                        weight = weight.saturating_add(passed);
                    } else {
                        edges.push((from, from + 1, passed));
                    }
                    passed = 0;
                }
                if to != from {
                    edges.push((from, to, weight));
                }
            }
            if passed > 0 {
                edges.push((from, from + 1, passed));
            }
        }
        let vertex = |range: &Range| Vertex {
            start: range.start,
            pages: range.end - range.start,
            reads: range.reads,
            writes: range.requests.saturating_sub(range.reads),
            touched: range.touched,
        };
        Graph::new(self.ranges.iter().map(vertex).collect(), edges)
    }
}

/// The ranges between all boundaries that some request covers.
fn split(window: &[Access]) -> Vec<Range> {
    const STARTS: u64 = 1;
    const READS: u64 = 2;
    // (page, where a request starts or ends, whether it reads) in one number: a sweep that counts.
    let mut bounds: Vec<u64> = Vec::with_capacity(window.len() * 2);
    for access in window {
        let read = if access.write { 0 } else { READS };
        bounds.push(u64::from(access.first) << 2 | read | STARTS);
        bounds.push(u64::from(access.first + access.pages) << 2 | read);
    }
    bounds.sort_unstable();
    let (mut ranges, mut start, mut touching, mut reading) = (Vec::new(), 0, 0_u32, 0_u32);
    for at in bounds.chunk_by(|one, other| one >> 2 == other >> 2) {
        let count = |kind: u64, mask: u64| at.iter().filter(|bound| *bound & mask == kind).count() as u32;
        let (page, passed) = ((at[0] >> 2) as u32, touching - count(0, STARTS));
        if touching > 0 {
            let (requests, reads) = (touching, reading);
            ranges.push(Range { start, end: page, requests, passed, reads, touched: u32::MAX });
        }
        touching = passed + count(STARTS, STARTS);
        reading = reading + count(STARTS | READS, STARTS | READS) - count(READS, STARTS | READS);
        start = page;
    }
    ranges
}

/// Sets the number of the first request of each range: each range is looked at once, not by every request in it.
fn number_first_requests(ranges: &mut [Range], window: &[Access], number: u32) {
    // The next range at or after each that has no number yet, with path compression.
    let mut next: Vec<u32> = (0..=ranges.len() as u32).collect();
    let find = |from: usize, next: &mut Vec<u32>| {
        let mut at = from;
        while next[at] as usize != at {
            next[at] = next[next[at] as usize];
            at = next[at] as usize;
        }
        at
    };
    for (access, number) in window.iter().zip(number..) {
        let first = ranges.partition_point(|range| range.start < access.first);
        let mut at = find(first, &mut next);
        while at < ranges.len() && ranges[at].start < access.first + access.pages {
            ranges[at].touched = number;
            next[at] = at as u32 + 1;
            at = find(at, &mut next);
        }
    }
}

/// Jumps in order, equal ones counted.
fn counted(mut ways: Ways) -> Vec<Jump> {
    ways.sort_unstable();
    let mut jumps: Vec<Jump> = Vec::new();
    for way in ways {
        match jumps.last_mut() {
            Some(last) if last.way == way => last.weight += 1,
            _ => jumps.push(Jump { way, weight: 1 }),
        }
    }
    jumps.shrink_to_fit();
    jumps
}

impl Range {
    /// The part before `end`; the rest is left.
    fn cut(&mut self, end: u32) -> Range {
        let part = Range { end, passed: self.requests, ..*self };
        self.start = end;
        part
    }
}

fn merge_ranges(one: &[Range], other: &[Range]) -> Vec<Range> {
    let mut merged = Vec::with_capacity(one.len().max(other.len()));
    let (mut ones, mut others) = (one.iter().copied(), other.iter().copied());
    let (mut one, mut other) = (ones.next(), others.next());
    while let (Some(a), Some(b)) = (&mut one, &mut other) {
        if a.end <= b.start {
            merged.push(*a);
            one = ones.next();
        } else if b.end <= a.start {
            merged.push(*b);
            other = others.next();
        } else if a.start < b.start {
            merged.push(a.cut(b.start));
        } else if b.start < a.start {
            merged.push(b.cut(a.start));
        } else {
            let end = a.end.min(b.end);
            let touched = a.touched.min(b.touched);
            let mut both = Range { start: a.start, end, requests: 0, passed: 0, reads: 0, touched };
            for (part, rest) in [(&mut one, &mut ones), (&mut other, &mut others)] {
                let Some(range) = part else { continue };
                both.requests = both.requests.saturating_add(range.requests);
                both.reads = both.reads.saturating_add(range.reads);
                let passed = if range.end > end {
                    range.cut(end).passed
                } else {
                    let passed = range.passed;
                    *part = rest.next();
                    passed
                };
                both.passed = both.passed.saturating_add(passed);
            }
            merged.push(both);
        }
    }
    merged.extend(one.into_iter().chain(ones));
    merged.extend(other.into_iter().chain(others));
    merged
}

fn merge_jumps(one: &[Jump], other: &[Jump]) -> Vec<Jump> {
    let mut merged = Vec::with_capacity(one.len().max(other.len()));
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        match a.way.cmp(&b.way) {
            Ordering::Less => merged.extend(one.next()),
            Ordering::Greater => merged.extend(other.next()),
            Ordering::Equal => {
                merged.push(Jump { way: a.way, weight: a.weight.saturating_add(b.weight) });
                one.next();
                other.next();
            }
        }
    }
    merged.extend(one);
    merged.extend(other);
    merged
}

/// Finds the range that starts at a page, nearly always in one step.
struct Starts<'a> {
    ranges: &'a [Range],
    /// `bucket[page >> shift]` is the first range that starts at or after `page >> shift << shift`.
    bucket: Vec<u32>,
    shift: u32,
}

impl Starts<'_> {
    fn new(ranges: &[Range]) -> Starts<'_> {
        let pages = ranges.last().map_or(0, |range| range.end as usize);
        let shift = (pages / ranges.len().max(1)).max(1).ilog2();
        let mut bucket = vec![0; (pages >> shift) + 2];
        for range in ranges {
            bucket[(range.start as usize >> shift) + 1] += 1;
        }
        for at in 1..bucket.len() {
            bucket[at] += bucket[at - 1];
        }
        Starts { ranges, bucket, shift }
    }

    fn find(&self, page: u32) -> u32 {
        let at = page as usize >> self.shift;
        let (first, end) = (self.bucket[at], self.bucket[at + 1]);
        let within = &self.ranges[first as usize..end as usize];
        first + within.partition_point(|range| range.start < page) as u32
    }
}
