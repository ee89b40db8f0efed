//! The reactor: what a live volume asks of the kernel, and the clock that it lives by.
//!
//! A [`Job`] is handed in and owns the memory that the kernel works on until it is answered; the future of its answer
//! may be dropped, the memory stays. Jobs go to the kernel together, once a turn, and the same system call waits for
//! what comes back: `io_uring` where the kernel lets us, else a few threads and `poll`.
//!
//! Invariants: every job is answered once. Memory is in one job at a time. Time is read once a turn and never goes back.
//! What it tells can be noted and told again ([`inputs`]). Fault model: the kernel may refuse `io_uring` (then there are threads), interrupt any wait, and answer any job with any
//! error.

mod beside;
mod call;
pub mod inputs;
mod job;
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
pub use job::{Job, Memory, What};
use pool::Pool;
use threads::Threads;
use uring::Uring;

/// Where timers have to be exact, the last stretch before one is waited for awake: as long as it takes a machine at rest
/// to wake up.
const AWAKE: Nanos = Nanos(200_000);

/// How jobs get to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `io_uring`.
    Uring,
    /// Threads that wait in `pread` and `pwrite`, and `poll` for sockets.
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

/// What became of a job.
#[derive(Debug)]
pub struct Done {
    /// Bytes done, or the number of an accepted socket.
    pub result: io::Result<usize>,
    /// The job's memory.
    pub memory: Memory,
    /// The socket that was accepted.
    pub socket: Option<OwnedFd>,
}

/// See the file's header.
pub struct Reactor {
    jobs: RefCell<Slab<Slot>>,
    backend: Backend,
    /// When the runtime's time was zero.
    zero: Instant,
    turns: Cell<u64>,
    /// Timers have to be exact.
    exact: Cell<bool>,
    /// Jobs asked for so far.
    asked: Cell<u64>,
    /// Notes what happens, if that is wanted.
    recorder: Option<RefCell<Recorder>>,
    /// Memory that the kernel was told of, where it was asked for.
    pool: OnceCell<Option<Pool>>,
}

enum Backend {
    Uring(Box<RefCell<Uring>>),
    Threads(Threads),
    /// No kernel: what happened in another run.
    Replay(Box<RefCell<Replayer>>),
    /// No kernel: a test answers.
    #[cfg(test)]
    Shim(Rc<RefCell<dyn shim::Kernel>>),
}

/// A job under way, or its answer that was not fetched yet.
struct Slot {
    /// In the order of asking.
    number: u64,
    job: Job,
    waker: Option<Waker>,
    result: Option<io::Result<usize>>,
    /// What was accepted: ours from then on, whether or not somebody fetches it.
    socket: Option<OwnedFd>,
    /// Nobody waits for the answer any more.
    abandoned: bool,
}

impl Reactor {
    /// A reactor of this kind, or, if there is no wish, of the best that the kernel allows; the reason if that is not
    /// `io_uring`.
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

    /// A reactor without a kernel: what happens is what happened in another run.
    pub fn replaying(replayer: Replayer) -> Rc<Reactor> {
        Rc::new(Reactor::of(Backend::Replay(Box::new(RefCell::new(replayer)))))
    }

    fn of(backend: Backend) -> Reactor {
        #[allow(clippy::disallowed_methods)] // where the machine's clock enters a live runtime
        let zero = Instant::now();
        let (turns, exact, asked) = (Cell::new(0), Cell::new(false), Cell::new(0));
        let (recorder, pool) = (None, OnceCell::new());
        Reactor { jobs: RefCell::default(), backend, zero, turns, exact, asked, recorder, pool }
    }

    /// The same, which also notes what happens.
    pub fn recorded(mut self, recorder: Recorder) -> Reactor {
        self.recorder = Some(RefCell::new(recorder));
        self
    }

    /// What it is made of.
    pub fn kind(&self) -> Kind {
        match &self.backend {
            Backend::Uring(_) => Kind::Uring,
            Backend::Threads(_) => Kind::Threads,
            Backend::Replay(replayer) => replayer.borrow().kind(),
            #[cfg(test)]
            Backend::Shim(_) => Kind::Threads,
        }
    }

    /// Timers are exact to some microseconds from now on, at the cost of [`AWAKE`] of the processor each: for components
    /// that take their time by the clock. What else happens meanwhile is told as ever.
    pub fn be_exact(&self) {
        self.exact.set(true);
    }

    /// Tells the kernel of a pool of memory, for files that are read and written past the page cache; once, and only
    /// where that is of use. Without it, or where the kernel refuses, all memory is ordinary.
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

    /// Memory of the pool for a job that moves `len` bytes, if there is any left.
    pub fn pooled(&self, len: usize) -> Option<Memory> {
        let piece = self.pool.get()?.as_ref()?.take(len)?;
        Some(Memory::pooled(piece).cut(0..len))
    }

