//! A window on a device. Slices of one component share its queue.

use std::rc::Rc;

use crate::buffer::Buffer;
use crate::device::{BlockDevice, ExtentState, Geometry, IoFuture, Mark, Place, Zeroes};
use crate::model::Modelled;
use crate::request::{Hints, Op};
use crate::units::{Extent, Lba, Nanos};

/// A window of `below`, as a device of its own.
pub struct Slice {
    below: Rc<dyn BlockDevice>,
    window: Extent,
}

impl Slice {
    /// A window; `None` if it reaches past the device's end.
    pub fn new(below: Rc<dyn BlockDevice>, window: Extent) -> Option<Slice> {
        let end = window.start.0.checked_add(window.sectors)?;
        (end <= below.geometry().sectors).then_some(Slice { below, window })
    }

    /// The device's extent for an extent of the slice.
    fn place(&self, at: Extent) -> Extent {
        Extent { start: at.start + self.window.start.0, sectors: at.sectors }
    }
}

impl BlockDevice for Slice {
    fn geometry(&self) -> Geometry {
        Geometry { sectors: self.window.sectors, ..self.below.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.below.read(self.place(at), into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.below.write(self.place(at), from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.below.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below.discard(self.place(at), how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.below.write_zeroes(self.place(at), how, zeroes)
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        let states = self.below.extents(self.place(at));
        let from = self.window.start.0;
        Box::pin(async move {
            let in_slice = |extent: Extent| Extent { start: Lba(extent.start.0 - from), ..extent };
            let each = states.await?.into_iter();
            Ok(each.map(|state| ExtentState { extent: in_slice(state.extent), ..state }).collect())
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let from = self.window.start.0;
        self.below.places(self.place(at), &mut |part, place| {
            each(Extent { start: Lba(part.start.0 - from), ..part }, place);
        });
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        self.below.mark()
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.below.prefetch(self.place(at), how)
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        self.below.estimate(op, self.place(at), how)
    }

    fn model(&self) -> Option<Modelled> {
        self.below.model()?.part(self.window)
    }
}
