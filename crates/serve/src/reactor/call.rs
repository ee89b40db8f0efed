//! The system call of a file job: the same for both kinds of reactor.

use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::job::Op;

/// A system call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Read at this offset.
    Read(u64),
    /// Write at this offset, with these flags.
    Write(u64, ReadWriteFlags),
    /// `fdatasync`.
    DataSync,
    /// `fallocate`: mode, offset, length.
    Allocate(FallocateFlags, u64, u64),
}

impl Call {
    /// The call of an operation; `None` for one on a socket.
    pub fn of(op: Op) -> Option<Call> {
        let free = FallocateFlags::KEEP_SIZE;
        match op {
            Op::Read(at) => Some(Call::Read(at)),
            Op::Write(at) => Some(Call::Write(at, ReadWriteFlags::empty())),
            Op::WriteThrough(at) => Some(Call::Write(at, ReadWriteFlags::DSYNC)),
            Op::Sync => Some(Call::DataSync),
            Op::Punch { at, len } => Some(Call::Allocate(FallocateFlags::PUNCH_HOLE | free, at, len)),
            Op::Zero { at, len } => Some(Call::Allocate(FallocateFlags::ZERO_RANGE | free, at, len)),
            Op::Receive | Op::Send | Op::Accept | Op::Ready => None,
        }
    }
}
