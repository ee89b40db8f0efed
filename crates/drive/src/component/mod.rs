//! A simulated drive: a block device whose answer times are computed by the drive's model.
//!
//! It stores the real bytes written to it and reads zeroes elsewhere; hollow writes leave no bytes. A drive with
//! several arms has one controller per arm, each with an equal part of the sectors and a queue of its own. Fault model:
//! none of its own; faults are layers.

mod content;
mod controller;
mod device_queue;

use std::rc::Rc;

use futures_util::future::try_join_all;
use seekless_core::{
    Account, BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Lba, Nanos, Op,
    Zeroes,
    device::{Place, io},
    runtime,
};

use crate::device_model::DeviceModel;
use crate::disk::Drive;
use crate::flash::Flash;
use crate::freeblock::Freeblock;
use crate::queue::QueueOptions;
use crate::spec::{FlashSpec, Spec};
use crate::work::Work;
pub(crate) use content::Content;
use controller::Controller;

/// A simulated disk drive.
pub type Disk = Component<Drive>;

/// A simulated flash drive.
pub type FlashDrive = Component<Flash>;

/// A simulated drive of any kind, with its accounts.
pub trait Simulated: BlockDevice {
    /// The drive as a block device.
    fn device(self: Rc<Self>) -> Rc<dyn BlockDevice>;

    /// Work done for an account so far.
    fn account(&self, account: Account) -> Work;

    /// Work done for all accounts.
    fn all(&self) -> Work;

    /// Number of independent parts, each occupied for a time of its own.
    fn arms(&self) -> usize;

    /// The freeblock scheduler of each arm, if it has one.
    fn freeblock(&self) -> Vec<Rc<Freeblock>>;

    /// Energy used so far, in joules; `None` if the description does not give power.
    fn joules(&self) -> Option<f64>;

    /// Commands so far that woke it, or one of its arms, from a power state such as standby.
    fn wakes(&self) -> u64;
}

/// A simulated drive.
pub struct Component<M> {
    arms: Vec<Rc<Controller<M>>>,
    /// Sectors of each arm.
    each: u64,
    /// Number of the first arm in the event log.
    number: u32,
}

impl<M: DeviceModel + 'static> Component<M> {
    /// A drive of these arms, each with an equal part of its sectors; `device` is its number in the event log, where
    /// further arms have numbers of their own.
    pub fn of(device: u32, arms: Vec<M>, options: QueueOptions) -> Component<M> {
        let count = arms.len().max(1) as u32;
        let options = QueueOptions { depth: options.depth.map(|depth| (depth / count).max(1)), ..options };
        let arms = arms.into_iter().zip(0_u32..);
        let arms: Vec<_> =
            arms.map(|(model, arm)| Controller::new(device | arm << 16, model, options)).collect();
        let each = arms.first().map_or(0, |arm| arm.model.borrow().geometry().sectors);
        Component { arms, each, number: device }
    }

    fn sum(&self, of: impl Fn(&Controller<M>) -> Work) -> Work {
        let mut sum = Work::default();
        self.arms.iter().for_each(|arm| sum.add(&of(arm)));
        sum
    }

    /// The arm that holds a sector.
    fn arm(&self, lba: Lba) -> usize {
        if self.arms.len() == 1 { 0 } else { (lba.0 / self.each) as usize }
    }

    /// Submits each arm's part of `at`, and waits for all of them.
    async fn submit(&self, op: Op, at: Extent, buffer: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let (first, last) = (self.arm(at.start), self.arm(Lba(at.end().0.max(at.start.0 + 1) - 1)));
        if first == last {
            let at = Extent { start: Lba(at.start.0 - first as u64 * self.each), ..at };
            return self.arms[first].queue.submit(op, at, buffer, how).await;
        }
        let parts = (first..=last).map(|arm| {
            let begins = arm as u64 * self.each;
            let start = at.start.0.max(begins);
            let sectors = at.end().0.min(begins + self.each) - start;
            let part = match op {
                Op::Read | Op::Write => buffer.cut_sectors(start - at.start.0, sectors),
                _ => Buffer::default(),
            };
            let at = Extent { start: Lba(start - begins), sectors };
            self.arms[arm].queue.submit(op, at, part, how.clone())
        });
        try_join_all(parts).await?;
        Ok(buffer)
    }
}

impl<M: DeviceModel + 'static> Simulated for Component<M> {
    fn device(self: Rc<Self>) -> Rc<dyn BlockDevice> {
        self
    }

    fn account(&self, account: Account) -> Work {
        self.sum(|arm| arm.ledger.borrow().account(account))
    }

    fn all(&self) -> Work {
        self.sum(|arm| arm.ledger.borrow().all())
    }

    fn arms(&self) -> usize {
        self.arms.len()
    }

    fn freeblock(&self) -> Vec<Rc<Freeblock>> {
        self.arms.iter().filter_map(|arm| arm.free.clone()).collect()
    }

    fn joules(&self) -> Option<f64> {
        self.arms.iter().map(|arm| arm.meter.borrow().joules(runtime::now())).sum()
    }

    fn wakes(&self) -> u64 {
        self.arms.iter().map(|arm| arm.meter.borrow().wakes()).sum()
    }
}

impl FlashDrive {
    /// An idle flash drive of this kind; `device` is its number in the event log.
    pub fn new(device: u32, spec: &FlashSpec, options: QueueOptions) -> FlashDrive {
        Component::of(device, vec![Flash::new(spec)], options)
    }
}

impl Disk {
    /// An idle disk of this kind; `device` is its number in the event log. [`crate::shingled`] handles the bands of a
    /// shingled one.
    pub fn new(device: u32, spec: &Spec, options: QueueOptions) -> Disk {
        let arm = spec.arm();
        Component::of(device, (0..spec.actuators).map(|_| Drive::new(&arm)).collect(), options)
    }
}

impl<M: DeviceModel + 'static> BlockDevice for Component<M> {
    fn geometry(&self) -> Geometry {
        let geometry = self.arms[0].model.borrow().geometry();
        Geometry { sectors: self.each * self.arms.len() as u64, ..geometry }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        match self.arms.as_slice() {
            [arm] => Box::pin(arm.queue.submit(Op::Read, at, into, how)),
            _ => io(self.submit(Op::Read, at, into, how)),
        }
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.submit(Op::Write, at, from, how).await.map(drop) })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let all = self
                .arms
                .iter()
                .map(|arm| arm.queue.submit(Op::Flush, Extent::default(), Buffer::default(), how.clone()));
            try_join_all(all).await.map(drop)
        })
    }

    /// Discards where the drive supports it; otherwise a no-op at no cost.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        if self.geometry().discard_sectors == 0 {
            return io(std::future::ready(Ok(())));
        }
        io(async move { self.submit(Op::Discard, at, Buffer::default(), how).await.map(drop) })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            not_only_if_fast(at, zeroes)?;
            self.submit(Op::WriteZeroes, at, Buffer::default(), how).await.map(drop)
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }

    fn estimate(&self, op: Op, at: Extent, _how: &Hints) -> Option<Nanos> {
        let arm = self.arm(at.start);
        self.arms[arm].estimate(op != Op::Read, Lba(at.start.0 - arm as u64 * self.each))
    }
}

/// Fails if zeroes are wanted only if fast: writing zeroes is as slow as writing on these drives.
pub(crate) fn not_only_if_fast(at: Extent, zeroes: Zeroes) -> Result<(), IoError> {
    if zeroes.only_if_fast {
        let why = "writing zeroes takes as long as writing";
        return Err(IoError::new(ErrorKind::Unsupported, "drive", Some(at), why));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
