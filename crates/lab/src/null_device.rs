//! A device that answers immediately: for workloads whose arrivals do not depend on answers.
//!
//! It has a size and no content; reads return their buffer unchanged.

use std::future::ready;

use seekless_core::device::io;
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture};

/// A device that answers immediately.
pub struct NullDevice {
    /// Size in sectors.
    pub sectors: u64,
}

impl BlockDevice for NullDevice {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(self.sectors)
    }

    fn read(&self, _at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(ready(Ok(into)))
    }

    fn write(&self, _at: Extent, _from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        io(ready(Ok(())))
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(ready(Ok(())))
    }

    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(ready(Ok(())))
    }
}
