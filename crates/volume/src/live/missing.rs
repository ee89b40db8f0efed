//! A component that is not there, below a layer that does without it: every request fails.

use std::future::ready;

use seekless_core::device::io;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture};

/// See the file's header.
pub struct Missing {
    name: String,
    sectors: u64,
    why: String,
}

impl Missing {
    /// Stands for the component `name`, of this size, which cannot be opened.
    pub fn new(name: &str, sectors: u64, why: String) -> Missing {
        Missing { name: name.to_owned(), sectors, why }
    }

    fn fail<T: 'static>(&self, at: Option<Extent>) -> IoFuture<'_, T> {
        io(ready(Err(IoError::new(ErrorKind::Gone, self.name.clone(), at, self.why.clone()))))
    }
}

impl BlockDevice for Missing {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(self.sectors)
    }

    fn read(&self, at: Extent, _: Buffer, _: Hints) -> IoFuture<'_, Buffer> {
        self.fail(Some(at))
    }

    fn write(&self, at: Extent, _: Buffer, _: Hints) -> IoFuture<'_, ()> {
        self.fail(Some(at))
    }

    fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
        self.fail(None)
    }

    fn discard(&self, at: Extent, _: Hints) -> IoFuture<'_, ()> {
        self.fail(Some(at))
    }
}
