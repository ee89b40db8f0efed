//! Pages of which a write failed below a switch. The device there may still carry that write out, until the same sectors
//! are written again: what is read from it now may be other data later.
//!
//! Invariant: the child does not change before such pages are rewritten with what they hold, as far as they are noted.
//! Otherwise a layer that is opened over it could keep what it read before the write took effect, and clients that read
//! past that the new data could read the old again.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Switch;
use crate::buffer::Buffer;
use crate::device::BlockDevice;
use crate::error::{ErrorKind, IoError};
use crate::request::Hints;
use crate::runtime::edge;
use crate::units::{Extent, PAGE_SECTORS};

/// Most pages that are noted: where so much fails, a change does not wait for the rest.
const MOST: usize = 1 << 16;

/// Pages of which a write failed.
#[derive(Default)]
pub struct FailedWrites(RefCell<BTreeSet<u64>>);

impl FailedWrites {
    /// Notes how a request that changes data ended, and returns that. `writes` says whether all of its sectors are written
    /// if it succeeds: not by a discard.
    pub fn note(&self, at: Extent, writes: bool, done: Result<(), IoError>) -> Result<(), IoError> {
        let mut pages = self.0.borrow_mut();
        match &done {
            // One that was aborted is not carried out later.
            Err(error) if error.kind() != ErrorKind::Aborted => {
                let room = MOST.saturating_sub(pages.len());
                pages.extend(at.pages().take(room));
            }
            Ok(()) if writes && !pages.is_empty() => {
                for part in at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS) {
                    pages.remove(&part.start.page());
                }
            }
            _ => {}
        }
        done
    }
}

impl Switch {
    /// Rewrites pages of which a write failed. Nothing is in flight.
    ///
    /// # Errors
    /// Those of the child; the page is tried again before the next change.
    pub(super) async fn rewrite_failed(&self, child: &dyn BlockDevice) -> Result<(), IoError> {
        let pages: Vec<u64> = self.failed_writes.0.borrow().iter().copied().collect();
        for page in pages {
            edge("a page of which a write failed is rewritten before the child changes");
            let whole = Extent::of_pages(page, 1);
            let sectors = PAGE_SECTORS.min(child.geometry().sectors - whole.start.0);
            let at = Extent { sectors, ..whole };
            let data = child.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
            child.write(at, data, Hints::default()).await?;
            self.failed_writes.0.borrow_mut().remove(&page);
        }
        Ok(())
    }
}
