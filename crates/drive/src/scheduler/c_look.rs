//! Circular LOOK (freeblock paper, section 3.3): the next request in ascending order of starting
//! address; if there is none, the one with the lowest.

use seekless_core::Lba;

use super::{Scheduler, Slot, Waiting};

/// In ascending order of address, then from the lowest again.
pub struct CLook;

impl Scheduler for CLook {
    fn name(&self) -> &'static str {
        "c-look"
    }

    fn next(&self, waiting: &Waiting, head: Lba) -> Option<Slot> {
        let next = waiting.from(head).next().or_else(|| waiting.from(Lba(0)).next());
        next.map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_up_and_starts_again_at_the_lowest() {
        let mut waiting = Waiting::default();
        for (arrival, start) in [50, 10, 90, 30].into_iter().enumerate() {
            waiting.add(Lba(start), arrival as u64, arrival);
        }
        let (mut head, mut order) = (Lba(40), Vec::new());
        while let Some(slot) = CLook.next(&waiting, head) {
            let start = [50, 10, 90, 30][slot];
            order.push(start);
            waiting.remove(Lba(start), slot as u64, slot);
            head = Lba(start + 8);
        }
        assert_eq!(order, [50, 90, 10, 30]);
    }
}
