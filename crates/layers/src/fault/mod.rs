//! Faults as layers: what real components do wrong, done on purpose, in the laboratory and live.
//!
//! Each fault only decides what becomes of a request ([`Fault::meet`]); carrying that out is here, once. Nothing
//! is random but from a named stream, so a fault strikes at the same place in every run with the same seed.

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

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Nothing special.
    Pass,
    /// It begins so much later.
    Wait(Nanos),
    /// It takes so many times as long, and so do those behind it.
    Slow(f64),
    /// It is answered with an error, and not carried out.
    Fail(IoError),
    /// It is answered, and not carried out; a read brings what its buffer held.
    Lose,
    /// It is never answered, and not carried out.
    Hang,
    /// Of a write, only these parts are carried out; it is answered as if all were.
    Tear(Vec<Extent>),
    /// A write goes so many sectors further on; it is answered as if it had gone where it should.
    Misdirect(u64),
}

/// Decides what becomes of each request.
pub trait Fault {
    /// What becomes of this one, on a device of so many sectors.
    fn meet(&self, op: Op, at: Extent, sectors: u64) -> Act;

    /// The same of a read, for a fault that looks at how it is to be done.
    fn meet_read(&self, at: Extent, _how: &Hints, sectors: u64) -> Act {
        self.meet(Op::Read, at, sectors)
    }

    /// What the device is like with the fault.
    fn geometry(&self, below: Geometry) -> Geometry {
        below
    }
}

/// A device with a fault.
pub struct Faulty<F> {
    below: Rc<dyn BlockDevice>,
    fault: F,
    /// When what is below last answered a request that is to be slow, and when that answer is let go.
    answered: Cell<Nanos>,
    let_go: Cell<Nanos>,
}

impl<F: Fault> Faulty<F> {
    /// What is below, with this fault.
    pub fn new(below: Rc<dyn BlockDevice>, fault: F) -> Faulty<F> {
        Faulty { below, fault, answered: Cell::default(), let_go: Cell::default() }
    }

    /// The fault.
    pub fn fault(&self) -> &F {
        &self.fault
    }

    /// Carries out what the fault lets; `unharmed` is the answer to what is not carried out. What is below is
    /// not even called then: some devices begin when they are.
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
                // What it kept the device busy, after the one before; that long is stretched, not the wait for others,
                // or several that wait together would hide in each other's delays.
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

/// Which parts of a write are carried out, and how much further on than they should.
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

    /// It holds nothing back.
    fn detach(&self) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
