//! A damaged BOPT, opened read-only (option `older`): what is readable can be copied out.
//!
//! Invariant: nothing is written to a device, not even a repair. Faults: where what is newest of a super page, a map
//! page or the log is not readable, what was before it counts, so pages that were written after that may read as older;
//! a copy that does not match its checksum is an error.

use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::{BlockDevice, Buffer, Counters, Extent, Hints, IoError, IoFuture, Layer, Nanos, Zeroes};

use super::examined::examined;
use super::{Borg, Options};
use crate::durable::writable;
use crate::registry::Below;

/// See the file's header.
pub struct Older(Rc<Borg>);

impl Older {
    /// Opens the BOPT as far as it can be read.
    ///
    /// # Errors
    /// As for [`Borg::open`], except for damage.
    pub async fn open(below: &Below, options: Options) -> Result<Older, IoError> {
        // Without work of its own.
        let still =
            Options { idle_after: Nanos::ZERO, dirty_max_age: Nanos::ZERO, drain_below: 0.0, ..options };
        let borg = examined(below, still, true).await?;
        // Clean copies are served where they equal the origin.
        borg.store.doubt_all();
        Ok(Older(borg))
    }
}

fn refused() -> IoFuture<'static, ()> {
    io(std::future::ready(writable("borg", true)))
}

impl BlockDevice for Older {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.0)
    }

    fn write(&self, _: Extent, _: Buffer, _: Hints) -> IoFuture<'_, ()> {
        refused()
    }

    fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }

    fn discard(&self, _: Extent, _: Hints) -> IoFuture<'_, ()> {
        refused()
    }

    fn write_zeroes(&self, _: Extent, _: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        refused()
    }
}

impl Layer for Older {
    fn counters(&self) -> Counters {
        let known = [("metadata_not_readable", self.0.store.unreadable().len() as u64)];
        known.into_iter().chain(self.0.counters()).collect()
    }
}
