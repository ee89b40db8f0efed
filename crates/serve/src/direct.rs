//! A device or file that is read, and written if it was opened so, directly, a request at a time: a component that takes what the device takes.
//!
//! A read, or a write, goes past the page cache into a buffer of its own, while the thread waits; the runtime's clock stands
//! where the machine's does when it begins and when it ends (see [`Clock`]). So a client measures the device,
//! and not what code computes in between. For measurements; what serves has to do more than one thing at a time.
//!
//! Invariants: never writes unless the target was opened for it, and otherwise cannot. Reads and writes are of whole
//! logical blocks; a write is on the media when it is answered, whatever its hints say.
//! Fault model: a read or a write fails, or does less than was asked for: an error with its place. A write that
//! fails, or within which the power does, may have changed any part of its blocks.

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
    /// Where the device puts what it reads and takes what it writes; a part of it is aligned.
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
        self.aligned(at, |aligned| {
            self.target.file.read_exact_at(aligned, at.start.0 * SECTOR_BYTES)?;
            if !into.is_hollow() {
                into.put(0, aligned);
            }
            Ok(())
        })
    }

    /// Writes now, through to the media; the thread waits.
    fn write_now(&self, at: Extent, from: &Buffer) -> Result<(), IoError> {
        self.aligned(at, |aligned| {
            aligned.copy_from_slice(&from.to_vec());
            self.target.file.write_all_at(aligned, at.start.0 * SECTOR_BYTES)
        })
    }

    /// Does something with as many bytes as `at` has, aligned as the device wants them.
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
        let why = format!("{}: opened for reading only", self.path());
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

    /// What was written is on the media: there is nothing to make durable.
    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        let why = format!("{}: nothing is discarded here", self.path());
        let error = IoError::new(ErrorKind::ReadOnly, COMPONENT, Some(at), why);
        Box::pin(std::future::ready(Err(error)))
    }
}
