//! The semantics as plainly as possible: a sector's requests, and a search through all their orders. Slow, and
//! obviously right: the reference for the registers.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

/// A content: the number of its write, 0 for zeroes.
pub type Content = u64;

/// Effect of a request on the sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Write,
    Zeroes,
    Discard,
    /// The content returned, once answered.
    Read(Content),
}

/// A request of one sector.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: u64,
    pub does: Does,
    pub start: usize,
    /// Time of its success; failures have no end.
    pub end: Option<usize>,
    pub fua: bool,
    pub durable: bool,
}

impl Request {
    fn gives(&self) -> Option<Content> {
        match self.does {
            Does::Write => Some(self.id),
            Does::Zeroes | Does::Discard => Some(0),
            Does::Read(_) => None,
        }
    }
}

/// A sector since power-up: its possible contents then, and its requests since.
#[derive(Clone, Debug)]
pub struct Sector {
    pub first: BTreeSet<Content>,
    pub requests: Vec<Request>,
}

/// State of a search: the requests carried out, and the contents that a crash may leave, the present one last.
type State = (u32, Vec<Content>);

impl Sector {
    pub fn new(first: BTreeSet<Content>) -> Sector {
        Sector { first, requests: Vec::new() }
    }

    /// The contents that a crash may leave by some order that explains all answers, each between its request's start
    /// and end; empty if no order does.
    pub fn by_orders(&self) -> BTreeSet<Content> {
        let (mut left, mut seen) = (BTreeSet::new(), FxHashSet::default());
        let mut open: Vec<State> = self.first.iter().map(|first| (0, vec![*first])).collect();
        while let Some(state) = open.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let waiting = |at: &usize| state.0 & 1 << at == 0;
            let ends = (0..self.requests.len()).filter(waiting).filter_map(|at| self.requests[at].end);
            let Some(deadline) = ends.min() else {
                left.extend(state.1.iter().copied());
                open.extend((0..self.requests.len()).filter(waiting).flat_map(|at| self.turn(&state, at)));
                continue;
            };
            let next = (0..self.requests.len()).filter(waiting);
            let next = next.filter(|at| self.requests[*at].start < deadline);
            open.extend(next.flat_map(|at| self.turn(&state, at)));
        }
        left
    }

    /// The states after that request is carried out.
    fn turn(&self, (turned, contents): &State, at: usize) -> Vec<State> {
        let request = &self.requests[at];
        let turned = turned | 1 << at;
        let Some(content) = request.gives() else {
            let fits = request.does == Does::Read(*contents.last().unwrap());
            // An unanswered read constrains nothing.
            return if fits || request.end.is_none() { vec![(turned, contents.clone())] } else { Vec::new() };
        };
        let mut after = if request.durable { Vec::new() } else { contents.clone() };
        after.push(content);
        let mut states = vec![(turned, after)];
        if request.does == Does::Discard {
            states.push((turned, contents.clone()));
        }
        states
    }

    /// The contents that a crash may leave by the rule, if no content has two sources: all but those that precede a
    /// durable version.
    pub fn by_rule(&self) -> BTreeSet<Content> {
        let reads = |content| {
            self.requests
                .iter()
                .filter(move |request| request.does == Does::Read(content) && request.end.is_some())
        };
        let settled = self.first.iter().find(|first| reads(**first).next().is_some());
        let first = self.first.iter().filter(|first| settled.is_none_or(|settled| settled == *first));
        // Content, first end, last start, durable.
        let mut clusters: Vec<(Content, Option<usize>, usize, bool)> = Vec::new();
        for first in first {
            let start = reads(*first).map(|read| read.start).max().unwrap_or(0);
            clusters.push((*first, Some(0), start, settled.is_some()));
        }
        for write in self.requests.iter().filter(|request| request.does == Does::Write) {
            let end = reads(write.id).filter_map(|read| read.end).chain(write.end).min();
            let start = reads(write.id).map(|read| read.start).max().unwrap_or(0).max(write.start);
            clusters.push((write.id, end, start, write.durable));
        }
        let follows = |content, end: Option<usize>| {
            clusters.iter().any(|(other, _, start, durable)| {
                *durable && *other != content && end.is_some_and(|end| end < *start)
            })
        };
        clusters
            .iter()
            .filter(|(content, end, ..)| !follows(*content, *end))
            .map(|(content, ..)| *content)
            .collect()
    }
}
