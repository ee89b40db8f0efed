//! Conditions of a run: clients, latencies of components, rates of failure.
//!
//! Each run draws its own from its seed, since most races need unusual conditions. The script of a finding lists the
//! drawn values that differ from the defaults.

use std::fmt;

use seekless_core::Nanos;
use seekless_core::runtime::Rng;

/// Longest latency of a usual request to a component: long enough for a dozen others to overtake it.
const USUAL: Nanos = Nanos::from_micros(200);
/// Concurrent clients, at most.
const MOST_CLIENTS: u64 = 32;
/// One in this many runs has components that fail occasionally.
const RUNS_WITH_FAULTS: u64 = 7;
/// One in this many runs has shorter pauses ([`seekless_core::runtime::pause`]), from 50 us on.
const RUNS_WITH_PAUSES: u64 = 2;
const SHORTEST_PAUSE: u64 = 50;
/// One in this many runs has weak sectors.
const RUNS_WITH_WEAK: u64 = 2;
/// One in this many volumes has components without a write cache.
const VOLUMES_WITHOUT_CACHES: u64 = 4;

/// Length of the periods in which either all requests of a kind fail or none, where they fail together.
const TOGETHER: Nanos = Nanos::from_micros(100);

/// Start values of generations and the like: from the beginning, or close enough to these to pass them, except for the
/// last.
const NUMBERS: [u64; 6] = [0, 0, 1 << 8, 1 << 16, 1 << 32, 1 << 62];
/// How far before those values they begin, at most; no number ever reaches 2^62.
const BEFORE: [u64; 6] = [1, 1, 1 << 6, 1 << 6, 1 << 6, 1 << 40];

/// Latency of components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Uniform up to 200 us.
    #[default]
    Uniform,
    /// As `Uniform`, but one in this many requests takes this many times as long.
    Tail(u64, u64),
    /// As `Uniform`, but this component takes this many times as long.
    Slow(u32, u64),
}

/// Rates of failure: one in this many requests to components; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads.
    pub reads: u64,
    /// Writes and discards: carried out in part, in full, later, or not at all.
    pub writes: u64,
    /// Flushes: what was not durable by then is not made so by any later flush.
    pub flushes: u64,
    /// Whether requests of an instant fail together, on all components, as on one cable; else each by itself.
    pub together: bool,
}

/// See the file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Concurrent clients.
    pub clients: u64,
    /// Seed of all random choices in the run.
    pub seed: u64,
    /// Latency of components.
    pub pace: Pace,
    /// Rates of failure.
    pub faults: Faults,
    /// Start value of a new volume's generations.
    pub numbers: u64,
    /// One in this many verifying reads finds a weak sector (`weak.rs`); 0 for none.
    pub weak: u64,
    /// Components without a volatile write cache, as bits by number: what they answered is durable.
    pub uncached: u64,
    /// Whether components have marks by which they are known to be unchanged, as files have.
    pub marks: bool,
    /// Length of pauses in microseconds; 0 for the usual one.
    pub pause: u64,
}

impl Pace {
    /// Latency of the next request to component `number`.
    pub fn time(self, number: u32, rng: &mut Rng) -> Nanos {
        let usual = rng.below(USUAL.0) + 1;
        Nanos(match self {
            Pace::Tail(one_in, times) if rng.chance(1, one_in) => usual * times,
            Pace::Slow(slow, times) if slow == number => usual * times,
            _ => usual,
        })
    }

    fn drawn(components: u32, rng: &mut Rng) -> Pace {
        match rng.below(4) {
            0 => Pace::Uniform,
            1 | 2 => Pace::Tail(4 << rng.below(5), 10 << rng.below(6)),
            _ => Pace::Slow(rng.below(u64::from(components.max(1))) as u32, 5 << rng.below(5)),
        }
    }

    /// The line of a script; `None` for the default.
    pub fn line(self) -> Option<String> {
        match self {
            Pace::Uniform => None,
            Pace::Tail(one_in, times) => Some(format!("pace tail {one_in} {times}")),
            Pace::Slow(component, times) => Some(format!("pace slow {component} {times}")),
        }
    }

    /// Parses the words after `pace`.
    pub fn parse(words: &[&str]) -> Option<Pace> {
        let [kind, which, times] = words else { return None };
        let which = which.parse().ok().filter(|which| *which <= 1 << 20)?;
        let times = times.parse().ok().filter(|times| (1..=1 << 20).contains(times))?;
        match *kind {
            "tail" if which > 0 => Some(Pace::Tail(which, times)),
            "slow" => Some(Pace::Slow(which as u32, times)),
            _ => None,
        }
    }
}

impl Faults {
    /// Whether nothing fails.
    pub fn is_none(self) -> bool {
        self == Faults::default()
    }

    fn drawn(rng: &mut Rng) -> Faults {
        let [reads, writes, flushes] = [(); 3].map(|()| 8 << rng.below(6));
        match rng.below(5) {
            0 => Faults { reads, ..Faults::default() },
            1 => Faults { writes, ..Faults::default() },
            2 => Faults { flushes, ..Faults::default() },
            _ => Faults { reads, writes, flushes, ..Faults::default() },
        }
    }

