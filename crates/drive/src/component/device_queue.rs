//! The queue inside a drive (NCQ): commands accepted and not begun.
//!
//! Ordered by a scheduler of the drive's own, which sees only the oldest few (the window). There is no merging and
//! there are no classes. A flush goes first, but not twice in a row while others wait.

use std::collections::VecDeque;

use seekless_core::{Lba, Nanos, Op};
use slab::Slab;

use crate::queue::Command;
use crate::scheduler::{Moment, Place, Positioning, Scheduler, Slot, Waiter, Waiting};
use crate::spec::QueueSpec;

/// The device queue.
pub struct DeviceQueue {
    spec: QueueSpec,
    scheduler: Box<dyn Scheduler>,
    commands: Slab<(Command, Waiter)>,
    window: Waiting,
    /// Commands younger than the window, by age.
    outside: VecDeque<Slot>,
    flushes: VecDeque<Slot>,
    /// Whether the last command was a flush.
    flushed: bool,
    arrivals: u64,
    /// Arrival number of the youngest command when the last one was done.
    arrived_before: u64,
    head: Lba,
}

impl DeviceQueue {
    /// An empty queue.
    pub fn new(spec: QueueSpec) -> DeviceQueue {
        let scheduler = spec.scheduler.scheduler();
        let window = Waiting::new(&*scheduler);
        DeviceQueue {
            spec,
            scheduler,
            commands: Slab::new(),
            window,
            outside: VecDeque::new(),
            flushes: VecDeque::new(),
            flushed: false,
            arrivals: 0,
            arrived_before: 0,
            head: Lba(0),
        }
    }

    /// Whether its scheduler depends on the head's position.
    pub fn by_position(&self) -> bool {
        self.scheduler.by_position()
    }

    /// Number of waiting commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Adds a command whose first sector is at `place`.
    pub fn put(&mut self, command: Command, place: Place, now: Nanos) {
        self.arrivals += 1;
        let vacant = self.commands.vacant_entry();
        let slot = vacant.key();
        let write = matches!(command.op, Op::Write | Op::WriteZeroes);
        let waiter = Waiter { slot, arrival: self.arrivals, since: now, write, place };
        let flush = command.op == Op::Flush;
        vacant.insert((command, waiter));
        if flush {
            self.flushes.push_back(slot);
        } else {
            self.outside.push_back(slot);
        }
        self.fill();
    }

    /// Fills the window with the oldest commands outside of it.
    fn fill(&mut self) {
        while self.window.len() < self.spec.window() as usize {
            let Some(slot) = self.outside.pop_front() else { return };
            let (command, waiter) = &self.commands[slot];
            self.window.add(command.at.start, *waiter);
        }
    }

    /// A command is done: the commands here now were queued during it.
    pub fn done(&mut self) {
        self.arrived_before = self.arrivals;
    }

    /// Takes the next command, and marks whether it arrived while the one before was served.
    pub fn take(&mut self, now: Nanos, drive: Option<&dyn Positioning>) -> Option<Command> {
        let others_turn = self.flushed && !self.window.is_empty();
        let slot = match self.flushes.front() {
            Some(&slot) if !others_turn => slot,
            _ => self.next(now, drive)?,
        };
        let (mut command, waiter) = self.commands.remove(slot);
        self.flushed = command.op == Op::Flush;
        if self.flushed {
            self.flushes.pop_front();
        } else {
            self.window.remove(command.at.start, &waiter);
            self.head = command.at.end();
            self.fill();
        }
        command.queued = waiter.arrival <= self.arrived_before;
        Some(command)
    }

    fn next(&mut self, now: Nanos, drive: Option<&dyn Positioning>) -> Option<Slot> {
        let oldest = self.window.oldest()?;
        let limit = self.spec.starvation_limit();
        if limit > Nanos::ZERO && now.since(oldest.since) > limit {
            return Some(oldest.slot);
        }
        let moment = Moment { now, head: self.head, arrived_before: self.arrived_before, drive };
        self.scheduler.next(&self.window, &moment)
    }
}
