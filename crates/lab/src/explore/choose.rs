//! Choice of the crash states of a moment: those that find most, alternating with random ones.

use std::rc::Rc;

use seekless_core::Extent;
use seekless_core::runtime::Rng;

use super::log::Log;
use super::power::{Pending, Survivor};

/// An endless sequence of sets of survivors; some repeat.
pub struct Choices {
    writes: Vec<(usize, Extent)>,
    /// The component of each write.
    components: Vec<u32>,
    /// Components with writes, if there are several.
    apart: Vec<u32>,
    /// Remains of torn writes of an earlier crash.
    torn: Rc<[(u32, Extent)]>,
    next: usize,
    rng: Rng,
}

impl Choices {
    /// Choices for the writes that are not durable.
    pub fn new(pending: &[Pending], log: &Log, seed: u64) -> Choices {
        let writes = pending.iter().map(|pending| (pending.write, log.writes[pending.write].at)).collect();
        let components: Vec<u32> =
            pending.iter().map(|pending| log.writes[pending.write].component).collect();
        let mut apart = components.clone();
        apart.sort_unstable();
        apart.dedup();
        if apart.len() < 2 {
            apart.clear();
        }
        Choices { writes, components, apart, torn: Rc::new([]), next: 0, rng: Rng::seeded(seed) }
    }

    /// Adds the remains of torn writes of an earlier crash, by component.
    pub fn with_torn(self, torn: Rc<[(u32, Extent)]>) -> Choices {
        Choices { torn, ..self }
    }

    /// Number of systematic choices, before the random ones.
    pub fn systematic(&self) -> usize {
        // Nothing, everything, all of one component; each alone, all but each, those before each; each torn with all
        // others, and alone.
        2 * (2 + self.apart.len() + 5 * self.writes.len())
    }

    /// The next choice.
    fn choose(&mut self) -> Vec<Survivor> {
        let (turn, count) = (self.next / 2, self.writes.len());
        self.next += 1;
        if self.next % 2 == 0 {
            return self.by_chance();
        }
        let whole = |which: &dyn Fn(usize) -> bool| {
            let survivors = self.writes.iter().enumerate().filter(|(index, _)| which(*index));
            survivors
                .map(|(_, &(write, at))| Survivor { write, first: 0, end: at.sectors })
                .collect::<Vec<_>>()
        };
        if turn < 2 {
            return whole(&|_| turn == 1);
        }
        if let Some(component) = self.apart.get(turn - 2) {
            return whole(&|index| self.components[index] == *component);
        }
        if count == 0 {
            return Vec::new();
        }
        let turn = turn - 2 - self.apart.len();
        let (kind, which) = (turn / count, turn % count);
        match kind {
            0 => whole(&|index| index == which),
            1 => whole(&|index| index != which),
            2 => whole(&|index| index < which),
            3 | 4 => {
                let mut survivors = whole(&|index| kind == 3 && index != which);
                self.tear(which, &mut survivors);
                survivors
            }
            _ => self.by_chance(),
        }
    }

    /// Random sectors of each write, in random order.
    fn by_chance(&mut self) -> Vec<Survivor> {
        let mut survivors = Vec::new();
        let completes = !self.torn.is_empty() && self.rng.chance(1, 2);
        for index in 0..self.writes.len() {
            let (write, Extent { sectors: end, .. }) = self.writes[index];
            if completes && self.complete(index, &mut survivors) {
                continue;
            }
            match self.rng.below(4) {
                0 => {}
                1 | 2 => survivors.push(Survivor { write, first: 0, end }),
                _ => self.tear(index, &mut survivors),
            }
        }
        if self.rng.chance(1, 2) {
            for last in (1..survivors.len()).rev() {
                survivors.swap(last, self.rng.below(last as u64 + 1) as usize);
            }
        }
        survivors
    }

    /// Keeps, of a write over the remains of a torn one, all sectors but those: together they may look complete. False
    /// if there are no such remains.
    fn complete(&self, index: usize, survivors: &mut Vec<Survivor>) -> bool {
        let (write, at) = self.writes[index];
        let here = |torn: &&(u32, Extent)| torn.0 == self.components[index] && torn.1.overlaps(at);
        let torn: Vec<Extent> = self.torn.iter().filter(here).map(|(_, torn)| *torn).collect();
        for first in 0..at.sectors {
            let sector = Extent::new(at.start.0 + first, 1);
            if !torn.is_empty() && !torn.iter().any(|torn| torn.overlaps(sector)) {
                survivors.push(Survivor { write, first, end: first + 1 });
            }
        }
        !torn.is_empty()
    }

    /// Keeps the first sectors of a write, its last, those between, or random ones.
    fn tear(&mut self, index: usize, survivors: &mut Vec<Survivor>) {
        let (write, Extent { sectors, .. }) = self.writes[index];
        let (one, other) = (self.rng.below(sectors + 1), self.rng.below(sectors + 1));
        match self.rng.below(4) {
            0 => survivors.push(Survivor { write, first: 0, end: one }),
            1 => survivors.push(Survivor { write, first: one, end: sectors }),
            2 => survivors.push(Survivor { write, first: one.min(other), end: one.max(other) }),
            _ => {
                for sector in (0..sectors).filter(|_| self.rng.chance(1, 2)).collect::<Vec<_>>() {
                    match survivors.last_mut() {
                        Some(last) if last.write == write && last.end == sector => last.end += 1,
                        _ => survivors.push(Survivor { write, first: sector, end: sector + 1 }),
                    }
                }
            }
        }
        survivors.retain(|survivor| survivor.first < survivor.end);
    }
}

impl Iterator for Choices {
    type Item = Vec<Survivor>;

    fn next(&mut self) -> Option<Vec<Survivor>> {
        Some(self.choose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::image::{Content, Image};
    use crate::explore::log::{Event, Write};
    use crate::explore::power::Power;

    #[test]
    fn what_a_crash_has_torn_is_completed() {
        let at = Extent::new(16, 8);
        let write = Write {
            component: 1,
            at,
            contents: vec![Content::Zero; 8],
            fua: false,
            late: false,
            repairs: Vec::new(),
        };
        let log = Log { writes: vec![write], ..Log::default() };
        let mut power = Power::new(vec![Image::new(64), Image::new(64)]);
        power.follow(&log, &Event::WriteBegan(0));
        let torn = |component| Rc::from([(component, Extent::new(16, 3)), (component, Extent::new(22, 9))]);
        let rest: Vec<_> = (3..6).map(|first| Survivor { write: 0, first, end: first + 1 }).collect();
        let times = |component| {
            let choices = Choices::new(&power.pending, &log, 1).with_torn(torn(component)).take(200);
            choices.filter(|survivors| *survivors == rest).count()
        };
        assert!(times(1) > 30 && times(0) < 10, "{} and {}", times(1), times(0));
    }
}
