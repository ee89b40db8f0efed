//! Faults as layers: what real components do wrong, done on purpose, in the laboratory and live.
//!
//! Each fault only decides what becomes of a request ([`Fault::meet`]); carrying that out is here, once. Nothing
//! is random but from a named stream, so a fault strikes at the same place in every run with the same seed.

pub mod delay;
pub mod error;
pub mod lose;
pub mod powercut;
mod which;

use std::rc::Rc;

use seekless_core::device::{ExtentState, Place, io};
use seekless_core::{
    BlockDevice, Buffer, Counters, Extent, Geometry, Hints, IoError, IoFuture, Layer, Lba, Nanos, Op, Zeroes,
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
    /// It takes so many times as long.
    Slow(f64),
    /// It is answered with an error, and not carried out.
    Fail(IoError),
    /// It is answered, and not carried out; a read brings what its buffer held.
    Lose,
    /// It is never answered, and not carried out.
    Hang,
    /// Of a write, so many sectors are carried out; it is answered as if all were.
    Tear(u64),
    /// A write goes so many sectors further on; it is answered as if it had gone where it should.
    Misdirect(u64),
}

/// Decides what becomes of each request.
pub trait Fault {
    /// What becomes of this one, on a device of so many sectors.
    fn meet(&self, op: Op, at: Extent, sectors: u64) -> Act;

    /// What the device is like with the fault.
    fn geometry(&self, below: Geometry) -> Geometry {
        below
    }
}

/// A device with a fault.
pub struct Faulty<F> {
    below: Rc<dyn BlockDevice>,
    fault: F,
}

impl<F: Fault> Faulty<F> {
    /// What is below, with this fault.
    pub fn new(below: Rc<dyn BlockDevice>, fault: F) -> Faulty<F> {
        Faulty { below, fault }
    }

    /// The fault.
    pub fn fault(&self) -> &F {
        &self.fault
    }

    /// Carries out what the fault lets; `Some` with an answer for a request that is not carried out.
    async fn carry<T>(&self, act: &Act, work: IoFuture<'_, T>, unharmed: T) -> Result<T, IoError> {
        match act {
            Act::Wait(time) => {
                runtime::sleep(*time).await;
                work.await
            }
            Act::Slow(times) => {
                let began = runtime::now();
                let answer = work.await;
                let took = runtime::now().since(began).0 as f64;
                runtime::sleep(Nanos((took * (times - 1.0)).round() as u64)).await;
                answer
            }
            Act::Fail(error) => Err(error.clone()),
            Act::Lose => Ok(unharmed),
            Act::Hang => std::future::pending().await,
            Act::Pass | Act::Tear(_) | Act::Misdirect(_) => work.await,
        }
    }

    fn meet(&self, op: Op, at: Extent) -> Act {
        self.fault.meet(op, at, self.below.geometry().sectors)
    }
}

/// Where a write goes, and how much of it.
fn harmed(act: &Act, at: Extent) -> Extent {
    match *act {
        Act::Tear(sectors) => Extent { sectors: sectors.min(at.sectors), ..at },
        Act::Misdirect(by) => Extent { start: Lba(at.start.0 + by), ..at },
        _ => at,
    }
}

impl<F: Fault> BlockDevice for Faulty<F> {
    fn geometry(&self) -> Geometry {
        self.fault.geometry(self.below.geometry())
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let act = self.meet(Op::Read, at);
            self.carry(&act, self.below.read(at, into.clone(), how), into).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Write, at);
            let to = harmed(&act, at);
            if to.sectors == 0 {
                return Ok(());
            }
            self.carry(&act, self.below.write(to, from.cut_sectors(0, to.sectors), how), ()).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Flush, Extent::default());
            self.carry(&act, self.below.flush(how), ()).await
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::Discard, at);
            self.carry(&act, self.below.discard(at, how), ()).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let act = self.meet(Op::WriteZeroes, at);
            let to = harmed(&act, at);
            if to.sectors == 0 {
                return Ok(());
            }
            self.carry(&act, self.below.write_zeroes(to, how, zeroes), ()).await
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        self.below.extents(at)
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below.prefetch(at, how)
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.below.places(at, each);
    }

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        self.below.estimate(at, how)
    }
}

impl<F: Fault> Layer for Faulty<F> {
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// It holds nothing back.
    fn stop(&self) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
