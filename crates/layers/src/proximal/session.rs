//! Sessions: which flash and which data device belong together ([`crate::durable::session`]). An old copy of either, or
//! the device that was replaced, has whole metadata of the right identity, and is not taken for it.
//!
//! The number of a session is in the super page on flash, and in sectors of the label's page on the data device that
//! older programs do not look at.
//!
//! Fault model: as of `placed`; a volume that was never written in such a session has no number, and is accepted.

use seekless_core::{Buffer, Extent, Hints, IoError};

use super::format;
use super::placed::Placed;

impl Placed {
    /// Begins the session, before the first change. Runs that only measure time have none.
    ///
    /// # Errors
    /// Those of the devices.
    pub async fn begin(&self, how: &Hints) -> Result<(), IoError> {
        if self.timing_only {
            return Ok(());
        }
        let write = async |number: u64, how: &Hints| {
            self.write_number(how).await?;
            let label = Buffer::from_vec(format::encode_label(self.identity, number));
            self.data.write(Extent::of_pages(0, format::LABEL_PAGES), label, how.clone()).await?;
            self.data.flush(how.clone()).await
        };
        self.session.begin(how, write).await
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
