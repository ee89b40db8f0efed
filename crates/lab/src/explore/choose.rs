//! Which crash states of a moment are looked at: those that find most, and in turn with them others by chance.

use seekless_core::runtime::Rng;

use super::log::Log;
use super::power::{Pending, Survivor};

/// Gives survivors, one choice after the other, without an end; some come twice.
pub struct Choices {
    writes: Vec<(usize, u64)>,
    /// Of each write.
    components: Vec<u32>,
    /// Each component that has some, if there are several.
    apart: Vec<u32>,
    next: usize,
    rng: Rng,
}

impl Choices {
    /// Of what is not durable.
    pub fn new(pending: &[Pending], log: &Log, seed: u64) -> Choices {
        let writes =
            pending.iter().map(|pending| (pending.write, log.writes[pending.write].at.sectors)).collect();
        let components: Vec<u32> =
            pending.iter().map(|pending| log.writes[pending.write].component).collect();
        let mut apart = components.clone();
        apart.sort_unstable();
        apart.dedup();
        if apart.len() < 2 {
            apart.clear();
        }
        Choices { writes, components, apart, next: 0, rng: Rng::seeded(seed) }
    }

    /// How many choices come before all the rest are by chance.
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
            let kept = self.writes.iter().enumerate().filter(|(index, _)| which(*index));
            kept.map(|(_, &(write, sectors))| Survivor { write, first: 0, end: sectors }).collect::<Vec<_>>()
        };
        if turn < 2 {
            return whole(&|_| turn == 1);
        }
        if let Some(kept) = self.apart.get(turn - 2) {
            return whole(&|index| self.components[index] == *kept);
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
                let mut kept = whole(&|index| kind == 3 && index != which);
                self.tear(which, &mut kept);
                kept
            }
            _ => self.by_chance(),
        }
    }

    /// Any sectors of each, in any order.
    fn by_chance(&mut self) -> Vec<Survivor> {
        let mut kept = Vec::new();
        for index in 0..self.writes.len() {
            let (write, end) = self.writes[index];
            match self.rng.below(4) {
                0 => {}
                1 | 2 => kept.push(Survivor { write, first: 0, end }),
                _ => self.tear(index, &mut kept),
            }
        }
        if self.rng.chance(1, 2) {
            for last in (1..kept.len()).rev() {
                kept.swap(last, self.rng.below(last as u64 + 1) as usize);
            }
        }
        kept
    }

    /// The first sectors of a write, its last, those between, or each by a throw of a coin.
    fn tear(&mut self, index: usize, kept: &mut Vec<Survivor>) {
        let (write, sectors) = self.writes[index];
        let (one, other) = (self.rng.below(sectors + 1), self.rng.below(sectors + 1));
        match self.rng.below(4) {
            0 => kept.push(Survivor { write, first: 0, end: one }),
            1 => kept.push(Survivor { write, first: one, end: sectors }),
            2 => kept.push(Survivor { write, first: one.min(other), end: one.max(other) }),
            _ => {
                for sector in (0..sectors).filter(|_| self.rng.chance(1, 2)).collect::<Vec<_>>() {
                    match kept.last_mut() {
                        Some(last) if last.write == write && last.end == sector => last.end += 1,
                        _ => kept.push(Survivor { write, first: sector, end: sector + 1 }),
                    }
                }
            }
        }
        kept.retain(|survivor| survivor.first < survivor.end);
    }
}

impl Iterator for Choices {
    type Item = Vec<Survivor>;

    fn next(&mut self) -> Option<Vec<Survivor>> {
        Some(self.choose())
    }
}
