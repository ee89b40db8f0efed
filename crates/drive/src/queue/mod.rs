//! The queue of a component: what waits, what comes next, what goes together.
//!
//! Urgent comes before foreground before background before free. While foreground work never ends,
//! background work still gets its guaranteed share of the head's time, in bursts, so that movers
//! end. Within a class the scheduler says what comes next, but a request that has waited longer than
//! the limit goes next whatever it says. Adjacent requests of one kind and class go to the device as
//! one, as a kernel does it. How many commands are in the device is the device's and the options' affair; a
//! flush that the device does not queue goes alone.
//!
//! Where free requests are carried out in the head's waits ([`crate::freeblock`]), reads and writes of that class
//! are never in line: they are left to it, until a ticket promotes them.
//!
//! Invariants: a request is answered exactly once; a waiting one is in exactly one class's line. A
//! client that goes away leaves its request to finish.

mod answer;
mod command;
mod line;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::Waker;

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent, Event};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, Op};

use crate::freeblock::{FreeOptions, Freeblock};
use crate::scheduler::{Place, Places, Policy, Positioning, Slot, Waiter};
use crate::work::Sharer;
use line::{Entry, Line, State};

pub use answer::Answer;
pub use command::Command;

/// How a queue behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Which request comes next.
    pub policy: Policy,
    /// Whether adjacent requests go together.
    pub merge: bool,
    /// The background's guaranteed share of the head's time, 1 to 99 per cent.
    pub background_share_pct: u8,
    /// A request that has waited longer goes next; zero for never.
    pub starvation_limit: Nanos,
    /// At most so many commands in the device at once, which orders them by its own queue: 1 to the depth that
    /// its description gives. `None`: as many as it works on at once, and the scheduler here sees where its
    /// head is, as if this queue were inside of the device.
    pub depth: Option<u32>,
    /// Whether, and how, what is wanted for free is done in the head's waits.
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
            freeblock: None,
        }
    }
}

/// What waits at a component.
pub struct Queue {
    device: u32,
    options: QueueOptions,
    by_position: bool,
    line: RefCell<Line>,
    /// The component: given a turn when requests arrive at rest.
    agent: Weak<dyn Agent>,
    /// The component again: how tickets reach this queue.
    holder: Weak<dyn TicketHolder>,
    /// The component once more: where its sectors are.
    places: Weak<dyn Places>,
    /// Who carries free requests out, if somebody does.
    free: Option<Rc<Freeblock>>,
}

