//! Circular LOOK (freeblock paper, section 3.3): the next request in ascending order of starting
//! address; if there is none, the one with the lowest.

use seekless_core::Lba;

use super::{Moment, Scheduler, Slot, Waiting};

/// In ascending order of address, then from the lowest again.
#[derive(Clone, Debug)]
pub struct CLook;

impl Scheduler for CLook {
    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let next = waiting.from(moment.head).next().or_else(|| waiting.from(Lba(0)).next());
        next.map(|(_, slot)| slot)
    }
}
