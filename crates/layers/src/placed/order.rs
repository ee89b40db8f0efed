//! Units that are in fast slots of their own, in an order that was given, whatever their heat.

use std::collections::{BTreeSet, VecDeque};

use super::map::Map;
use super::mover::Next;

/// What has to move so that the units are in order: into the first fast slots, one behind the other.
#[derive(Default)]
pub struct Order {
    /// Units in fast slots that are not theirs: they leave first.
    leave: BTreeSet<u32>,
    /// Units and their slots.
    enter: VecDeque<(u32, u32)>,
}

impl Order {
    /// The moves that are needed so that these units are in fast slots in this order, and no others.
    pub fn new(units: &[u32], map: &Map) -> Order {
        let wrong = |(unit, slot): &(u32, u32)| map.slot(*unit) != *slot;
        let places = units.iter().copied().zip(0..map.shape.fast);
        let right: BTreeSet<u32> = places.clone().filter(|one| !wrong(one)).map(|(unit, _)| unit).collect();
        let leave = (0..map.shape.units()).filter(|unit| map.is_fast(*unit) && !right.contains(unit));
        Order { leave: leave.collect(), enter: places.filter(wrong).collect() }
    }

    /// Whether nothing has to move.
    pub fn is_done(&self) -> bool {
        self.leave.is_empty() && self.enter.is_empty()
    }

    /// The next move, after which the one before has been carried out or has failed.
    pub fn next(&mut self, map: &mut Map) -> Next {
        while let Some(unit) = self.leave.first().copied() {
            let to = map.take(unit, false);
            if to.is_none() && map.has_released() {
                return Next::Commit;
            }
            self.leave.pop_first();
            if let Some(to) = to {
                return Next::Move { unit, to };
            }
        }
        while let Some((unit, to)) = self.enter.front().copied() {
            let taken = map.take_this(to);
            if !taken && map.has_released() {
                return Next::Commit;
            }
            self.enter.pop_front();
            // One that could not leave its slot, or enter another one, stays where it is.
            if taken {
                return Next::Move { unit, to };
            }
        }
        if map.has_unwritten() { Next::Commit } else { Next::Nothing }
    }
}
