//! The organ-pipe arrangement: the hottest pages in the middle of the area, cooler ones on both sides in turn, so that
//! the head seldom has far to go (Akyürek and Salem, *Adaptive Block Rearrangement*, 1995). Which requests follow each
//! other does not count.
//!
//! The heat of a page is the number of reads. As in the paper the steps of the arrangement are cylinders, not single
//! pages: within a step pages are in order of address, so that sequential reads are not divided between both sides. The
//! hottest step is in the middle, the next one in front of it. Ties: the lower address is hotter.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::super::analyzer::{Graph, Vertex};
use super::{Order, Plan, Planned};

/// Pages of a cylinder, roughly: 2 MiB, four tracks of a disk with two platters.
pub const CYLINDER: u64 = 512;

/// The organ-pipe arrangement.
#[derive(Clone, Copy, Debug)]
pub struct OrganPipe {
    /// Pages of a step, at least: no range is divided.
    pub step: u64,
}

impl Order for OrganPipe {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let mut hottest: Vec<Vertex> = graph.vertices().iter().copied().filter(Vertex::is_read).collect();
        hottest.sort_by_key(|range| (Reverse(range.reads), range.start));
        let (mut left, mut steps): (u64, Vec<Vec<Vertex>>) = (capacity, Vec::new());
        let mut room = 0_u64;
        for range in hottest {
            let pages = u64::from(range.pages).min(left) as u32;
            if pages == 0 {
                break;
            }
            if room == 0 {
                steps.push(Vec::new());
                room = self.step;
            }
            (left, room) = (left - u64::from(pages), room.saturating_sub(u64::from(pages)));
            steps.last_mut().into_iter().for_each(|step| step.push(Vertex { pages, ..range }));
        }
        let mut arranged = VecDeque::new();
        for (mut step, number) in steps.into_iter().zip(0_usize..) {
            step.sort_unstable_by_key(|range| range.start);
            if number % 2 == 0 { arranged.push_back(step) } else { arranged.push_front(step) }
        }
        Plan { ranges: arranged.into_iter().flatten().map(Planned::anywhere).collect() }
    }
}
