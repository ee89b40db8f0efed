//! Heat: the number of requests to each part of the volume, for display at any time and at no cost. (The graph used for
//! planning has it page by page, but only once a plan is made.)
//!
//! Invariants: all parts have the same size, and there are at most [`MOST`] of them, whatever the size of the volume.

use seekless_core::{Extent, PAGE_SECTORS};

/// Minimum size of a part in pages: 1 MiB.
const SMALLEST: u64 = 256;
/// Maximum number of parts, four bytes each.
const MOST: u64 = 1 << 20;

/// Counted requests.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Sectors of a part.
    part: u64,
    /// Parts after the last one have no requests.
    counts: Vec<u32>,
}

impl Heat {
    /// No requests yet, for a volume of `pages` pages.
    pub fn new(pages: u64) -> Heat {
        let part = pages.div_ceil(MOST).next_power_of_two().max(SMALLEST);
        Heat { part: part * PAGE_SECTORS, counts: Vec::new() }
    }

    /// Counts a request.
    pub fn note(&mut self, at: Extent) {
        let (first, last) = ((at.start.0 / self.part) as usize, ((at.end().0 - 1) / self.part) as usize);
        if self.counts.len() <= last {
            self.counts.resize(last + 1, 0);
        }
        for count in &mut self.counts[first..=last] {
            *count = count.saturating_add(1);
        }
    }

    /// Halves all counts.
    pub fn age(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
    }

    /// Calls `each` with the parts of `at`, in order, and their counts.
    pub fn each(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) {
        for part in at.split(self.part) {
            let count = self.counts.get((part.start.0 / self.part) as usize);
            each(part, count.copied().unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_and_cool_down() {
        let mut heat = Heat::new(1 << 18);
        let ranges = |heat: &Heat, at: Extent| {
            let mut ranges = Vec::new();
            heat.each(at, &mut |part, count| ranges.push((part.start.0, part.sectors, count)));
            ranges
        };
        for _ in 0..5 {
            heat.note(Extent::new(2048, 8));
        }
        heat.note(Extent::new(4095, 2));
        assert_eq!(ranges(&heat, Extent::new(2000, 3000)), [(2000, 48, 0), (2048, 2048, 6), (4096, 904, 1)]);
        heat.age();
        assert_eq!(
            ranges(&heat, Extent::new(0, 8192))[1..],
            [(2048, 2048, 3), (4096, 2048, 0), (6144, 2048, 0)]
        );
    }

    #[test]
    fn a_large_volume_has_larger_parts() {
        let pages = 1 << 40;
        let mut heat = Heat::new(pages);
        heat.note(Extent::of_pages(pages - 1, 1));
        assert!(heat.counts.len() as u64 <= MOST);
        let mut last = None;
        heat.each(Extent::of_pages(pages - 9, 9), &mut |_, count| last = Some(count));
        assert_eq!(last, Some(1));
    }
}
