//! A component that knows its number in the volume, for reports of where data lies, and counts and times its requests.

use std::rc::Rc;

use seekless_core::device::{Place, io};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoFuture, Meter, Op, Zeroes};

/// See the file's header.
pub struct Numbered {
    number: u32,
    component: Rc<dyn BlockDevice>,
    meter: Option<Rc<Meter>>,
}

impl Numbered {
    /// `component` under this number; `meter` counts its requests, if that is wanted.
    pub fn new(number: u32, component: Rc<dyn BlockDevice>, meter: Option<Rc<Meter>>) -> Numbered {
        Numbered { number, component, meter }
    }

    fn timed<'a, T: 'a>(&'a self, op: Op, bytes: u64, work: IoFuture<'a, T>) -> IoFuture<'a, T> {
        match &self.meter {
            Some(meter) => io(meter.time(op, bytes, work)),
            None => work,
        }
    }
}

impl BlockDevice for Numbered {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.component)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.timed(Op::Read, at.bytes(), self.component.read(at, into, how))
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.timed(Op::Write, at.bytes(), self.component.write(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.timed(Op::Flush, 0, self.component.flush(how))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.timed(Op::Discard, at.bytes(), self.component.discard(at, how))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.timed(Op::WriteZeroes, at.bytes(), self.component.write_zeroes(at, how, zeroes))
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }
}
