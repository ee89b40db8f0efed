//! A device or file that is read directly, a request at a time: a component that takes what the device takes.
//!
//! A read goes past the page cache into a buffer of its own, while the thread waits; the runtime's clock stands
//! where the machine's does when it begins and when it ends (see [`Clock`]). So a client measures the device,
//! and not what code computes in between. For measurements; what serves has to do more than one thing at a time.
//!
//! Invariants: never writes, and is opened so that it cannot. Reads are of whole logical blocks.
//! Fault model: a read fails, or gives less than was asked for: an error with its place.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;

use seekless_core::device::{LARGEST_REQUEST_SECTORS, check, io};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, SECTOR_BYTES,
};

use crate::admit::Target;
use crate::clock::Clock;

/// What it is called in errors.
const COMPONENT: &str = "direct file";

/// A device or file that is read directly.
pub struct DirectFile {
    target: Target,
    clock: Clock,
    /// Where the device puts what it reads; a part of it is aligned.
    scratch: RefCell<Vec<u8>>,
}

impl DirectFile {
    /// A component of an opened device. Inside a runtime: from now on its clock is held to the machine's.
    pub fn new(target: Target) -> DirectFile {
        DirectFile { target, clock: Clock::start(), scratch: RefCell::default() }
    }

    /// Whether `at` is whole logical blocks of the device.
    fn check(&self, at: Extent) -> Result<(), IoError> {
        check(&self.geometry(), at, COMPONENT)?;
        let block = self.target.logical_bytes / SECTOR_BYTES;
        if at.start.0 % block == 0 && at.sectors % block == 0 {
            return Ok(());
        }
        let why = format!("expected whole blocks of {} bytes", self.target.logical_bytes);
        Err(IoError::new(ErrorKind::Invalid, COMPONENT, Some(at), why))
    }

    /// Reads now; the thread waits.
    fn read_now(&self, at: Extent, into: &Buffer) -> Result<(), IoError> {
        let (bytes, align) = (at.bytes() as usize, self.target.physical_bytes.max(4096) as usize);
        let mut scratch = self.scratch.borrow_mut();
        if scratch.len() < bytes + align {
            scratch.resize(bytes + align, 0);
        }
        let start = scratch.as_ptr().align_offset(align);
        let aligned = &mut scratch[start..start + bytes];
        let read = self.target.file.read_exact_at(aligned, at.start.0 * SECTOR_BYTES);
        let failed =
            |error| IoError::new(ErrorKind::Medium, COMPONENT, Some(at), format!("{}: {error}", self.path()));
        read.map_err(failed)?;
        if !into.is_hollow() {
            into.put(0, aligned);
        }
        Ok(())
    }

    fn path(&self) -> std::path::Display<'_> {
        self.target.path.display()
    }

    fn refuse(&self, at: Extent) -> IoFuture<'_, ()> {
        let why = format!("{}: opened for reading only", self.path());
        let error = IoError::new(ErrorKind::ReadOnly, COMPONENT, Some(at), why);
        Box::pin(std::future::ready(Err(error)))
    }
}

impl BlockDevice for DirectFile {
    fn geometry(&self) -> Geometry {
        Geometry {
            sectors: self.target.sectors,
            logical_sectors: self.target.logical_bytes / SECTOR_BYTES,
            physical_sectors: self.target.physical_bytes / SECTOR_BYTES,
            volatile_cache: false,
            rotational: self.target.rotational,
            discard_sectors: 0,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        }
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.check(at)?;
            self.clock.agree().await;
            self.read_now(at, &into)?;
            self.clock.agree().await;
            Ok(into)
        })
    }

    fn write(&self, at: Extent, _from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        self.refuse(at)
    }

    /// Nothing is ever written: there is nothing to make durable.
    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        self.refuse(at)
    }
}
