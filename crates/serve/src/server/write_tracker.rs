//! Writes concurrent with extent queries: the result of a query may be older than a write that completes before it.
//!
//! Invariants: a write in flight when a query begins, or begun before its result, counts as data there, however late
//! the layers look, and whatever they find. Fault model: a failed write may have been carried out, so it counts as
//! well.

use std::cell::RefCell;

use seekless_core::Extent;
use seekless_core::device::{Content, ExtentState};
use slab::Slab;

/// Extents that a query notes individually; beyond that they are merged into one.
const NOTED: usize = 1024;

/// See the file's header.
#[derive(Default)]
pub struct WriteTracker {
    in_flight: RefCell<Slab<Extent>>,
    queries: RefCell<Slab<Vec<Extent>>>,
}

/// A write in flight, until it is dropped.
pub struct Writing<'a> {
    all: &'a WriteTracker,
    key: usize,
}

/// An extent query in flight, until it is dropped.
pub struct ExtentQuery<'a> {
    all: &'a WriteTracker,
    key: usize,
}

impl WriteTracker {
    /// Notes the start of a write.
    pub fn begin_write(&self, at: Extent) -> Writing<'_> {
        for (_, noted) in self.queries.borrow_mut().iter_mut() {
            noted.push(at);
            if noted.len() > NOTED {
                *noted = vec![hull(noted)];
            }
        }
        Writing { all: self, key: self.in_flight.borrow_mut().insert(at) }
    }

    /// Notes the start of an extent query.
    pub fn begin_query(&self) -> ExtentQuery<'_> {
        let in_flight = self.in_flight.borrow().iter().map(|(_, at)| *at).collect();
        ExtentQuery { all: self, key: self.queries.borrow_mut().insert(in_flight) }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.all.in_flight.borrow_mut().remove(self.key);
    }
}

impl ExtentQuery<'_> {
    /// The result of the query, with data wherever anything was written meanwhile.
    pub fn overlay(self, states: Vec<ExtentState>) -> Vec<ExtentState> {
        let noted = std::mem::take(&mut self.all.queries.borrow_mut()[self.key]);
        if noted.is_empty() { states } else { with_data_at(states, noted) }
    }
}

impl Drop for ExtentQuery<'_> {
    fn drop(&mut self) {
        self.all.queries.borrow_mut().remove(self.key);
    }
}

/// The smallest extent that contains all of these.
fn hull(all: &[Extent]) -> Extent {
    let start = all.iter().map(|at| at.start.0).min().unwrap_or(0);
    let end = all.iter().map(|at| at.end().0).max().unwrap_or(start);
    Extent::new(start, end - start)
}

/// Consecutive states, with data wherever one of `written` is.
fn with_data_at(states: Vec<ExtentState>, mut written: Vec<Extent>) -> Vec<ExtentState> {
    written.sort_by_key(|at| at.start);
    let (mut next, mut merged) = (written.into_iter().peekable(), Vec::new());
    for ExtentState { extent, content } in states {
        let (mut at, end) = (extent.start.0, extent.end().0);
        while at < end {
            while next.next_if(|written| written.end().0 <= at).is_some() {}
            let written = next.peek().map_or(end..end, |written| written.start.0..written.end().0);
            let (data, to) = (written.start.clamp(at, end), written.end.min(end));
            for (from, to, content) in [(at, data, content), (data, to, Content::Data)] {
                if from < to {
                    merged.push(ExtentState { extent: Extent::new(from, to - from), content });
                }
            }
            at = to.max(data);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes(at: Extent) -> Vec<ExtentState> {
        vec![ExtentState { extent: at, content: Content::Hole }]
    }

    fn merged(states: &[ExtentState]) -> Vec<(u64, u64, Content)> {
        states.iter().map(|state| (state.extent.start.0, state.extent.sectors, state.content)).collect()
    }

    #[test]
    fn what_was_written_before_is_as_the_device_reports_it() {
        let all = WriteTracker::default();
        drop(all.begin_write(Extent::new(0, 8)));
        assert_eq!(merged(&all.begin_query().overlay(holes(Extent::new(0, 8)))), [(0, 8, Content::Hole)]);
        assert!(all.in_flight.borrow().is_empty() && all.queries.borrow().is_empty());
    }

    #[test]
    fn what_is_written_meanwhile_is_data() {
        let all = WriteTracker::default();
        let racing = all.begin_write(Extent::new(90, 20));
        let query = all.begin_query();
        drop(racing);
        drop(all.begin_write(Extent::new(8, 8)));
        drop(all.begin_write(Extent::new(10, 2)));
        let still = all.begin_write(Extent::new(20, 1));
        let states = [holes(Extent::new(4, 10)), holes(Extent::new(14, 86))].concat();
        let all_merged = merged(&query.overlay(states));
        drop(still);
        let (hole, data) = (Content::Hole, Content::Data);
        let expected = [
            (4, 4, hole),
            (8, 6, data),
            (14, 2, data),
            (16, 4, hole),
            (20, 1, data),
            (21, 69, hole),
            (90, 10, data),
        ];
        assert_eq!(all_merged, expected);
    }

    #[test]
    fn a_question_holds_no_more_however_much_is_written() {
        let all = WriteTracker::default();
        let query = all.begin_query();
        for at in 0..10_000 {
            drop(all.begin_write(Extent::new(100 + 2 * at, 1)));
            assert!(all.queries.borrow()[query.key].len() <= NOTED);
        }
        let merged = merged(&query.overlay(holes(Extent::new(0, 30_000))));
        assert_eq!(
            (merged[0], merged.last()),
            ((0, 100, Content::Hole), Some(&(20_099, 9_901, Content::Hole)))
        );
    }
}
