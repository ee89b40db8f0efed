//! The queue of a component: what waits, what comes next, what goes together.
//!
//! Urgent comes before foreground before background before free. While foreground work never ends,
//! background work still gets its guaranteed share of the head's time, in bursts, so that movers
//! end. Within a class the scheduler says what comes next, but a request that has waited longer than
//! the limit goes next whatever it says. Adjacent requests of one kind and class go to the device as
//! one, as a kernel does it. One command is in the device at a time.
//!
//! Invariants: a request is answered exactly once; a waiting one is in exactly one class's line. A
//! client that goes away leaves its request to finish.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context, Poll, Waker};

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent, Event};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, IoError, Lba, Nanos, Op};
use slab::Slab;

use crate::scheduler::{Moment, Place, Places, Policy, Positioning, Scheduler, Slot, Waiter, Waiting};
use crate::work::Sharer;

/// The largest command after merging: 1,280 KiB, Linux's limit for disks.
const MERGED_SECTORS: u64 = 2_560;

/// Background work goes in bursts of at least this much head time, so that its share is not eaten by
/// seeks to and fro. What is owed beyond it (much, for a large share) makes a burst longer, and a
/// foreground request waits for its end.
const BURST: i128 = 100_000_000;

/// A request has waited too long only if also so many times as many requests have gone since it came as
/// are in line. Where all wait long because the line is long nobody is passed over: C-LOOK serves a line in
/// two rounds.
const PASSED_OVER: u64 = 4;

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
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            policy: Policy::default(),
            merge: true,
            background_share_pct: 20,
            starvation_limit: Nanos::from_millis(1_000),
        }
    }
}

/// What waits at a component.
pub struct Queue {
    device: u32,
    options: QueueOptions,
    by_position: bool,
    inner: RefCell<Inner>,
    /// The component: given a turn when requests arrive at rest.
    agent: Weak<dyn Agent>,
    /// The component again: how tickets reach this queue.
    holder: Weak<dyn TicketHolder>,
    /// The component once more: where its sectors are.
    places: Weak<dyn Places>,
}

struct Inner {
    scheduler: Box<dyn Scheduler>,
    entries: Slab<Entry>,
    waiting: [Waiting; 4],
    flushes: VecDeque<Slot>,
    arrivals: u64,
    in_line: usize,
    /// Requests that went to the device.
    gone: u64,
    /// The newest request when the last command was done: older ones were queued behind it.
    arrived_before: u64,
    /// Behind the last command.
    head: Lba,
    /// Head time that is owed to the background, in nanoseconds.
    owed: i128,
    bursting: bool,
    /// Whether the component is at work, or will look when it is quiet.
    awake: bool,
}

struct Entry {
    op: Op,
    at: Extent,
    how: Hints,
    /// In force: the request's own or its ticket's.
    class: Class,
    buffer: Buffer,
    waiter: Waiter,
    /// How many requests had gone to the device when it came.
    gone_before: u64,
    state: State,
    waker: Option<Waker>,
    abandoned: bool,
}

enum State {
    Waiting,
    Issued,
    Done(Result<Buffer, IoError>),
}

/// A command: requests that go to the device as one.
#[derive(Debug)]
pub struct Command {
    /// What.
    pub op: Op,
    /// Where, all together.
    pub at: Extent,
    /// The class in force.
    pub class: Class,
    /// Whom it is for, in order of address.
    pub sharers: Vec<Sharer>,
    /// How many foreground requests wait besides.
    pub waiting: usize,
    /// Whether one of its requests was in line while the command before was carried out.
    pub queued: bool,
    slots: Vec<Slot>,
}

impl Default for Command {
    fn default() -> Self {
        Command {
            op: Op::Flush,
            at: Extent::default(),
            class: Class::Foreground,
            sharers: Vec::new(),
            waiting: 0,
            queued: false,
            slots: Vec::new(),
        }
    }
}