    /// Whether a request fails now, of a kind of which one in `one_in` does, if they fail together: all do that come in
    /// the same period.
    pub fn come_at(time: Nanos, seed: u64, one_in: u64) -> bool {
        let period = time.0 / TOGETHER.0;
        Rng::seeded(seed ^ period.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chance(1, one_in)
    }

    /// Parses the words after `faults`.
    pub fn parse(words: &[&str]) -> Option<Faults> {
        let ["reads", reads, "writes", writes, "flushes", flushes, rest @ ..] = words else { return None };
        let together = match rest {
            [] => false,
            ["together"] => true,
            _ => return None,
        };
        let one_in = |text: &str| text.parse().ok().filter(|one_in| *one_in <= 1 << 20);
        Some(Faults { reads: one_in(reads)?, writes: one_in(writes)?, flushes: one_in(flushes)?, together })
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faults reads {} writes {} flushes {}", self.reads, self.writes, self.flushes)?;
        if self.together { f.write_str(" together") } else { Ok(()) }
    }
}

impl Conditions {
    /// The default conditions.
    pub fn usual(clients: u64, seed: u64) -> Conditions {
        Conditions { clients, seed, ..Conditions::default() }
    }

    /// Conditions of the run with this seed, on `components` components; with `clients` clients, if given.
    pub fn drawn(seed: u64, components: u32, clients: Option<u64>) -> Conditions {
        // A stream of its own.
        let mut rng = Rng::seeded(seed.rotate_left(32) ^ 0x5eed);
        let many = 1_u64 << rng.below(u64::from(MOST_CLIENTS.ilog2()) + 1);
        let drawn = (many - rng.below(many.div_ceil(2))).max(1);
        let pace = Pace::drawn(components, &mut rng);
        let fails = rng.chance(1, RUNS_WITH_FAULTS);
        let faults = if fails { Faults::drawn(&mut rng) } else { Faults::default() };
        let which = rng.below(NUMBERS.len() as u64) as usize;
        let before = BEFORE[which].div_ceil(1 << rng.below(5));
        let numbers = NUMBERS[which].saturating_sub(before) & !1;
        let weak = if rng.chance(1, RUNS_WITH_WEAK) { 4 << rng.below(5) } else { 0 };
        let all = (1 << components.min(63)) - 1;
        let some = if rng.chance(1, 2) { all } else { rng.bits() & all };
        let uncached = if rng.chance(1, VOLUMES_WITHOUT_CACHES) { some } else { 0 };
        let marks = rng.chance(1, 2);
        let pause = if rng.chance(1, RUNS_WITH_PAUSES) { SHORTEST_PAUSE << rng.below(7) } else { 0 };
        let clients = clients.unwrap_or(drawn);
        let faults = Faults { together: fails && rng.chance(1, 2), ..faults };
        Conditions { clients, seed, pace, faults, numbers, weak, uncached, marks, pause }
    }

    /// The same, with faults in one of this many of the runs that have none.
    pub fn more_faults(self, one_in: u64) -> Conditions {
        let mut rng = Rng::seeded(self.seed.rotate_left(16) ^ 0xfa17);
        if !self.faults.is_none() || !rng.chance(1, one_in) {
            return self;
        }
        let faults = Faults::drawn(&mut rng);
        Conditions { faults: Faults { together: rng.chance(1, 4), ..faults }, ..self }
    }

    /// Those of a run of the same volume as another one: its components and its numbers are what they were.
    pub fn of_volume(self, other: Conditions) -> Conditions {
        Conditions { numbers: other.numbers, uncached: other.uncached, marks: other.marks, ..self }
    }

    /// Whether component `number` has a volatile write cache.
    pub fn is_cached(&self, number: u32) -> bool {
        self.uncached >> number.min(63) & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_differs_and_a_script_says_it() {
        let drawn: Vec<_> = (0..300).map(|seed| Conditions::drawn(seed, 2, None)).collect();
        for conditions in &drawn {
            assert!((1..=MOST_CLIENTS).contains(&conditions.clients));
            let line = conditions.pace.line().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert_eq!(Pace::parse(&words).unwrap_or_default(), conditions.pace);
            let line = conditions.faults.to_string();
            assert_eq!(Faults::parse(&line.split(' ').skip(1).collect::<Vec<_>>()), Some(conditions.faults));
        }
        let count = |which: &dyn Fn(&Conditions) -> bool| drawn.iter().filter(|one| which(one)).count();
        assert!((50..100).contains(&count(&|one| one.pace == Pace::Uniform)));
        assert!(count(&|one| matches!(one.pace, Pace::Slow(0, _))) > 20);
        assert!((15..60).contains(&count(&|one| !one.faults.is_none())));
        assert!((100..200).contains(&count(&|one| one.marks)));
        assert!((50..100).contains(&count(&|one| one.uncached > 0)), "some have no cache");
        assert!(drawn.iter().all(|one| one.uncached < 4) && count(&|one| one.uncached == 2) > 3);
        for clients in [1, 2, 32] {
            assert!(count(&|one| one.clients == clients) > 0, "{clients}");
        }
    }

    #[test]
    fn a_tail_is_rare_and_long() {
        let mut rng = Rng::seeded(1);
        let times: Vec<_> = (0..4_000).map(|_| Pace::Tail(40, 100).time(0, &mut rng)).collect();
        let late = times.iter().filter(|time| **time > USUAL).count();
        assert!((50..150).contains(&late) && times.iter().max() > Some(&Nanos(50 * USUAL.0)), "{late}");
    }
}
