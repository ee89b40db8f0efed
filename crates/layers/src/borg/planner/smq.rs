//! A queue in levels, after the stochastic multi-queue policy of Linux' dm-cache (SMQ).
//!
//! The plan is the queue, from the lowest to the highest level, and its equal parts are the levels. Each read since the
//! last plan moves the pages that it touches up by one level; new pages begin in the lowest one. What does not fit
//! leaves at the front. Within a level pages that were touched are behind those that were not. Only reads count.

use super::super::analyzer::Vertex;
use super::{Plan, Planned, Planner, Scene, parts_outside};

/// Levels of the queue, as in dm-cache.
const LEVELS: u64 = 64;

/// The queue in levels.
#[derive(Clone, Copy, Debug)]
pub struct Smq;

impl Planner for Smq {
    fn plan(&self, scene: &Scene<'_>) -> Plan {
        let last: &[Planned] = scene.last.map_or(&[], |last| &last.ranges);
        let touched = scene.graph.vertices().iter().copied().filter(Vertex::is_read);
        let touched = &touched.collect::<Vec<Vertex>>()[..];
        let mut queue = Vec::new();
        for (level, range) in levels(last) {
            queue.extend(parts_outside(range, touched).into_iter().map(|part| (level, false, part)));
            queue.extend(overlapping(range, touched).map(|part| (level + u64::from(part.reads), true, part)));
        }
        let mut placed: Vec<Vertex> = last.iter().map(|planned| planned.range).collect();
        placed.sort_unstable_by_key(|range| range.start);
        let new = touched.iter().flat_map(|range| parts_outside(*range, &placed));
        queue.extend(new.map(|part| (u64::from(part.reads) - 1, true, part)));
        queue.sort_by_key(|(level, hit, _)| (*level, *hit));
        let (mut left, mut highest_first) = (scene.capacity(), Vec::new());
        for (_, _, range) in queue.into_iter().rev() {
            let pages = u64::from(range.pages).min(left) as u32;
            left -= u64::from(pages);
            if pages > 0 {
                let start = range.start + range.pages - pages;
                highest_first.push(Planned::anywhere(Vertex { start, pages, ..range }));
            }
        }
        highest_first.reverse();
        Plan { ranges: highest_first }
    }
}

/// The ranges of a queue, divided where its levels end, each with its level.
fn levels(queue: &[Planned]) -> Vec<(u64, Vertex)> {
    let all: u64 = queue.iter().map(|planned| u64::from(planned.range.pages)).sum();
    let (mut parts, mut at) = (Vec::new(), 0);
    for Planned { mut range, .. } in queue.iter().copied() {
        while range.pages > 0 {
            let level = at * LEVELS / all;
            let end = ((level + 1) * all).div_ceil(LEVELS);
            let pages = u64::from(range.pages).min(end - at) as u32;
            parts.push((level, Vertex { pages, ..range }));
            at += u64::from(pages);
            (range.start, range.pages) = (range.start + pages, range.pages - pages);
        }
    }
    parts
}

/// The parts of a range in those of `touched`, which are in order of pages, with the reads of these.
fn overlapping(range: Vertex, touched: &[Vertex]) -> impl Iterator<Item = Vertex> {
    let end = range.start + range.pages;
    let from = touched.partition_point(|there| there.start + there.pages <= range.start);
    touched[from..].iter().take_while(move |there| there.start < end).map(move |there| {
        let start = there.start.max(range.start);
        Vertex { start, pages: (there.start + there.pages).min(end) - start, ..*there }
    })
}
