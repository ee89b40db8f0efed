//! Numbers of sessions, on each of two devices of a volume, so that a copy of either from before a session, or the
//! device that was replaced, is not taken for it.
//!
//! A session begins before its first change, with two numbers, each of which is durable on both devices before the
//! next: so a crash leaves the devices one number apart at most, and a device that lacks a session is two behind.
//!
//! On a device the numbers may lie in a page that has something else in its first four sectors: the others have the
//! last two numbers, each in two sectors, of which any one may rot.

use std::cell::Cell;

use seekless_core::{Class, Extent, Hints, IoError, Lba, RangeLocks, SECTOR_BYTES};

use super::sector::{Part, Sector};
use super::{CopyState, Pair};

/// The first number of a session. A page of before sessions were numbered may have smaller ones.
pub const FIRST: u64 = 2;
/// The first sector of the page that has a number.
const START: usize = 4;
const SECTOR: usize = SECTOR_BYTES as usize;

/// The number of the last session, as found on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The newest; 0 if there is none.
    pub number: u64,
    /// The newest that it may have had, if a sector is lost.
    pub most: u64,
}

/// One of the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    First,
    Second,
}

impl Number {
    /// This number, or perhaps the next one.
    pub fn of(number: u64, lost: bool) -> Number {
        Number { number, most: number.saturating_add(u64::from(lost)) }
    }

    /// The generation of a structure in two copies that is written with each number.
    pub fn of_pair(pair: &Pair) -> Number {
        Number::of(pair.newest(), pair.copies.iter().any(|copy| matches!(copy, CopyState::Rotten(..))))
    }

    /// The numbers in a page.
    pub fn in_page(part: Part, page: &[u8]) -> Number {
        let number = |at: usize| match part.look(Lba(at as u64), &page[at * SECTOR..(at + 1) * SECTOR]) {
            Sector::Whole(number) => number,
            _ => 0,
        };
        let [even, odd] = [0, 1].map(|slot| sectors(slot).map(number).max().unwrap_or(0));
        let newest = Some(even.max(odd)).filter(|number| *number >= FIRST);
        Number::of(newest.unwrap_or(0), even == 0 || odd == 0)
    }
}

/// The sectors of a page with this number.
fn sectors(number: u64) -> std::ops::Range<usize> {
    let first = START + number as usize % 2 * 2;
    first..first + 2
}

/// Puts the last two numbers into a page.
pub fn put(part: Part, page: &mut [u8], number: u64) {
    for number in [number - 1, number] {
        let sectors = sectors(number);
        part.seal(Lba(sectors.start as u64), number, &mut page[sectors.start * SECTOR..sectors.end * SECTOR]);
    }
}

/// Which of two devices has old contents, if either: where the second has no number, nothing is known.
pub fn old(first: Number, second: Number) -> Option<Side> {
    if second.number == 0 {
        None
    } else if first.most + 1 < second.number {
        Some(Side::First)
    } else if second.most + 1 < first.number {
        Some(Side::Second)
    } else {
        None
    }
}

/// The session of a volume that is open.
pub struct Session {
    /// The number that was written last, maybe not to both devices.
    number: Cell<u64>,
    begun: Cell<bool>,
    beginning: RangeLocks,
}

impl Session {
    /// That of a volume of which this is the newest number on either device.
    pub fn new(newest: u64) -> Session {
        Session {
            number: Cell::new(newest.max(FIRST)),
            begun: Cell::new(false),
            beginning: RangeLocks::new(),
        }
    }

    /// The number that was written last.
    pub fn number(&self) -> u64 {
        self.number.get()
    }

    /// Begins it, unless it has begun: `write` makes its present number durable on both devices, first on the first
    /// one.
    ///
    /// # Errors
    /// Those of `write`; then the next change tries again.
    pub async fn begin(
        &self,
        how: &Hints,
        write: impl AsyncFn(u64, &Hints) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        if self.begun.get() {
            return Ok(());
        }
        let _turn = self.beginning.exclusive(Extent::new(0, 1), how).await;
        if self.begun.get() {
            return Ok(());
        }
        // Other requests may wait for it.
        let how = Hints { class: how.class.min(Class::Foreground), account: how.account, ..Hints::default() };
        // The number before is written again: it may be on one device only, or in a cache.
        let last = self.number();
        for number in [last, last + 1, last + 2] {
            self.number.set(number);
            write(number, &how).await?;
        }
        self.begun.set(true);
        Ok(())
    }
}
