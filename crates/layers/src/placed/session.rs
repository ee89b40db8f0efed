//! Sessions of a volume on two devices. Each device has the number of the last one, so that a copy of either from before
//! a session, or the device that was replaced, is not taken for it.
//!
//! The number is the generation of the super page on the first device, and that of sectors of the label's page on the
//! other. A session begins before its first change, with two numbers, each of which is durable on both devices before
//! the next: so a crash leaves the devices one number apart at most, and a device that lacks a session is two behind.
//!
//! Fault model: as of the volume; of the label's page any one sector may rot. A device that was never written in such a
//! session has no number, and is accepted.

use std::cell::Cell;

use seekless_core::{Buffer, Extent, Hints, IoError, RangeLocks};

use super::Placed;
use super::format::{self, FIRST_SESSION, Stamp};
use crate::durable::{CopyState, Pair};

/// Numbers of the last session, as found on the devices.
#[derive(Clone, Copy, Debug)]
pub struct LastSession {
    /// The newest on the first device, and the newest that it may have had if a sector is rotten.
    first: [u64; 2],
    /// Those of the other one; 0 if it has none.
    second: [u64; 2],
}

impl LastSession {
    /// Numbers in the super pages and in the stamp of a label.
    pub fn new(pair: &Pair, stamp: Stamp) -> LastSession {
        let rotten = pair.0.iter().any(|copy| matches!(copy, CopyState::Rotten(..)));
        let (first, second) = (pair.newest(), stamp.number);
        let most = |number: u64, lost: bool| number.saturating_add(u64::from(lost));
        LastSession { first: [first, most(first, rotten)], second: [second, most(second, stamp.lost)] }
    }

    /// Numbers of a new volume.
    pub fn of_new(number: u64) -> LastSession {
        LastSession { first: [number; 2], second: [number; 2] }
    }

    /// Of which device the contents are old, if of any: `fast` or `over`.
    pub fn old(&self) -> Option<&'static str> {
        let ([first, first_most], [second, second_most]) = (self.first, self.second);
        if second == 0 {
            None
        } else if first_most + 1 < second {
            Some("fast")
        } else if second_most + 1 < first {
            Some("over")
        } else {
            None
        }
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
    /// That of a volume whose devices have these numbers.
    pub fn new(found: LastSession) -> Session {
        let number = Cell::new(found.first[1].max(found.second[1]).max(FIRST_SESSION));
        Session { number, begun: Cell::new(false), beginning: RangeLocks::new() }
    }
}

impl Placed {
    /// Begins the session, before the first change. Runs that only measure time, and volumes on one device, have none.
    ///
    /// # Errors
    /// Those of the devices; then the next change tries again.
    pub(super) async fn begin(&self, how: &Hints) -> Result<(), IoError> {
        let (Some(second), Some(label)) = (&self.devices.second, self.kind.label) else { return Ok(()) };
        if self.timing_only || self.session.begun.get() {
            return Ok(());
        }
        let _turn = self.session.beginning.exclusive(Extent::new(0, 1), how).await;
        if self.session.begun.get() {
            return Ok(());
        }
        // The number before is written again: it may be on one device only, or in a cache.
        let last = self.session.number.get();
        for number in [last, last + 1, last + 2] {
            self.session.number.set(number);
            let how = Hints { class: how.class, account: how.account, ..Hints::default() };
            self.write_number(number, &how).await?;
            let page = format::encode_label(label, self.identity, number);
            second.write(Extent::of_pages(0, 1), Buffer::from_vec(page), how.clone()).await?;
            second.flush(how).await?;
        }
        self.session.begun.set(true);
        Ok(())
    }

    /// Writes the super page with the number of a session, durably.
    async fn write_number(&self, number: u64, how: &Hints) -> Result<(), IoError> {
        let first = &*self.devices.first;
        let (copy, shape) = (number % 2, self.map.borrow().shape);
        let page = format::encode_super(self.kind, &shape, self.identity, copy, number);
        first.write(format::super_at(copy), Buffer::from_vec(page), how.clone()).await?;
        first.flush(how.clone()).await
    }
}
