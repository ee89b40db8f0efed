//! The queue of a component: order, classes and merging of requests.
//!
//! Urgent precedes foreground, background and free. Under continuous foreground load, background work still gets its
//! guaranteed share of the head's time, in bursts, so that movers finish. Within a class the scheduler chooses, but a
//! request that has waited longer than the limit goes first. Adjacent requests of one kind and class are merged into
//! one command, as in a kernel. The device and the options limit the commands in the device; a flush that the device
//! cannot queue is issued alone.
//!
//! Where they [yield](Yielding), background and free requests also wait for the foreground requests in the device, and
//! for a while after those.
//!
//! Where the freeblock scheduler ([`crate::freeblock`]) serves free requests, reads and writes of that class are not
//! queued here, until a ticket promotes them.
//!
//! Invariants: a request is answered exactly once; a waiting one is queued in exactly one class. If its client goes
//! away, a request is still completed.

mod answer;
mod command;
mod counts;
mod wait_queue;
mod yielding;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::Waker;

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent, Event};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, Op, Zeroes};

use crate::freeblock::{FreeOptions, Freeblock};
use crate::scheduler::{Place, Places, Policy, Positioning, Slot, Waiter};
use crate::work::Sharer;
pub(crate) use wait_queue::MERGED_SECTORS;
use wait_queue::{Entry, State, WaitQueue};

pub use answer::Answer;
pub use command::{Command, Part};
pub use counts::QueueCounts;
pub use yielding::Yielding;

/// Options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Scheduler.
    pub policy: Policy,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// The background's guaranteed share of the head's time, 1 to 99 per cent.
    pub background_share_pct: u8,
    /// A request that has waited longer goes next; zero: never.
    pub starvation_limit: Nanos,
    /// Most commands in the device, which orders them by its own queue: 1 to the depth of its description. `None`: as
    /// many as it serves at once, and the scheduler here sees the head's position, as if this queue were inside the
    /// device.
    pub depth: Option<u32>,
    /// How background and free requests yield to the foreground in the device; `None`: only in the queue.
    pub yielding: Option<Yielding>,
    /// Options of freeblock scheduling; `None`: disabled.
    pub freeblock: Option<FreeOptions>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            policy: Policy::default(),
            merge: true,
            background_share_pct: 20,
            starvation_limit: Nanos::from_millis(1_000),
            depth: None,
            yielding: None,
            freeblock: None,
        }
    }
}

/// The requests waiting at a component.
pub struct Queue {
    device: u32,
    options: QueueOptions,
    by_position: bool,
    waiting: RefCell<WaitQueue>,
    /// The component: given a turn when requests arrive while it is idle.
    agent: Weak<dyn Agent>,
    /// The component as ticket holder: forwards tickets to this queue.
    holder: Weak<dyn TicketHolder>,
    /// The component's sector places.
    places: Weak<dyn Places>,
    /// The freeblock scheduler that serves free requests, if any.
    free: Option<Rc<Freeblock>>,
}

impl Queue {
    /// An empty queue of the component numbered `device` in the event log, which is its agent, forwards tickets to it,
    /// and knows its sectors' places. `queued_flush`: whether the device takes a flush among other commands. Free reads
    /// and writes are left to `free`, if there is one.
    pub fn new(
        device: u32,
        options: QueueOptions,
        queued_flush: bool,
        agent: Weak<dyn Agent>,
        holder: Weak<dyn TicketHolder>,
        places: Weak<dyn Places>,
        free: Option<Rc<Freeblock>>,
    ) -> Queue {
        let scheduler = options.policy.scheduler();
        let by_position = scheduler.by_position();
        let waiting = RefCell::new(WaitQueue::new(scheduler, queued_flush));
        Queue { device, options, by_position, waiting, agent, holder, places, free }
    }

    /// Whether the scheduler depends on the head's position.
    pub fn by_position(&self) -> bool {
        self.by_position
    }

