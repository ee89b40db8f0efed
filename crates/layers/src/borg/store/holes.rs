//! Free space of the segment that is being filled: the run in which the next batch begins, and the holes that batches
//! placed elsewhere have left.
//!
//! A batch is placed where the head arrives first (*eager writing*), so a segment is not filled in order. Without
//! estimates it is: there is one run, and no hole.
//!
//! A property test holds that run and holes are apart. Each hole has room for the smallest batch.

use std::ops::Range;

/// Pages of the smallest batch: a header and a page.
const SMALLEST: u32 = 2;

/// Free pages of a segment, counted from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holes {
    /// The next batch begins at its start.
    run: Range<u32>,
    /// In ascending order.
    holes: Vec<Range<u32>>,
}

/// Whether the smallest batch fits.
fn has_room(hole: &Range<u32>) -> bool {
    hole.end - hole.start >= SMALLEST
}

impl Holes {
    /// A free segment of this many pages.
    pub fn new(pages: u32) -> Holes {
        Holes { run: 0..pages, holes: Vec::new() }
    }

    /// Where the next batch begins; `None` if there is no room for one.
    pub fn next(&self) -> Option<u32> {
        has_room(&self.run).then_some(self.run.start).or(self.holes.first().map(|hole| hole.start))
    }

    /// Begins a batch: takes the page of its header. Returns it, and the pages that can follow it.
    pub fn begin(&mut self) -> Option<(u32, u32)> {
        if !has_room(&self.run) {
            self.run = (!self.holes.is_empty()).then(|| self.holes.remove(0))?;
        }
        let at = self.take();
        Some((at, self.run.end - self.run.start))
    }

    /// Takes the next page of the run.
    pub fn take(&mut self) -> u32 {
        self.run.start += 1;
        self.run.start - 1
    }

    /// Lets the next batch begin at `at`, which is free.
    pub fn move_to(&mut self, at: u32) {
        let run = std::mem::replace(&mut self.run, 0..0);
        let all = std::mem::take(&mut self.holes).into_iter().chain([run]);
        for hole in all {
            if hole.contains(&at) {
                self.run = at..hole.end;
                self.keep(hole.start..at);
            } else {
                self.keep(hole);
            }
        }
        self.holes.sort_unstable_by_key(|hole| hole.start);
    }

    fn keep(&mut self, hole: Range<u32>) {
        if has_room(&hole) {
            self.holes.push(hole);
        }
    }

    /// Free pages.
    pub fn pages(&self) -> u32 {
        self.all().map(|hole| hole.end - hole.start).sum()
    }

    /// Pages that can be appended, in batches of at most `longest` pages and a header each.
    pub fn usable(&self, longest: u32) -> u32 {
        self.all().map(|hole| usable(hole.end - hole.start, longest)).sum()
    }

    /// Where a batch of this many pages, header included, can begin.
    pub fn possible_starts(&self, pages: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        self.all().filter_map(move |hole| {
            let last = (hole.end + 1).checked_sub(pages.max(SMALLEST))?;
            (hole.start < last).then_some(hole.start..last)
        })
    }

    fn all(&self) -> impl Iterator<Item = &Range<u32>> {
        self.holes.iter().chain([&self.run])
    }
}

/// Pages that can be appended to `free` contiguous ones, in batches of at most `longest` pages and a header each.
pub fn usable(free: u32, longest: u32) -> u32 {
    free - free.div_ceil(longest + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_segment_is_filled_in_order_unless_a_batch_is_placed() {
        let mut free = Holes::new(12);
        assert_eq!((free.begin(), free.take(), free.next()), (Some((0, 11)), 1, Some(2)));
        free.move_to(6);
        assert_eq!(
            (free.begin(), free.take(), free.pages()),
            (Some((6, 5)), 7, 8),
            "2 to 5 and 8 to 11 are left"
        );
        free.move_to(3);
        assert_eq!((free.begin(), free.pages()), (Some((3, 2)), 6), "page 2 alone is no hole");
        assert_eq!(free.possible_starts(3).flatten().collect::<Vec<_>>(), [8, 9]);
        free.take();
        assert_eq!(free.begin(), Some((8, 3)));
    }

    proptest! {
        /// Each page is taken once, and as many can be taken as were promised.
        #[test]
        fn every_page_is_taken_once(
            pages in 2..40_u32,
            longest in 1..10_u32,
            steps in prop::collection::vec((0..40_u32, 1..6_u32), 0..40),
        ) {
            let (mut free, mut taken) = (Holes::new(pages), std::collections::BTreeSet::new());
            let mut fill = |free: &mut Holes, most: u32| {
                let Some((at, room)) = free.begin() else { return 0 };
                let wanted = most.min(room).min(longest);
                let all = std::iter::once(at).chain((0..wanted).map(|_| free.take()));
                assert!(all.into_iter().all(|page| page < pages && taken.insert(page)));
                wanted
            };
            for (at, most) in steps {
                let place = free.possible_starts(most + 1).flatten().find(|place| *place >= at);
                if let Some(place) = place {
                    free.move_to(place);
                    prop_assert_eq!(free.next(), Some(place));
                }
                fill(&mut free, most);
            }
            let promised = free.usable(longest);
            let mut got = 0;
            while free.next().is_some() {
                got += fill(&mut free, longest);
            }
            prop_assert_eq!(got, promised);
        }
    }
}
