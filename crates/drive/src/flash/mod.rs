//! A flash drive as arithmetic: a controller, an interface, channels and dies, each busy until a time.
//!
//! The path of a read: command handling; then each page's die loads it into a register, the channel carries it, and the
//! interface sends it on. The path of a write: handling, transfer over the interface into the write buffer,
//! acknowledgement; full pages go to the dies in turn, and buffer space is free again when a page is programmed.
//!
//! A sector's place follows from its address, as if the drive had been filled in sequence. Garbage collection is folded
//! into the program time: the description's amplification gives the pages moved and blocks erased.

mod buffer;
mod cells;
mod device;
mod link;

use seekless_core::{Extent, Nanos, Op};

use crate::disk::mechanics::{Access, nanos};
use crate::spec::FlashSpec;
use buffer::Buffer;
use cells::Cells;
use link::Link;

/// A flash drive and its state.
#[derive(Clone, Debug)]
pub struct Flash {
    spec: FlashSpec,
    each: u64,
    latency: u64,
    flush: u64,
    cells: Cells,
    /// When the controller becomes idle.
    controller: Nanos,
    bus: Link,
    buffer: Buffer,
    /// Where the last write ended.
    write_end: u64,
}

impl Flash {
    /// The drive at rest, its buffer empty.
    pub fn new(spec: &FlashSpec) -> Flash {
        Flash {
            each: nanos(spec.controller.each_us),
            latency: nanos(spec.controller.latency_us),
            flush: nanos(spec.controller.flush_us),
            cells: Cells::new(&spec.flash),
            spec: spec.clone(),
            controller: Nanos::ZERO,
            bus: Link::new(spec.controller.bus_mb_s),
            buffer: Buffer::default(),
            write_end: u64::MAX,
        }
    }

    /// Time of `op` at `at` from `now` on, to its answer; a write with `fua` waits until it is programmed.
    pub fn serve(&mut self, op: Op, at: Extent, now: Nanos, fua: bool) -> Access {
        self.buffer.drain(now);
        self.controller = self.controller.max(now) + Nanos(self.each);
        let handled = self.controller + Nanos(self.latency);
        let done = match op {
            Op::Read => self.read(at, handled),
            Op::Write | Op::WriteZeroes => self.write(at, handled, fua),
            Op::Flush => self.flush(handled),
            Op::Discard => handled,
        };
        let overhead = handled.since(now).min(done.since(now));
        Access { overhead, transfer: done.since(now + overhead), ..Access::default() }
    }

    fn read(&mut self, at: Extent, handled: Nanos) -> Nanos {
        let mut done = handled;
        for (page, sectors) in self.cells.pages(at) {
            let buffered = self.buffer.holds(page);
            let there = if buffered { handled } else { self.cells.read(page, sectors, handled) };
            done = done.max(self.bus.carry(sectors, handled, there));
        }
        done
    }

    fn write(&mut self, at: Extent, handled: Nanos, fua: bool) -> Nanos {
        let controller = self.spec.controller;
        let in_sequence = at.start.0 == self.write_end;
        self.write_end = at.end().0;
        let capacity = u64::from(controller.write_buffer_sectors);
        let page_sectors = u64::from(self.spec.flash.page_sectors);
        let (mut taken, mut programmed) = (handled, handled);
        for (page, sectors) in self.cells.pages(at) {
            // Without a cache, a write passes through a register of one page.
            while controller.write_cache && self.buffer.sectors() + sectors > capacity {
                let Some(done) = self.buffer.first_done() else { break };
                taken = taken.max(done);
                self.buffer.drain(done);
            }
            taken = self.bus.carry(sectors, handled, taken);
            let mut left = sectors;
            while left > 0 {
                let part = left.min(page_sectors - self.buffer.open());
                self.buffer.take(page, part, in_sequence);
                if self.buffer.open() == page_sectors {
                    programmed = programmed.max(self.close(taken));
                }
                left -= part;
            }
        }
        if controller.write_cache && (!fua || controller.power_loss_protection) {
            taken
        } else {
            programmed.max(self.close(taken))
        }
    }

    /// Programs the open page as it is; returns when it is done.
    fn close(&mut self, now: Nanos) -> Nanos {
        if self.buffer.open() == 0 {
            return now;
        }
        let done = self.cells.program(now, self.buffer.in_sequence());
        self.buffer.close(done);
        done
    }

    fn flush(&mut self, handled: Nanos) -> Nanos {
        if self.spec.controller.power_loss_protection || self.buffer.sectors() == 0 {
            return handled;
        }
        self.close(handled);
        self.buffer.last_done().unwrap_or(handled).max(handled) + Nanos(self.flush)
    }
}
