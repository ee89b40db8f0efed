//! A cache that keeps no data (`data = false`): requests go to the device below, and the policy counts what a cache of
//! this size would hit (IOLab, section 5.3: metadata only).

use std::cell::RefCell;

use seekless_core::{Class, Extent, Op};

use super::policy::{Access, Ghost};
use super::{Cache, Writes};

impl Cache {
    /// The pages that it would hold; `None` if it keeps data.
    pub(super) fn ghost(&self) -> Option<&RefCell<Ghost>> {
        self.ghost.as_ref()
    }

    /// Counts a request if it keeps no data, and returns whether that is so.
    pub(super) fn only_counts(&self, op: Op, at: Extent, class: Class) -> bool {
        let Some(ghost) = self.ghost() else { return false };
        let ghost = &mut *ghost.borrow_mut();
        let counted = &mut self.state.borrow_mut().counted;
        // As with data: large requests and scans bypass the cache.
        let kept = at.page_count() <= ghost.pages() / 8;
        for page in at.pages() {
            match op {
                Op::Read if kept && class <= Class::Foreground => {
                    let hit = ghost.access(page, Access::Read);
                    *(if hit { &mut counted.hits } else { &mut counted.misses }) += 1;
                }
                Op::Read => counted.passed_by += 1,
                // With `around`, a write changes a page that is there, and is no access.
                Op::Write if kept && self.options.write == Writes::Through => {
                    ghost.access(page, Access::Write);
                }
                Op::Discard | Op::WriteZeroes => ghost.drop_page(page),
                _ => {}
            }
        }
        true
    }
}
