//! A flash drive's arithmetic as the inside of a simulated component.

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{Geometry, Lba, Nanos};

use super::Flash;
use crate::disk::mechanics::Access;
use crate::machine::{Asked, Drawn, Machine};
use crate::scheduler::{Place, Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec};

/// Discards come in pages of 4 KiB.
const DISCARD_SECTORS: u64 = 8;

impl Places for Flash {
    /// All places are as good.
    fn place(&self, _lba: Lba) -> Place {
        Place::default()
    }
}

impl Machine for Flash {
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

    /// It works on all that it holds.
    fn lanes(&self) -> u32 {
        self.spec.queue.depth
    }

    fn serve(&mut self, asked: &Asked, now: Nanos) -> Access {
        Flash::serve(self, asked.op, asked.at, now, asked.fua)
    }

    fn aside(&mut self) -> (Access, Nanos) {
        (Access::default(), Nanos::ZERO)
    }

    fn drawn(&mut self, _took: &Access, _aside: &Access) -> Drawn {
        Drawn { seek: Nanos::ZERO, active: self.cells.at_work() }
    }

    fn seen<R>(&self, _now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        with(None)
    }

    fn estimate(&self, _at: Lba, _now: Nanos, _write: bool) -> Option<Nanos> {
        None
    }

    fn power(&self) -> Option<&PowerSpec> {
        self.spec.power.as_ref()
    }
}
