//! What is inside of a simulated drive: arithmetic that says what a command takes.

use std::rc::Weak;

use seekless_core::{Extent, Geometry, Lba, Nanos, Op};

use crate::disk::legs::Leg;
use crate::disk::mechanics::{Access, Head};
use crate::freeblock::{Foreground, FreeOptions, Freeblock};
use crate::scheduler::{Places, Positioning};
use crate::spec::{PowerSpec, QueueSpec};

/// What a drive is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What.
    pub op: Op,
    /// Where.
    pub at: Extent,
    /// Whether a write has to be on the media before it is answered, or a read has to come from there.
    pub fua: bool,
    /// Whether the drive had the command while it carried out the one before.
    pub queued: bool,
}

/// How long a drive drew more than it does at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Its arm moved.
    pub seek: Nanos,
    /// Its heads or all of its cells were at work.
    pub active: Nanos,
}

/// Whether a drive's head is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is, over this track.
    At(Head),
    /// Not before then.
    NotBefore(Nanos),
    /// It has none that could be sent anywhere.
    Never,
}

/// A drive's arithmetic and the state that it is in.
pub trait Machine: Places {
    /// What a device of this kind is like.
    fn geometry(&self) -> Geometry;

    /// The commands that it takes at once, and in which order it carries them out.
    fn queue(&self) -> QueueSpec;

    /// How many commands it works on at once.
    fn lanes(&self) -> u32;

    /// What a command takes from `now` on, to its answer; the drive is then in the state after it.
    fn serve(&mut self, asked: &Asked, now: Nanos) -> Access;

    /// What the drive did beside its commands since it was asked last, which is writing out what its cache holds;
    /// and for how long of that commands were carried out, which waited for it or had the bus.
    fn aside(&mut self) -> (Access, Nanos);

    /// How long what it did since it was asked last drew more than rest does: a command took `took`, and beside
    /// it there was `aside`.
    fn drawn(&mut self, took: &Access, aside: &Access) -> Drawn {
        Drawn { seek: took.seek + aside.seek, active: took.transfer + aside.transfer }
    }

    /// Calls `with` with the drive as it will be at `now`, if what comes next depends on that.
    fn seen<R>(&self, now: Nanos, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R;

    /// What it would take to begin a read or write there.
    fn estimate(&self, at: Lba, now: Nanos, write: bool) -> Option<Nanos>;

    /// The freeblock scheduler of a drive whose head waits for sectors: from now on it tells where its head goes.
    fn freeblock(&mut self, _options: FreeOptions, _by: Weak<dyn Foreground>) -> Option<Freeblock> {
        None
    }

    /// The legs that the head went since this was asked last, instead of what is in `legs`.
    fn take_legs(&mut self, legs: &mut Vec<Leg>) {
        legs.clear();
    }

    /// Where its head is if it has nothing to do for itself at `now`.
    fn rest(&self, _now: Nanos) -> Rest {
        Rest::Never
    }

    /// Its head, which was at rest, goes to this track and is there at `landed`.
    fn move_head(&mut self, _to: Head, _landed: Nanos) {}

    /// What it draws, if that is known.
    fn power(&self) -> Option<&PowerSpec>;
}
