//! The reactor: a live volume's access to the kernel, and its clock.
//!
//! A submitted [`Job`] owns the memory that the kernel works on until it completes; the future of its completion may be
//! dropped, the memory stays. Jobs go to the kernel together, once a turn, and the same system call waits for
//! completions: `io_uring` where the kernel allows it, otherwise a few threads and `poll`.
//!
//! Invariants: every job completes once. Memory is in one job at a time. Time is read once a turn and never goes back.
//! All inputs can be recorded and replayed ([`inputs`]). Fault model: the kernel may refuse `io_uring` (then there are
//! threads), interrupt any wait, and fail any job with any error.

mod call;
pub mod inputs;
mod job;
mod offload;
mod pool;
#[cfg(test)]
pub mod shim;
mod threads;
mod uring;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use seekless_core::Nanos;
use seekless_core::runtime::Driver;
use slab::Slab;

use inputs::{Recorder, Replayed, Replayer, Step};
pub use job::{Job, Memory, Op};
use pool::Pool;
use threads::Threads;
use uring::Uring;

/// Before an exact timer the remainder of the wait is spent spinning: the time that an idle machine takes to wake up.
const SPIN: Nanos = Nanos(200_000);

/// How jobs get to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `io_uring`.
    Uring,
    /// Threads that block in `pread` and `pwrite`, and `poll` for sockets.
    Threads,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Uring => "io_uring",
            Kind::Threads => "threads",
        })
    }
}

/// A completed job.
#[derive(Debug)]
pub struct Done {
    /// Bytes transferred, or the descriptor of an accepted socket.
    pub result: io::Result<usize>,
    /// The job's memory.
    pub memory: Memory,
    /// The accepted socket.
    pub socket: Option<OwnedFd>,
}

/// See the file's header.
pub struct Reactor {
    jobs: RefCell<Slab<Slot>>,
    backend: Backend,
    /// When the runtime's clock was zero.
    zero: Instant,
    turns: Cell<u64>,
    /// Whether timers are exact.
    spins: Cell<bool>,
    /// Jobs submitted so far.
    submitted: Cell<u64>,
    /// Records the inputs, if enabled.
    recorder: Option<RefCell<Recorder>>,
    /// Memory registered with the kernel, if requested.
    pool: OnceCell<Option<Pool>>,
}

enum Backend {
    Uring(Box<RefCell<Uring>>),
    Threads(Threads),
    /// No kernel: inputs of a recorded run.
    Replay(Box<RefCell<Replayer>>),
    /// No kernel: a test completes the jobs.
    #[cfg(test)]
    Shim(Rc<RefCell<dyn shim::Kernel>>),
}

/// A job in flight, or its completion that was not fetched yet.
struct Slot {
    /// In order of submission.
    number: u64,
    job: Job,
    waker: Option<Waker>,
    result: Option<io::Result<usize>>,
    /// The accepted socket: owned from then on, whether or not it is fetched.
    socket: Option<OwnedFd>,
    /// Whether the completion is not awaited any more.
    abandoned: bool,
}

impl Reactor {
    /// A reactor of this kind, or by default the best that the kernel allows; and the reason if that is not `io_uring`.
    pub fn start(wish: Option<Kind>) -> io::Result<(Reactor, Option<io::Error>)> {
        let (backend, refused) = match wish {
            Some(Kind::Uring) => (Backend::Uring(Box::new(RefCell::new(Uring::new()?))), None),
            Some(Kind::Threads) => (Backend::Threads(Threads::new()?), None),
            None => match Uring::new() {
                Ok(ring) => (Backend::Uring(Box::new(RefCell::new(ring))), None),
                Err(error) => (Backend::Threads(Threads::new()?), Some(error)),
            },
        };
        Ok((Reactor::of(backend), refused))
    }

    /// A reactor without a kernel, which replays a recorded run.
    pub fn replaying(replayer: Replayer) -> Rc<Reactor> {
        Rc::new(Reactor::of(Backend::Replay(Box::new(RefCell::new(replayer)))))
    }

    fn of(backend: Backend) -> Reactor {
        #[allow(clippy::disallowed_methods)] // where the machine's clock enters a live runtime
        let zero = Instant::now();
        let (turns, spins, submitted) = (Cell::new(0), Cell::new(false), Cell::new(0));
        let (recorder, pool) = (None, OnceCell::new());
        Reactor { jobs: RefCell::default(), backend, zero, turns, spins, submitted, recorder, pool }
    }

