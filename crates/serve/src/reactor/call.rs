//! The system call that does a job of a file: the same for both kinds of reactors.

use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::job::What;

/// A system call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `preadv2` at this offset.
    Read(u64),
    /// `pwritev2` at this offset.
    Write(u64, ReadWriteFlags),
    /// `fdatasync`.
    DataSync,
    /// `fallocate` from this byte on, so many.
    Allocate(FallocateFlags, u64, u64),
}

impl Call {
    /// That which does this; `None` if that is not done to a file.
    pub fn of(what: What) -> Option<Call> {
        let kept = FallocateFlags::KEEP_SIZE;
        match what {
            What::Read(at) => Some(Call::Read(at)),
            What::Write(at) => Some(Call::Write(at, ReadWriteFlags::empty())),
            What::WriteThrough(at) => Some(Call::Write(at, ReadWriteFlags::DSYNC)),
            What::Sync => Some(Call::DataSync),
            What::Punch { at, len } => Some(Call::Allocate(FallocateFlags::PUNCH_HOLE | kept, at, len)),
            What::Zero { at, len } => Some(Call::Allocate(FallocateFlags::ZERO_RANGE | kept, at, len)),
            What::Receive | What::Send | What::Accept => None,
        }
    }
}
