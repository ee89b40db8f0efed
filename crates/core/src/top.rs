//! The top of a volume, which its clients use: refuses invalid requests, once; holds back those beyond the limits
//! ([`crate::limit`]); and passes the others to the child of its switch ([`crate::switch`]). Queries are not limited.
//!
//! Fault model: a request may be dropped at any time; nothing leaks.

use std::rc::Rc;

use crate::buffer::Buffer;
use crate::device::{BlockDevice, ExtentState, Geometry, IoFuture, Place, View, Zeroes, check, io};
use crate::error::IoError;
use crate::limit::{Limits, Permit};
use crate::request::{Hints, Op};
use crate::switch::{InFlight, Switch};
use crate::units::{Extent, Nanos};

/// See the file's header.
pub struct Top {
    switch: Rc<Switch>,
    limits: Limits,
}

impl Top {
    /// The top over `below`, with the default limits.
    pub fn new(below: Rc<dyn BlockDevice>) -> Top {
        Top::limited(below, Limits::default())
    }

    /// The top over `below`, with these limits.
    pub fn limited(below: Rc<dyn BlockDevice>, limits: Limits) -> Top {
        Top { switch: Rc::new(Switch::new(below)), limits }
    }

    /// The top over a switch, with the default limits.
    pub fn over(switch: Rc<Switch>) -> Top {
        Top { switch, limits: Limits::default() }
    }

    /// The permit, and the device for the request.
    async fn enter(&self, at: Extent, bytes: u64, how: &Hints) -> Result<(Permit, InFlight<'_>), IoError> {
        check(&self.geometry(), at, "volume")?;
        // In the other order a swap would wait for requests that wait for a permit.
        let permit = self.limits.admit(how, bytes).await;
        Ok((permit, self.switch.enter().await))
    }
}

impl BlockDevice for Top {
    fn geometry(&self) -> Geometry {
        self.switch.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let arrived = self.switch.arrive(Op::Read, at.bytes());
            arrived.answered(match self.enter(at, at.bytes(), &how).await {
                Ok((_permit, below)) => below.read(at, into, how).await,
                Err(error) => Err(error),
            })
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.switch.arrive(Op::Write, at.bytes());
            arrived.answered(match self.enter(at, at.bytes(), &how).await {
                Ok((_permit, below)) => self.switch.note(at, true, below.write(at, from, how).await),
                Err(error) => Err(error),
            })
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.switch.arrive(Op::Flush, 0);
            let _permit = self.limits.admit(&how, 0).await;
            arrived.answered(self.switch.enter().await.flush(how).await)
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.switch.arrive(Op::Discard, at.bytes());
            arrived.answered(match self.enter(at, 0, &how).await {
                Ok((_permit, below)) => self.switch.note(at, false, below.discard(at, how).await),
                Err(error) => Err(error),
            })
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.switch.arrive(Op::WriteZeroes, at.bytes());
            arrived.answered(match self.enter(at, 0, &how).await {
                Ok((_permit, below)) => self.switch.note(at, true, below.write_zeroes(at, how, zeroes).await),
                Err(error) => Err(error),
            })
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move { self.switch.enter().await.extents(at).await })
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let (_permit, below) = self.enter(at, 0, &how).await?;
            below.prefetch(at, how).await
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.switch.child().places(at, each);
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.switch.child().heat(at, each)
    }

    fn unreadable(&self, at: Extent, each: &mut dyn FnMut(Extent, bool)) -> bool {
        self.switch.child().unreadable(at, each)
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.switch.child().estimate(op, at, how)
    }

    fn views(&self) -> Vec<View> {
        self.switch.child().views()
    }
}
