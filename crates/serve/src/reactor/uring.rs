//! Jobs by `io_uring`: those of a turn go to the kernel together, in the call that also waits.
//!
//! Fault model: the kernel may lack `io_uring`, or not allow it (containers); then there is no ring. It may refuse to
//! register the pool (`ulimit -l`); then its memory is used unregistered.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::call::Call;
use super::job::{Job, Op};
use super::pool::Pool;

/// Jobs submitted in one call, at most; the others wait for the next turn.
const ENTRIES: u32 = 1024;

/// An `io_uring`.
pub struct Uring {
    ring: IoUring,
    /// Jobs that the submission queue had no room for.
    waiting: VecDeque<squeue::Entry>,
    /// Flags of receives: on sockets that are empty, as most are, the kernel waits without an attempt first.
    receive_flags: u16,
    /// Addresses of the only registered buffer.
    registered: Range<usize>,
}

impl Uring {
    /// A ring, if the kernel allows one with all operations that are needed.
    pub fn new() -> io::Result<Uring> {
        // One thread submits and reaps: the kernel need not interrupt it for completions. Kernels before 6.1 lack these
        // flags; those before 5.19 lack the one of receives.
        let mut best = IoUring::builder();
        best.setup_single_issuer().setup_defer_taskrun().setup_clamp();
        let (ring, receive_flags) = match best.build(ENTRIES) {
            Ok(ring) => (ring, POLL_FIRST),
            Err(_) => (IoUring::new(ENTRIES)?, 0),
        };
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::Accept::CODE,
            opcode::PollAdd::CODE,
        ];
        if !ring.params().is_feature_ext_arg() || needed.iter().any(|code| !probe.is_supported(*code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a kernel of 5.11 or newer is needed"));
        }
        Ok(Uring { ring, waiting: VecDeque::new(), receive_flags, registered: 0..0 })
    }

    /// Registers the pool's memory, if the kernel allows it; its requests are faster then.
    pub fn register(&mut self, pool: &Pool) -> io::Result<()> {
        let mut probe = Probe::new();
        self.ring.submitter().register_probe(&mut probe)?;
        if ![opcode::ReadFixed::CODE, opcode::WriteFixed::CODE].iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let whole = pool.whole();
        let all = libc::iovec { iov_base: whole.start as *mut libc::c_void, iov_len: whole.len() };
        // SAFETY: the pool's memory is never freed, so it outlives the ring. A piece has one owner at a time, and the
        // kernel touches one only for a job that has it.
        #[allow(unsafe_code)]
        unsafe {
            self.ring.submitter().register_buffers(&[all])?;
        }
        self.registered = whole;
        Ok(())
    }

    /// Queues a job for the end of the turn. Only then is it submitted: the kernel may refuse that for the moment, and
    /// then nothing is lost.
    pub fn start(&mut self, key: usize, job: &mut Job) {
        let entry = self.entry(job).user_data(key as u64);
        if !self.waiting.is_empty() || !self.push(&entry) {
            self.waiting.push_back(entry);
        }
    }

    /// Puts a job into the submission queue, if that has room.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the entry's file and memory belong to the job, which stays in its slot, untouched, until it
        // completes; a reactor that is dropped before that leaks them.
        #[allow(unsafe_code)]
        unsafe {
            self.ring.submission().push(entry).is_ok()
        }
    }

    /// Moves waiting jobs to the submission queue, in order, as far as it has room.
    fn fill(&mut self) {
        while let Some(entry) = self.waiting.pop_front() {
            if !self.push(&entry) {
                self.waiting.push_front(entry);
                return;
            }
        }
    }

    /// Submits the queue, waits for a completion, and reports all that are there. Does not wait while jobs wait for
    /// room in the queue.
    pub fn turn(&mut self, wait: Option<Duration>, mut completed: impl FnMut(usize, io::Result<usize>)) {
        self.fill();
        let limit = wait.map(|wait| Timespec::new().sec(wait.as_secs()).nsec(wait.subsec_nanos()));
        let mut arguments = SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        let least = usize::from(self.waiting.is_empty());
        match self.ring.submitter().submit_with_args(least, &arguments) {
            // In time, interrupted, or a full completion queue: reap what is there.
            Ok(_) => {}
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN)
                ) => {}
            Err(error) => panic!("io_uring_enter: {error}"),
        }
        for entry in self.ring.completion() {
            let result = entry.result();
            let result =
                if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) };
            completed(entry.user_data() as usize, result);
        }
    }

    /// The submission entry of a job.
    fn entry(&self, job: &mut Job) -> squeue::Entry {
        let fd = Fd(job.to.as_raw_fd());
        let part = job.memory.part_mut();
        let (start, len) = (part.as_mut_ptr(), part.len() as u32);
        let known = self.registered.contains(&(start as usize));
        match Call::of(job.op) {
            Some(Call::Read(at)) if known => {
                opcode::ReadFixed::new(fd, start, len, REGISTERED).offset(at).build()
            }
            Some(Call::Read(at)) => opcode::Read::new(fd, start, len).offset(at).build(),
            Some(Call::Write(at, how)) if known => {
                let write = opcode::WriteFixed::new(fd, start, len, REGISTERED);
                write.offset(at).rw_flags(flags(how.bits())).build()
            }
            Some(Call::Write(at, how)) => {
                opcode::Write::new(fd, start, len).offset(at).rw_flags(flags(how.bits())).build()
            }
            Some(Call::DataSync) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Some(Call::Allocate(how, at, len)) => {
                opcode::Fallocate::new(fd, len).offset(at).mode(flags(how.bits())).build()
            }
            None => self.of_socket(job.op, fd, start, len),
        }
    }

    /// As `entry`, for a job on a socket.
    fn of_socket(&self, op: Op, fd: Fd, start: *mut u8, len: u32) -> squeue::Entry {
        match op {
            Op::Receive => opcode::Recv::new(fd, start, len).ioprio(self.receive_flags).build(),
            Op::Send => {
                // MSG_WAITALL: the kernel sends the remainder when the socket has room.
                opcode::Send::new(fd, start, len).flags(flags(SendFlags::NOSIGNAL.bits() | WAIT_ALL)).build()
            }
            Op::Accept => opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(CLOSE_ON_EXEC)
                .build(),
            Op::Ready => opcode::PollAdd::new(fd, u32::from(PollFlags::IN.bits())).build(),
            _ => unreachable!("files have calls"),
        }
    }
}

/// Flags in the ring's type; none uses the highest bit.
fn flags(bits: u32) -> i32 {
    i32::try_from(bits).unwrap_or_default()
}

/// Index of the registered buffer.
const REGISTERED: u16 = 0;
/// `MSG_WAITALL`, which the library lacks among the flags for sending.
const WAIT_ALL: u32 = 0x100;
/// `IORING_RECVSEND_POLL_FIRST`, which the library does not name.
const POLL_FIRST: u16 = 1;
/// `SOCK_CLOEXEC`.
const CLOSE_ON_EXEC: i32 = 0o2_000_000;
