//! Eager writing: a batch of the log is placed where the head arrives first.
//!
//! A write that waits for its answer before the next one is issued comes when the head has passed the end of the log, and
//! would wait for most of a revolution. So a batch may begin anywhere in the segment that is being filled; the pages
//! passed over are filled later. Recovery looks for each batch in the whole segment.
//!
//! Only for a write that arrives while no other is outstanding: a busy device serves others first, and by then the head
//! is elsewhere. Where the device below does not know where its head is, batches follow each other.

use std::ops::Range;

use seekless_core::runtime::edge;
use seekless_core::{Extent, Hints, Nanos, Op};

use super::Store;
use super::map::Slot;

/// Every n-th page is estimated, then those before the best one.
const STEP: u32 = 8;
/// A batch follows the last one unless that costs more than this: some estimates are wrong, and runs should stay whole.
const WORTH_IT: Nanos = Nanos(1_000_000);

impl Store {
    /// Chooses the place of the batch that a write of `pages` pages begins, if it begins one.
    pub fn place_batch(&self, pages: u64, how: &Hints) {
        // Divided, a hole has room for up to two pages less.
        if !self.eager || !self.has_room(pages + 2) {
            return;
        }
        let reach = |slot| self.bopt.estimate(Op::Write, Extent::of_pages(self.layout.page(slot), 1), how);
        // First, since many devices cannot tell, and the next place is often near enough.
        let next = self.table.borrow().log.next_slot().and_then(reach);
        let Some(next) = next.filter(|next| *next > WORTH_IT) else { return };
        let begins = self.table.borrow().log.begins(pages);
        let Some((best, slot)) = reached_first(&begins, reach) else { return };
        if next > best + WORTH_IT {
            edge("a batch is placed where the head arrives first");
            self.table.borrow_mut().log.begin_at(slot);
        }
    }
}

/// The slot that the head reaches first, and when; `None` if that is not known.
fn reached_first(begins: &[Range<Slot>], reach: impl Fn(Slot) -> Option<Nanos>) -> Option<(Nanos, Slot)> {
    let reach = |slot| Some((reach(slot)?, slot));
    let mut best: Option<(Nanos, Slot)> = None;
    for slot in begins.iter().flat_map(|hole| hole.clone().step_by(STEP as usize)) {
        let reached = reach(slot)?;
        best = Some(best.map_or(reached, |best| best.min(reached)));
    }
    let (_, rough) = best?;
    let hole = begins.iter().find(|hole| hole.contains(&rough))?;
    let before = rough.saturating_sub(STEP - 1).max(hole.start)..rough;
    before.filter_map(reach).chain(best).min()
}
