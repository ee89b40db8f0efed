//! The runtime: deterministic, single-threaded, on a virtual clock that jumps to the next event.
//!
//! A [`Runtime`] is a value and nests: a rehearsal runs inside a turn of another one. Inside [`Runtime::run`], code
//! reads [`now`], sleeps, spawns, draws from named random streams and offloads work, independently of the clock that
//! drives it.
//!
//! Invariants: time never goes back; events of one instant happen in the order in which they were requested; [`quiet`]
//! resolves only after every task of the instant has run. The same inputs and the same seed give the same events, byte
//! for byte: [`Runtime::event_hash`] proves it.

mod interrupt;
mod log;
mod rng;
mod timers;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use async_task::Runnable;

use slab::Slab;

pub use async_task::Task;
pub use interrupt::{Stalled, has_to_end, interruptible};
pub use log::Event;
pub use rng::Rng;

use crate::units::Nanos;
use log::Log;
use timers::Timers;

/// Runnable tasks, in order of arrival. Wakers must be `Send`, hence the lock; it is never contended in the lab, and
/// lets a reactor's helper threads wake tasks live.
#[derive(Default)]
struct Ready {
    tasks: Mutex<VecDeque<Runnable>>,
    /// Whether there may be any: avoids the lock, which is checked several times per request.
    any: AtomicBool,
}

impl Ready {
    fn push(&self, task: Runnable) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push_back(task);
        self.any.store(true, Ordering::Release);
    }

    /// Swaps all runnable tasks for an empty `batch`; false if there is none.
    fn take(&self, batch: &mut VecDeque<Runnable>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        std::mem::swap(&mut *tasks, batch);
        !batch.is_empty()
    }
}

/// Usual length of a [`pause`].
const PAUSE: Nanos = Nanos::from_millis(1_000);

/// A world with its own clock.
pub struct Runtime {
    world: Rc<World>,
}

