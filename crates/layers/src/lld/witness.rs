//! Witnesses: empty records, each written after a pause that follows a flush.
//!
//! A summary says that the records before it are durable. Of the last record nothing says that: if its summary is lost
//! as a whole, as when a drive or a file system leaves zeroes in its place, the log seems to end before it, and what
//! was flushed with it is gone without a word. With a witness behind it the volume is refused instead. A witness that
//! is lost takes nothing with it. It costs a block of the open segment; where there is none, a checkpoint is written.
//!
//! Faults: a witness that cannot be written is a failed record like any other.

use seekless_core::runtime::edge;
use seekless_core::{Class, Extent, Hints, IoError};

use super::Lld;
use super::state::State;

impl State {
    /// Whether nothing says that the last record is durable, although it is.
    fn lacks_witness(&self) -> bool {
        let last = self.log.sequence - 1;
        let is_whole = self.durable >= last && !self.checkpoint_pending && self.failed.is_none();
        self.session_begun
            && is_whole
            && self.log.has_data
            && self.log.is_empty()
            && last > self.disk.sequence
            && self.log.witness != last
    }

    /// Whether a record more has room.
    fn has_room_for_witness(&self, threshold: u32) -> bool {
        self.log.place.is_some() && (!self.log.fills() || self.segments.free() > threshold)
    }
}

impl Lld {
    /// Has a witness follow the last record, if there is no other one in a pause from now.
    pub(super) fn witness_later(&self) {
        if !self.layout.sealed || !self.state.borrow().lacks_witness() {
            return;
        }
        let next = |lld: &Lld| lld.state.borrow().log.sequence;
        self.witness.wait(self.me.clone(), next(self), next, async |lld: &Lld| {
            // A failure is one of a record.
            drop(lld.write_witness().await);
        });
    }

    async fn write_witness(&self) -> Result<(), IoError> {
        let how = Hints { class: Class::Background, ..Hints::default() };
        let sequence = {
            let state = &mut *self.state.borrow_mut();
            if !state.lacks_witness() {
                return Ok(());
            }
            state.has_room_for_witness(self.options.threshold).then(|| {
                state.log.is_witness = true;
                state.log.witness = state.log.sequence;
                state.log.sequence
            })
        };
        if let Some(sequence) = sequence {
            edge("an empty record says that the last one is durable");
            return self.make_durable(sequence, &how).await;
        }
        let _turn = self.flushing.exclusive(Extent::new(0, 1), &how).await;
        if !self.state.borrow().lacks_witness() {
            return Ok(());
        }
        edge("no room for an empty record: a checkpoint says what is durable");
        self.checkpoint(&how).await
    }
}
