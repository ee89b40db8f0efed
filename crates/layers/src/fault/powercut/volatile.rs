//! Acknowledged writes that are not durable, in order.

use std::collections::VecDeque;

use seekless_core::runtime::Rng;
use seekless_core::{Buffer, Extent, Lba, SECTOR_BYTES};

/// The contents of a volatile cache.
#[derive(Default)]
pub struct Volatile(VecDeque<(Extent, Buffer)>);

impl Volatile {
    /// Number of writes in the cache.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes a write. Its bytes are copied: the writer may use its buffer again.
    pub fn put(&mut self, at: Extent, from: &Buffer) {
        let bytes = if from.is_hollow() { from.clone() } else { Buffer::from_vec(from.to_vec()) };
        self.0.push_back((at, bytes));
    }

    /// The write that came first.
    pub fn oldest(&self) -> Option<(Extent, Buffer)> {
        self.0.front().cloned()
    }

    /// That one is durable.
    pub fn drop_oldest(&mut self) {
        self.0.pop_front();
    }

    /// What it holds of `at` is superseded.
    pub fn forget(&mut self, at: Extent) {
        let whole = std::mem::take(&mut self.0);
        for (written, bytes) in whole {
            let before = at.start.0.clamp(written.start.0, written.end().0) - written.start.0;
            let behind = at.end().0.clamp(written.start.0, written.end().0) - written.start.0;
            if !written.overlaps(at) {
                self.0.push_back((written, bytes));
                continue;
            }
            for (from, to) in [(0, before), (behind, written.sectors)] {
                if from < to {
                    let part = Extent { start: Lba(written.start.0 + from), sectors: to - from };
                    self.0.push_back((part, bytes.cut_sectors(from, to - from)));
                }
            }
        }
    }

    /// Puts what it holds of `at` over what was read.
    pub fn show(&self, at: Extent, into: &Buffer) {
        for (written, bytes) in self.0.iter().filter(|(written, _)| written.overlaps(at)) {
            let (start, end) = (written.start.max(at.start), written.end().min(at.end()));
            let part = bytes.cut_sectors(start.0 - written.start.0, end.0 - start.0);
            if !part.is_hollow() && !into.is_hollow() {
                into.put(((start.0 - at.start.0) * SECTOR_BYTES) as usize, &part.to_vec());
            }
        }
    }

    /// All of it.
    pub fn in_order(self) -> Vec<(Extent, Buffer)> {
        self.0.into()
    }

    /// Any sectors of any of them, in any order: each sector then holds any of its versions, or none.
    pub fn some(self, rng: &mut Rng) -> Vec<(Extent, Buffer)> {
        let mut sectors: Vec<(Extent, Buffer)> = Vec::new();
        for (at, bytes) in self.0 {
            // Whole writes get through or are lost more often than torn ones.
            let fate = rng.below(4);
            for sector in 0..at.sectors {
                let kept = fate == 0 || (fate == 1 && rng.below(2) == 0);
                if kept {
                    let one = Extent { start: Lba(at.start.0 + sector), sectors: 1 };
                    sectors.push((one, bytes.cut_sectors(sector, 1)));
                }
            }
        }
        for last in (1..sectors.len()).rev() {
            sectors.swap(last, rng.below(last as u64 + 1) as usize);
        }
        sectors
    }
}
