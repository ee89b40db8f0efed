//! Eager writing: a batch of the log is placed where the head arrives first.
//!
//! A write that waits for its answer before the next one is issued comes when the head has passed the end of the log,
//! and would wait for most of a revolution. So a batch may begin anywhere in the segment that is being filled; the
//! pages passed over are filled later. Recovery looks for each batch in the whole segment.
//!
//! Only for a write that arrives while no other is outstanding: a busy device serves others first, and by then the head
//! is elsewhere. Where the device below does not know where its head is, batches follow each other.

use std::ops::Range;

use seekless_core::runtime::edge;
use seekless_core::{Extent, Hints, Nanos, Op};

use super::Store;
use super::map::Slot;

/// At first one in this many places is estimated; then those just before the best of them.
const STEP: u32 = 8;
/// A batch follows the last one unless it reaches the disk sooner elsewhere by more than this: estimates may be wrong,
/// and batches that follow each other are read faster.
const WORTH_IT: Nanos = Nanos(1_000_000);

impl Store {
    /// Chooses the place of the next batch, for a write of `pages` pages that is about to be absorbed while no other
    /// request is outstanding.
    pub fn choose_batch_place(&self, pages: u64, how: &Hints) {
        // A batch within a hole divides it: one page more may be a header, and one may be left over alone.
        if !self.eager || !self.has_room(pages + 2) {
            return;
        }
        let reach = |slot| self.bopt.estimate(Op::Write, Extent::of_pages(self.layout.page(slot), 1), how);
        // First, since many devices cannot tell, and the next place is often near enough.
        let next = self.table.borrow().log.next_slot().and_then(reach);
        let Some(next) = next.filter(|next| *next > WORTH_IT) else { return };
        let starts = self.table.borrow().log.possible_starts(pages);
        let Some((best, slot)) = reached_first(&starts, reach) else { return };
        if next > best + WORTH_IT {
            edge("a batch is placed where the head arrives first");
            self.table.borrow_mut().log.begin_at(slot);
        }
    }
}

/// The slot that the head reaches first, and when; `None` if that is not known.
fn reached_first(starts: &[Range<Slot>], reach: impl Fn(Slot) -> Option<Nanos>) -> Option<(Nanos, Slot)> {
    let reach = |slot| Some((reach(slot)?, slot));
    let mut best: Option<(Nanos, Slot)> = None;
    for slot in starts.iter().flat_map(|hole| hole.clone().step_by(STEP as usize)) {
        let reached = reach(slot)?;
        best = Some(best.map_or(reached, |best| best.min(reached)));
    }
    let (_, rough) = best?;
    let hole = starts.iter().find(|hole| hole.contains(&rough))?;
    let before = rough.saturating_sub(STEP - 1).max(hole.start)..rough;
    before.filter_map(reach).chain(best).min()
}
