//! How the working set changes: Figure 1 of the BORG paper, bottom row.
//!
//! The trace is cut into intervals of equally many requests, not of equal time: recordings are
//! compressed in time, and a pause would make an interval without requests. The *top* of an interval
//! is the fifth of its pages that is accessed most in it (among equals, those at lower addresses).
//! An overlap is the share of an interval's pages that an earlier interval accessed too.

use rustc_hash::FxHashMap;
use seekless_core::Record;
use serde::Serialize;

use super::pages::top20;
use super::{is_request, moves_data, percent};

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// The number of its first request, from zero.
    pub first_request: u64,
    /// Its requests.
    pub requests: u64,
    /// Different pages accessed in it.
    pub pages: u64,
    /// Of them, those that the first interval accessed too.
    pub overlap_first_pct: f64,
    /// Of them, those that the interval before accessed too; 100 in the first, which has none.
    pub overlap_previous_pct: f64,
    /// Pages in its top.
    pub top20_pages: u64,
    /// Of them, those in the first interval's top.
    pub top20_overlap_first_pct: f64,
    /// Of them, those in the top of the interval before; 100 in the first, which has none.
    pub top20_overlap_previous_pct: f64,
}

/// Pages in ascending order.
#[derive(Clone, Default)]
struct Sets {
    all: Vec<u64>,
    top: Vec<u64>,
}

/// The working sets of `intervals` intervals; fewer if there are fewer requests.
pub fn working_sets(records: &[Record], intervals: u32) -> Vec<WorkingSet> {
    let requests: Vec<&Record> = records.iter().filter(|record| is_request(record)).collect();
    let intervals = requests.len().min(intervals as usize);
    let mut first: Option<Sets> = None;
    let mut previous: Option<Sets> = None;
    let mut sets = Vec::with_capacity(intervals);
    for interval in 0..intervals {
        let bound = |number: usize| requests.len() * number / intervals;
        let range = bound(interval)..bound(interval + 1);
        let here = pages_of(&requests[range.clone()]);
        let (day_one, before) = (first.as_ref().unwrap_or(&here), previous.as_ref().unwrap_or(&here));
        sets.push(WorkingSet {
            first_request: range.start as u64,
            requests: range.len() as u64,
            pages: here.all.len() as u64,
            overlap_first_pct: overlap_pct(&here.all, &day_one.all),
            overlap_previous_pct: overlap_pct(&here.all, &before.all),
            top20_pages: here.top.len() as u64,
            top20_overlap_first_pct: overlap_pct(&here.top, &day_one.top),
            top20_overlap_previous_pct: overlap_pct(&here.top, &before.top),
        });
        first.get_or_insert_with(|| here.clone());
        previous = Some(here);
    }
    sets
}

fn pages_of(requests: &[&Record]) -> Sets {
    let mut counts: FxHashMap<u64, u64> = FxHashMap::default();
    for request in requests.iter().filter(|request| moves_data(request)) {
        for page in request.extent.pages() {
            *counts.entry(page).or_default() += 1;
        }
    }
    let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let ascending = |counts: &[(u64, u64)]| {
        let mut pages: Vec<u64> = counts.iter().map(|&(page, _)| page).collect();
        pages.sort_unstable();
        pages
    };
    Sets { all: ascending(&counts), top: ascending(&counts[..top20(counts.len())]) }
}

/// Of `here`, what is in `there` too; both ascend.
fn overlap_pct(here: &[u64], there: &[u64]) -> f64 {
    let mut others = there.iter().peekable();
    let mut common = 0;
    for page in here {
        while others.next_if(|other| *other < page).is_some() {}
        common += u64::from(others.peek() == Some(&page));
    }
    percent(common, here.len() as u64)
}
