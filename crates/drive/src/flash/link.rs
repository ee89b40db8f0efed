//! A bus that takes one sector at a time.
//!
//! Commands are worked out one after the other, in the order in which they came, but their data are ready in
//! another. A lane keeps its backlog, and not who has it when: what is ready goes when the work that came
//! before would be done, were all of it ready. So it never carries more than it can, and nobody waits for data
//! that are not there yet.

use seekless_core::Nanos;

/// A bus, and what it has to carry.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// A sector, in picoseconds.
    sector: u64,
    backlog: Nanos,
}

impl Link {
    /// An idle bus of so many million bytes a second.
    pub fn new(mb_s: f64) -> Link {
        Link { sector: (512.0 / mb_s * 1e6).round() as u64, backlog: Nanos::ZERO }
    }

    /// Sectors of a command that came at `now` and are ready at `ready`: when they have been carried.
    pub fn carry(&mut self, sectors: u64, now: Nanos, ready: Nanos) -> Nanos {
        let time = Nanos((sectors * self.sector).div_ceil(1_000));
        self.backlog = self.backlog.max(now) + time;
        self.backlog.max(ready + time)
    }
}
