//! A component with a time limit for requests.
//!
//! Invariants: every request is answered in time, with `Timeout` if the component has not answered. Fault model: the
//! component may answer late or never. A request that timed out goes on: a write may be carried out later, as any
//! failed write may have been.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use seekless_core::device::{ExtentState, Mark, io};
use seekless_core::runtime::sleep;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, IoFuture, Nanos, Zeroes};

/// See the file's header.
pub struct TimedComponent {
    device: Rc<dyn BlockDevice>,
    name: String,
    limit: Nanos,
}

impl TimedComponent {
    /// `device`, called `name` in errors, with `limit` for each request.
    pub fn new(device: Rc<dyn BlockDevice>, name: &str, limit: Nanos) -> TimedComponent {
        TimedComponent { device, name: name.to_owned(), limit }
    }

    async fn in_time<T>(
        &self,
        at: Option<Extent>,
        work: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        match select(pin!(work), pin!(sleep(self.limit))).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => {
                let why = format!("no answer within {}", self.limit);
                Err(IoError::new(ErrorKind::Timeout, self.name.clone(), at, why))
            }
        }
    }
}

impl BlockDevice for TimedComponent {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.device)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        // A late read is dropped with its request: its buffer may have another use by then.
        io(self.in_time(Some(at), self.device.read(at, into, how)))
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.in_time(Some(at), self.device.write(at, from, how)))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(self.in_time(None, self.device.flush(how)))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.in_time(Some(at), self.device.discard(at, how)))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(self.in_time(Some(at), self.device.write_zeroes(at, how, zeroes)))
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(self.in_time(Some(at), self.device.extents(at)))
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.in_time(Some(at), self.device.prefetch(at, how)))
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        io(self.in_time(None, self.device.mark()))
    }
}
