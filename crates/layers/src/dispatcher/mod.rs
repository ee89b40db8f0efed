//! The dispatcher (section 5.4 of the IOLab paper): issues a stream of reads in a class, a bounded number at a time, to
//! the block cache below. It can be cancelled, and each read can be promoted.
//!
//! Reads of class `Urgent` hold back the foreground at the component (launch control), those of class `Background` or
//! `Free` are overtaken by it. A read that fails is skipped: a client that needs its data reads it itself.

mod ahead;

use std::cell::RefCell;

use seekless_core::{BlockDevice, Extent, Hints, Ticket};

use crate::join::join_all;

pub use ahead::{Ahead, Working};

/// A stream of reads, each with its own ticket.
pub struct Dispatcher<S> {
    /// The reads, in the order in which they are issued.
    pub stream: S,
    /// Their class and account.
    pub how: Hints,
    /// Most reads in flight.
    pub at_once: usize,
}

impl<S: Iterator<Item = (Extent, Ticket)>> Dispatcher<S> {
    /// Has all of them in the cache, except those whose ticket is aborted first; `done` is called as each one has
    /// ended.
    pub async fn run(self, cache: &dyn BlockDevice, done: impl Fn(Extent)) {
        let stream = RefCell::new(self.stream);
        let next = || stream.borrow_mut().next();
        let reader = || async {
            while let Some((at, ticket)) = next() {
                if !ticket.is_aborted() {
                    let how = Hints { ticket: Some(ticket), ..self.how.clone() };
                    // Its error, too: a client that needs the data gets it.
                    drop(cache.prefetch(at, how).await);
                }
                done(at);
            }
        };
        join_all((0..self.at_once).map(|_| reader())).await;
    }
}

/// Pages as runs of at most `most` pages, which may hold up to `gap` pages that are not asked for between two that are.
pub fn runs(pages: impl IntoIterator<Item = u64>, most: u64, gap: u64) -> Vec<Extent> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        let joins = |first: u64, count: u64| {
            let end = first + count;
            page >= end && page - end <= gap && page - first < most
        };
        match runs.last_mut().filter(|(first, count)| joins(*first, *count)) {
            Some((first, count)) => *count = page + 1 - *first,
            None => runs.push((page, 1)),
        }
    }
    runs.into_iter().map(|(first, count)| Extent::of_pages(first, count)).collect()
}
