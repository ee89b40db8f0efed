//! Jobs without `io_uring`: files by a few threads that wait in `pread`, `pwrite` and the like, sockets by `poll`. What the
//! page cache has is read at once.
//!
//! Fault model: any call may be interrupted or do less than asked; it goes on where it stopped.

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
use super::job::{Job, What};

/// As many jobs of files are at the kernel at once: a spinning disk has something to choose from.
const THREADS: usize = 8;

/// The threads.
pub struct Threads {
    shared: Arc<Shared>,
}

/// What the threads have in common with the reactor.
struct Shared {
    asked: Mutex<Asked>,
    some: Condvar,
    answers: Mutex<Vec<(usize, io::Result<usize>, Job)>>,
    /// Ends the reactor's wait.
    awake: OwnedFd,
}

#[derive(Default)]
struct Asked {
    jobs: VecDeque<(usize, Job)>,
    over: bool,
}

/// A job that waits for a socket.
pub struct Awaited {
    key: usize,
    socket: Arc<OwnedFd>,
    readiness: PollFlags,
}

impl Awaited {
    /// What this job waits for, if that is a socket.
    pub fn of(key: usize, job: &Job) -> Option<Awaited> {
        let readiness = match job.what {
            What::Receive | What::Accept => PollFlags::IN,
            What::Send => PollFlags::OUT,
            _ => return None,
        };
        Some(Awaited { key, socket: job.to.clone(), readiness })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Starts them.
    pub fn new() -> io::Result<Threads> {
        let shared = Arc::new(Shared {
            asked: Mutex::default(),
            some: Condvar::new(),
            answers: Mutex::default(),
            awake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        for number in 0..THREADS {
            let shared = shared.clone();
            let name = format!("component-{number}");
            #[allow(clippy::disallowed_methods)] // the threads that this file is about
            std::thread::Builder::new().name(name).spawn(move || shared.work())?;
        }
        Ok(Threads { shared })
    }

    /// Does a job if that takes no waiting, and else sees to it that it is done.
    pub fn start(&self, key: usize, job: &mut Job) -> Option<io::Result<usize>> {
        if let Some(result) = try_now(job) {
            return Some(result);
        }
        if !job.what.is_of_socket() {
            let memory = std::mem::take(&mut job.memory);
            let whole = Job { what: job.what, to: job.to.clone(), memory, moved: job.moved };
            locked(&self.shared.asked).jobs.push_back((key, whole));
            self.shared.some.notify_one();
        }
        None
    }

    /// Waits for a thread or a socket, and tells what was answered; `retry` does a socket's job if it can.
    pub fn turn(
        &self,
        wait: Option<Duration>,
        waiting: &[Awaited],
        mut answered: impl FnMut(usize, io::Result<usize>, Option<Job>),
        mut retry: impl FnMut(usize) -> Option<io::Result<usize>>,
    ) {
        let mut watched: Vec<PollFd<'_>> =
            waiting.iter().map(|each| PollFd::new(&*each.socket, each.readiness)).collect();
        watched.push(PollFd::new(&self.shared.awake, PollFlags::IN));
        let limit = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        match poll(&mut watched, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
        let ready: Vec<usize> = waiting
            .iter()
            .zip(&watched)
            .filter(|(_, watched)| !watched.revents().is_empty())
            .map(|(each, _)| each.key)
            .collect();
        // The number counts the answers, which are fetched all at once.
        let _ = rustix::io::read(&self.shared.awake, &mut [0; 8]);
        let answers = std::mem::take(&mut *locked(&self.shared.answers));
        for (key, result, job) in answers {
            answered(key, result, Some(job));
        }
        for key in ready {
            if let Some(result) = retry(key) {
                answered(key, result, None);
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        locked(&self.shared.asked).over = true;
        self.shared.some.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut asked = locked(&self.asked);
            let (key, mut job) = loop {
                if let Some(next) = asked.jobs.pop_front() {
                    break next;
                }
                if asked.over {
                    return;
                }
                asked = self.some.wait(asked).unwrap_or_else(PoisonError::into_inner);
            };
            drop(asked);
            let result = done(&mut job);
            locked(&self.answers).push((key, result, job));
            let _ = rustix::io::write(&self.awake, &1_u64.to_ne_bytes());
        }
    }
}

/// What a job that need not wait gives, if it need not.
pub fn try_now(job: &mut Job) -> Option<io::Result<usize>> {
    let fd = job.to.as_fd();
    let result = match job.what {
        What::Read(at) => {
            let cached = &mut [IoSliceMut::new(job.memory.part_mut())];
            return rustix::io::preadv2(fd, cached, at, ReadWriteFlags::NOWAIT).ok().map(Ok);
        }
        What::Receive => {
            rustix::net::recv(fd, job.memory.part_mut(), RecvFlags::DONTWAIT).map(|(_, read)| read)
        }
        What::Send => loop {
            let rest = &job.memory.part()[job.moved..];
            match rustix::net::send(fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) if sent < rest.len() => job.moved += sent,
                Ok(_) => break Ok(job.memory.part().len()),
                Err(Errno::INTR) => {}
                Err(error) => break Err(error),
            }
        },
        What::Accept => {
            rustix::net::accept_with(fd, SocketFlags::CLOEXEC).map(|socket| socket.into_raw_fd() as usize)
        }
        _ => return None,
    };
    match result {
        Err(Errno::AGAIN | Errno::INTR) => None,
        result => Some(result.map_err(Into::into)),
    }
}

/// Does a job of a file; the thread waits.
fn done(job: &mut Job) -> io::Result<usize> {
    let fd = job.to.as_fd();
    let call = Call::of(job.what).unwrap_or_else(|| unreachable!("sockets are polled"));
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
