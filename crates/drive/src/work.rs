//! Work of a device by account: where the time went, how far the arm moved.

use seekless_core::{Account, Class, Nanos, Op};

use crate::disk::mechanics::Access;

/// Work done on behalf of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Moving the arm, switching heads, settling.
    pub seek: Nanos,
    /// Waiting for the sector.
    pub rotation: Nanos,
    /// On the media or the bus.
    pub transfer: Nanos,
    /// Command handling.
    pub overhead: Nanos,
    /// Time with at least one command in service; that of several arms is added.
    pub occupied: Nanos,
    /// Part of all this for requests of class foreground or urgent.
    pub foreground: Nanos,
    /// Part of all this for other requests, in commands that were issued while none of those waited.
    pub in_idle_time: Nanos,
    /// Requests, before merging.
    pub requests: u64,
    /// Commands, after merging.
    pub commands: u64,
    /// Commands that moved the arm.
    pub seeks: u64,
    /// Total seek distance, in cylinders.
    pub cylinders: u64,
    /// 512-byte blocks read.
    pub blocks_read: u64,
    /// 512-byte blocks written.
    pub blocks_written: u64,
    /// Sum over time of foreground requests waiting or in service: divide by the busy time.
    pub queued: u128,
    /// Seeks by distance: bin b counts those of 2^(b-1) < cylinders <= 2^b.
    pub by_distance: [u64; 32],
}

impl Work {
    /// All time.
    pub fn busy(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.overhead
    }

    /// Adds another account's work.
    pub fn add(&mut self, other: &Work) {
        self.seek += other.seek;
        self.rotation += other.rotation;
        self.transfer += other.transfer;
        self.overhead += other.overhead;
        self.occupied += other.occupied;
        self.foreground += other.foreground;
        self.in_idle_time += other.in_idle_time;
        self.requests += other.requests;
        self.commands += other.commands;
        self.seeks += other.seeks;
        self.cylinders += other.cylinders;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.queued += other.queued;
        for (bin, more) in self.by_distance.iter_mut().zip(other.by_distance) {
            *bin += more;
        }
    }
}

/// A request that shared a command.
#[derive(Clone, Copy, Debug)]
pub struct Sharer {
    /// Account charged.
    pub account: Account,
    /// Class at submission.
    pub class: Class,
    /// Sectors.
    pub sectors: u64,
}

/// Number of sharers that clients wait for.
fn served(sharers: &[Sharer]) -> usize {
    sharers.iter().filter(|sharer| sharer.class <= Class::Foreground).count()
}

/// The accounts of a device.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Vec<Work>);

impl Ledger {
    /// Work done for an account.
    pub fn account(&self, account: Account) -> Work {
        self.0.get(usize::from(account.0)).cloned().unwrap_or_default()
    }

    /// Work done for all accounts.
    pub fn all(&self) -> Work {
        self.0.iter().fold(Work::default(), |mut sum, work| {
            sum.add(work);
            sum
        })
    }

