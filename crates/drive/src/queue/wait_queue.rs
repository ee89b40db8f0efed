//! The requests waiting at a component, and which goes next.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::rc::Weak;
use std::task::Waker;

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Event};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Lba, Nanos, Op, Zeroes};
use slab::Slab;

use super::yielding::{Activity, Yielding};
use super::{Command, QueueCounts};
use crate::scheduler::{Moment, Positioning, Scheduler, Slot, Waiter, Waiting};
use crate::work::Sharer;

/// The largest command after merging: 1,280 KiB, Linux's limit for disks.
pub(crate) const MERGED_SECTORS: u64 = 2_560;

/// Background work is served in bursts of at least this much head time, in nanoseconds, so that seeks to and fro do not
/// consume its share. A larger credit (a large share) makes a burst longer, and a foreground request waits for its end.
const BURST: i128 = 100_000_000;

/// The share is one of all time: what the background had while nothing else waited counts, up to this much head time,
/// in nanoseconds. So it takes none from the foreground where pauses are enough.
const LARGEST_DEBT: i128 = 10_000_000_000;

/// The largest share, in per cent: the foreground always has some.
const MOST_SHARE_PCT: u8 = 99;

/// A request starves only if, since its arrival, this many times as many requests were issued as are queued. In a long
/// queue all requests wait long, and that alone is not starvation: C-LOOK serves a queue in two rounds.
const STARVATION_FACTOR: u64 = 4;

pub(super) struct WaitQueue {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) entries: Slab<Entry>,
    pub(super) waiting: [Waiting; 4],
    /// The shares that queued background requests ask for, in per cent, and how many ask for each.
    shares: BTreeMap<u8, usize>,
    pub(super) flushes: VecDeque<Slot>,
    /// Whether the last command was a flush.
    pub(super) flushed: bool,
    pub(super) arrivals: u64,
    pub(super) unissued: usize,
    /// Commands picked and not complete.
    pub(super) in_device: usize,
    pub(super) flushing: Flushing,
    /// Requests issued to the device.
    pub(super) issued: u64,
    /// The newest request when the last command was done: older ones were queued during it.
    pub(super) arrived_before: u64,
    /// One past the last command's last sector.
    pub(super) head: Lba,
    /// Head time that the background is entitled to, in nanoseconds.
    pub(super) background_credit: i128,
    pub(super) bursting: bool,
    /// Whether the component is active, or will look at the queue when it is quiet.
    pub(super) awake: bool,
    pub(super) activity: Activity,
    pub(super) counts: [QueueCounts; 4],
}

/// How a flush is issued.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushing {
    /// Among other commands.
    Among,
    /// When no other command is in the device.
    Alone,
    /// A flush is in the device alone.
    Now,
}

impl Flushing {
    fn begin(&mut self) {
        if *self == Flushing::Alone {
            *self = Flushing::Now;
        }
    }

    /// A command is done: the flush, if one was alone.
    pub(super) fn end(&mut self) {
        if *self == Flushing::Now {
            *self = Flushing::Alone;
        }
    }
}

pub(super) struct Entry {
    pub(super) op: Op,
    pub(super) at: Extent,
    pub(super) how: Hints,
    /// The class in force: the request's own or its ticket's.
    pub(super) class: Class,
    pub(super) buffer: Buffer,
    /// How zeroes may be written.
    pub(super) zeroes: Zeroes,
    pub(super) waiter: Waiter,
    /// Number of requests issued to the device before its arrival.
    pub(super) issued_before: u64,
    pub(super) state: State,
    pub(super) waker: Option<Waker>,
    pub(super) abandoned: bool,
}

impl Entry {
    /// Whether it requires the media: a write that ends there, or a read that comes from there.
    fn forced(&self) -> bool {
        if self.op == Op::Read { self.how.verify } else { self.how.fua }
    }

    /// Whether it counts among [`WaitQueue::shares`] while it waits.
    fn asks_for_a_share(&self) -> bool {
        self.class == Class::Background && self.how.share_pct > 0
    }
}

pub(super) enum State {
    Waiting,
    /// Not queued: the freeblock scheduler serves it.
    Free,
    Issued,
    Done(Result<Buffer, IoError>),
}

