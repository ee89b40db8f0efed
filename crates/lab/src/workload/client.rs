//! How a workload issues its requests: one window on one device, in one run.
//!
//! A run ends when its limit is reached or when the workload itself ends; requests issued by then are still answered.
//! Requests that fail are counted, and the run goes on. So a workload is a loop without an exit: a client past the
//! limit waits, and is dropped when the last answer is there.
//!
//! Invariants: records are in the order of their arrival; a limit of n requests is n requests, unless the workload ends
//! before.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use seekless_core::runtime::{self, Rng};
use seekless_core::{
    BlockDevice, Buffer, Extent, Flags, Hints, IoError, Latency, Lba, Names, Nanos, Op, Origin, PAGE_SECTORS,
    ProcessId, Record, Zeroes,
};

use super::answers::Answers;
use super::{Load, Running};

/// Duration of a request that fails immediately; otherwise a client that retries at once would stop the clock.
const FAILURE: Nanos = Nanos(1_000);

/// Device number in records: Linux's first disk, 8,0.
const DEVICE: u32 = 8 << 20;

/// When a run ends, whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Time after which no requests are issued.
    pub time: Option<Nanos>,
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct Observed {
    /// Requests and their times.
    pub answers: Answers,
    /// Each request, if recorded.
    pub records: Vec<Record>,
    /// Names of the processes in the records.
    pub names: Names,
    /// Time of the last answer.
    pub end: Nanos,
    /// Error of the first request that failed, if any.
    pub failure: Option<IoError>,
}

impl Observed {
    /// The results, or the first failure as an error.
    pub fn whole(self) -> Result<Observed, IoError> {
        self.failure.clone().map_or(Ok(self), Err)
    }
}

