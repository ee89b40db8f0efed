//! How often units were accessed lately, and which of them should be in another slot.
//!
//! A count for each unit, up to [`MOST`]; all are halved from time to time, so that old accesses weigh less.
//! Invariants: the units in fast slots that are not pinned are ranked by their counts, and of the others the hottest
//! ones, as many as there are slots; so memory is bounded by the sizes of the devices.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Count of a pinned unit.
pub const PINNED: u8 = u8::MAX;
/// The highest count of others: a pinned one exceeds it by more than a step.
pub const MOST: u8 = PINNED - 2;
/// Accesses for each slot that are fast after which counts are halved.
const AGED_AFTER: u64 = 16;

/// The counts.
pub struct Heat {
    counts: Vec<u8>,
    /// In another slot: count, and unit, so that of equal ones the first is the hottest: a disk reads them in order.
    hot: BTreeSet<(u8, Reverse<u32>)>,
    /// In a fast slot and not pinned.
    cold: BTreeSet<(u8, u32)>,
    /// Slots that are fast.
    slots: usize,
    /// The least count of a unit that moves to one.
    least: u8,
    accesses: u64,
    /// Units that move to free fast slots next.
    batch: BTreeSet<u32>,
}

impl Heat {
    /// No unit was accessed yet; those `pinned` are, and of others those in fast slots are listed.
    pub fn new(units: u32, slots: u32, least: u8, pinned: &[u32], is_fast: impl Fn(u32) -> bool) -> Heat {
        let mut counts = vec![0; units as usize];
        for unit in pinned {
            counts[*unit as usize] = PINNED;
        }
        let hot =
            pinned.iter().filter(|unit| !is_fast(**unit)).map(|unit| (PINNED, Reverse(*unit))).collect();
        let cold = (0..units).filter(|unit| is_fast(*unit) && counts[*unit as usize] != PINNED);
        let cold = cold.map(|unit| (0, unit)).collect();
        Heat { hot, cold, counts, slots: slots as usize, least, accesses: 0, batch: BTreeSet::new() }
    }

    /// Its count.
    pub fn of(&self, unit: u32) -> u8 {
        self.counts[unit as usize]
    }

    /// Counts an access to a unit.
    pub fn touch(&mut self, unit: u32, is_fast: bool) {
        let count = self.of(unit);
        if count != PINNED {
            self.set(unit, (count + 1).min(MOST), is_fast);
        }
        self.accesses += 1;
        if self.accesses >= AGED_AFTER * self.slots as u64 {
            self.age();
        }
    }

    /// Halves the count of a unit; returns what is left.
    pub fn halve(&mut self, unit: u32, is_fast: bool) -> u8 {
        self.set(unit, self.of(unit) / 2, is_fast);
        self.of(unit)
    }

    /// A unit has moved.
    pub fn moved(&mut self, unit: u32, is_fast: bool) {
        self.set(unit, self.of(unit), is_fast);
    }

    /// A unit could not be moved: it is not tried again before it is accessed from a fast slot, or hot again from
    /// another one, or before the next opening if it is pinned.
    pub fn cool(&mut self, unit: u32, is_fast: bool) {
        let count = self.of(unit);
        if count == PINNED {
            self.hot.remove(&(PINNED, Reverse(unit)));
        } else if is_fast {
            self.cold.remove(&(count, unit));
        } else {
            self.set(unit, 0, is_fast);
        }
    }

    fn set(&mut self, unit: u32, count: u8, is_fast: bool) {
        let old = std::mem::replace(&mut self.counts[unit as usize], count);
        self.hot.remove(&(old, Reverse(unit)));
        self.cold.remove(&(old, unit));
        if is_fast {
            self.cold.extend((count != PINNED).then_some((count, unit)));
        } else if count >= self.least {
            self.hot.insert((count, Reverse(unit)));
            if self.hot.len() > self.slots {
                self.hot.pop_first();
            }
        }
    }

    /// The hottest unit in another slot, after the `nth` that are hotter still: count and unit.
    pub fn hottest(&self, nth: usize) -> Option<(u8, u32)> {
        self.hot.iter().rev().nth(nth).map(|(count, Reverse(unit))| (*count, *unit))
    }

    /// The next unit to move to one of the `free` fast slots. As many of the hottest as there are such slots follow
    /// each other in the order of the volume, so that they lie in it.
    pub fn next_in_order(&mut self, free: usize) -> Option<u32> {
        if free == 0 {
            return None;
        }
        // Those of the last choice, as far as they are still hot.
        while let Some(unit) = self.batch.pop_first() {
            if self.hot.contains(&(self.of(unit), Reverse(unit))) {
                return Some(unit);
            }
        }
        self.batch.extend(self.hot.iter().rev().map(|(_, Reverse(unit))| *unit).take(free));
        self.batch.pop_first()
    }

