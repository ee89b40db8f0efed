//! The most recently used pages, as far as there is room (LRU).
//!
//! The plan is the queue, from the least to the most recently used page: what the requests since the last plan do not
//! touch keeps its order at the front, what they touch follows in the order of their last requests. Free slots are thus
//! filled in the order of requests, and what does not fit leaves at the front. Only reads count.

use std::collections::BTreeMap;

use super::super::analyzer::Vertex;
use super::{Plan, Planned, Planner, Scene};

/// The most recently used pages.
#[derive(Clone, Copy, Debug)]
pub struct Lru;

impl Planner for Lru {
    fn plan(&self, scene: &Scene<'_>) -> Plan {
        let reads = scene.window.iter().filter(|access| !access.write);
        let requests: Vec<(u32, u32)> = reads.map(|access| (access.first, access.pages)).collect();
        let before = scene.last.iter().flat_map(|last| last.ranges.iter().rev());
        let before = before.map(|planned| (planned.range.start, planned.range.pages));
        let (mut covered, mut left, mut newest_first) = (Covered::default(), scene.capacity(), Vec::new());
        for (start, pages) in requests.into_iter().rev().chain(before) {
            for (start, end) in covered.add(start, start + pages).into_iter().rev() {
                let pages = u64::from(end - start).min(left) as u32;
                left -= u64::from(pages);
                if pages > 0 {
                    let range = Vertex { start: end - pages, pages, reads: 1, writes: 0, touched: 0 };
                    newest_first.push(Planned::anywhere(range));
                }
            }
            if left == 0 {
                break;
            }
        }
        newest_first.reverse();
        Plan { ranges: newest_first }
    }
}

/// Ranges of pages, first page to the page after the last, that do not overlap.
#[derive(Default)]
struct Covered(BTreeMap<u32, u32>);

impl Covered {
    /// Adds a range; the parts of it that were not covered, in order.
    fn add(&mut self, start: u32, end: u32) -> Vec<(u32, u32)> {
        let (mut parts, mut at) = (Vec::new(), start);
        let before = self.0.range(..start).next_back().map(|(start, end)| (*start, *end));
        let overlapping = before.into_iter().filter(|(_, before)| *before > start);
        let overlapping = overlapping.chain(self.0.range(start..end).map(|(start, end)| (*start, *end)));
        for (from, to) in overlapping {
            if from > at {
                parts.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            parts.push((at, end));
        }
        self.0.extend(parts.iter().copied());
        parts
    }
}
