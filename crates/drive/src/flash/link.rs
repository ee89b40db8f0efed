//! A serial link: it carries one sector at a time.
//!
//! Commands are computed one after the other, in order of arrival, but their data are ready in another order. A link
//! stores its backlog, not a schedule: data that are ready go when all earlier work would be done, were its data ready.
//! So it never exceeds its bandwidth, and data do not wait for data that are not ready yet.

use seekless_core::Nanos;

/// A serial link and its backlog.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Time of a sector, in picoseconds.
    sector: u64,
    backlog: Nanos,
}

impl Link {
    /// An idle link of `mb_s` million bytes per second.
    pub fn new(mb_s: f64) -> Link {
        Link { sector: (512.0 / mb_s * 1e6).round() as u64, backlog: Nanos::ZERO }
    }

    /// Carries sectors of a command that arrived at `now` and are ready at `ready`; returns when they have passed.
    pub fn carry(&mut self, sectors: u64, now: Nanos, ready: Nanos) -> Nanos {
        let time = Nanos((sectors * self.sector).div_ceil(1_000));
        self.backlog = self.backlog.max(now) + time;
        self.backlog.max(ready + time)
    }
}