impl Queue {
    /// An empty queue of the component numbered `device` in the event log, which is its agent,
    /// forwards tickets to it, and knows where its sectors are.
    pub fn new(
        device: u32,
        options: QueueOptions,
        agent: Weak<dyn Agent>,
        holder: Weak<dyn TicketHolder>,
        places: Weak<dyn Places>,
    ) -> Queue {
        let scheduler = options.policy.scheduler();
        let by_position = scheduler.by_position();
        let inner = RefCell::new(Inner::new(scheduler));
        Queue { device, options, by_position, inner, agent, holder, places }
    }

    /// Whether it wants to be told where the head is.
    pub fn by_position(&self) -> bool {
        self.by_position
    }

    /// A request, and its answer to come: the buffer it came with. It is put in line when it is
    /// first polled.
    pub fn submit(&self, op: Op, at: Extent, buffer: Buffer, how: Hints) -> Answer<'_> {
        Answer { queue: self, state: AnswerState::Unsent(op, at, buffer, how) }
    }

    fn enter(&self, op: Op, at: Extent, buffer: Buffer, how: Hints, waker: Waker) -> Slot {
        let mut inner = self.inner.borrow_mut();
        inner.arrivals += 1;
        let arrival = inner.arrivals;
        let class = how.effective_class();
        let ticket = how.ticket.clone();
        runtime::event(&Event::Request { device: self.device, id: arrival, op, extent: at, class });
        let place = match self.places.upgrade() {
            Some(places) if self.by_position && op != Op::Flush => places.place(at.start),
            _ => Place::default(),
        };
        let gone_before = inner.gone;
        let vacant = inner.entries.vacant_entry();
        let slot = vacant.key();
        let write = matches!(op, Op::Write | Op::WriteZeroes);
        let waiter = Waiter { slot, arrival, since: runtime::now(), write, place };
        let (state, waker) = (State::Waiting, Some(waker));
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
        inner.in_line += 1;
        if op == Op::Flush {
            inner.flushes.push_back(slot);
        } else {
            inner.waiting[class as usize].add(at.start, waiter);
        }
        if !std::mem::replace(&mut inner.awake, true) {
            if let Some(agent) = self.agent.upgrade() {
                runtime::turn_when_quiet(agent);
            }
        }
        drop(inner);
        if let Some(ticket) = ticket {
            ticket.held_by(self.holder.clone(), slot);
            if ticket.is_aborted() {
                self.abort(slot);
            }
        }
        slot
    }

    /// Describes the next command in `command`; false if there is none, and the component may rest.
    /// To be called when it is quiet, with the drive as it is now if `by_position`.
    pub fn pick(&self, command: &mut Command, drive: Option<&dyn Positioning>) -> bool {
        let mut inner = self.inner.borrow_mut();
        command.slots.clear();
        command.sharers.clear();
        inner.awake = inner.in_line > 0;
        if !inner.awake {
            return false;
        }
        if inner.flushes.is_empty() {
            let class = inner.next_class();
            let Some(slot) = inner.next(class, self.options.starvation_limit, drive) else { return false };
            command.slots.push(slot);
            if self.options.merge {
                inner.gather(class, &mut command.slots);
            }
        } else {
            command.slots.extend(inner.flushes.drain(..));
        }
        inner.issue(command);
        true
    }

    /// The command is done: `took` is what the background's share is reckoned with.
    pub fn complete(
        &self,
        command: &Command,
        took: Nanos,
        results: &mut dyn FnMut(Extent, &Buffer) -> Result<(), IoError>,
    ) {
        let mut inner = self.inner.borrow_mut();
        inner.arrived_before = inner.arrivals;
        inner.reckon(command.class, took, self.options.background_share_pct);
        for &slot in &command.slots {
            let entry = &mut inner.entries[slot];
            let result = results(entry.at, &entry.buffer).map(|()| std::mem::take(&mut entry.buffer));
            inner.answer(slot, result, self.device, &self.holder);
        }
    }

    /// The request's ticket was promoted.
    pub fn promote(&self, slot: Slot, class: Class) {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let Some(entry) = inner.entries.get_mut(slot) else { return };
        if class >= entry.class {
            return;
        }
        if matches!(entry.state, State::Waiting) && entry.op != Op::Flush {
            inner.waiting[entry.class as usize].remove(entry.at.start, &entry.waiter);
            inner.waiting[class as usize].add(entry.at.start, entry.waiter);
        }
        entry.class = class;
    }

    /// The request's ticket was aborted: it is answered now unless the device has it.
    pub fn abort(&self, slot: Slot) {
        let mut inner = self.inner.borrow_mut();
        let Some(entry) = inner.entries.get(slot) else { return };
        if !matches!(entry.state, State::Waiting) {
            return;
        }
        let (at, class, waiter) = (entry.at, entry.class, entry.waiter);
        inner.waiting[class as usize].remove(at.start, &waiter);
        inner.flushes.retain(|&flush| flush != slot);
        inner.in_line -= 1;
        let error = IoError::new(ErrorKind::Aborted, "queue", Some(at), "withdrawn by its ticket");
        inner.answer(slot, Err(error), self.device, &self.holder);
    }
}

