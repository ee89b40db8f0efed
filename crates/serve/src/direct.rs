//! A device or file with direct I/O, one request at a time: a component that takes as long as the device.
//!
//! A request bypasses the page cache, with a buffer of its own, while the thread waits; the runtime's clock agrees with
//! the machine's when it begins and when it ends (see [`Clock`]). So a client measures the device, not computation in
//! between. For measurements only; a server has to do more than one thing at a time.
//!
//! Invariants: never writes unless the target was opened for it, and otherwise cannot. Requests are of whole logical
//! blocks; a write is on the media when it completes, whatever its hints. Fault model: a read or a write fails or is
//! short: an error with its place. A write that fails, or during which power fails, may have changed any part of its
//! blocks.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;

use seekless_core::device::{LARGEST_REQUEST_SECTORS, check, io};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, SECTOR_BYTES,
};

use crate::admit::Target;
use crate::clock::Clock;

/// Name of the component in errors.
const COMPONENT: &str = "direct file";

/// A device or file with direct I/O.
pub struct DirectFile {
    target: Target,
    clock: Clock,
    /// Buffer of the device's transfers; a part of it is aligned.
    scratch: RefCell<Vec<u8>>,
}

impl DirectFile {
    /// A component on an opened device. Inside a runtime: from now on its clock follows the machine's.
    pub fn new(target: Target) -> DirectFile {
        DirectFile { target, clock: Clock::start(), scratch: RefCell::default() }
    }

    /// Checks that `at` is whole logical blocks of the device.
    fn check(&self, at: Extent) -> Result<(), IoError> {
        check(&self.geometry(), at, COMPONENT)?;
        let block = self.target.logical_bytes / SECTOR_BYTES;
        if at.start.0 % block == 0 && at.sectors % block == 0 {
            return Ok(());
        }
        let why = format!("expected whole blocks of {} bytes", self.target.logical_bytes);
        Err(IoError::new(ErrorKind::Invalid, COMPONENT, Some(at), why))
    }

    /// Reads, blocking the thread.
    fn read_now(&self, at: Extent, into: &Buffer) -> Result<(), IoError> {
        self.aligned(at, |aligned| {
            self.target.file.read_exact_at(aligned, at.start.0 * SECTOR_BYTES)?;
            if !into.is_hollow() {
                into.put(0, aligned);
            }
            Ok(())
        })
    }

    /// Writes through to the media, blocking the thread.
    fn write_now(&self, at: Extent, from: &Buffer) -> Result<(), IoError> {
        self.aligned(at, |aligned| {
            aligned.copy_from_slice(&from.to_vec());
            self.target.file.write_all_at(aligned, at.start.0 * SECTOR_BYTES)
        })
    }

    /// Calls `does` with a buffer of the length of `at`, aligned for the device.
    fn aligned(
        &self,
        at: Extent,
        does: impl FnOnce(&mut [u8]) -> std::io::Result<()>,
    ) -> Result<(), IoError> {
        let (bytes, align) = (at.bytes() as usize, self.target.physical_bytes.max(4096) as usize);
        let mut scratch = self.scratch.borrow_mut();
        if scratch.len() < bytes + align {
            scratch.resize(bytes + align, 0);
        }
        let start = scratch.as_ptr().align_offset(align);
        let failed =
            |error| IoError::new(ErrorKind::Medium, COMPONENT, Some(at), format!("{}: {error}", self.path()));
        does(&mut scratch[start..start + bytes]).map_err(failed)
    }

    fn path(&self) -> std::path::Display<'_> {
        self.target.path.display()
    }

    fn refused(&self, at: Extent) -> IoError {
        let why = format!("{}: opened read-only", self.path());
        IoError::new(ErrorKind::ReadOnly, COMPONENT, Some(at), why)
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

    fn write(&self, at: Extent, from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if !self.target.writes {
                return Err(self.refused(at));
            }
            self.check(at)?;
            if !from.is_real() || from.len() as u64 != at.bytes() {
                let why = format!("found {} bytes or hollow ones, expected {}", from.len(), at.bytes());
                return Err(IoError::new(ErrorKind::Invalid, COMPONENT, Some(at), why));
            }
            self.clock.agree().await;
            self.write_now(at, &from)?;
            self.clock.agree().await;
            Ok(())
        })
    }

    /// Writes are on the media already: nothing to make durable.
    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        let why = format!("{}: discard is not supported", self.path());
        let error = IoError::new(ErrorKind::ReadOnly, COMPONENT, Some(at), why);
        Box::pin(std::future::ready(Err(error)))
    }
}
