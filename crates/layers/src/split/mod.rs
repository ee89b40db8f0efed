//! Large requests in parts, as a kernel hands them to a device that takes no more at a time. The smallest layer
//! that does something: copy this folder to begin one of your own.
//!
//! It preserves the order of the device below, and holds nothing back. Invariant: overlapping requests take effect in
//! order of arrival, though their parts are in flight together. Fault model: of a read or write that fails, any parts
//! may have been carried out, as without splitting.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Counters, Extent, Hints, IoError, IoFuture, Layer, RangeLocks, SECTOR_BYTES, Zeroes,
};
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::join::join_all;
use crate::units::Bytes;

/// Options. Each key is described on the layer's page, which a test reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Maximum size of a part; parts end at multiples of it.
    pub largest: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Options { largest: Bytes(128 << 10) }
    }
}

impl Options {
    /// Checks the options.
    pub fn check(&self) -> Result<(), Refused> {
        match self.largest {
            Bytes(0) => Err(Refused::new("largest", "0 bytes", "a sector (512) or more")),
            Bytes(_) => Ok(()),
        }
    }
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &["a request goes in parts"];

/// The layer.
pub struct Split {
    below: Rc<dyn BlockDevice>,
    largest_sectors: u64,
    locks: RangeLocks,
    parts: Cell<u64>,
}

impl Split {
    /// A layer with these (checked) options.
    pub fn new(below: Rc<dyn BlockDevice>, options: &Options) -> Split {
        let largest_sectors = options.largest.0 / SECTOR_BYTES;
        Split { below, largest_sectors, locks: RangeLocks::new(), parts: Cell::new(0) }
    }

    /// The parts of a request, with their parts of its buffer.
    fn parts(&self, at: Extent, buffer: &Buffer) -> Vec<(Extent, Buffer)> {
        let parts: Vec<_> = buffer.split(at, self.largest_sectors).collect();
        if parts.len() > 1 {
            edge("a request goes in parts");
        }
        self.parts.set(self.parts.get() + parts.len() as u64);
        parts
    }
}

/// Requests without data pass unchanged; methods not listed here go to [`below`](BlockDevice::below).
impl BlockDevice for Split {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at, &how).await;
            let parts = self.parts(at, &into);
            let reads = parts.into_iter().map(|(part, piece)| self.below.read(part, piece, how.clone()));
            // All parts end before the request does: none may continue once its lock is released.
            let read: Result<Vec<Buffer>, IoError> = join_all(reads).await.into_iter().collect();
            read.map(Buffer::join)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            let parts = self.parts(at, &from);
            let writes = parts.into_iter().map(|(part, piece)| self.below.write(part, piece, how.clone()));
            join_all(writes).await.into_iter().collect()
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.below.discard(at, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let _held = self.locks.exclusive(at, &how).await;
            self.below.write_zeroes(at, how, zeroes).await
        })
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }
}

impl Layer for Split {
    fn counters(&self) -> Counters {
        vec![("parts", self.parts.get())]
    }

    /// Everything acknowledged is below: it can be detached at any time.
    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}

#[cfg(test)]
mod tests;