impl Queue {
    /// An empty queue of the component numbered `device` in the event log, which is its agent,
    /// forwards tickets to it, and knows where its sectors are; `queued_flush` says whether that takes a flush
    /// among other commands. Free reads and writes are left to `free`, if there is one.
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
        let line = RefCell::new(Line::new(scheduler, queued_flush));
        Queue { device, options, by_position, line, agent, holder, places, free }
    }

    /// Whether it wants to be told where the head is.
    pub fn by_position(&self) -> bool {
        self.by_position
    }

    /// A request, and its answer to come: the buffer it came with. It is put in line when it is
    /// first polled.
    pub fn submit(&self, op: Op, at: Extent, buffer: Buffer, how: Hints) -> Answer<'_> {
        Answer { queue: self, state: answer::AnswerState::Unsent(op, at, buffer, how) }
    }

    fn enter(&self, op: Op, at: Extent, buffer: Buffer, how: Hints, waker: Waker) -> Slot {
        let mut line = self.line.borrow_mut();
        line.arrivals += 1;
        let arrival = line.arrivals;
        let class = how.effective_class();
        let ticket = how.ticket.clone();
        runtime::event(&Event::Request { device: self.device, id: arrival, op, extent: at, class });
        let place = match self.places.upgrade() {
            Some(places) if self.by_position && op != Op::Flush => places.place(at.start),
            _ => Place::default(),
        };
        let gone_before = line.gone;
        let vacant = line.entries.vacant_entry();
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
            waiter,
            gone_before,
            state,
            waker,
            abandoned: false,
        });
        match free {
            Some(free) => free.request(slot, write, at),
            None if op == Op::Flush => {
                line.flushes.push_back(slot);
                self.to_be_issued(&mut line);
            }
            None => {
                line.waiting[class as usize].add(at.start, waiter);
                self.to_be_issued(&mut line);
            }
        }
        drop(line);
        if let Some(ticket) = ticket {
            ticket.held_by(self.holder.clone(), slot);
            if ticket.is_aborted() {
                self.abort(slot);
            }
        }
        slot
    }

    /// One more request waits to go to the device.
    fn to_be_issued(&self, line: &mut Line) {
        line.unissued += 1;
        if !std::mem::replace(&mut line.awake, true) {
            if let Some(agent) = self.agent.upgrade() {
                runtime::turn_when_quiet(agent);
            }
        }
    }

    /// Describes the next command in `command`; false if there is none for now: the component gets a turn
    /// when there may be, which is when a request comes or, behind a flush, when a command is done.
    /// To be called when it is quiet, with the drive as it is now if `by_position`.
    pub fn pick(&self, command: &mut Command, drive: Option<&dyn Positioning>) -> bool {
        let mut line = self.line.borrow_mut();
        command.slots.clear();
        command.sharers.clear();
        line.awake = line.unissued > 0;
        if !line.awake || line.waits_for_a_flush() {
            return false;
        }
        if line.flush_is_next() {
            command.slots.extend(line.flushes.drain(..));
        } else {
            let class = line.next_class();
            let Some(slot) = line.next(class, self.options.starvation_limit, drive) else { return false };
            command.slots.push(slot);
            if self.options.merge {
                line.gather(class, &mut command.slots);
            }
        }
        line.issue(command);
        true
    }

    /// The command is done: `took` is what the background's share is reckoned with.
    pub fn complete(
        &self,
        command: &Command,
        took: Nanos,
        results: &mut dyn FnMut(Extent, &Buffer) -> Result<(), IoError>,
    ) {
        let mut line = self.line.borrow_mut();
        line.arrived_before = line.arrivals;
        line.in_device -= 1;
        line.flushing.end();
        line.reckon(command.class, took, self.options.background_share_pct);
        for &slot in &command.slots {
            let entry = &mut line.entries[slot];
            let result = results(entry.at, &entry.buffer).map(|()| std::mem::take(&mut entry.buffer));
            line.answer(slot, result, self.device, &self.holder);
        }
    }

    /// A free request is done: whom it was for, what and where.
    pub fn complete_free(
        &self,
        slot: Slot,
        results: &mut dyn FnMut(Op, Extent, &Buffer) -> Result<(), IoError>,
    ) -> (Op, Sharer) {
        let mut line = self.line.borrow_mut();
        let entry = &mut line.entries[slot];
        let (op, sectors) = (entry.op, entry.at.sectors);
        let sharer = Sharer { account: entry.how.account, class: entry.how.class, sectors };
        let result = results(op, entry.at, &entry.buffer).map(|()| std::mem::take(&mut entry.buffer));
        line.answer(slot, result, self.device, &self.holder);
        (op, sharer)
    }

    /// The request's ticket was promoted.
    pub fn promote(&self, slot: Slot, class: Class) {
        let mut line = self.line.borrow_mut();
        let line = &mut *line;
        let Some(entry) = line.entries.get_mut(slot) else { return };
        if class >= entry.class {
            return;
        }
        let (at, waiter, was) = (entry.at, entry.waiter, std::mem::replace(&mut entry.class, class));
        match (&self.free, &entry.state) {
            (Some(free), State::Free) => {
                entry.state = State::Waiting;
                free.withdraw(slot, waiter.write);
                line.waiting[class as usize].add(at.start, waiter);
                self.to_be_issued(line);
            }
            (_, State::Waiting) if entry.op != Op::Flush => {
                line.waiting[was as usize].remove(at.start, &waiter);
                line.waiting[class as usize].add(at.start, waiter);
            }
            _ => {}
        }
    }

    /// The request's ticket was aborted: it is answered now unless the device has it.
    pub fn abort(&self, slot: Slot) {
        let mut line = self.line.borrow_mut();
        let Some(entry) = line.entries.get(slot) else { return };
        let (at, class, waiter) = (entry.at, entry.class, entry.waiter);
        match (&self.free, &entry.state) {
            (Some(free), State::Free) => free.withdraw(slot, waiter.write),
            (_, State::Waiting) => {
                line.waiting[class as usize].remove(at.start, &waiter);
                line.flushes.retain(|&flush| flush != slot);
                line.unissued -= 1;
            }
            _ => return,
        }
        let error = IoError::new(ErrorKind::Aborted, "queue", Some(at), "withdrawn by its ticket");
        line.answer(slot, Err(error), self.device, &self.holder);
    }
}
