//! A member is replaced by another device while the mirror is in use: put out of service, exchanged, and rebuilt later.
//!
//! Invariants: the members that stay have recorded durably that it is another device, before that can be taken for the
//! old one. Nothing is under way that chose the old device. Fault model: power may fail at any time; the mirror then
//! opens without that member, whichever of the two devices is in its place.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Class, ErrorKind, Extent, Hints, IoError, IoFuture, Lba, Mode, PAGE_SECTORS,
};

use super::Mirror;
use super::options::NAME;
use crate::arrays;

impl Mirror {
    /// See [`seekless_core::Layer::replace_device`]. The mirror is without that member until it is rebuilt.
    pub(super) async fn replace_member(
        &self,
        (key, member): (&str, usize),
        with: Rc<dyn BlockDevice>,
        overwrites: bool,
        commit: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        let refused = |found: &str, expected: &str| arrays::refused(NAME, found, expected);
        if key != "over" || member >= self.members.count() {
            return Err(refused(&format!("{key}, number {member}"), "a member"));
        }
        let turn = self.rebuilding.try_lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None);
        let Some(_turn) = turn else {
            return Err(refused("a member being rebuilt", "none: wait until it is in service"));
        };
        if self.members.serving() == [member] {
            return Err(refused("the last member in service", "another one: rebuild that first"));
        }
        let (new, least) = (with.geometry(), self.members.label().pages_in_all() * PAGE_SECTORS);
        if new.sectors < least {
            let found = format!("a device of {} sectors", new.sectors);
            return Err(refused(&found, &format!("{least} at least, as much as is used of the others")));
        }
        arrays::check_blocks(NAME, &new, &self.geometry())?;
        arrays::make_blank(NAME, &*with, overwrites).await?;
        self.members.fail(member, &IoError::new(ErrorKind::Gone, NAME, None, "it is being replaced"));
        self.members.introduce(member).await?;
        // Requests under way may use the old device.
        let whole = Extent { start: Lba(0), sectors: self.geometry().sectors };
        let _requests = self.locks.exclusive(whole, &Hints::default()).await;
        commit.await?;
        self.members.set_device(member, with);
        edge("a member is replaced");
        Ok(())
    }
}
