//! First come, first served (freeblock paper, section 3.3).

use seekless_core::Lba;

use super::{Scheduler, Slot, Waiting};

/// In order of arrival.
pub struct Fcfs;

impl Scheduler for Fcfs {
    fn name(&self) -> &'static str {
        "fcfs"
    }

    fn by_arrival(&self) -> bool {
        true
    }

    fn next(&self, waiting: &Waiting, _head: Lba) -> Option<Slot> {
        waiting.oldest()
    }
}