    /// The reactor, recording its inputs.
    pub fn recorded(mut self, recorder: Recorder) -> Reactor {
        self.recorder = Some(RefCell::new(recorder));
        self
    }

    /// The kind of its backend.
    pub fn kind(&self) -> Kind {
        match &self.backend {
            Backend::Uring(_) => Kind::Uring,
            Backend::Threads(_) => Kind::Threads,
            Backend::Replay(replayer) => replayer.borrow().kind(),
            #[cfg(test)]
            Backend::Shim(_) => Kind::Threads,
        }
    }

    /// Makes timers exact to some microseconds, at the cost of `SPIN` of CPU time each: for components that emulate a
    /// drive's timing. Other completions are delivered as before.
    pub fn spin_before_timers(&self) {
        self.spins.set(true);
    }

    /// Registers a pool of memory with the kernel, for files with direct I/O; once, and only where that helps. Without
    /// it, or where the kernel refuses, all memory is ordinary.
    pub fn register(&self) -> io::Result<()> {
        let Backend::Uring(ring) = &self.backend else { return Ok(()) };
        if self.pool.get().is_some() {
            return Ok(());
        }
        let pool = Pool::new();
        let registered = ring.borrow_mut().register(&pool);
        let _ = self.pool.set(registered.is_ok().then_some(pool));
        registered
    }

    /// Memory of the pool for a job of `len` bytes, if any is left.
    pub fn pooled(&self, len: usize) -> Option<Memory> {
        let piece = self.pool.get()?.as_ref()?.take(len)?;
        Some(Memory::pooled(piece).cut(0..len))
    }

    /// System calls for turns so far.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Submits a job; it reaches the kernel at the end of this turn at the latest.
    pub fn submit(self: &Rc<Self>, job: Job) -> Pending {
        let number = self.submitted.get();
        self.submitted.set(number + 1);
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().submitted(&job);
        }
        let mut jobs = self.jobs.borrow_mut();
        let entry = jobs.vacant_entry();
        let key = entry.key();
        let slot =
            entry.insert(Slot { number, job, waker: None, result: None, socket: None, abandoned: false });
        slot.result = match &self.backend {
            Backend::Uring(ring) => {
                ring.borrow_mut().start(key, &mut slot.job);
                None
            }
            Backend::Threads(threads) => threads.start(key, &mut slot.job),
            Backend::Replay(replayer) => replayer.borrow_mut().start(key, number, &mut slot.job),
            #[cfg(test)]
            Backend::Shim(kernel) => shim::start(kernel, key, &mut slot.job),
        };
        if let Some(result) = &slot.result {
            slot.socket = accepted(slot.job.op, result);
            if let Some(recorder) = &self.recorder {
                recorder.borrow_mut().immediate(result, &slot.job);
            }
        }
        Pending { reactor: self.clone(), key: Some(key) }
    }

    /// A job completed.
    fn completed(&self, key: usize, result: io::Result<usize>, job: Option<Job>) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(slot) = jobs.get_mut(key) else { return };
        slot.socket = accepted(slot.job.op, &result);
        if slot.abandoned {
            jobs.remove(key);
            return;
        }
        if let Some(job) = job {
            slot.job = job;
        }
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().completed(slot.number, &result, &slot.job);
        }
        slot.result = Some(result);
        let waker = slot.waker.take();
        drop(jobs);
        waker.into_iter().for_each(Waker::wake);
    }

    #[allow(clippy::disallowed_methods)]
    fn time(&self) -> Nanos {
        Nanos(Instant::now().saturating_duration_since(self.zero).as_nanos() as u64)
    }
}

impl Driver for Reactor {
    fn turn(&self, until: Option<Nanos>) -> Nanos {
        self.turns.set(self.turns.get() + 1);
        let awake = if self.spins.get() { SPIN } else { Nanos::ZERO };
        let wait = until.map(|until| Duration::from_nanos(until.since(self.time() + awake).0));
        let each = |key, result, job| self.completed(key, result, job);
        match &self.backend {
            Backend::Uring(ring) => ring.borrow_mut().turn(wait, |key, result| each(key, result, None)),
            Backend::Threads(threads) => {
                let waiting = self.polled_jobs();
                threads.turn(wait, &waiting, each, |key| {
                    let mut jobs = self.jobs.borrow_mut();
                    jobs.get_mut(key).and_then(|slot| threads::try_now(&mut slot.job))
                });
            }
            Backend::Replay(replayer) => return self.replay_turn(replayer),
            #[cfg(test)]
            Backend::Shim(kernel) => {
                let (time, answers) = kernel.borrow_mut().turn(until);
                for (key, result) in answers {
                    each(key, result, None);
                }
                return time;
            }
        }
        let time = self.time();
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().turn(time);
        }
        time
    }
}