    /// A unit in a fast slot that was not accessed lately.
    pub fn unused(&self) -> Option<u32> {
        self.cold.first().filter(|(count, _)| *count == 0).map(|(_, unit)| *unit)
    }

    /// The coldest unit in a fast slot, if the count of another is so much higher that it pays to exchange them.
    pub fn colder(&self, than: u8) -> Option<u32> {
        let pays = |count: u8| count + u8::from(count > 0) < than;
        self.cold.first().filter(|(count, _)| pays(*count)).map(|(_, unit)| *unit)
    }

    fn age(&mut self) {
        self.accesses = 0;
        self.counts.iter_mut().filter(|count| **count != PINNED).for_each(|count| *count /= 2);
        let halved = |count: u8| if count == PINNED { PINNED } else { count / 2 };
        self.cold = self.cold.iter().map(|(count, unit)| (halved(*count), *unit)).collect();
        let hot = self.hot.iter().map(|(count, unit)| (halved(*count), *unit));
        self.hot = hot.filter(|(count, _)| *count >= self.least).collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: u32 = 24;
    const SLOTS: u32 = 6;

    proptest! {
        /// However units are accessed, exchanging the hottest with colder ones ends, and no unit that stays is much
        /// colder than one that is not there.
        #[test]
        fn exchanges_end_with_the_hottest_and_the_pinned_on_the_fast_device(
            touched in proptest::collection::vec(0..UNITS, 0..400),
            pinned in proptest::collection::btree_set(0..UNITS, 0..SLOTS as usize),
            least in 1..6_u8,
        ) {
            let pinned: Vec<u32> = pinned.into_iter().collect();
            let mut fast: Vec<bool> = (0..UNITS).map(|unit| unit < SLOTS).collect();
            let mut heat = Heat::new(UNITS, SLOTS, least, &pinned, |unit| fast[unit as usize]);
            for unit in touched {
                heat.touch(unit, fast[unit as usize]);
            }
            let mut exchanges = 0;
            while let Some((count, hot)) = heat.hottest(0) {
                let Some(cold) = heat.colder(count) else { break };
                for (unit, is_fast) in [(hot, true), (cold, false)] {
                    prop_assert_eq!(fast[unit as usize], !is_fast);
                    fast[unit as usize] = is_fast;
                    heat.moved(unit, is_fast);
                }
                exchanges += 1;
                prop_assert!(exchanges <= SLOTS);
            }
            prop_assert!(pinned.iter().all(|unit| fast[*unit as usize]));
            let of = |is_fast| (0..UNITS).filter(move |unit| fast[*unit as usize] == is_fast).map(|unit| heat.of(unit));
            let (coldest, hottest) = (of.clone()(true).min().unwrap(), of(false).max().unwrap());
            prop_assert!(hottest < least || hottest <= coldest + 1, "{hottest} and {coldest}");
        }
    }

    /// Where no unit can leave, as the other device fails, tries end, though a pinned unit has to come; an access
    /// begins them anew.
    #[test]
    fn units_that_cannot_leave_are_tried_once() {
        let mut heat = Heat::new(8, 3, 1, &[7], |unit| unit < 3);
        (0..300).for_each(|_| heat.touch(1, true));
        for tries in [3, 0] {
            let mut tried = 0;
            while let Some(cold) = heat.colder(heat.hottest(0).unwrap().0) {
                heat.cool(cold, true);
                tried += 1;
                assert!(tried <= tries, "{tried}");
            }
            assert_eq!(tried, tries);
        }
        heat.touch(1, true);
        assert_eq!(heat.colder(PINNED), Some(1));
    }

    #[test]
    fn old_accesses_weigh_less() {
        let mut heat = Heat::new(4, 1, 1, &[], |unit| unit == 0);
        (0..10).for_each(|_| heat.touch(1, false));
        assert_eq!(heat.of(1), 10);
        (0..6).for_each(|_| heat.touch(2, false));
        assert_eq!((heat.of(1), heat.of(2)), (5, 3), "after 16 accesses");
        heat.touch(2, false);
        assert_eq!(heat.hottest(0), Some((5, 1)), "one is listed, as there is one slot");
        heat.cool(1, false);
        assert_eq!(heat.hottest(0), None);
        assert_eq!((heat.colder(0), heat.colder(1)), (None, Some(0)), "any access counts more than none");
    }
}
