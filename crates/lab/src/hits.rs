//! Hit ratios of eviction policies on a trace: caches of pages without data or time, as libCacheSim has them.

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use seekless_core::{Op, PAGE_BYTES, Record};
use seekless_layers::cache::policy::{Access, Kind, Policy};
use serde::Serialize;

/// A cache of one size, with one policy.
pub struct Simulated {
    kind: Kind,
    pages: u64,
    policy: Box<dyn Policy>,
    resident: FxHashSet<u64>,
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
        Simulated {
            kind,
            pages,
            policy: kind.build(pages),
            resident: FxHashSet::default(),
            counted: [Counted::default(); 2],
        }
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
        let hit = self.resident.contains(&page);
        let counted = &mut self.counted[usize::from(by == Access::Write)];
        counted.accesses += 1;
        counted.hits += u64::from(hit);
        if hit {
            self.policy.hit(page, by);
        } else {
            self.policy.miss(page);
            if self.resident.len() as u64 >= self.pages {
                self.policy.evict().map(|evicted| self.resident.remove(&evicted));
            }
            self.policy.admit(page, by);
            self.resident.insert(page);
        }
        while let Some(spent) = self.policy.next_spent() {
            self.resident.remove(&spent);
        }
    }

    /// The hits so far.
    pub fn hits(&self) -> Hits {
        let [reads, writes] = self.counted;
        let (accesses, hits) = (reads.accesses + writes.accesses, reads.hits + writes.hits);
        let percent = |of: Counted| 100.0 * of.hits as f64 / of.accesses.max(1) as f64;
        Hits {
            policy: self.kind.to_string(),
            bytes: self.pages * PAGE_BYTES,
            accesses,
            hits,
            hit_pct: percent(Counted { accesses, hits }),
            read_hit_pct: percent(reads),
            write_hit_pct: percent(writes),
        }
    }
}
