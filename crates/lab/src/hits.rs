//! Hit ratios of eviction policies on a trace: caches of pages without data or time, as libCacheSim has them.

use schemars::JsonSchema;
use seekless_core::{Op, PAGE_BYTES, Record};
use seekless_layers::cache::policy::{Access, Ghost, Kind};
use serde::Serialize;

/// A cache of one size, with one policy.
pub struct Simulated {
    kind: Kind,
    cache: Ghost,
    counted: [Counted; 2],
}

/// Accesses and hits of one operation.
#[derive(Clone, Copy, Default)]
struct Counted {
    accesses: u64,
    hits: u64,
}

/// Hits of a policy in a cache of one size.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Hits {
    /// Name of the policy.
    pub policy: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Those that hit.
    pub hits: u64,
    /// Share of page accesses that hit, in per cent.
    pub hit_pct: f64,
    /// Share of page reads that hit, in per cent.
    pub read_hit_pct: f64,
    /// Share of page writes that hit, in per cent.
    pub write_hit_pct: f64,
}

impl Simulated {
    /// An empty cache of whole pages: `bytes` rounded down, at least one page.
    pub fn new(kind: Kind, bytes: u64) -> Simulated {
        let pages = (bytes / PAGE_BYTES).max(1);
        Simulated { kind, cache: Ghost::new(kind, pages), counted: [Counted::default(); 2] }
    }

    /// Accesses the pages of a read or a write; other requests access none.
    pub fn follow(&mut self, record: &Record) {
        let by = match record.op {
            Op::Read => Access::Read,
            Op::Write => Access::Write,
            _ => return,
        };
        record.extent.pages().for_each(|page| self.access(page, by));
    }

    fn access(&mut self, page: u64, by: Access) {
        let counted = &mut self.counted[usize::from(by == Access::Write)];
        counted.accesses += 1;
        counted.hits += u64::from(self.cache.access(page, by));
    }

    /// The hits so far.
    pub fn hits(&self) -> Hits {
        let [reads, writes] = self.counted;
        let (accesses, hits) = (reads.accesses + writes.accesses, reads.hits + writes.hits);
        let percent = |of: Counted| 100.0 * of.hits as f64 / of.accesses.max(1) as f64;
        Hits {
            policy: self.kind.to_string(),
            bytes: self.cache.pages() * PAGE_BYTES,
            accesses,
            hits,
            hit_pct: percent(Counted { accesses, hits }),
            read_hit_pct: percent(reads),
            write_hit_pct: percent(writes),
        }
    }
}