impl WaitQueue {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, queued_flush: bool) -> WaitQueue {
        WaitQueue {
            waiting: std::array::from_fn(|_| Waiting::new(&*scheduler)),
            shares: BTreeMap::new(),
            scheduler,
            entries: Slab::new(),
            flushes: VecDeque::new(),
            flushed: false,
            arrivals: 0,
            unissued: 0,
            in_device: 0,
            flushing: if queued_flush { Flushing::Among } else { Flushing::Alone },
            issued: 0,
            arrived_before: 0,
            head: Lba(0),
            background_credit: 0,
            bursting: false,
            awake: false,
            activity: Activity::default(),
            counts: Default::default(),
        }
    }

    /// Whether nothing may be issued because a flush goes alone.
    pub(super) fn waits_for_a_flush(&mut self) -> bool {
        match self.flushing {
            _ if self.in_device == 0 => false,
            Flushing::Among => false,
            Flushing::Alone => !self.flushes.is_empty(),
            Flushing::Now => true,
        }
    }

    /// Whether a flush is next: before all others, but not right after another flush while others wait; otherwise
    /// clients that flush continuously would starve them.
    pub(super) fn flush_is_next(&self) -> bool {
        !self.flushes.is_empty() && (!self.flushed || self.unissued == self.flushes.len())
    }

    /// The next request of a class.
    pub(super) fn next(
        &mut self,
        class: Class,
        limit: Nanos,
        drive: Option<&dyn Positioning>,
    ) -> Option<Slot> {
        let (waiting, now) = (&self.waiting[class as usize], runtime::now());
        let oldest = waiting.oldest()?;
        let overtaken =
            self.issued - self.entries[oldest.slot].issued_before > STARVATION_FACTOR * waiting.len() as u64;
        if limit > Nanos::ZERO && overtaken && now.since(oldest.since) > limit {
            return Some(oldest.slot);
        }
        let moment = Moment { now, head: self.head, arrived_before: self.arrived_before, drive };
        self.scheduler.next(waiting, &moment)
    }

    /// The class of the next command; `None` if none waits, or if those that wait have to yield.
    pub(super) fn next_class(&self, yielding: Option<&Yielding>) -> Option<Class> {
        if let Some(options) = yielding {
            return self.next_class_yielding(runtime::now(), options);
        }
        let waits = |class: Class| !self.waiting[class as usize].is_empty();
        let background_credit = self.bursting && waits(Class::Background);
        match Class::ALL.into_iter().find(|&class| waits(class)) {
            Some(Class::Foreground) if background_credit => Some(Class::Background),
            class => class,
        }
    }

    fn fits(&self, slot: Slot, like: &Entry, merged: u64) -> bool {
        let entry = &self.entries[slot];
        let same = entry.op == like.op && entry.forced() == like.forced();
        same && merged + entry.at.sectors <= MERGED_SECTORS
    }

    /// Adds adjacent requests to the one in `slots`, after it and, if the scheduler allows it, before it.
    pub(super) fn gather(&self, class: Class, slots: &mut Vec<Slot>) {
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

    /// Puts a request among those that wait, in its class.
    pub(super) fn enqueue(&mut self, slot: Slot) {
        let entry = &self.entries[slot];
        self.waiting[entry.class as usize].add(entry.at.start, entry.waiter);
        if entry.asks_for_a_share() {
            *self.shares.entry(entry.how.share_pct).or_default() += 1;
        }
    }

    /// Takes a request out again.
    pub(super) fn dequeue(&mut self, slot: Slot) {
        let entry = &self.entries[slot];
        self.waiting[entry.class as usize].remove(entry.at.start, &entry.waiter);
        if !entry.asks_for_a_share() {
            return;
        }
        if let btree_map::Entry::Occupied(mut asking) = self.shares.entry(entry.how.share_pct) {
            *asking.get_mut() -= 1;
            if *asking.get() == 0 {
                asking.remove();
            }
        }
    }

    /// Removes the command's requests from the queue.
    pub(super) fn issue(&mut self, command: &mut Command) {
        let now = runtime::now();
        for &slot in &command.slots {
            let entry = &mut self.entries[slot];
            entry.state = State::Issued;
            self.counts[entry.class as usize].add(now.since(entry.waiter.since));
            let sharer =
                Sharer { account: entry.how.account, class: entry.how.class, sectors: entry.at.sectors };
            command.sharers.push(sharer);
            if entry.op != Op::Flush {
                self.dequeue(slot);
            }
        }
        self.unissued -= command.slots.len();
        self.issued += command.slots.len() as u64;
        let (first, last) =
            (&self.entries[command.slots[0]], &self.entries[command.slots[command.slots.len() - 1]]);
        command.op = first.op;
        command.class = first.class;
        command.fua = first.forced();
        command.at = Extent { start: first.at.start, sectors: last.at.end().0 - first.at.start.0 };
        command.waiting = self.waiting[..=Class::Foreground as usize].iter().map(Waiting::len).sum();
        command.queued =
            command.slots.iter().any(|&slot| self.entries[slot].waiter.arrival <= self.arrived_before);
        self.in_device += 1;
        self.flushed = command.op == Op::Flush;
        if self.flushed {
            self.flushing.begin();
        } else {
            self.head = command.at.end();
        }
    }

    /// Credits the background with its share of the time that the foreground took while it waited, less what it has
    /// had.
    pub(super) fn credit_background(&mut self, class: Class, took: Nanos, share_pct: u8) {
        if class <= Class::Foreground {
            self.earn_credit(took, share_pct, BURST);
        } else if class == Class::Background {
            self.spend_credit(took);
        }
    }

    /// The foreground took this time: if background requests wait, they have their share of it, from `burst` on: this
    /// one, or the largest that a waiting request asks for.
    pub(super) fn earn_credit(&mut self, took: Nanos, share_pct: u8, burst: i128) {
        if !self.waiting[Class::Background as usize].is_empty() {
            let asked = self.shares.last_key_value().map_or(0, |(share_pct, _)| *share_pct);
            let share = i128::from(asked.max(share_pct).min(MOST_SHARE_PCT));
            self.background_credit += i128::from(took.0) * share / (100 - share);
            self.bursting |= self.background_credit >= burst;
        }
    }

    /// The background took this time of its share.
    pub(super) fn spend_credit(&mut self, took: Nanos) {
        self.background_credit = (self.background_credit - i128::from(took.0)).max(-LARGEST_DEBT);
        self.bursting &= self.background_credit > 0;
    }

    pub(super) fn answer(
        &mut self,
        slot: Slot,
        result: Result<Buffer, IoError>,
        device: u32,
        holder: &Weak<dyn TicketHolder>,
    ) {
        let entry = &mut self.entries[slot];
        runtime::event(&Event::Complete { device, id: entry.waiter.arrival, ok: result.is_ok() });
        if let Some(ticket) = entry.how.ticket.take() {
            ticket.unregister(holder, slot);
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
