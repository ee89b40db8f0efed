//! The map in memory, and when it becomes durable.
//!
//! Invariants: a sector of the map is written after the units that it names are durable in their slots; a slot is free
//! after a map that does not name it is durable. After a failed flush or write of the map all later flushes fail, and
//! nothing moves.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{Class, Extent, Hints, IoError, Lba, mutant};

use super::Placed;
use super::format::Shape;
use super::opening::Opened;
use crate::durable::table::Table;
use crate::join::join_all;

/// The map.
pub struct Map {
    pub shape: Shape,
    table: Table,
    /// Slots that may be taken: fast ones, and others.
    free: [BTreeSet<u32>; 2],
    /// Those to which a move has failed: they are taken last.
    avoided: [BTreeSet<u32>; 2],
    /// Slots that the durable map may still name.
    released: Vec<u32>,
    failed: Option<IoError>,
}

impl Map {
    pub fn new(opened: Opened) -> Map {
        let Opened { shape, map: table, .. } = opened;
        let mut used = vec![false; (shape.fast + shape.slow) as usize];
        for slot in table.values() {
            used[*slot as usize] = true;
        }
        let free = |range: std::ops::Range<u32>| range.filter(|slot| !used[*slot as usize]).collect();
        let free = [free(0..shape.fast), free(shape.fast..shape.fast + shape.slow)];
        Map { shape, table, free, avoided: Default::default(), released: Vec::new(), failed: None }
    }

    /// The slot of a unit.
    pub fn slot(&self, unit: u32) -> u32 {
        self.table.values()[unit as usize]
    }

    /// Whether a unit is in a fast slot.
    pub fn is_fast(&self, unit: u32) -> bool {
        self.slot(unit) < self.shape.fast
    }

    /// Number of free fast slots, and of those that are not free yet.
    pub fn counts(&self) -> (usize, usize) {
        let released = self.released.iter().filter(|slot| **slot < self.shape.fast).count();
        (self.free[0].len() + self.avoided[0].len(), released)
    }

    /// Sectors of the map written, of both copies.
    pub fn sectors_written(&self) -> u64 {
        self.table.sectors_written()
    }

    /// Takes a free slot for a unit: a fast one next to a neighbour of the unit, or the first one; of the others the
    /// one nearest to where the unit was at first, or on one device no other than that.
    pub fn take(&mut self, unit: u32, on_fast: bool) -> Option<u32> {
        let (which, first) = (usize::from(!on_fast), self.shape.first_slot(unit));
        let slot = match (on_fast, self.shape.before) {
            (true, _) => self.beside(unit),
            (false, None) => nearest(&self.free[1], first),
            (false, Some(_)) => {
                let is_free = self.free[1].remove(&first) || self.avoided[1].remove(&first);
                return is_free.then_some(first);
            }
        };
        if let Some(slot) = slot {
            self.free[which].remove(&slot);
            return Some(slot);
        }
        self.avoided[which].pop_first()
    }

    /// The free fast slot beside that of a neighbour of the unit, or the first one.
    fn beside(&self, unit: u32) -> Option<u32> {
        let of =
            |unit: Option<u32>| unit.filter(|unit| *unit < self.shape.units()).map(|unit| self.slot(unit));
        beside(&self.free[0], of(unit.checked_sub(1)), of(unit.checked_add(1)))
    }

    /// Takes this slot, if it is free.
    pub fn take_this(&mut self, slot: u32) -> bool {
        self.free[usize::from(slot >= self.shape.fast)].remove(&slot)
    }

    /// Gives back a slot that was taken, to which a move has failed.
    pub fn give_back(&mut self, slot: u32) {
        self.avoided[usize::from(slot >= self.shape.fast)].insert(slot);
    }

    /// A unit is in another slot now; `reuses` is a canary's.
    pub fn change(&mut self, unit: u32, to: u32, reuses: bool) {
        let from = self.table.set(unit, to);
        assert!(from != to, "a unit moves to another slot");
        if reuses {
            self.free[usize::from(from >= self.shape.fast)].insert(from);
        } else {
            self.released.push(from);
        }
    }

    /// Whether slots are free once the map is written.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Whether a change is not being written.
    pub fn has_unwritten(&self) -> bool {
        self.table.has_changed() || !self.released.is_empty()
    }

    /// Whether nothing moves any more.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

/// The free slot behind that of the unit before, or before that of the unit behind, or the first one.
pub fn beside(free: &BTreeSet<u32>, before: Option<u32>, behind: Option<u32>) -> Option<u32> {
    let next = before.map(|slot| slot + 1);
    let previous = behind.and_then(|slot| slot.checked_sub(1));
    next.into_iter().chain(previous).find(|slot| free.contains(slot)).or_else(|| free.first().copied())
}

/// The one of these that is nearest to another.
fn nearest(all: &BTreeSet<u32>, to: u32) -> Option<u32> {
    let (before, behind) = (all.range(..to).next_back(), all.range(to..).next());
    before.into_iter().chain(behind).copied().min_by_key(|slot| slot.abs_diff(to))
}

impl Placed {
    /// Whether writes that ended may depend on changes of the map that are not durable.
    pub(super) fn has_changes(&self) -> bool {
        let map = self.map.borrow();
        let waits = !mutant::is("hybrid: a flush does not wait for the map");
        map.table.has_changed() || map.has_failed() || (waits && !self.committing.is_empty())
    }

    /// Makes earlier writes durable: all devices, then changes of the map; then slots released before are free.
    pub(super) async fn commit(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.committing.exclusive(Extent::new(0, 1), how).await;
        let (writes, released) = {
            let mut map = self.map.borrow_mut();
            if let Some(error) = &map.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            (map.table.take_changed(), std::mem::take(&mut map.released))
        };
        // Others may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, ..how.clone() };
        let flush_all = async || {
            let each = self.devices.each().map(|device| device.flush(how.clone()));
            join_all(each).await.into_iter().collect::<Result<(), IoError>>()
        };
        let done = async {
            if !self.canary.is("a map before its data") || writes.is_empty() {
                flush_all().await?;
            }
            if writes.is_empty() {
                return Ok(());
            }
            let first = &*self.devices.first;
            let writes = writes.into_iter().flat_map(|(at, bytes)| {
                let parts = bytes.split(at, first.geometry().largest_sectors).collect::<Vec<_>>();
                parts.into_iter().map(|(part, piece)| first.write(part, piece, how.clone()))
            });
            join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
            first.flush(how.clone()).await?;
            // For that canary: all devices are flushed, too late.
            if self.canary.is("a map before its data") { flush_all().await } else { Ok(()) }
        };
        let done = done.await;
        let map = &mut *self.map.borrow_mut();
        match &done {
            Ok(()) => {
                let late = mutant::is("hybrid: slots released while the map is written are free with it");
                let more = if late { std::mem::take(&mut map.released) } else { Vec::new() };
                for slot in released.into_iter().chain(more) {
                    map.free[usize::from(slot >= map.shape.fast)].insert(slot);
                }
            }
            Err(error) => map.failed = Some(error.clone()),
        }
        done
    }
}

/// Where a slot's part lies: the device, and the sector there of the first sector of the part.
pub fn there(shape: &Shape, slot: u32, part: Extent) -> (usize, Extent) {
    let (device, Lba(start)) = shape.place(slot);
    (device, Extent::new(start + part.start.0 % shape.unit_sectors(), part.sectors))
}
