//! When the map is copied to the data device, and what is marked before: see [`crate::proximal::copies`].
//!
//! Invariant: before a flush, a write with FUA or a snapshot is answered, the regions of what it makes durable are
//! marked.

use std::rc::Rc;

use futures_util::future::join;
use seekless_core::{BlockDevice, Class, Extent, Hints, IoError, runtime};

use super::Versions;

/// How the map is copied when no client waits for it.
fn background() -> Hints {
    Hints { class: Class::Background, ..Hints::default() }
}

impl Versions {
    /// Has a copy follow each destage that begins by itself, in a volume with copies.
    pub(super) fn copy_after_drains(self: &Rc<Self>) {
        if !self.placed.shape.copies {
            return;
        }
        let me = Rc::downgrade(self);
        self.staging.after_drains(move || {
            if let Some(versions) = me.upgrade() {
                runtime::spawn(async move { versions.copy_later().await }).detach();
            }
        });
    }

    /// Copies the map to the data device; marks stay where pages are staged.
    pub async fn copy(&self, how: &Hints) -> Result<(), IoError> {
        let still = || {
            let mut regions = self.placed.no_regions()?;
            self.staged().for_each(|(_, page)| regions.add(page));
            Some(regions)
        };
        self.placed.copy(how, still).await
    }

    /// Copies the map after something that is done already: a failure fails the next copy or commit.
    pub(super) async fn copy_later(&self) {
        drop(self.copy(&background()).await);
    }

    /// Notes that a write has ended: its regions are marked before a flush is answered, and now if the write is
    /// durable. A failed write too: part of it may be read.
    pub(super) async fn touched(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        self.placed.touch(at);
        if how.fua { self.placed.mark(how).await } else { Ok(()) }
    }

    /// Makes what was written durable, with the marks of its regions beside it.
    pub(super) async fn flush_marked(&self, how: &Hints) -> Result<(), IoError> {
        let (flushed, marked) = join(self.staging.flush(how.clone()), self.placed.mark(how)).await;
        flushed.and(marked)
    }
}
