//! Jobs without `io_uring`: on files by a few threads that block in `pread`, `pwrite` and the like, on sockets by
//! `poll`. Data in the page cache is read immediately.
//!
//! Fault model: any call may be interrupted or be short; it continues where it stopped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::call::Call;
use super::job::{Job, Op};

/// File jobs at the kernel at once: enough for a spinning disk to choose from.
const THREADS: usize = 8;

/// The threads.
pub struct Threads {
    shared: Arc<Shared>,
}

/// State that the threads share with the reactor.
struct Shared {
    queue: Mutex<Queue>,
    not_empty: Condvar,
    completions: Mutex<Vec<(usize, io::Result<usize>, Job)>>,
    /// Ends the reactor's wait.
    wakeup: OwnedFd,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(usize, Job)>,
    stopped: bool,
}

/// A job that waits for a socket.
pub struct Polled {
    key: usize,
    socket: Arc<OwnedFd>,
    readiness: PollFlags,
}

impl Polled {
    /// The readiness that a job waits for, if it is on a socket.
    pub fn of(key: usize, job: &Job) -> Option<Polled> {
        let readiness = match job.op {
            Op::Receive | Op::Accept | Op::Ready => PollFlags::IN,
            Op::Send => PollFlags::OUT,
            _ => return None,
        };
        Some(Polled { key, socket: job.to.clone(), readiness })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Starts the threads.
    pub fn new() -> io::Result<Threads> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            not_empty: Condvar::new(),
            completions: Mutex::default(),
            wakeup: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        for number in 0..THREADS {
            let shared = shared.clone();
            let name = format!("component-{number}");
            #[allow(clippy::disallowed_methods)] // the threads that this file is about
            std::thread::Builder::new().name(name).spawn(move || shared.work())?;
        }
        Ok(Threads { shared })
    }

    /// Does a job if that needs no waiting, otherwise queues it.
    pub fn start(&self, key: usize, job: &mut Job) -> Option<io::Result<usize>> {
        if let Some(result) = try_now(job) {
            return Some(result);
        }
        if !job.op.is_of_socket() {
            let memory = std::mem::take(&mut job.memory);
            let whole = Job { op: job.op, to: job.to.clone(), memory, moved: job.moved };
            locked(&self.shared.queue).jobs.push_back((key, whole));
            self.shared.not_empty.notify_one();
        }
        None
    }

    /// Waits for a thread or a socket, and reports completions; `retry` does a socket's job if it can.
    pub fn turn(
        &self,
        wait: Option<Duration>,
        waiting: &[Polled],
        mut completed: impl FnMut(usize, io::Result<usize>, Option<Job>),
        mut retry: impl FnMut(usize) -> Option<io::Result<usize>>,
    ) {
        let mut polled: Vec<PollFd<'_>> =
            waiting.iter().map(|each| PollFd::new(&*each.socket, each.readiness)).collect();
        polled.push(PollFd::new(&self.shared.wakeup, PollFlags::IN));
        let limit = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        match poll(&mut polled, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
        let ready: Vec<usize> = waiting
            .iter()
            .zip(&polled)
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|(each, _)| each.key)
            .collect();
        // The eventfd counts completions, which are all fetched here.
        let _ = rustix::io::read(&self.shared.wakeup, &mut [0; 8]);
        let completions = std::mem::take(&mut *locked(&self.shared.completions));
        for (key, result, job) in completions {
            completed(key, result, Some(job));
        }
        for key in ready {
            if let Some(result) = retry(key) {
                completed(key, result, None);
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        locked(&self.shared.queue).stopped = true;
        self.shared.not_empty.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut queue = locked(&self.queue);
            let (key, mut job) = loop {
                if let Some(next) = queue.jobs.pop_front() {
                    break next;
                }
                if queue.stopped {
                    return;
                }
                queue = self.not_empty.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            let result = done(&mut job);
            locked(&self.completions).push((key, result, job));
            let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }
}

/// Result of a job that can be done without waiting, otherwise `None`.
pub fn try_now(job: &mut Job) -> Option<io::Result<usize>> {
    let fd = job.to.as_fd();
    let result = match job.op {
        Op::Read(at) => {
            let cached = &mut [IoSliceMut::new(job.memory.part_mut())];
            return rustix::io::preadv2(fd, cached, at, ReadWriteFlags::NOWAIT).ok().map(Ok);
        }
        Op::Receive => {
            rustix::net::recv(fd, job.memory.part_mut(), RecvFlags::DONTWAIT).map(|(_, read)| read)
        }
        Op::Send => loop {
            let rest = &job.memory.part()[job.moved..];
            match rustix::net::send(fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) if sent < rest.len() => job.moved += sent,
                Ok(_) => break Ok(job.memory.part().len()),
                Err(Errno::INTR) => {}
                Err(error) => break Err(error),
            }
        },
        Op::Accept => {
            rustix::net::accept_with(fd, SocketFlags::CLOEXEC).map(|socket| socket.into_raw_fd() as usize)
        }
        Op::Ready => match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())) {
            Ok(0) => return None,
            ready => ready,
        },
        _ => return None,
    };
    match result {
        Err(Errno::AGAIN | Errno::INTR) => None,
        result => Some(result.map_err(Into::into)),
    }
}

/// Does a job on a file, blocking the thread.
fn done(job: &mut Job) -> io::Result<usize> {
    let fd = job.to.as_fd();
    let call = Call::of(job.op).unwrap_or_else(|| unreachable!("sockets are polled"));
    let result = loop {
        let result = match call {
            Call::Read(at) => rustix::io::pread(fd, job.memory.part_mut(), at),
            Call::Write(at, how) => rustix::io::pwritev2(fd, &[IoSlice::new(job.memory.part())], at, how),
            Call::DataSync => rustix::fs::fdatasync(fd).map(|()| 0),
            Call::Allocate(how, at, len) => rustix::fs::fallocate(fd, how, at, len).map(|()| 0),
        };
        if !matches!(result, Err(Errno::INTR)) {
            break result;
        }
    };
    result.map_err(Into::into)
}