impl Reactor {
    /// Result of `look`, an observation of the system outside jobs; it is made immediately, and recorded.
    pub fn observe(&self, look: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        if let Backend::Replay(replayer) = &self.backend {
            return replayer.borrow_mut().observed();
        }
        let observed = look();
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().observed(&observed);
        }
        observed
    }

    /// Notes that this descriptor is new, or was another file's before.
    pub(crate) fn new_descriptor(&self, descriptor: RawFd) {
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().new_descriptor(descriptor);
        }
        if let Backend::Replay(replayer) = &self.backend {
            replayer.borrow_mut().new_descriptor(descriptor);
        }
    }

    /// Notes the end of the run with the hash of its events: a recording is written out, a replay compared.
    pub fn end(&self, hash: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().end(hash);
        }
        if let Backend::Replay(replayer) = &self.backend {
            replayer.borrow_mut().end(hash);
        }
    }

    /// Waits until a replay has reached the end of its file or diverged; live, for ever. Returns its result.
    pub async fn replay_end(&self) -> Replayed {
        poll_fn(|context| match &self.backend {
            Backend::Replay(replayer) if replayer.borrow().ended => Poll::Ready(replayer.borrow().outcome()),
            Backend::Replay(replayer) => {
                replayer.borrow_mut().waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Pending,
        })
        .await
    }

    /// Result of a replay so far; empty for a live run.
    pub fn outcome(&self) -> Replayed {
        match &self.backend {
            Backend::Replay(replayer) => replayer.borrow().outcome(),
            _ => Replayed::default(),
        }
    }

    /// A turn of a replay.
    fn replay_turn(&self, replayer: &RefCell<Replayer>) -> Nanos {
        loop {
            let jobs = &self.jobs;
            let op = |key| jobs.borrow().get(key).map(|slot| (slot.job.op, slot.job.memory.part().len()));
            let step = replayer.borrow_mut().step(op);
            match step {
                Step::Completed { key, completion, result } => {
                    if let Some(slot) = self.jobs.borrow_mut().get_mut(key) {
                        replayer.borrow_mut().fill(&completion, &mut slot.job);
                    }
                    self.completed(key, result, None);
                }
                Step::Turned(time) => return time,
                Step::Over(time) => {
                    replayer.borrow_mut().waker.take().into_iter().for_each(Waker::wake);
                    return time;
                }
            }
        }
    }
}

impl Reactor {
    /// Jobs that wait for a socket to become ready, for the backend that polls.
    fn polled_jobs(&self) -> Vec<threads::Polled> {
        let jobs = self.jobs.borrow();
        let waiting = jobs.iter().filter(|(_, slot)| slot.result.is_none());
        waiting.filter_map(|(key, slot)| threads::Polled::of(key, &slot.job)).collect()
    }
}

/// The socket that a job accepted.
#[allow(unsafe_code)]
fn accepted(op: Op, result: &io::Result<usize>) -> Option<OwnedFd> {
    let number = RawFd::try_from(*result.as_ref().ok()?).ok().filter(|_| op == Op::Accept)?;
    // SAFETY: the kernel has just returned it from an accept (a replay has just opened it), and nothing else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let kernel = !matches!(self.backend, Backend::Replay(_));
        // The kernel may still work on the memory of a job in flight: leave it allocated.
        for slot in self.jobs.get_mut().drain() {
            if slot.result.is_none() && kernel {
                std::mem::forget(slot.job);
            }
        }
    }
}

/// The future of a job's completion. Dropping it discards the completion; the job goes on.
pub struct Pending {
    reactor: Rc<Reactor>,
    key: Option<usize>,
}

impl Future for Pending {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let Some(key) = self.key else { return Poll::Pending };
        let mut jobs = self.reactor.jobs.borrow_mut();
        let slot = &mut jobs[key];
        let Some(result) = slot.result.take() else {
            slot.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        let slot = jobs.remove(key);
        drop(jobs);
        self.key = None;
        Poll::Ready(Done { result, memory: slot.job.memory, socket: slot.socket })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut jobs = self.reactor.jobs.borrow_mut();
        if jobs[key].result.is_some() {
            jobs.remove(key);
        } else {
            jobs[key].abandoned = true;
            jobs[key].waker = None;
        }
    }
}

#[cfg(test)]
mod tests;
