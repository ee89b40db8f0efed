//! A disk drive's arithmetic as the inside of a simulated component.

use std::rc::Weak;

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Geometry, Lba, Nanos, Op};

use super::Drive;
use super::legs::Leg;
use super::mechanics::{Access, Head};
use crate::freeblock::{Foreground, FreeOptions, Freeblock};
use crate::machine::{Asked, Machine, Rest};
use crate::scheduler::{Place, Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec, WriteBack};

impl Places for Drive {
    fn place(&self, lba: Lba) -> Place {
        Drive::place(self, lba)
    }
}

impl Machine for Drive {
    fn geometry(&self) -> Geometry {
        Geometry {
            sectors: self.layout.sectors(),
            logical_sectors: 1,
            physical_sectors: 1,
            volatile_cache: self.policy.write_back == WriteBack::All,
            rotational: true,
            discard_sectors: 0,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        }
    }

    fn queue(&self) -> QueueSpec {
        self.queue
    }

    fn lanes(&self) -> u32 {
        1
    }

    fn serve(&mut self, asked: &Asked, now: Nanos) -> Access {
        match asked.op {
            Op::Write | Op::WriteZeroes if asked.fua => self.write_through(asked.at, now, asked.queued),
            Op::Read if asked.fua => self.read_from_media(asked.at, now, asked.queued),
            op => Drive::serve(self, op, asked.at, now, asked.queued),
        }
    }

    fn aside(&mut self) -> (Access, Nanos) {
        self.aside.take()
    }

    fn seen<R>(&self, now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        with(Some(&self.sight(now)))
    }

    fn estimate(&self, at: Lba, now: Nanos, write: bool) -> Option<Nanos> {
        Some(Drive::estimate(self, at, now, write))
    }

    fn freeblock(&mut self, options: FreeOptions, by: Weak<dyn Foreground>) -> Option<Freeblock> {
        self.note_legs();
        Some(Freeblock::new(self, options, by))
    }

    fn take_legs(&mut self, legs: &mut Vec<Leg>) {
        Drive::take_legs(self, legs);
    }

    fn rest(&self, now: Nanos) -> Rest {
        Drive::rest(self, now)
    }

    fn move_head(&mut self, to: Head, landed: Nanos) {
        Drive::move_head(self, to, landed);
    }

    fn power(&self) -> Option<&PowerSpec> {
        self.power.as_ref()
    }
}
