//! The organ-pipe arrangement: the hottest pages in the middle of the area, cooler ones on both sides in turn, so that
//! the head seldom has far to go (Akyürek and Salem, *Adaptive Block Rearrangement*, 1995). Which requests follow each
//! other does not count.
//!
//! The heat of a page is the number of requests for it, reads and writes. Ties: the lower address is hotter. The first
//! range on each side of the middle is the hotter one of its pair, the second side is the front.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::analyzer::{Graph, Vertex};
use super::{Order, Plan, Planned};

/// The organ-pipe arrangement.
#[derive(Clone, Copy, Debug)]
pub struct OrganPipe;

impl Order for OrganPipe {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let heat = |range: &Vertex| u64::from(range.reads) + u64::from(range.writes);
        let mut hottest: Vec<Vertex> = graph.vertices().to_vec();
        hottest.sort_by_key(|range| (Reverse(heat(range)), range.start));
        let (mut left, mut ranges) = (capacity, VecDeque::new());
        for (range, number) in hottest.into_iter().zip(0_usize..) {
            let pages = u64::from(range.pages).min(left) as u32;
            if pages == 0 {
                break;
            }
            left -= u64::from(pages);
            let planned = Planned::anywhere(Vertex { pages, ..range });
            if number % 2 == 0 { ranges.push_back(planned) } else { ranges.push_front(planned) }
        }
        Plan { ranges: ranges.into() }
    }
}
