//! A disk drive as the device model of a simulated component.

use std::rc::Weak;

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Geometry, Lba, Nanos, Op};

use super::Drive;
use super::mechanics::{Access, Head};
use super::trajectory::Step;
use crate::device_model::{DeviceModel, HeadState, Request};
use crate::freeblock::{Foreground, FreeOptions, Freeblock};
use crate::scheduler::{Place, Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec, WriteBack};

impl Places for Drive {
    fn place(&self, lba: Lba) -> Place {
        Drive::place(self, lba)
    }
}

impl DeviceModel for Drive {
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

    fn channels(&self) -> u32 {
        1
    }

    fn serve(&mut self, request: &Request, now: Nanos) -> Access {
        match request.op {
            Op::Write | Op::WriteZeroes if request.fua => self.write_through(request.at, now, request.queued),
            Op::Read if request.fua => self.read_from_media(request.at, now, request.queued),
            op => Drive::serve(self, op, request.at, now, request.queued),
        }
    }

    fn background(&mut self) -> (Access, Nanos) {
        self.background.take()
    }

    fn with_estimator<R>(&self, now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        with(Some(&self.estimator(now)))
    }

    fn freeblock(&mut self, options: FreeOptions, by: Weak<dyn Foreground>) -> Option<Freeblock> {
        self.record_trajectory();
        Some(Freeblock::new(self, options, by))
    }

    fn take_trajectory(&mut self, trajectory: &mut Vec<Step>) {
        Drive::take_trajectory(self, trajectory);
    }

    fn head_state(&self, now: Nanos) -> HeadState {
        Drive::head_state(self, now)
    }

    fn move_head(&mut self, to: Head, landed: Nanos) {
        Drive::move_head(self, to, landed);
    }

    fn power(&self) -> Option<&PowerSpec> {
        self.power.as_ref()
    }
}