    fn entry(&mut self, account: Account) -> &mut Work {
        let index = usize::from(account.0);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Work::default);
        }
        &mut self.0[index]
    }

    /// Charges a command that took `took`, while `waiting` more foreground requests waited. Each sharer is charged its
    /// part of the time by its sectors; the first also the remainder, and the counts.
    pub fn charge(&mut self, op: Op, took: &Access, sharers: &[Sharer], waiting: usize) {
        let Some(first) = sharers.first() else { return };
        let whole: u64 = sharers.iter().map(|sharer| sharer.sectors).sum::<u64>().max(1);
        let mut left = *took;
        for sharer in sharers.iter().skip(1) {
            let part = |time: Nanos| {
                Nanos((u128::from(time.0) * u128::from(sharer.sectors) / u128::from(whole)) as u64)
            };
            let share = Access {
                seek: part(took.seek),
                rotation: part(took.rotation),
                transfer: part(took.transfer),
                overhead: part(took.overhead),
                distance: 0,
            };
            left.seek = left.seek - share.seek;
            left.rotation = left.rotation - share.rotation;
            left.transfer = left.transfer - share.transfer;
            left.overhead = left.overhead - share.overhead;
            self.charge_share(op, &share, sharer);
        }
        self.charge_share(op, &left, first);
        let work = self.entry(first.account);
        if waiting + served(sharers) == 0 {
            work.in_idle_time += took.total();
        }
        work.commands += 1;
        work.queued += u128::from(took.total().0) * (waiting + served(sharers)) as u128;
        if took.distance > 0 {
            work.seeks += 1;
            work.cylinders += took.distance;
            work.by_distance[took.distance.next_power_of_two().trailing_zeros().min(31) as usize] += 1;
        }
    }

    /// Charges the drive's background work beside a command to the first of its sharers, whichever caused it. While
    /// that work went on, the command was in service for `overlap`, which was not charged otherwise.
    pub fn charge_background(
        &mut self,
        background: &Access,
        overlap: Nanos,
        sharers: &[Sharer],
        waiting: usize,
    ) {
        let Some(first) = sharers.first() else { return };
        let work = self.entry(first.account);
        if first.class <= Class::Foreground {
            work.foreground += overlap;
        }
        work.queued += u128::from(overlap.0) * (waiting + served(sharers)) as u128;
        work.seek += background.seek;
        work.rotation += background.rotation;
        work.transfer += background.transfer;
        work.overhead += background.overhead;
        if background.distance > 0 {
            work.seeks += 1;
            work.cylinders += background.distance;
        }
    }

    /// Counts a request that was served for free.
    pub fn charge_free(&mut self, op: Op, sharer: &Sharer) {
        self.charge_share(op, &Access::default(), sharer);
    }

    /// Adds the time for which a command occupied the drive alone.
    pub fn occupied(&mut self, time: Nanos, sharers: &[Sharer]) {
        if let Some(first) = sharers.first() {
            self.entry(first.account).occupied += time;
        }
    }

    fn charge_share(&mut self, op: Op, share: &Access, sharer: &Sharer) {
        let work = self.entry(sharer.account);
        work.seek += share.seek;
        work.rotation += share.rotation;
        work.transfer += share.transfer;
        work.overhead += share.overhead;
        if sharer.class <= Class::Foreground {
            work.foreground += share.total();
        }
        work.requests += 1;
        match op {
            Op::Read => work.blocks_read += sharer.sectors,
            Op::Write | Op::WriteZeroes => work.blocks_written += sharer.sectors,
            Op::Flush | Op::Discard => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_nanosecond() {
        let took = Access {
            seek: Nanos(1_000_001),
            rotation: Nanos(7),
            transfer: Nanos(333),
            overhead: Nanos(100),
            distance: 5,
        };
        let sharer = |account, class, sectors| Sharer { account: Account(account), class, sectors };
        let sharers = [
            sharer(0, Class::Foreground, 3),
            sharer(1, Class::Background, 5),
            sharer(0, Class::Foreground, 9),
        ];
        let mut ledger = Ledger::default();
        ledger.charge(Op::Read, &took, &sharers, 4);
        let all = ledger.all();
        assert_eq!((all.busy(), all.requests, all.commands), (took.total(), 3, 1));
        assert_eq!((all.seeks, all.cylinders, all.by_distance[3], all.blocks_read), (1, 5, 1, 17));
        let second = ledger.account(Account(1));
        assert_eq!((second.foreground, second.seeks), (Nanos(0), 0));
        assert_eq!(second.seek, Nanos(1_000_001 * 5 / 17));
        assert_eq!(all.foreground, took.total() - second.busy());
        assert_eq!(all.in_idle_time, Nanos(0));
        for (waiting, account) in [(0, 3), (1, 4)] {
            ledger.charge(Op::Read, &took, &[sharer(account, Class::Background, 1)], waiting);
        }
        assert_eq!(ledger.account(Account(3)).in_idle_time, took.total());
        assert_eq!(ledger.account(Account(4)).in_idle_time, Nanos(0), "a client waited");
    }
}
