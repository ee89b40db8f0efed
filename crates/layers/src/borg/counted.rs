//! Counters of the layer, as `status`, comparisons and tests show them.

use seekless_core::Counters;

use super::Borg;

impl Borg {
    /// All counters, by name.
    pub(super) fn counted(&self) -> Counters {
        let (store, counted) = (&self.store, self.ledger.borrow_mut().all());
        let (learned, verified) = (self.learned.borrow(), self.verifier.found());
        let ((predicted, declined), budget) = (learned.rehearsal(), learned.budget);
        let (since, due) = self.watch.get().state();
        let checked = self.accuracy.last().unwrap_or_default();
        vec![
            ("pages_mapped", store.mapped() as u64),
            ("pages_dirty", store.dirty() as u64),
            ("write_buffer_free", store.room()),
            ("map_pages_written", store.metadata_pages()), // and headers of batches
            ("longest_wait_for_a_mover_us", self.longest_wait().0 / 1_000),
            ("pages_copied_on_read", self.copy_on_read.copied()),
            ("copy_on_read_allowance", self.copy_on_read.allowance()),
            ("copy_on_read_is_on", u64::from(self.copy_on_read.is_on())),
            ("pages_returned_on_read", self.return_on_read.returned()),
            ("drained_for_reads", self.homing.drains()),
            ("pages_absorbed", counted.absorbed),
            ("pages_drained", counted.drained),
            ("pages_done_in_round", self.history.in_round()),
            ("writes_not_absorbed_by_error", self.fallback.writes()),
            ("pages_in_failed_batches", store.uncertain() as u64),
            ("pages_asked_for", counted.pages),
            ("pages_hit", counted.hits),
            ("requests_split", counted.splits),
            ("requests_profiled", learned.requests()),
            ("profile_bytes", learned.profile_bytes()),
            ("graph_bytes", learned.graph_bytes()),
            ("absorbs_writes", u64::from(self.writes.get().absorbs)),
            ("drains_for_free", u64::from(self.writes.get().drains)),
            ("requests_since_decision", since),
            ("next_decision_after_requests", due),
            ("plans_declined", declined),
            ("rehearsed_requests", predicted.requests),
            ("rehearsed_busy_as_it_is_us", predicted.present.0 / 1_000),
            ("rehearsed_busy_as_planned_us", predicted.chosen.0 / 1_000),
            ("rehearsed_moves_us", predicted.moves.0 / 1_000),
            ("response_on_the_model_us", checked.predicted.0 / 1_000),
            ("response_measured_us", checked.measured.0 / 1_000),
            ("budget_left_us", budget.left().max(0) as u64 / 1_000),
            ("budget_overdrawn_us", (-budget.left()).max(0) as u64 / 1_000),
            ("saved_so_far_us", budget.saved.max(0) as u64 / 1_000),
            ("lost_so_far_us", (-budget.saved).max(0) as u64 / 1_000),
            ("spent_on_moves_us", budget.moves.0 / 1_000),
            ("learned_bytes", store.learned_bytes()),
            ("learned_room_bytes", store.learned_room()),
            ("learned_requests_recalled", self.keeping.recalled.get()),
            ("learned_before_was_damaged", u64::from(self.keeping.damaged.get())),
            ("map_bytes", store.map_bytes()),
            ("copies_not_compared", store.unproven() as u64),
            ("copies_differing", self.origin_state.borrow().differed),
            ("verify_home_blocks_repaired", verified.origin_repaired),
            ("verify_copy_blocks_repaired", verified.copies_repaired),
            ("verify_blocks_not_repaired", verified.unrepaired),
            ("verify_blocks_differing", verified.differing),
            ("verify_unreadable", verified.unreadable),
        ]
    }
}