impl Inner {
    fn new(scheduler: Box<dyn Scheduler>) -> Inner {
        Inner {
            waiting: std::array::from_fn(|_| Waiting::new(&*scheduler)),
            scheduler,
            entries: Slab::new(),
            flushes: VecDeque::new(),
            arrivals: 0,
            in_line: 0,
            gone: 0,
            arrived_before: 0,
            head: Lba(0),
            owed: 0,
            bursting: false,
            awake: false,
        }
    }

    /// The next request of a class.
    fn next(&mut self, class: Class, limit: Nanos, drive: Option<&dyn Positioning>) -> Option<Slot> {
        let (waiting, now) = (&self.waiting[class as usize], runtime::now());
        let oldest = waiting.oldest()?;
        let passed_over =
            self.gone - self.entries[oldest.slot].gone_before > PASSED_OVER * waiting.len() as u64;
        if limit > Nanos::ZERO && passed_over && now.since(oldest.since) > limit {
            return Some(oldest.slot);
        }
        let moment = Moment { now, head: self.head, arrived_before: self.arrived_before, drive };
        self.scheduler.next(waiting, &moment)
    }

    fn next_class(&self) -> Class {
        let waits = |class: Class| !self.waiting[class as usize].is_empty();
        let owed = self.bursting && waits(Class::Background);
        match Class::ALL.into_iter().find(|&class| waits(class)) {
            Some(Class::Foreground) if owed => Class::Background,
            Some(class) => class,
            None => Class::Free,
        }
    }

    fn fits(&self, slot: Slot, like: &Entry, merged: u64) -> bool {
        let entry = &self.entries[slot];
        entry.op == like.op && entry.how.fua == like.how.fua && merged + entry.at.sectors <= MERGED_SECTORS
    }

    /// Adds what is adjacent to the one request in `slots`, behind it and, if the scheduler does not
    /// mind, before it.
    fn gather(&self, class: Class, slots: &mut Vec<Slot>) {
        let like = &self.entries[slots[0]];
        if !matches!(like.op, Op::Read | Op::Write) {
            return;
        }
        let (mut start, mut end) = (like.at.start, like.at.end());
        for (next, slot) in self.waiting[class as usize].from(end) {
            if next != end || !self.fits(slot, like, end.0 - start.0) {
                break;
            }
            end = self.entries[slot].at.end();
            slots.push(slot);
        }
        if self.scheduler.by_angle() {
            return;
        }
        let behind = slots.len();
        for (_, slot) in self.waiting[class as usize].below(start) {
            let entry = &self.entries[slot];
            if entry.at.end() != start || !self.fits(slot, like, end.0 - start.0) {
                break;
            }
            start = entry.at.start;
            slots.push(slot);
        }
        slots[behind..].reverse();
        slots.rotate_left(behind);
    }

