//! The model of a drive: computes how long a command takes.

use std::rc::Weak;

use seekless_core::{Extent, Geometry, Nanos, Op};

use crate::disk::mechanics::{Access, Head};
use crate::disk::trajectory::Step;
use crate::freeblock::{Foreground, FreeOptions, Freeblock};
use crate::scheduler::{Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec};

/// A command for a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation.
    pub op: Op,
    /// Sectors.
    pub at: Extent,
    /// Whether a write must be on the media before it is answered, or a read must come from there.
    pub fua: bool,
    /// Whether the drive had the command while it served the one before.
    pub queued: bool,
}

/// Time in which a drive draws more power than at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveTime {
    /// The arm moves.
    pub seek: Nanos,
    /// The heads, or all of the cells, are active.
    pub active: Nanos,
}

/// Whether a drive's head is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadState {
    /// It is, over this track.
    Idle(Head),
    /// It is not before this time.
    BusyUntil(Nanos),
    /// There is no head that could be moved.
    NoHead,
}

/// A drive's arithmetic and its state.
pub trait DeviceModel: Places {
    /// Geometry of the device.
    fn geometry(&self) -> Geometry;

    /// Depth and order of the device queue.
    fn queue(&self) -> QueueSpec;

    /// How many commands it serves at once.
    fn channels(&self) -> u32;

    /// Time of a command from `now` on, to its answer; the drive's state is updated.
    fn serve(&mut self, request: &Request, now: Nanos) -> Access;

    /// Takes the background work (destaging) since the last call, and how long of it commands were being served, which
    /// waited for it or had the bus.
    fn background(&mut self) -> (Access, Nanos);

    /// Active time of a command that took `took`, with `background` work beside it.
    fn active_time(&mut self, took: &Access, background: &Access) -> ActiveTime {
        ActiveTime { seek: took.seek + background.seek, active: took.transfer + background.transfer }
    }

    /// Calls `with` with positioning estimates at `now`, if they depend on the drive's state.
    fn with_estimator<R>(&self, now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R;

    /// The freeblock scheduler of a drive with rotational waits; enables recording of the head's trajectory.
    fn freeblock(&mut self, _options: FreeOptions, _by: Weak<dyn Foreground>) -> Option<Freeblock> {
        None
    }

    /// Takes the steps of the head recorded since the last call, replacing the content of `steps`.
    fn take_trajectory(&mut self, trajectory: &mut Vec<Step>) {
        trajectory.clear();
    }

    /// Whether the head is idle at `now`, and where.
    fn head_state(&self, _now: Nanos) -> HeadState {
        HeadState::NoHead
    }

    /// Moves the head, which is idle, to this track, where it arrives at `landed`.
    fn move_head(&mut self, _to: Head, _landed: Nanos) {}

    /// Power figures, if known.
    fn power(&self) -> Option<&PowerSpec>;
}
