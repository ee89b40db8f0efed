//! Data transfer over the interface while they come off the media.
//!
//! A drive that holds the bus sends a sector when it is in the buffer and the one before it was sent. So a transfer of
//! `n` sectors ends at the latest of: the bus's readiness plus `n` sector times; and, for each sector, its arrival plus
//! the sector times of itself and those after it. Arrivals come in evenly spaced bursts, of which only the first and
//! the last can decide.
//!
//! A drive that does not hold the bus releases it when the buffer is empty, and takes it again when enough has arrived.

use seekless_core::Nanos;

/// A transfer being computed.
#[derive(Clone, Debug)]
pub struct Transfer {
    sector: u64,
    sectors: u64,
    ready: u64,
    end: u64,
    /// Sectors whose arrival is known.
    known: u64,
    pauses: Option<Pauses>,
}

/// Costs of releasing the bus.
#[derive(Clone, Debug)]
pub struct Pauses {
    /// Releasing it.
    pub disconnect: u64,
    /// Taking it again.
    pub reselect: u64,
    /// Sectors that have to be buffered before it is taken again.
    pub mark: u64,
    /// Begin, sectors and duration of each burst.
    pub bursts: Vec<(u64, u64, u64)>,
}

impl Transfer {
    /// A transfer of `sectors` sectors of `sector` nanoseconds each, over a bus that is ready at `ready`.
    pub fn new(ready: Nanos, sectors: u64, sector: u64) -> Transfer {
        let end = ready.0 + sectors * sector;
        Transfer { sector, sectors, ready: ready.0, end, known: 0, pauses: None }
    }

    /// Releases the bus whenever the buffer is empty.
    pub fn pausing(self, pauses: Option<Pauses>) -> Transfer {
        Transfer { pauses, ..self }
    }

    /// The next `sectors` are in the buffer already.
    pub fn buffered(&mut self, sectors: u64) {
        self.known += sectors;
        if let Some(pauses) = &mut self.pauses {
            pauses.bursts.push((0, sectors, 0));
        }
    }

    /// The next `sectors` pass under the head from `begin` on, in `pass` nanoseconds.
    pub fn passing(&mut self, begin: u64, sectors: u64, pass: u64) {
        if sectors == 0 {
            return;
        }
        if let Some(pauses) = &mut self.pauses {
            pauses.bursts.push((begin, sectors, pass));
        }
        let after = |index: u64| (self.sectors - self.known - index) * self.sector;
        let first = begin + pass / sectors + after(0);
        let last = begin + pass + after(sectors - 1);
        self.end = self.end.max(first).max(last);
        self.known += sectors;
    }

    /// When the last sector was sent.
    pub fn end(&self) -> Nanos {
        match &self.pauses {
            Some(pauses) => Nanos(pauses.end(self.ready, self.sectors, self.sector)),
            None => Nanos(self.end),
        }
    }
}

impl Pauses {
    fn end(&self, ready: u64, sectors: u64, sector: u64) -> u64 {
        let (mut now, mut sent) = (ready, 0);
        while sent < sectors {
            let buffered = self.arrived(now).min(sectors);
            if buffered > sent {
                now += (buffered - sent) * sector;
                sent = buffered;
            } else {
                let target = (sent + self.mark.max(1)).min(sectors);
                now = (now + self.disconnect).max(self.arrival(target)) + self.reselect;
                if self.arrived(now) <= sent {
                    // No more arrivals are known.
                    return now;
                }
            }
        }
        now
    }

    /// How many sectors have arrived by `now`.
    fn arrived(&self, now: u64) -> u64 {
        let come = |&(begin, sectors, pass): &(u64, u64, u64)| match now.saturating_sub(begin) {
            since if since >= pass => sectors,
            since => since * sectors / pass,
        };
        let mut all = 0;
        for burst in &self.bursts {
            let here = come(burst);
            all += here;
            if here < burst.1 {
                break;
            }
        }
        all
    }

    /// When `target` sectors have arrived.
    fn arrival(&self, target: u64) -> u64 {
        let mut left = target;
        for &(begin, sectors, pass) in &self.bursts {
            if left <= sectors {
                return begin + (left * pass).div_ceil(sectors.max(1));
            }
            left -= sectors;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_ends_as_sector_by_sector(
            ready in 0..5_000_u64,
            sector in 0..200_u64,
            buffered in 0..20_u64,
            bursts in proptest::collection::vec((0..3_000_u64, 1..20_u64, 1..100_u64), 0..4),
        ) {
            let mut arrivals = vec![0; buffered as usize];
            let mut at = 0;
            for &(gap, sectors, each) in &bursts {
                at += gap;
                arrivals.extend((1..=sectors).map(|n| at + n * each));
                at += sectors * each;
            }
            let mut transfer = Transfer::new(Nanos(ready), arrivals.len() as u64, sector);
            transfer.buffered(buffered);
            let mut at = 0;
            for &(gap, sectors, each) in &bursts {
                at += gap;
                transfer.passing(at, sectors, sectors * each);
                at += sectors * each;
            }
            let slowly = arrivals.iter().fold(ready, |end, &arrival| end.max(arrival) + sector);
            prop_assert_eq!(transfer.end(), Nanos(slowly));
        }
    }
}
