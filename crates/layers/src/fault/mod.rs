//! Fault injection as layers: deliberate faults of real components, in the laboratory and live.
//!
//! Each fault only decides the fate of a request ([`Fault::meet`]); this module carries it out. All randomness comes
//! from named streams, so a fault strikes at the same place in every run with the same seed.

pub mod delay;
pub mod error;
pub mod lose;
pub mod powercut;
mod which;

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::{
    BlockDevice, Buffer, Counters, Extent, Geometry, Hints, IoError, IoFuture, Layer, Nanos, Op, Zeroes,
    runtime,
};

pub use which::Which;

/// Fate of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Carried out normally.
    Pass,
    /// Delayed by this time before it begins.
    Wait(Nanos),
    /// Takes this many times as long, as do those after it.
    Slow(f64),
    /// Fails with an error, and is not carried out.
    Fail(IoError),
    /// Succeeds, and is not carried out; a read returns the former contents of its buffer.
    Lose,
    /// Never completes, and is not carried out.
    Hang,
    /// Only these parts of a write are carried out; it succeeds.
    Tear(Vec<Extent>),
    /// A write is misdirected by this many sectors; it succeeds.
    Misdirect(u64),
}

/// Decides the fate of each request.
pub trait Fault {
    /// Fate of a request, on a device of `sectors` sectors.
    fn meet(&self, op: Op, at: Extent, sectors: u64) -> Act;

    /// As `meet`, for a read, for faults that depend on its hints.
    fn meet_read(&self, at: Extent, _how: &Hints, sectors: u64) -> Act {
        self.meet(Op::Read, at, sectors)
    }

    /// Geometry of the device with the fault.
    fn geometry(&self, below: Geometry) -> Geometry {
        below
    }
}

/// A device with a fault.
pub struct Faulty<F> {
    below: Rc<dyn BlockDevice>,
    fault: F,
    /// Time of the last completion below of a slowed request, and time at which it was reported.
    answered: Cell<Nanos>,
    let_go: Cell<Nanos>,
}

impl<F: Fault> Faulty<F> {
    /// A device with this fault.
    pub fn new(below: Rc<dyn BlockDevice>, fault: F) -> Faulty<F> {
        Faulty { below, fault, answered: Cell::default(), let_go: Cell::default() }
    }

    /// The fault.
    pub fn fault(&self) -> &F {
        &self.fault
    }

    /// Carries out a request according to its fate; `unharmed` is the result of one that is not carried out. Then the
    /// device below is not even called: some devices begin work when called.
    async fn carry<'a, T>(
        &self,
        act: &Act,
        work: impl FnOnce() -> IoFuture<'a, T>,
        unharmed: T,
    ) -> Result<T, IoError> {
        match act {
            Act::Wait(time) => {
                runtime::sleep(*time).await;
                work().await
            }
            Act::Slow(times) => {
                let came = runtime::now();
                let answer = work().await;
                // The time that it kept the device busy, after the previous one; only that is stretched, not the
                // queueing, or the delays of several queued requests would overlap.
                let busy = runtime::now().since(came.max(self.answered.replace(runtime::now())));
                let slow = Nanos((busy.0 as f64 * times).round() as u64);
                self.let_go.set(came.max(self.let_go.get()) + slow);
                runtime::sleep_until(self.let_go.get()).await;
                answer
            }
            Act::Fail(error) => Err(error.clone()),
            Act::Lose => Ok(unharmed),
            Act::Hang => std::future::pending().await,
            Act::Pass | Act::Tear(_) | Act::Misdirect(_) => work().await,
        }
    }

    fn meet(&self, op: Op, at: Extent) -> Act {
        self.fault.meet(op, at, self.below.geometry().sectors)
    }
}

/// The parts of a write to carry out, and by how much they are misdirected.
fn harmed(act: &Act, at: Extent) -> (Vec<Extent>, u64) {
    match act {
        Act::Tear(parts) => (parts.clone(), 0),
        Act::Misdirect(by) => (vec![at], *by),
        _ => (vec![at], 0),
    }
}

impl<F: Fault> BlockDevice for Faulty<F> {
    fn geometry(&self) -> Geometry {
        self.fault.geometry(self.below.geometry())
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let act = self.fault.meet_read(at, &how, self.below.geometry().sectors);
            self.carry(&act, || self.below.read(at, into.clone(), how), into.clone()).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Write, at);
            let (parts, by) = harmed(&act, at);
            for part in parts {
                let to = Extent { start: part.start + by, ..part };
                let from = from.cut_sectors(part.start.0 - at.start.0, part.sectors);
                self.carry(&act, || self.below.write(to, from, how.clone()), ()).await?;
            }
            Ok(())
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Flush, Extent::default());
            self.carry(&act, || self.below.flush(how), ()).await
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Discard, at);
            self.carry(&act, || self.below.discard(at, how), ()).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::WriteZeroes, at);
            let (parts, by) = harmed(&act, at);
            for part in parts {
                let to = Extent { start: part.start + by, ..part };
                self.carry(&act, || self.below.write_zeroes(to, how.clone(), zeroes), ()).await?;
            }
            Ok(())
        })
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }
}

impl<F: Fault> Layer for Faulty<F> {
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Holds nothing back.
    fn detach(&self) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
