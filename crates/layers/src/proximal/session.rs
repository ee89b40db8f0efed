//! Sessions: which flash and which data device belong together ([`crate::durable::session`]). An old copy of either, or the
//! device that was replaced, has whole metadata of the right identity, and is not taken for it.
//!
//! The number of a session is in the super page on flash, and in sectors of the label's page on the data device that older
//! programs do not look at.
//!
//! Fault model: as of `placed`; a volume that was never written in such a session has no number, and is accepted.

use std::cell::Cell;

use seekless_core::{Buffer, Class, Extent, Hints, IoError, RangeLocks};

use super::format;
use super::placed::Placed;
use crate::durable::session::FIRST;

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
}

impl Placed {
    /// Begins the session, before the first change. Runs that only measure time have none.
    ///
    /// # Errors
    /// Those of the devices.
    pub async fn begin(&self, how: &Hints) -> Result<(), IoError> {
        let session = &self.session;
        if self.timing_only || session.begun.get() {
            return Ok(());
        }
        let _turn = session.beginning.exclusive(Extent::new(0, 1), how).await;
        if session.begun.get() {
            return Ok(());
        }
        let how = Hints { class: how.class.min(Class::Foreground), account: how.account, ..Hints::default() };
        // The number before is written again: it may be on one device only, or in a cache.
        let last = session.number.get();
        for number in [last, last + 1, last + 2] {
            session.number.set(number);
            self.write_number(&how).await?;
            let label = Buffer::from_vec(format::encode_label(self.identity, number));
            self.data.write(Extent::of_pages(0, format::LABEL_PAGES), label, how.clone()).await?;
            self.data.flush(how.clone()).await?;
        }
        session.begun.set(true);
        Ok(())
    }

    /// Writes the super page with the number of the session, durably.
    async fn write_number(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.flushing.exclusive(Extent::new(0, 1), how).await;
        let page = {
            let state = &mut *self.state.borrow_mut();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.next_super_page(self)
        };
        let written = self.write_super_page(&page, how).await;
        let state = &mut *self.state.borrow_mut();
        match &written {
            Ok(()) => (state.super_copy, state.super_copied) = (page.copy, false),
            Err(error) => state.failed = Some(error.clone()),
        }
        written
    }
}
