//! A member is replaced by another device while the array is in use: put out of service, exchanged, and rebuilt later.
//!
//! Invariants: the members that stay have recorded durably that it is out of service before the new device can be taken
//! for it, since blocks of zeroes there are valid, as never written. Nothing is under way that chose the old device.
//! Fault model: power may fail at any time; the array then opens without that member, whichever of the two devices is
//! in its place.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Class, ErrorKind, Extent, Hints, IoError, IoFuture, Lba, Mode};

use super::Raid;
use super::options::{NAME, PARITY};
use crate::arrays;

fn refused(found: &str, expected: &str) -> IoError {
    arrays::refused(NAME, found, expected)
}

impl Raid {
    /// The member that `key` and `number` name in a volume file.
    fn member_at(&self, key: &str, number: usize) -> Result<usize, IoError> {
        let data = self.members.layout.members() - 1;
        match key {
            "over" if number < data => Ok(number),
            PARITY => Ok(data),
            _ => Err(refused(&format!("{key}, number {number}"), "a member")),
        }
    }

    /// See [`seekless_core::Layer::replace_device`]. The array is without that member until it is rebuilt.
    pub(super) async fn replace_member(
        &self,
        (key, number): (&str, usize),
        with: Rc<dyn BlockDevice>,
        overwrites: bool,
        commit: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        let member = self.member_at(key, number)?;
        let turn = self.rebuilding.try_lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None);
        let Some(_turn) = turn else {
            return Err(refused("a member being rebuilt", "none: wait until it is in service"));
        };
        if let Some(out) = self.members.out().filter(|out| *out != member) {
            let expected = "all others in service: rebuild that one first";
            return Err(refused(&format!("member {out} out of service"), expected));
        }
        let left = self.unsettled.left();
        if left > 0 {
            let expected = "none: rows that a crash cut short are repaired with all members; wait";
            return Err(refused(&format!("{left} groups to resync"), expected));
        }
        let (old, new) = (self.members.device(member).geometry(), with.geometry());
        if new.sectors != old.sectors {
            let found = format!("a device of {} sectors", new.sectors);
            let expected = format!("{}, as the member has; a slice makes a larger one equal", old.sectors);
            return Err(refused(&found, &expected));
        }
        arrays::check_blocks(NAME, &new, &self.geometry())?;
        arrays::make_blank(NAME, &*with, overwrites).await?;
        let gone = IoError::new(ErrorKind::Gone, NAME, None, "it is being replaced");
        self.members.check()?;
        self.members.fail(member, &gone).await?;
        // Requests under way may use the old device.
        let whole = Extent { start: Lba(0), sectors: self.geometry().sectors };
        let groups = Extent::new(0, self.members.layout.groups());
        let how = Hints::default();
        let _requests = self.locks.exclusive(whole, &how).await;
        let _groups = self.groups.exclusive(groups, &how).await;
        commit.await?;
        self.members.set_device(member, with);
        edge("a member is replaced");
        Ok(())
    }
}