/// Called with the name of each part of a load as it begins.
pub type Mark = Box<dyn Fn(&'static str)>;

/// A run: a device, a limit, and results so far.
struct Session {
    device: Rc<dyn BlockDevice>,
    until: Option<Nanos>,
    requests: Option<u64>,
    keep: bool,
    /// Whether the concurrent work has ended.
    concurrent_ended: Cell<bool>,
    begin: Nanos,
    issued: Cell<u64>,
    in_flight: Cell<u64>,
    processes: Cell<u32>,
    observed: RefCell<Observed>,
    /// Waker of the run's task.
    main: RefCell<Option<Waker>>,
    /// Clients waiting at a gate.
    waiting: RefCell<Vec<Waker>>,
    mark: Mark,
}

/// Decides which members of a mixture may issue requests.
pub trait Gate {
    /// Whether this member may issue a request now.
    fn may(&self, member: usize) -> bool;
    /// It issues one.
    fn passed(&self, member: usize);
}

/// A gate that a client has to pass, and those around it.
struct Behind {
    gate: Rc<dyn Gate>,
    member: usize,
    outer: Option<Rc<Behind>>,
}

/// One client of a run.
#[derive(Clone)]
pub struct Client {
    session: Rc<Session>,
    window: Extent,
    origin: Origin,
    behind: Option<Rc<Behind>>,
}

/// Runs a load on a device. With `keep`, every request is recorded.
pub async fn carry_out(load: &Load, device: Rc<dyn BlockDevice>, limit: Limit, keep: bool) -> Observed {
    carry_out_with(load, device, limit, keep, pending()).await
}

/// As [`carry_out`], concurrently with other work: when that ends, the run's limit is reached.
pub async fn carry_out_with(
    load: &Load,
    device: Rc<dyn BlockDevice>,
    limit: Limit,
    keep: bool,
    concurrent: impl Future<Output = ()>,
) -> Observed {
    carry_out_marked(load, device, limit, keep, concurrent, Box::new(|_| ())).await
}

/// As [`carry_out`]; `mark` is called with the name of each part of the load as it begins.
pub async fn carry_out_marked(
    load: &Load,
    device: Rc<dyn BlockDevice>,
    limit: Limit,
    keep: bool,
    concurrent: impl Future<Output = ()>,
    mark: Mark,
) -> Observed {
    let begin = runtime::now();
    let window = Extent::new(0, device.geometry().sectors);
    let session = Rc::new(Session {
        device,
        until: limit.time.map(|time| Nanos(begin.0.saturating_add(time.0))),
        requests: limit.requests,
        keep,
        concurrent_ended: Cell::new(false),
        begin,
        issued: Cell::new(0),
        in_flight: Cell::new(0),
        processes: Cell::new(0),
        observed: RefCell::default(),
        main: RefCell::default(),
        waiting: RefCell::default(),
        mark,
    });
    let client = Client { session: session.clone(), window, origin: Origin::default(), behind: None };
    let _alarm = session.until.map(|until| {
        let session = session.clone();
        runtime::spawn(async move {
            runtime::sleep_until(until).await;
            session.wake();
        })
    });
    let mut work = load.start(&client);
    let mut ended = false;
    let mut concurrent = std::pin::pin!(concurrent);
    poll_fn(|context| {
        session.main.replace(Some(context.waker().clone()));
        if !session.concurrent_ended.get() && concurrent.as_mut().poll(context).is_ready() {
            session.concurrent_ended.set(true);
        }
        if !ended {
            ended = work.as_mut().poll(context).is_ready();
        }
        let answered = session.in_flight.get() == 0;
        if answered && (ended || session.is_over()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop((work, client));
    Observed { end: runtime::now() - begin, ..session.observed.take() }
}

impl Session {
    fn is_over(&self) -> bool {
        self.concurrent_ended.get()
            || self.requests.is_some_and(|most| self.issued.get() >= most)
            || self.until.is_some_and(|until| runtime::now() >= until)
    }

    fn wake(&self) {
        if let Some(waker) = self.main.take() {
            waker.wake();
        }
    }

    /// A request arrives; its index in the records.
    fn arrive(&self, op: Op, at: Extent, flags: Flags, origin: Origin) -> Option<usize> {
        self.issued.set(self.issued.get() + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        let time = runtime::now() - self.begin;
        let latency = Latency::UNKNOWN;
        let record = Record { time, device: DEVICE, op, extent: at, flags, origin, latency };
        let mut observed = self.observed.borrow_mut();
        self.keep.then(|| {
            observed.records.push(record);
            observed.records.len() - 1
        })
    }

    fn answered(&self, op: Op, at: Extent, took: Nanos, index: Option<usize>) {
        let mut observed = self.observed.borrow_mut();
        observed.answers.add(op, at, took);
        if let Some(record) = index.and_then(|index| observed.records.get_mut(index)) {
            record.latency = Latency::of(took);
        }
        drop(observed);
        self.ended();
    }

    /// A request has ended, in whatever way.
    fn ended(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.wake();
        }
    }
}

impl Client {
    /// Size of the window, at least what the workload needs.
    pub fn sectors(&self) -> u64 {
        self.window.sectors
    }

    /// A part of this window as a window of its own, as far as it reaches.
    pub fn within(&self, from: u64, sectors: Option<u64>) -> Client {
        let room = self.window.sectors.saturating_sub(from);
        let sectors = sectors.map_or(room, |sectors| sectors.min(room));
        Client { window: Extent { start: self.window.start + from, sectors }, ..self.clone() }
    }

    /// A client of another process, of this name.
    pub fn process(&self, name: &str) -> Client {
        let number = self.session.processes.get() + 1;
        self.session.processes.set(number);
        let name = self.session.observed.borrow_mut().names.intern(name);
        let origin = Origin { process: ProcessId(number), name, ..Origin::default() };
        Client { origin, ..self.clone() }
    }

    /// A client that is a member of a mixture.
    pub fn behind(&self, gate: Rc<dyn Gate>, member: usize) -> Client {
        let behind = Behind { gate, member, outer: self.behind.clone() };
        Client { behind: Some(Rc::new(behind)), ..self.clone() }
    }

    /// Wakes clients at gates: one may have opened.
    pub fn gates_changed(&self) {
        self.session.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until `holds`, checked whenever a gate changes.
    pub async fn at_gates(&self, holds: impl Fn() -> bool) {
        poll_fn(|context| {
            if holds() {
                return Poll::Ready(());
            }
            self.session.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Marks the start of the load's part of this name.
    pub fn mark(&self, name: &'static str) {
        (self.session.mark)(name);
        self.session.wake();
    }

    /// Reads, and waits for the answer.
    pub async fn read(&self, at: Extent) {
        self.ask(Op::Read, at, Flags::default()).await;
    }

    /// Writes, and waits for the answer.
    pub async fn write(&self, at: Extent) {
        self.ask(Op::Write, at, Flags::default()).await;
    }

    /// Flushes, and waits for the answer.
    pub async fn flush(&self) {
        self.ask(Op::Flush, Extent::default(), Flags::default()).await;
    }

    /// Issues a request for sectors of the window, and waits for the answer.
    pub async fn ask(&self, op: Op, at: Extent, flags: Flags) {
        self.turn().await;
        self.issue(op, at, flags).await;
    }

    /// Issues a request for sectors of the window, without waiting for the answer.
    pub async fn post(&self, op: Op, at: Extent) {
        self.turn().await;
        let issued = self.issue(op, at, Flags::default());
        runtime::spawn(issued).detach();
    }

    /// A uniformly random extent of this length, page-aligned if it is whole pages, as from file systems. The window
    /// must be at least as large.
    pub fn somewhere(&self, rng: &mut Rng, sectors: u64) -> Extent {
        let step = if sectors % PAGE_SECTORS == 0 { PAGE_SECTORS } else { 1 };
        Extent::new(rng.below((self.window.sectors - sectors) / step + 1) * step, sectors)
    }

    /// Waits until this client may issue a request: its gates are open and the limit is not reached.
    async fn turn(&self) {
        self.at_gates(|| self.gates_open()).await;
        if self.session.is_over() {
            self.session.wake();
            pending::<()>().await;
        }
        let mut next = &self.behind;
        while let Some(behind) = next {
            behind.gate.passed(behind.member);
            next = &behind.outer;
        }
        if self.behind.is_some() {
            self.gates_changed();
        }
    }

    fn gates_open(&self) -> bool {
        let mut next = &self.behind;
        while let Some(behind) = next {
            if !behind.gate.may(behind.member) {
                return false;
            }
            next = &behind.outer;
        }
        true
    }

    /// Counts the request now, and carries it out when polled.
    fn issue(&self, op: Op, at: Extent, flags: Flags) -> impl Future<Output = ()> + use<> {
        let (session, origin) = (self.session.clone(), self.origin);
        let at =
            if op == Op::Flush { at } else { Extent { start: Lba(self.window.start.0 + at.start.0), ..at } };
        let index = session.arrive(op, at, flags, origin);
        let begin = runtime::now();
        async move {
            let how = Hints { fua: flags.has(Flags::FUA), origin, ..Hints::default() };
            let buffer = || Buffer::hollow_sectors(at.sectors);
            let done = match op {
                Op::Read => session.device.read(at, buffer(), how).await.map(drop),
                Op::Write => session.device.write(at, buffer(), how).await,
                Op::WriteZeroes => session.device.write_zeroes(at, how, Zeroes::default()).await,
                Op::Flush => session.device.flush(how).await,
                Op::Discard => session.device.discard(at, how).await,
            };
            match done {
                Ok(()) => session.answered(op, at, runtime::now() - begin, index),
                Err(error) => {
                    if runtime::now() == begin {
                        runtime::sleep(FAILURE).await;
                    }
                    let mut observed = session.observed.borrow_mut();
                    observed.answers.failed += 1;
                    observed.failure.get_or_insert(error);
                    drop(observed);
                    session.ended();
                }
            }
        }
    }
}

/// Runs several tasks concurrently, until all have ended.
pub fn together(tasks: impl IntoIterator<Item = Running>) -> Running {
    let tasks: Vec<_> = tasks.into_iter().map(runtime::spawn).collect();
    Box::pin(async move {
        for task in tasks {
            task.await;
        }
    })
}
