//! The map in memory, and when it becomes durable.
//!
//! Invariants: a sector of the map is written after the units that it names are durable in their slots; a slot is free
//! after a map that does not name it is durable. After a failed flush or write of the map all later flushes fail, and
//! nothing moves.

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join};
use seekless_core::runtime::edge;
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Lba};

use super::Hybrid;
use super::format::{self, ENTRIES, Shape};
use super::opening::Opened;

/// The map.
pub struct Map {
    pub shape: Shape,
    identity: u128,
    slots: Vec<u32>,
    generation: u64,
    /// Slots that may be taken: of the fast device, and of the other.
    free: [Vec<u32>; 2],
    /// Slots that the durable map may still name.
    released: Vec<u32>,
    /// Sectors of the map that have changed since they were written.
    changed: BTreeSet<u64>,
    failed: Option<IoError>,
    sectors_written: u64,
}

impl Map {
    pub fn new(opened: Opened) -> Map {
        let Opened { shape, identity, slots, generation } = opened;
        let mut used = vec![false; (shape.fast + shape.slow) as usize];
        for slot in &slots {
            used[*slot as usize] = true;
        }
        let free = |range: std::ops::Range<u32>| range.filter(|slot| !used[*slot as usize]).rev().collect();
        let free = [free(0..shape.fast), free(shape.fast..shape.fast + shape.slow)];
        let (released, changed) = (Vec::new(), BTreeSet::new());
        Map { shape, identity, slots, generation, free, released, changed, failed: None, sectors_written: 0 }
    }

    /// The slot of a unit.
    pub fn slot(&self, unit: u32) -> u32 {
        self.slots[unit as usize]
    }

    /// Whether a unit is on the fast device.
    pub fn is_fast(&self, unit: u32) -> bool {
        self.slot(unit) < self.shape.fast
    }

    /// Number of free slots on the fast device, of slots there that are not free yet, and of sectors written.
    pub fn counts(&self) -> (usize, usize, u64) {
        let released = self.released.iter().filter(|slot| **slot < self.shape.fast).count();
        (self.free[0].len(), released, self.sectors_written)
    }

    /// Takes a free slot.
    pub fn take(&mut self, on_fast: bool) -> Option<u32> {
        self.free[usize::from(!on_fast)].pop()
    }

    /// Gives back a slot that was taken and holds nothing: it is the last to be taken again.
    pub fn give_back(&mut self, slot: u32) {
        self.free[usize::from(slot >= self.shape.fast)].insert(0, slot);
    }

    /// A unit is in another slot now.
    pub fn change(&mut self, unit: u32, to: u32, reuses: bool) {
        let from = std::mem::replace(&mut self.slots[unit as usize], to);
        assert!(from != to, "a unit moves to another slot");
        self.changed.insert(u64::from(unit) / ENTRIES as u64);
        if reuses { self.give_back(from) } else { self.released.push(from) }
    }

    /// Whether a change is not being written.
    pub fn has_unwritten(&self) -> bool {
        !self.changed.is_empty() || !self.released.is_empty()
    }

    /// Whether nothing moves any more.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The changed sectors, encoded for both copies, as runs; and the slots that are free when these are durable.
    fn next(&mut self) -> (Vec<(Extent, Buffer)>, Vec<u32>) {
        let changed: Vec<u64> = std::mem::take(&mut self.changed).into_iter().collect();
        self.generation += u64::from(!changed.is_empty());
        self.sectors_written += 2 * changed.len() as u64;
        let mut writes = Vec::new();
        for copy in 0..2 {
            for run in changed.chunk_by(|one, next| one + 1 == *next) {
                let start = self.shape.map_at(copy, run[0]);
                let bytes = run.iter().flat_map(|sector| {
                    let first = *sector as usize * ENTRIES;
                    let slots = &self.slots[first..(first + ENTRIES).min(self.slots.len())];
                    format::encode_map(
                        slots,
                        self.identity,
                        self.shape.map_at(copy, *sector),
                        self.generation,
                    )
                });
                writes.push((Extent { start, sectors: run.len() as u64 }, Buffer::from_vec(bytes.collect())));
            }
        }
        (writes, std::mem::take(&mut self.released))
    }
}

impl Hybrid {
    /// Whether writes that ended may depend on changes of the map that are not durable.
    pub(super) fn has_changes(&self) -> bool {
        let map = self.map.borrow();
        !map.changed.is_empty() || map.has_failed() || !self.committing.is_empty()
    }

    /// Makes earlier writes durable: both devices, then changes of the map; then slots released before are free.
    pub(super) async fn commit(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.committing.exclusive(Extent::new(0, 1), how).await;
        let (writes, released) = {
            let mut map = self.map.borrow_mut();
            if let Some(error) = &map.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            map.next()
        };
        // Others may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, ..how.clone() };
        let done = async {
            if !self.canary.is("a map before its data") || writes.is_empty() {
                try_join(self.fast.flush(how.clone()), self.over.flush(how.clone())).await?;
            }
            if writes.is_empty() {
                return Ok(());
            }
            let fast = &*self.fast;
            let writes = writes.into_iter().flat_map(|(at, bytes)| {
                let parts = bytes.split(at, fast.geometry().largest_sectors).collect::<Vec<_>>();
                parts.into_iter().map(|(part, piece)| fast.write(part, piece, how.clone()))
            });
            join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
            self.fast.flush(how.clone()).await?;
            // For that canary: both devices are flushed, too late.
            if self.canary.is("a map before its data") { self.over.flush(how).await } else { Ok(()) }
        };
        let done = done.await;
        let map = &mut *self.map.borrow_mut();
        match &done {
            Ok(()) => {
                for slot in released {
                    map.free[usize::from(slot >= map.shape.fast)].push(slot);
                }
            }
            Err(error) => map.failed = Some(error.clone()),
        }
        done
    }
}

/// Where a slot's part lies: the sector there of the first sector of the part.
pub fn there(shape: &Shape, slot: u32, part: Extent) -> (bool, Extent) {
    let (is_fast, Lba(start)) = shape.place(slot);
    (is_fast, Extent::new(start + part.start.0 % shape.unit_sectors(), part.sectors))
}
