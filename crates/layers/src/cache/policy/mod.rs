//! Eviction policies of the block cache (IOLab, section 5.3), a file each behind one trait: a policy knows which pages
//! are resident, and names the next one to evict.
//!
//! Invariants: a resident page is in one queue; a pinned page (dirty, or in use) keeps its place and is not evicted. A
//! policy remembers at most about as many evicted pages as it has resident ones.

mod arc;
pub mod batched;
mod clock;
mod drop_when_read;
mod evicted;
mod ghost;
mod lru;
pub mod outside;
mod queue;
mod s3_fifo;
mod sieve;
mod two_q;

use std::ops::Range;

use std::fmt;
use std::str::FromStr;

use seekless_core::names::perhaps;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use ghost::Ghost;
pub use queue::Queue;

/// How a page is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A client reads it.
    Read,
    /// A client writes it.
    Write,
    /// It is read before a client does.
    Prefetch,
}

/// Chooses the pages to evict. Pages are numbers, all of one size.
pub trait Policy {
    /// A page that is not resident is accessed; room is made for it next. It may never be admitted.
    fn miss(&mut self, _page: u64) {}

    /// A page becomes resident.
    fn admit(&mut self, page: u64, by: Access);

    /// A resident page is accessed.
    fn hit(&mut self, page: u64, by: Access);

    /// Chooses a page that is not pinned, which is not resident any more; `None` if all are pinned.
    fn evict(&mut self) -> Option<u64>;

    /// A resident page is dropped for another reason.
    fn remove(&mut self, page: u64);

    /// Whether a resident page is pinned, from now on.
    fn pin(&mut self, page: u64, pinned: bool);

    /// The cache has room for this many pages from now on.
    fn resize(&mut self, _pages: u64) {}

    /// The pages to fetch where that costs nothing, in this order, beside a read of these that missed; those that are
    /// resident or not on the device are passed over. `None`: those that the option `prefetch` says.
    fn prefetch(&mut self, _missed: Range<u64>) -> Option<Vec<u64>> {
        None
    }

    /// A page that has to leave although there is room, which is not resident any more.
    fn next_spent(&mut self) -> Option<u64> {
        None
    }
}

/// The policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The page used longest ago.
    #[default]
    Lru,
    /// First in, first out, with a second chance for pages used since (Corbató, 1968).
    Clock,
    /// A queue for new pages, and LRU for those accessed again after it (Johnson and Shasha, VLDB 1994).
    TwoQ,
    /// Recency and frequency, balanced by hits of evicted pages (Megiddo and Modha, FAST 2003).
    Arc,
    /// Three queues: a small one for new pages, the main one, and one of evicted pages (Yang et al., SOSP 2023).
    S3Fifo,
    /// A queue whose hand passes over used pages and leaves them in place (Zhang et al., NSDI 2024).
    Sieve,
    /// A page leaves as soon as a client has read it (IOLab, section 5.3).
    DropWhenRead,
    /// One that the program gives for a piece of work, by its name: see [`outside`].
    Outside(&'static str),
}

impl Kind {
    /// The policies of this crate, with their names in options.
    pub const ALL: [(Kind, &str); 7] = [
        (Kind::Lru, "lru"),
        (Kind::Clock, "clock"),
        (Kind::TwoQ, "2q"),
        (Kind::Arc, "arc"),
        (Kind::S3Fifo, "s3-fifo"),
        (Kind::Sieve, "sieve"),
        (Kind::DropWhenRead, "drop-when-read"),
    ];

    /// Those of this crate, and those that are given now.
    pub fn known() -> Vec<(Kind, &'static str)> {
        let given = outside::names().into_iter().map(|name| (Kind::Outside(name), name));
        Kind::ALL.into_iter().chain(given).collect()
    }

    /// A policy for a cache of this many pages.
    pub fn build(self, pages: u64) -> Box<dyn Policy> {
        match self {
            Kind::Lru => Box::new(lru::Lru::default()),
            Kind::Clock => Box::new(clock::Clock::default()),
            Kind::TwoQ => Box::new(two_q::TwoQ::new(pages)),
            Kind::Arc => Box::new(arc::Arc::new(pages)),
            Kind::S3Fifo => Box::new(s3_fifo::S3Fifo::new(pages)),
            Kind::Sieve => Box::new(sieve::Sieve::default()),
            Kind::DropWhenRead => Box::new(drop_when_read::DropWhenRead::default()),
            // It is given still where its name was read; a cache that is built later was refused.
            Kind::Outside(name) => outside::make(name, pages).unwrap_or_else(|| Kind::Lru.build(pages)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Kind::ALL.iter().find(|(kind, _)| kind == self).map(|(_, name)| *name);
        f.write_str(match self {
            Kind::Outside(name) => name,
            _ => name.unwrap_or_default(),
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let known = Kind::known();
        known.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
            let perhaps = perhaps(text, names.iter().copied());
            format!("found '{text}', expected one of {}{perhaps}", names.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
