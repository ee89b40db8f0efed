//! LOOK, the elevator: up through the addresses as long as there is a request, then down, and so on.

use super::{Moment, Scheduler, Slot, Waiting};

/// Goes on in its direction, and turns where no request is left.
#[derive(Clone, Debug, Default)]
pub struct Look {
    down: bool,
}

impl Scheduler for Look {
    fn next(&mut self, waiting: &Waiting, moment: &Moment) -> Option<Slot> {
        let (up, down) = (waiting.from(moment.head).next(), waiting.below(moment.head).next());
        self.down = if self.down { down.is_some() } else { up.is_none() };
        let next = if self.down { down } else { up };
        next.map(|(_, slot)| slot)
    }
}