    /// Takes the command's requests out of line.
    fn issue(&mut self, command: &mut Command) {
        for &slot in &command.slots {
            let entry = &mut self.entries[slot];
            entry.state = State::Issued;
            let sharer =
                Sharer { account: entry.how.account, class: entry.how.class, sectors: entry.at.sectors };
            command.sharers.push(sharer);
            if entry.op != Op::Flush {
                self.waiting[entry.class as usize].remove(entry.at.start, &entry.waiter);
            }
        }
        self.in_line -= command.slots.len();
        self.gone += command.slots.len() as u64;
        let (first, last) =
            (&self.entries[command.slots[0]], &self.entries[command.slots[command.slots.len() - 1]]);
        command.op = first.op;
        command.class = first.class;
        command.at = Extent { start: first.at.start, sectors: last.at.end().0 - first.at.start.0 };
        command.waiting = self.waiting[..=Class::Foreground as usize].iter().map(Waiting::len).sum();
        command.queued =
            command.slots.iter().any(|&slot| self.entries[slot].waiter.arrival <= self.arrived_before);
        if command.op != Op::Flush {
            self.head = command.at.end();
        }
    }

    /// The background is owed its share of the time that the foreground took while it waited.
    fn reckon(&mut self, class: Class, took: Nanos, share_pct: u8) {
        let took = i128::from(took.0);
        if class <= Class::Foreground && !self.waiting[Class::Background as usize].is_empty() {
            let share = i128::from(share_pct);
            self.owed += took * share / (100 - share);
            self.bursting |= self.owed >= BURST;
        } else if class == Class::Background && !self.waiting[Class::Foreground as usize].is_empty() {
            self.owed -= took;
            self.bursting &= self.owed > 0;
        }
    }

    fn answer(
        &mut self,
        slot: Slot,
        result: Result<Buffer, IoError>,
        device: u32,
        holder: &Weak<dyn TicketHolder>,
    ) {
        let entry = &mut self.entries[slot];
        runtime::event(&Event::Complete { device, id: entry.waiter.arrival, ok: result.is_ok() });
        if let Some(ticket) = entry.how.ticket.take() {
            ticket.left(holder, slot);
        }
        if entry.abandoned {
            self.entries.remove(slot);
            return;
        }
        entry.state = State::Done(result);
        if let Some(waker) = entry.waker.take() {
            waker.wake();
        }
    }
}

/// An answer to come.
pub struct Answer<'a> {
    queue: &'a Queue,
    state: AnswerState,
}

enum AnswerState {
    Unsent(Op, Extent, Buffer, Hints),
    InLine(Slot),
    Taken,
}

impl Future for Answer<'_> {
    type Output = Result<Buffer, IoError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        let slot = match self.state {
            AnswerState::InLine(slot) => slot,
            AnswerState::Taken => return Poll::Pending,
            AnswerState::Unsent(..) => {
                let unsent = std::mem::replace(&mut self.state, AnswerState::Taken);
                if let AnswerState::Unsent(op, at, buffer, how) = unsent {
                    let slot = queue.enter(op, at, buffer, how, context.waker().clone());
                    self.state = AnswerState::InLine(slot);
                }
                return Poll::Pending;
            }
        };
        let mut inner = queue.inner.borrow_mut();
        let entry = &mut inner.entries[slot];
        if let State::Done(result) = &mut entry.state {
            let result = std::mem::replace(result, Ok(Buffer::default()));
            inner.entries.remove(slot);
            self.state = AnswerState::Taken;
            return Poll::Ready(result);
        }
        match &mut entry.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker @ None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let AnswerState::InLine(slot) = self.state else { return };
        let Ok(mut inner) = self.queue.inner.try_borrow_mut() else { return };
        if matches!(inner.entries[slot].state, State::Done(_)) {
            inner.entries.remove(slot);
        } else {
            inner.entries[slot].abandoned = true;
        }
    }
}
