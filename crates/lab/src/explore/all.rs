//! Small workloads exhaustively: every sequence of up to some number of requests to a few pages, and at each moment
//! every set of sectors that may survive.
//!
//! Where the writes that are not durable have too many sectors for all sets, each of the writes is lost, whole, or torn
//! once: its first sectors survive, or its last.

use std::rc::Rc;

use seekless_core::{Extent, Op, PAGE_SECTORS};

use super::log::Log;
use super::power::{Pending, Survivor};
use super::script::{Request, Step};

/// Sets of sectors of all writes together, at most.
const SETS: u64 = 1 << 10;

/// Every choice of survivors at a moment.
pub struct All {
    /// Possible survivors of each write.
    writes: Vec<Vec<Vec<Survivor>>>,
    next: Option<Vec<usize>>,
}

impl All {
    /// The choices for writes that are not durable.
    pub fn new(pending: &[Pending], log: &Log) -> All {
        let sizes = pending.iter().map(|pending| (pending.write, log.writes[pending.write].at.sectors));
        let sizes: Vec<(usize, u64)> = sizes.collect();
        let together: u64 = sizes.iter().map(|(_, sectors)| sectors).sum();
        let every = together < 64 && 1 << together <= SETS;
        let writes: Vec<_> = sizes
            .into_iter()
            .map(|(write, sectors)| if every { sets(write, sectors) } else { torn_once(write, sectors) })
            .collect();
        All { next: Some(vec![0; writes.len()]), writes }
    }
}

impl Iterator for All {
    type Item = Vec<Survivor>;

    fn next(&mut self) -> Option<Vec<Survivor>> {
        let now = self.next.take()?;
        let chosen =
            self.writes.iter().zip(&now).flat_map(|(write, choice)| write[*choice].clone()).collect();
        let mut next = now;
        for (digit, write) in next.iter_mut().zip(&self.writes) {
            *digit += 1;
            if *digit < write.len() {
                self.next = Some(next);
                break;
            }
            *digit = 0;
        }
        Some(chosen)
    }
}

fn sets(write: usize, sectors: u64) -> Vec<Vec<Survivor>> {
    let of = |set: u64| (0..sectors).filter(move |sector| set >> sector & 1 == 1);
    (0..1 << sectors)
        .map(|set| of(set).map(|first| Survivor { write, first, end: first + 1 }).collect())
        .collect()
}

fn torn_once(write: usize, sectors: u64) -> Vec<Vec<Survivor>> {
    let first = (1..sectors).map(|end| vec![Survivor { write, first: 0, end }]);
    let last = (1..sectors).map(|first| vec![Survivor { write, first, end: sectors }]);
    let whole = vec![Survivor { write, first: 0, end: sectors }];
    [Vec::new(), whole].into_iter().chain(first).chain(last).collect()
}

/// Every sequence of `requests` requests, to the first `pages` pages of a volume of `sectors` sectors.
pub fn scripts(requests: usize, pages: u64, sectors: u64) -> Vec<Rc<[Step]>> {
    let mut each = vec![Request { op: Op::Flush, at: Extent::default(), fua: false }];
    for page in 0..pages.min(sectors / PAGE_SECTORS) {
        let whole = Extent::of_pages(page, 1);
        let part = Extent::new(whole.start.0 + 2, 3);
        let request = |op, at, fua| Request { op, at, fua };
        each.extend([
            request(Op::Write, whole, false),
            request(Op::Write, part, false),
            request(Op::Write, whole, true),
            request(Op::Read, whole, false),
            request(Op::Discard, whole, false),
            request(Op::WriteZeroes, whole, false),
        ]);
    }
    let mut all: Vec<Vec<Request>> = vec![Vec::new()];
    for _ in 0..requests {
        all = all
            .iter()
            .flat_map(|before| each.iter().map(|next| [before.as_slice(), &[*next]].concat()))
            .collect();
    }
    all.into_iter().map(|requests| requests.into_iter().map(Step::Ask).collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_set_of_sectors_comes_once() {
        for sectors in [1, 5, 8] {
            let all: BTreeSet<Vec<u64>> = sets(0, sectors)
                .iter()
                .map(|set| set.iter().map(|survivor| survivor.first).collect())
                .collect();
            assert_eq!(all.len(), 1 << sectors);
        }
        let mut all = All { writes: vec![sets(0, 2), torn_once(1, 3), sets(2, 1)], next: Some(vec![0; 3]) };
        let seen: Vec<_> = all.by_ref().collect();
        assert_eq!(seen.len(), 4 * 6 * 2);
        let text: BTreeSet<String> = seen.iter().map(|choice| format!("{choice:?}")).collect();
        assert_eq!(text.len(), seen.len());
        assert!(all.next().is_none());
    }

    #[test]
    fn every_sequence_of_requests_comes_once() {
        assert_eq!(scripts(0, 2, 80).len(), 1);
        assert_eq!(scripts(2, 2, 80).len(), 13 * 13);
        assert_eq!(
            scripts(3, 1, 80).iter().map(|script| format!("{script:?}")).collect::<BTreeSet<_>>().len(),
            343
        );
    }
}
