//! Pages of which a write failed below a switch ([`crate::failed_writes`]).
//!
//! Invariant: the child does not change before such pages are rewritten with what they hold, as far as they are noted
//! and can be read. Otherwise a layer that is opened over it could keep what it read before the write took effect.

use super::Switch;
use crate::buffer::Buffer;
use crate::device::BlockDevice;
use crate::error::IoError;
use crate::request::Hints;
use crate::runtime::edge;
use crate::units::{Extent, PAGE_SECTORS};

/// Most pages that are noted: clients wait while they are rewritten, up to 20 s on a disk.
const MOST: usize = 1_024;

impl Switch {
    /// Notes how a request of a client that changes data ended, and returns that. `writes` says whether all of its
    /// sectors are written if it succeeds: not by a discard.
    pub(crate) fn note(&self, at: Extent, writes: bool, done: Result<(), IoError>) -> Result<(), IoError> {
        match &done {
            Err(error) if error.may_take_effect() => {
                let room = MOST.saturating_sub(self.failed_writes.pages().len());
                self.failed_writes.add(at.pages().take(room));
            }
            Ok(()) if writes => self.failed_writes.written(at),
            _ => {}
        }
        done
    }

    /// Rewrites pages of which a write failed. Nothing is in flight. Durably: a sector that a verifying read found weak
    /// is repaired by that.
    ///
    /// # Errors
    /// Those of writing; the page is tried again before the next change.
    pub(super) async fn rewrite_failed(&self, child: &dyn BlockDevice) -> Result<(), IoError> {
        for page in self.failed_writes.pages() {
            edge("a page of which a write failed is rewritten before the child changes");
            let whole = Extent::of_pages(page, 1);
            let sectors = PAGE_SECTORS.min(child.geometry().sectors - whole.start.0);
            let at = Extent { sectors, ..whole };
            // No layer can keep what cannot be read.
            let read = child.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
            if let Ok(data) = read {
                child.write(at, data, Hints { fua: true, ..Hints::default() }).await?;
                self.failed_writes.remove(page);
            }
        }
        Ok(())
    }
}
