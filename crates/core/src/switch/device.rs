//! A switch as a device, for a place below layers: each request goes to the child of its instant, and keeps it until it
//! ends.

use super::Switch;
use crate::buffer::Buffer;
use crate::device::{BlockDevice, ExtentState, Geometry, IoFuture, Mark, Place, View, Zeroes, io};
use crate::model::Modelled;
use crate::request::{Hints, Op};
use crate::units::{Extent, Nanos};

impl BlockDevice for Switch {
    fn geometry(&self) -> Geometry {
        Switch::geometry(self)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let arrived = self.arrive(Op::Read, at.bytes());
            arrived.answered(self.enter().await.read(at, into, how).await)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.arrive(Op::Write, at.bytes());
            let child = self.enter().await;
            arrived.answered(self.note(at, true, child.write(at, from, how).await))
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.arrive(Op::Flush, 0);
            arrived.answered(self.enter().await.flush(how).await)
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.arrive(Op::Discard, at.bytes());
            let child = self.enter().await;
            arrived.answered(self.note(at, false, child.discard(at, how).await))
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let arrived = self.arrive(Op::WriteZeroes, at.bytes());
            let child = self.enter().await;
            arrived.answered(self.note(at, true, child.write_zeroes(at, how, zeroes).await))
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move { self.enter().await.extents(at).await })
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.enter().await.prefetch(at, how).await })
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        io(async move { self.enter().await.mark().await })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.child().places(at, each);
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        self.child().heat(at, each)
    }

    fn unreadable(&self, at: Extent, each: &mut dyn FnMut(Extent, bool)) -> bool {
        self.child().unreadable(at, each)
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.child().estimate(op, at, how)
    }

    fn model(&self) -> Option<Modelled> {
        self.child().model()
    }

    fn views(&self) -> Vec<View> {
        self.child().views()
    }
}
