//! A volatile write cache, and a power failure: writes are durable only after a flush or with FUA; at the cut any part
//! of the others is, in any order, torn at sector boundaries.
//!
//! The device below holds the durable data. Fault model for the layer above: after the cut every request fails as gone,
//! and a restart finds the contents of the device below. Invariants: a read sees every acknowledged write; below, each
//! sector holds its last durable version, or after the cut that or a later one.

mod volatile;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::device::{Place, io};
use seekless_core::lock::{Mode, RangeLocks};
use seekless_core::runtime::Rng;
use seekless_core::{
    BlockDevice, Buffer, Class, Counters, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Layer,
    Nanos, Op, Zeroes, runtime,
};
use serde::{Deserialize, Serialize};

use crate::Refused;
use volatile::Volatile;

/// Fate of writes that are not durable at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Any sectors of any of them, at random.
    #[default]
    Any,
    /// All are lost.
    None,
    /// All survive.
    All,
}

/// Options.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The request at which the power fails, counted from 1; all kinds count.
    pub nth: u64,
    /// Fate of writes that are not durable.
    pub keep: Keep,
}

impl Default for Options {
    fn default() -> Self {
        Options { nth: 1_000, keep: Keep::Any }
    }
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        if self.nth == 0 {
            return Err(Refused::new("nth", "0", "1 or more: the first is 1"));
        }
        Ok(())
    }
}

/// A device with a volatile cache that loses power.
pub struct PowerCut {
    below: Rc<dyn BlockDevice>,
    options: Options,
    volatile: RefCell<Volatile>,
    /// Flushes and reads hold all of the cache still; later writes are not theirs.
    locks: RangeLocks,
    requests: Cell<u64>,
    gone: Cell<bool>,
    rng: RefCell<Rng>,
}

impl PowerCut {
    /// A layer over the durable device, with these (checked) options.
    pub fn new(below: Rc<dyn BlockDevice>, options: Options) -> PowerCut {
        PowerCut {
            below,
            options,
            volatile: RefCell::default(),
            locks: RangeLocks::new(),
            requests: Cell::new(0),
            gone: Cell::new(false),
            rng: RefCell::new(runtime::rng("powercut")),
        }
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Counts a request; the power fails at the n-th.
    async fn power(&self) -> Result<(), IoError> {
        self.requests.set(self.requests.get() + 1);
        if self.requests.get() == self.options.nth {
            self.cut().await?;
        }
        self.on()
    }

    fn on(&self) -> Result<(), IoError> {
        if self.gone.get() {
            return Err(IoError::new(ErrorKind::Gone, "powercut", None, "the power was cut by a layer"));
        }
        Ok(())
    }

    /// Cuts the power: some of the volatile writes become durable.
    pub async fn cut(&self) -> Result<(), IoError> {
        if self.gone.replace(true) {
            return Ok(());
        }
        // A flush in progress has made durable what it has written so far.
        let volatile = self.volatile.take();
        let survivors = match self.options.keep {
            Keep::None => Vec::new(),
            Keep::All => volatile.in_order(),
            Keep::Any => volatile.some(&mut self.rng.borrow_mut()),
        };
        for (at, bytes) in survivors {
            self.below.write(at, bytes, Hints::default()).await?;
        }
        self.below.flush(Hints::default()).await
    }

    async fn all(&self) -> seekless_core::lock::Guard {
        let all = Extent::new(0, self.below.geometry().sectors);
        self.locks.lock(all, Mode::Exclusive, Class::Foreground, None).await
    }

    /// Makes everything in the cache durable.
    async fn write_back(&self, how: Hints) -> Result<(), IoError> {
        let _held = self.all().await;
        while let Some((at, bytes)) = { self.volatile.borrow().oldest() } {
            self.on()?;
            // Until written it may still be lost, and stays in the cache.
            self.below.write(at, bytes, how.clone()).await?;
            self.on()?;
            self.volatile.borrow_mut().drop_oldest();
        }
        self.below.flush(how).await?;
        self.on()
    }

    async fn put(&self, at: Extent, from: Buffer, how: Hints) -> Result<(), IoError> {
        self.power().await?;
        let _held = self.locks.lock(at, Mode::Exclusive, how.class, None).await;
        self.on()?;
        if !how.fua {
            self.volatile.borrow_mut().put(at, &from);
            return Ok(());
        }
        self.below.write(at, from, how).await?;
        self.on()?;
        // Older cached writes there can no longer come back.
        self.volatile.borrow_mut().forget(at);
        Ok(())
    }
}

impl BlockDevice for PowerCut {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.below.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.power().await?;
            let _held = self.locks.lock(at, Mode::Shared, how.class, None).await;
            let into = self.below.read(at, into, how).await?;
            self.on()?;
            self.volatile.borrow().show(at, &into);
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.put(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.power().await?;
            self.write_back(how).await
        })
    }

    /// The cache stays as it is: the device below may hold older data, which must not come back.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.power().await?;
            let fua = std::mem::take(&mut how.fua);
            let held = self.locks.lock(at, Mode::Exclusive, how.class, None).await;
            self.below.discard(at, how.clone()).await?;
            drop(held);
            if fua { self.write_back(how).await } else { Ok(()) }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            if zeroes.only_if_fast {
                let why = "writing zeroes takes as long as writing";
                return Err(IoError::new(ErrorKind::Unsupported, "powercut", Some(at), why));
            }
            self.put(at, Buffer::zeroed(at.bytes()), how).await
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.below.places(at, each);
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.below.estimate(op, at, how)
    }
}

impl Layer for PowerCut {
    fn counters(&self) -> Counters {
        vec![("requests", self.requests.get()), ("volatile_writes", self.volatile.borrow().len() as u64)]
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