    /// Submits a request; its answer returns the buffer. The request is queued when the answer is first polled.
    pub fn submit(&self, op: Op, at: Extent, buffer: Buffer, how: Hints) -> Answer<'_> {
        Answer { queue: self, state: answer::AnswerState::Unsent(op, at, buffer, how, Zeroes::default()) }
    }

    /// As [`Queue::submit`], for zeroes.
    pub fn submit_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> Answer<'_> {
        let state = answer::AnswerState::Unsent(Op::WriteZeroes, at, Buffer::default(), how, zeroes);
        Answer { queue: self, state }
    }

    fn enter(
        &self,
        (op, at): (Op, Extent),
        buffer: Buffer,
        how: Hints,
        zeroes: Zeroes,
        waker: Waker,
    ) -> Slot {
        let mut waiting = self.waiting.borrow_mut();
        waiting.arrivals += 1;
        let arrival = waiting.arrivals;
        let class = how.effective_class();
        let ticket = how.ticket.clone();
        runtime::event(&Event::Request { device: self.device, id: arrival, op, extent: at, class });
        let place = match self.places.upgrade() {
            Some(places) if self.by_position && op != Op::Flush => places.place(at.start),
            _ => Place::default(),
        };
        let issued_before = waiting.issued;
        if let Some(options) = &self.options.yielding {
            waiting.activity.anticipate(class, runtime::now(), options);
        }
        let vacant = waiting.entries.vacant_entry();
        let slot = vacant.key();
        let write = matches!(op, Op::Write | Op::WriteZeroes);
        let waiter = Waiter { slot, arrival, since: runtime::now(), write, place };
        let free = self.free.as_ref().filter(|_| class == Class::Free && matches!(op, Op::Read | Op::Write));
        let (state, waker) = (if free.is_some() { State::Free } else { State::Waiting }, Some(waker));
        vacant.insert(Entry {
            op,
            at,
            how,
            class,
            buffer,
            zeroes,
            waiter,
            issued_before,
            state,
            waker,
            abandoned: false,
        });
        match free {
            Some(free) => free.request(slot, write, at),
            None if op == Op::Flush => {
                waiting.flushes.push_back(slot);
                self.to_be_issued(&mut waiting);
            }
            None => {
                waiting.enqueue(slot);
                self.to_be_issued(&mut waiting);
            }
        }
        drop(waiting);
        if let Some(ticket) = ticket {
            ticket.register(self.holder.clone(), slot);
            if ticket.is_aborted() {
                self.abort(slot);
            }
        }
        slot
    }

    /// Counts a request that waits to be issued.
    fn to_be_issued(&self, waiting: &mut WaitQueue) {
        waiting.unissued += 1;
        self.wake(waiting);
    }

    fn wake(&self, waiting: &mut WaitQueue) {
        if !std::mem::replace(&mut waiting.awake, true) {
            if let Some(agent) = self.agent.upgrade() {
                runtime::turn_when_quiet(agent);
            }
        }
    }

    /// Describes the next command in `command`; false if there is none for now: the component gets a turn when there
    /// may be, which is when a request arrives or, after a flush, when a command is done. To be called when it is
    /// quiet, with the drive's current state if `by_position`.
    pub fn pick(&self, command: &mut Command, drive: Option<&dyn Positioning>) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        command.slots.clear();
        command.sharers.clear();
        waiting.awake = waiting.unissued > 0;
        if !waiting.awake || waiting.waits_for_a_flush() {
            return false;
        }
        let yielding = self.options.yielding.as_ref();
        let class = if waiting.flush_is_next() { None } else { waiting.next_class(yielding) };
        if let Some(class) = class {
            let Some(slot) = waiting.next(class, self.options.starvation_limit, drive) else {
                return false;
            };
            command.slots.push(slot);
            if self.options.merge {
                waiting.gather(class, &mut command.slots);
            }
        } else if waiting.flushes.is_empty() {
            // All yield: the component gets a turn for the next request.
            waiting.awake = false;
            return false;
        } else {
            command.slots.extend(waiting.flushes.drain(..));
        }
        waiting.issue(command);
        if yielding.is_some() {
            waiting.begin_yielding(command);
        }
        true
    }

    /// When to look for a command again since all requests yield; `None` if none does, or a turn is to come already.
    pub fn turn_after_yielding(&self) -> Option<Nanos> {
        self.waiting.borrow_mut().turn_after_yielding(runtime::now())
    }

    /// The requests of a command, in its order; their buffers go to the caller until they are answered.
    pub fn parts(&self, command: &Command) -> Vec<Part> {
        let mut waiting = self.waiting.borrow_mut();
        let parts = command.slots.iter().map(|&slot| {
            let entry = &mut waiting.entries[slot];
            let how = Hints { class: entry.class, ..entry.how.clone() };
            Part { at: entry.at, buffer: std::mem::take(&mut entry.buffer), how, zeroes: entry.zeroes }
        });
        parts.collect()
    }

    /// Waiting and issued requests by class, most urgent first.
    pub fn counts(&self) -> [QueueCounts; 4] {
        self.waiting.borrow().counts()
    }

    /// Completes a command; `took` counts towards the background's share. `results` gives each request's answer, in the
    /// order of the command, from its buffer.
    pub fn complete(
        &self,
        command: &Command,
        took: Nanos,
        results: &mut dyn FnMut(Extent, Buffer) -> Result<Buffer, IoError>,
    ) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.arrived_before = waiting.arrivals;
        waiting.in_device -= 1;
        waiting.flushing.end();
        let share_pct = self.options.background_share_pct;
        match &self.options.yielding {
            Some(options) => waiting.end_yielding(command, took, share_pct, runtime::now(), options),
            None => waiting.credit_background(command.class, took, share_pct),
        }
        for &slot in &command.slots {
            let entry = &mut waiting.entries[slot];
            let result = results(entry.at, std::mem::take(&mut entry.buffer));
            waiting.answer(slot, result, self.device, &self.holder);
        }
    }

    /// Completes a free request; returns its operation and account.
    pub fn complete_free(
        &self,
        slot: Slot,
        results: &mut dyn FnMut(Op, Extent, &Buffer) -> Result<(), IoError>,
    ) -> (Op, Sharer) {
        let mut waiting = self.waiting.borrow_mut();
        let entry = &mut waiting.entries[slot];
        let (op, sectors) = (entry.op, entry.at.sectors);
        let sharer = Sharer { account: entry.how.account, class: entry.how.class, sectors };
        let result = results(op, entry.at, &entry.buffer).map(|()| std::mem::take(&mut entry.buffer));
        waiting.answer(slot, result, self.device, &self.holder);
        (op, sharer)
    }

    /// The request's ticket was promoted.
    pub fn promote(&self, slot: Slot, class: Class) {
        let mut waiting = self.waiting.borrow_mut();
        let waiting = &mut *waiting;
        let Some(entry) = waiting.entries.get_mut(slot) else { return };
        if class >= entry.class {
            return;
        }
        let is_queued = matches!(entry.state, State::Waiting) && entry.op != Op::Flush;
        match &self.free {
            Some(free) if matches!(entry.state, State::Free) => {
                (entry.state, entry.class) = (State::Waiting, class);
                free.cancel(slot, entry.waiter.write);
                waiting.enqueue(slot);
                self.to_be_issued(waiting);
            }
            _ if is_queued => {
                waiting.dequeue(slot);
                waiting.entries[slot].class = class;
                waiting.enqueue(slot);
                self.wake(waiting);
            }
            _ => entry.class = class,
        }
    }

    /// The request's ticket was aborted: it is answered now unless the device has it.
    pub fn abort(&self, slot: Slot) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(entry) = waiting.entries.get(slot) else { return };
        let (op, at, waiter) = (entry.op, entry.at, entry.waiter);
        match (&self.free, &entry.state) {
            (Some(free), State::Free) => free.cancel(slot, waiter.write),
            (_, State::Waiting) => {
                match op {
                    Op::Flush => waiting.flushes.retain(|&flush| flush != slot),
                    _ => waiting.dequeue(slot),
                }
                waiting.unissued -= 1;
            }
            _ => return,
        }
        let error = IoError::new(ErrorKind::Aborted, "queue", Some(at), "aborted by its ticket");
        waiting.answer(slot, Err(error), self.device, &self.holder);
    }
}