struct World {
    ready: Arc<Ready>,
    now: Cell<Nanos>,
    timers: RefCell<Timers>,
    quiet: RefCell<Vec<Wake>>,
    /// Wakers of the tasks that have not ended, to drop them with the world.
    live: RefCell<Slab<Waker>>,
    log: RefCell<Log>,
    seed: u64,
    /// First number of new formats: see [`first_number`].
    first: Cell<u64>,
    pause: Cell<Nanos>,
    streams: RefCell<BTreeMap<String, u64>>,
    /// Few, so that a list is faster than a map.
    edges: RefCell<Vec<(&'static str, u64)>>,
    /// Executes offloaded work, if not this thread.
    offloader: RefCell<Option<Rc<Offloader>>>,
}

/// Work to be executed on another thread of a live volume.
pub type Offloaded = Box<dyn FnOnce() + Send>;

/// Executes offloaded work; the returned future resolves at its end.
pub type Offloader = dyn Fn(Offloaded) -> Pin<Box<dyn Future<Output = ()>>>;

/// An object that acts when it is called, without being a task: a device. A task's turn costs several times as much,
/// and a device has two per request.
pub trait Agent {
    /// Called at the requested time, or when it is quiet.
    fn turn(self: Rc<Self>);
}

/// Target of a wake-up: a task or an agent.
enum Wake {
    Task(Waker),
    Agent(Rc<dyn Agent>),
}

impl Wake {
    fn call(self) {
        match self {
            Wake::Task(waker) => waker.wake(),
            Wake::Agent(agent) => agent.turn(),
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The environment of a live runtime: its clock, and external events.
pub trait Driver {
    /// Submits pending requests, and waits until one was answered or until `until`; not at all if that has passed,
    /// without limit if `None`. Returns the time then: it never goes back.
    fn turn(&self, until: Option<Nanos>) -> Nanos;
}

/// Restores the outer world when a run ends, also by a panic.
struct Entered(Option<Rc<World>>);

impl Entered {
    fn enter(world: &Rc<World>) -> Entered {
        Entered(CURRENT.with(|current| current.replace(Some(world.clone()))))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.replace(self.0.take()));
    }
}

impl Runtime {
    /// A world at time zero. All its random streams derive from `seed`.
    pub fn new(seed: u64) -> Runtime {
        Runtime {
            world: Rc::new(World {
                ready: Arc::default(),
                now: Cell::new(Nanos::ZERO),
                timers: RefCell::default(),
                quiet: RefCell::default(),
                live: RefCell::default(),
                log: RefCell::default(),
                seed,
                first: Cell::new(0),
                pause: Cell::new(PAUSE),
                streams: RefCell::default(),
                edges: RefCell::default(),
                offloader: RefCell::default(),
            }),
        }
    }

    /// Executes offloaded work by `offloader` from now on, in real time.
    pub fn offload_to(&self, offloader: Rc<Offloader>) {
        self.world.offloader.replace(Some(offloader));
    }

    /// New formats in this world count from `first`: see [`first_number`].
    pub fn count_from(&self, first: u64) {
        self.world.first.set(first);
    }

    /// Sets the length of a [`pause`].
    pub fn pause_for(&self, time: Nanos) {
        self.world.pause.set(time);
    }

    /// Also passes every event to `sink`, as it happens.
    pub fn watch_events(&self, sink: impl FnMut(Nanos, &Event) + 'static) {
        self.world.log.borrow_mut().watch(Box::new(sink));
    }

    /// Runs `main` to its end. Other tasks are suspended, and continue in the next run.
    pub fn run<F: Future>(&self, main: F) -> Result<F::Output, Stalled> {
        self.run_until_waiting(main, || !interrupt::is_interrupted() && self.world.advance())
    }

    /// As `run`, on the clock of `driver`, which is read once per turn: when every task waits. It never stalls.
    pub fn run_live<F: Future>(&self, main: F, driver: &dyn Driver) -> Result<F::Output, Stalled> {
        self.run_until_waiting(main, || {
            self.world.advance_live(driver);
            true
        })
    }

    /// Calls `advance` whenever no task can run; stops if that returns false.
    fn run_until_waiting<F: Future>(
        &self,
        main: F,
        mut advance: impl FnMut() -> bool,
    ) -> Result<F::Output, Stalled> {
        let _entered = Entered::enter(&self.world);
        let mut main = pin!(main);
        // `main` may borrow, so it is polled here and not spawned; its waker marks it ready.
        let woken = Arc::new(MainWoken::default());
        let waker = Waker::from(woken.clone());
        let mut context = std::task::Context::from_waker(&waker);
        woken.set(true);
        let mut batch = VecDeque::new();
        loop {
            if woken.get() && woken.set(false) {
                if let Poll::Ready(result) = main.as_mut().poll(&mut context) {
                    return Ok(result);
                }
            }
            while self.world.ready.take(&mut batch) {
                for task in batch.drain(..) {
                    task.run();
                }
            }
            if !woken.get() && !advance() {
                return Err(Stalled::new(self.world.now.get()));
            }
        }
    }

    /// The time in this world.
    pub fn now(&self) -> Nanos {
        self.world.now.get()
    }

    /// The hash of all events so far.
    pub fn event_hash(&self) -> u64 {
        self.world.log.borrow().hash()
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.world.log.borrow().events()
    }

    /// The named code places reached in this world, by name, with counts: see [`edge`].
    pub fn edges(&self) -> Vec<(&'static str, u64)> {
        // Equal names may be several strings to the compiler.
        let mut times = BTreeMap::new();
        for &(name, count) in self.world.edges.borrow().iter() {
            *times.entry(name).or_insert(0) += count;
        }
        times.into_iter().collect()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Tasks hold devices, and devices wake tasks: a woken task is queued, and dropped from there.
        let _entered = Entered::enter(&self.world);
        let timers = self.world.timers.take();
        let quiet = self.world.quiet.take();
        let offloader = self.world.offloader.take();
        drop((timers, quiet, offloader));
        let live = self.world.live.take();
        live.into_iter().for_each(|(_, waker)| waker.wake());
        let mut batch = VecDeque::new();
        while self.world.ready.take(&mut batch) {
            batch.clear();
        }
    }
}

/// Whether the main future was woken since it was last polled.
#[derive(Default)]
struct MainWoken(AtomicBool);

impl MainWoken {
    fn set(&self, to: bool) -> bool {
        self.0.swap(to, Ordering::Relaxed)
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl std::task::Wake for MainWoken {
    fn wake(self: Arc<Self>) {
        self.set(true);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set(true);
    }
}

impl World {
    /// Wakes what is next: a timer of this instant, else those that wait for quiet, else the next instant's first
    /// timer. False if there is nothing.
    fn advance(&self) -> bool {
        let now = self.now.get();
        let next = self.timers.borrow_mut().next_at();
        if next.is_none_or(|at| at > now) && self.call_quiet() {
            return true;
        }
        let Some(at) = next else { return false };
        assert!(at >= now, "time went back from {now} to {at}");
        self.now.set(at);
        self.call_timer();
        true
    }

    /// As `advance`, in real time: a timer that is due, else those that wait for quiet, else a turn of the environment.
    fn advance_live(&self, driver: &dyn Driver) {
        let now = self.now.get();
        let next = self.timers.borrow_mut().next_at();
        if next.is_some_and(|at| at <= now) {
            self.call_timer();
        } else if !self.call_quiet() {
            let then = driver.turn(next);
            assert!(then >= now, "time went back from {now} to {then}");
            self.now.set(then);
        }
    }

    /// Calls those that wait for quiet; false if there are none.
    fn call_quiet(&self) -> bool {
        if self.quiet.borrow().is_empty() {
            return false;
        }
        let mut quiet = self.quiet.take();
        quiet.drain(..).for_each(Wake::call);
        // The list keeps its memory, and requests made meanwhile.
        quiet.append(&mut self.quiet.borrow_mut());
        self.quiet.replace(quiet);
        true
    }

    /// Calls the next timer.
    fn call_timer(&self) {
        let Some((_, sequence, wake)) = self.timers.borrow_mut().pop() else { return };
        self.log.borrow_mut().add(self.now.get(), &Event::Timer { sequence });
        wake.call();
    }
}

/// The world that the calling code runs in.
fn current<T>(with: impl FnOnce(&Rc<World>) -> T) -> T {
    CURRENT.with(|current| with(current.borrow().as_ref().expect("called outside of Runtime::run")))
}

/// The time. Virtual in the lab; live, read once per turn of the reactor.
pub fn now() -> Nanos {
    current(|world| world.now.get())
}

/// Adds an event to the log.
pub fn event(event: &Event) {
    current(|world| world.log.borrow_mut().add(world.now.get(), event));
}

/// First number of generations and similar counters of a new format on disk: 0, except in explorations, which also
/// start near the ends of 8, 16 and 32 bits.
pub fn first_number() -> u64 {
    current(|world| world.first.get())
}

/// Time without changes after which layers do what is not urgent: a second, except in some explorations.
pub fn pause() -> Nanos {
    current(|world| world.pause.get())
}

/// Counts that a named place of a layer's code was reached: one that is rare and critical. Tests require that each of
/// them is reached ([`Runtime::edges`]). Not an event: the hash of events does not include it.
pub fn edge(name: &'static str) {
    current(|world| {
        let mut edges = world.edges.borrow_mut();
        match edges.iter_mut().find(|(known, _)| std::ptr::eq(*known, name)) {
            Some((_, count)) => *count += 1,
            None => edges.push((name, 1)),
        }
    });
}

/// Starts a task. Dropping the handle cancels it; `detach` lets it continue, until its world ends.
pub fn spawn<T: 'static>(work: impl Future<Output = T> + 'static) -> Task<T> {
    spawn_boxed(Box::pin(work))
}

/// As [`spawn`], of a future that has its own allocation. The task's code is compiled once for each `T`, not for each
/// future, which spares a fifteenth of the code of the layers.
pub fn spawn_boxed<T: 'static>(work: Pin<Box<dyn Future<Output = T>>>) -> Task<T> {
    let world = current(Rc::clone);
    let ready = world.ready.clone();
    let schedule = move |task| ready.push(task);
    let mut live = world.live.borrow_mut();
    let entry = live.vacant_entry();
    let ended = Ended { world: Rc::downgrade(&world), live: entry.key() };
    let work = async move {
        let _ended = ended;
        work.await
    };
    let (runnable, task) = async_task::spawn_local(work, schedule);
    entry.insert(runnable.waker());
    runnable.schedule();
    task
}

/// Removes a task from the list when it ends or is dropped.
struct Ended {
    world: Weak<World>,
    live: usize,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let Some(world) = self.world.upgrade() else { return };
        // Taken out first: dropping a waker may drop a task, which removes itself too.
        let waker = world.live.borrow_mut().try_remove(self.live);
        drop(waker);
    }
}

/// Sleeps until `at`; returns at once if that has passed.
pub fn sleep_until(at: Nanos) -> impl Future<Output = ()> {
    timers::Sleep::new(current(Rc::clone), at)
}

/// Sleeps for `time`.
pub fn sleep(time: Nanos) -> impl Future<Output = ()> {
    sleep_until(now() + time)
}

/// Waits until every task of this instant has run. A device picks its next request after this, so that it sees all
/// requests issued at the same time.
pub fn quiet() -> impl Future<Output = ()> {
    let mut requested = false;
    poll_fn(move |context| {
        if requested {
            return Poll::Ready(());
        }
        requested = true;
        current(|world| world.quiet.borrow_mut().push(Wake::Task(context.waker().clone())));
        Poll::Pending
    })
}

/// Calls an agent when every task of this instant has run.
pub fn turn_when_quiet(agent: Rc<dyn Agent>) {
    current(|world| world.quiet.borrow_mut().push(Wake::Agent(agent)));
}

/// Calls an agent at `at`, or at once in its order if that has passed.
pub fn turn_at(at: Nanos, agent: Rc<dyn Agent>) {
    current(|world| world.timers.borrow_mut().set(at.max(world.now.get()), Wake::Agent(agent)));
}

/// A random stream of this name: one per purpose. Each call gives the next stream of that name.
pub fn rng(name: &str) -> Rng {
    current(|world| {
        let mut streams = world.streams.borrow_mut();
        let turn = streams.entry(name.to_owned()).or_insert(0);
        *turn += 1;
        Rng::named(world.seed, name, *turn)
    })
}

/// Runs a pure function of owned data off the volume's thread: live on a low-priority thread; in virtual time at once,
/// with the result arriving after `cost`.
///
/// # Panics
/// If the function does, on its thread.
pub async fn offload<T, J>(job: J, cost: impl FnOnce(&T) -> Nanos) -> T
where
    T: Send + 'static,
    J: FnOnce() -> T + Send + 'static,
{
    let Some(offloader) = current(|world| world.offloader.borrow().clone()) else {
        let result = job();
        let cost = cost(&result);
        sleep(cost).await;
        event(&Event::Offloaded { cost });
        return result;
    };
    let (begin, place) = (now(), Arc::new(Mutex::new(None)));
    let result = place.clone();
    offloader(Box::new(move || {
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(job());
    }))
    .await;
    event(&Event::Offloaded { cost: now() - begin });
    let result = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    result.expect("offloaded work panicked")
}

#[cfg(test)]
mod tests;