    /// How often it went to the kernel so far.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Hands a job in; it reaches the kernel at the end of this turn at the latest.
    pub fn ask(self: &Rc<Self>, job: Job) -> Answer {
        let number = self.asked.get();
        self.asked.set(number + 1);
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().asked(&job);
        }
        let mut jobs = self.jobs.borrow_mut();
        let entry = jobs.vacant_entry();
        let key = entry.key();
        let slot =
            entry.insert(Slot { number, job, waker: None, result: None, socket: None, abandoned: false });
        slot.result = match &self.backend {
            Backend::Uring(ring) => ring.borrow_mut().start(key, &mut slot.job).err().map(Err),
            Backend::Threads(threads) => threads.start(key, &mut slot.job),
            Backend::Replay(replayer) => replayer.borrow_mut().start(key, number, &mut slot.job),
            #[cfg(test)]
            Backend::Shim(kernel) => shim::start(kernel, key, &mut slot.job),
        };
        if let Some(result) = &slot.result {
            slot.socket = accepted(slot.job.what, result);
            if let Some(recorder) = &self.recorder {
                recorder.borrow_mut().at_once(result, &slot.job);
            }
        }
        Answer { reactor: self.clone(), key: Some(key) }
    }

    /// A job was answered.
    fn answered(&self, key: usize, result: io::Result<usize>, job: Option<Job>) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(slot) = jobs.get_mut(key) else { return };
        slot.socket = accepted(slot.job.what, &result);
        if slot.abandoned {
            jobs.remove(key);
            return;
        }
        if let Some(job) = job {
            slot.job = job;
        }
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().answered(slot.number, &result, &slot.job);
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
        let awake = if self.exact.get() { AWAKE } else { Nanos::ZERO };
        let wait = until.map(|until| Duration::from_nanos(until.since(self.time() + awake).0));
        let each = |key, result, job| self.answered(key, result, job);
        match &self.backend {
            Backend::Uring(ring) => ring.borrow_mut().turn(wait, |key, result| each(key, result, None)),
            Backend::Threads(threads) => {
                let waiting = self.waiting_for_sockets();
                threads.turn(wait, &waiting, each, |key| {
                    let mut jobs = self.jobs.borrow_mut();
                    jobs.get_mut(key).and_then(|slot| threads::try_now(&mut slot.job))
                });
            }
            Backend::Replay(replayer) => return self.turn_again(replayer),
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
    /// What `look` finds out of the world, which is more than jobs tell; it is asked at once, and noted.
    pub fn find_out(&self, look: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        if let Backend::Replay(replayer) = &self.backend {
            return replayer.borrow_mut().found_out();
        }
        let found = look();
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().found(&found);
        }
        found
    }

    /// This descriptor was not there before, or was another's.
    pub(crate) fn is_new(&self, descriptor: RawFd) {
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().is_new(descriptor);
        }
        if let Backend::Replay(replayer) = &self.backend {
            replayer.borrow_mut().is_new(descriptor);
        }
    }

    /// The run is over, with this hash of its events: what was noted is written, what is replayed is compared.
    pub fn end(&self, hash: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.borrow_mut().end(hash);
        }
        if let Backend::Replay(replayer) = &self.backend {
            replayer.borrow_mut().end(hash);
        }
    }

    /// Waits until a replay has come to where its file ends, or departed from it; live for ever. What was found.
    pub async fn replayed(&self) -> Replayed {
        poll_fn(|context| match &self.backend {
            Backend::Replay(replayer) if replayer.borrow().over => Poll::Ready(replayer.borrow().found()),
            Backend::Replay(replayer) => {
                replayer.borrow_mut().waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Pending,
        })
        .await
    }

    /// What a replay found so far; of a live run nothing.
    pub fn found(&self) -> Replayed {
        match &self.backend {
            Backend::Replay(replayer) => replayer.borrow().found(),
            _ => Replayed::default(),
        }
    }

    /// A turn of a replay.
    fn turn_again(&self, replayer: &RefCell<Replayer>) -> Nanos {
        loop {
            let jobs = &self.jobs;
            let what = |key| jobs.borrow().get(key).map(|slot| (slot.job.what, slot.job.memory.part().len()));
            let step = replayer.borrow_mut().step(what);
            match step {
                Step::Answered { key, told, result } => {
                    if let Some(slot) = self.jobs.borrow_mut().get_mut(key) {
                        replayer.borrow_mut().fill(&told, &mut slot.job);
                    }
                    self.answered(key, result, None);
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
    /// The jobs that wait until a socket is ready, for the kind that polls.
    fn waiting_for_sockets(&self) -> Vec<threads::Awaited> {
        let jobs = self.jobs.borrow();
        let waiting = jobs.iter().filter(|(_, slot)| slot.result.is_none());
        waiting.filter_map(|(key, slot)| threads::Awaited::of(key, &slot.job)).collect()
    }
}

/// The socket that a job gave us.
#[allow(unsafe_code)]
fn accepted(what: What, result: &io::Result<usize>) -> Option<OwnedFd> {
    let number = RawFd::try_from(*result.as_ref().ok()?).ok().filter(|_| what == What::Accept)?;
    // SAFETY: the kernel has just given it to us as the answer to an accept (a replay has just opened it), and nobody
    // else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let kernel = !matches!(self.backend, Backend::Replay(_));
        // The kernel may still work on the memory of a job that was not answered: it is left to it.
        for slot in self.jobs.get_mut().drain() {
            if slot.result.is_none() && kernel {
                std::mem::forget(slot.job);
            }
        }
    }
}

/// The future of a job's answer. Dropping it loses the answer and leaves the job to its end.
pub struct Answer {
    reactor: Rc<Reactor>,
    key: Option<usize>,
}

impl Future for Answer {
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

impl Drop for Answer {
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
