//! Requests of a queue in class `Free`: each is pending in units of 8 sectors, in whichever order they pass.
//!
//! Invariants: a unit is pending while a request waits for it; requests may overlap, and a unit that passes counts for
//! all that wait for it then.

use std::collections::BTreeMap;

use seekless_core::Extent;

use super::Inner;
use super::direction::PieceId;
use crate::scheduler::Slot;

/// Sectors of a unit.
const UNIT: u64 = 8;

/// The requests of one direction.
#[derive(Debug, Default)]
pub struct Requests {
    /// Number of their set, once there was a request.
    set: Option<usize>,
    /// By first piece and slot.
    waiting: BTreeMap<(usize, Slot), Waiting>,
    /// By slot: the first piece.
    first: BTreeMap<Slot, usize>,
    /// The largest piece count of a request so far.
    longest: usize,
}

/// A request that waits for some of its pieces.
#[derive(Debug)]
struct Waiting {
    at: Extent,
    /// Bitmap of pieces still awaited, counted from its first.
    bits: Vec<u64>,
    left: u32,
}

impl Requests {
    /// The set that holds their pieces.
    pub fn set(&self) -> Option<usize> {
        self.set
    }

    /// A piece has passed: slots of requests that this completes go into `done`.
    pub fn delivered(&mut self, bit: usize, done: &mut Vec<Slot>) {
        let mut over = Vec::new();
        for (&key, waiting) in
            self.waiting.range_mut((bit.saturating_sub(self.longest), 0)..=(bit, Slot::MAX))
        {
            if waiting.done_with(bit - key.0) && waiting.left == 0 {
                over.push(key);
            }
        }
        for key in over {
            self.waiting.remove(&key);
            self.first.remove(&key.1);
            done.push(key.1);
        }
    }

    /// Whether a piece that was taken is still wanted: by a request if it is of their set, else by its task.
    pub fn is_still_pending(&self, taken: &PieceId) -> bool {
        self.set != Some(taken.set) || self.is_pending(taken.bit)
    }

    /// Whether a request waits for a piece.
    fn is_pending(&self, bit: usize) -> bool {
        let near = self.waiting.range((bit.saturating_sub(self.longest), 0)..=(bit, Slot::MAX));
        near.into_iter().any(|(key, waiting)| waiting.waits_for(bit - key.0))
    }
}

impl Waiting {
    fn waits_for(&self, piece: usize) -> bool {
        self.bits.get(piece / 64).is_some_and(|word| word >> (piece % 64) & 1 == 1)
    }

    /// Marks a piece as arrived; false if it was not awaited.
    fn done_with(&mut self, piece: usize) -> bool {
        let waited = self.waits_for(piece);
        if waited {
            self.bits[piece / 64] &= !(1 << (piece % 64));
            self.left -= 1;
        }
        waited
    }
}

impl Inner {
    pub(super) fn request(&mut self, slot: Slot, write: bool, at: Extent) {
        let direction = &mut self.directions[usize::from(write)];
        let requests = &mut self.requests[usize::from(write)];
        let set = *requests.set.get_or_insert_with(|| {
            direction.add_set(&self.tracks, (UNIT, 1), self.layout.sectors().next_multiple_of(UNIT))
        });
        let mut pieces = Vec::new();
        self.tracks.of(&self.layout, at, |track, extent| {
            let pending = &direction.sets[set].pending;
            let (from, to) = pending.touched(extent, extent.within(at));
            direction.add_pending(&self.tracks, set, track, (from, to));
            pieces.extend(from..to);
        });
        let (Some(&first), Some(&last)) = (pieces.first(), pieces.last()) else { return };
        let mut waiting = Waiting { at, bits: vec![0; (last - first) / 64 + 1], left: pieces.len() as u32 };
        for bit in pieces {
            waiting.bits[(bit - first) / 64] |= 1 << ((bit - first) % 64);
        }
        requests.longest = requests.longest.max(last - first);
        requests.waiting.insert((first, slot), waiting);
        requests.first.insert(slot, first);
    }

    pub(super) fn cancel(&mut self, slot: Slot, write: bool) {
        let requests = &mut self.requests[usize::from(write)];
        let Some(set) = requests.set else { return };
        let Some(key) = requests.first.remove(&slot).map(|first| (first, slot)) else { return };
        let Some(request) = requests.waiting.remove(&key) else { return };
        let direction = &mut self.directions[usize::from(write)];
        self.tracks.of(&self.layout, request.at, |track, extent| {
            let pending = &direction.sets[set].pending;
            let (from, to) = pending.touched(extent, extent.within(request.at));
            for bit in (from..to).filter(|&bit| request.waits_for(bit - key.0) && !requests.is_pending(bit)) {
                direction.remove_pending(&self.tracks, set, track, bit);
            }
        });
    }
}
