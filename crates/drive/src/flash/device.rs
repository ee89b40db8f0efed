//! A flash drive's arithmetic as the device model of a simulated component.

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Geometry, Lba, Nanos};

use super::Flash;
use crate::device_model::{ActiveTime, DeviceModel, Request};
use crate::disk::mechanics::Access;
use crate::scheduler::{Place, Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec};

/// Discard granularity: pages of 4 KiB.
const DISCARD_SECTORS: u64 = 8;

impl Places for Flash {
    /// All places are equal.
    fn place(&self, _lba: Lba) -> Place {
        Place::default()
    }
}

impl DeviceModel for Flash {
    fn geometry(&self) -> Geometry {
        let controller = &self.spec.controller;
        Geometry {
            sectors: self.spec.sectors,
            logical_sectors: 1,
            physical_sectors: 8,
            volatile_cache: controller.write_cache && !controller.power_loss_protection,
            rotational: false,
            discard_sectors: DISCARD_SECTORS,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        }
    }

    fn queue(&self) -> QueueSpec {
        self.spec.queue
    }

    /// It serves all commands that it holds.
    fn channels(&self) -> u32 {
        self.spec.queue.depth
    }

    fn serve(&mut self, request: &Request, now: Nanos) -> Access {
        Flash::serve(self, request.op, request.at, now, request.fua)
    }

    fn background(&mut self) -> (Access, Nanos) {
        (Access::default(), Nanos::ZERO)
    }

    fn active_time(&mut self, _took: &Access, _background: &Access) -> ActiveTime {
        ActiveTime { seek: Nanos::ZERO, active: self.cells.serving() }
    }

    fn with_estimator<R>(&self, _now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        with(None)
    }

    fn power(&self) -> Option<&PowerSpec> {
        self.spec.power.as_ref()
    }
}
