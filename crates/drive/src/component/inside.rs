//! The queue inside of a drive: commands that it has taken and not begun.
//!
//! It orders them by a scheduler of its own, which sees only the oldest few (the window). Nothing is merged
//! here, and there are no classes: a drive knows neither. A flush goes
//! first, but not twice in a row while others wait.

use std::collections::VecDeque;

use seekless_core::{Lba, Nanos, Op};
use slab::Slab;

use crate::queue::Command;
use crate::scheduler::{Moment, Place, Positioning, Scheduler, Slot, Waiter, Waiting};
use crate::spec::QueueSpec;

/// Commands in the drive that wait.
pub struct Inside {
    spec: QueueSpec,
    scheduler: Box<dyn Scheduler>,
    commands: Slab<(Command, Waiter)>,
    window: Waiting,
    /// Younger than those in the window, by age.
    outside: VecDeque<Slot>,
    flushes: VecDeque<Slot>,
    /// Whether the last command was a flush.
    flushed: bool,
    arrivals: u64,
    /// The youngest command when the last one was done.
    arrived_before: u64,
    head: Lba,
}

impl Inside {
    /// Of a drive with such a queue; nothing is in it.
    pub fn new(spec: QueueSpec) -> Inside {
        let scheduler = spec.scheduler.scheduler();
        let window = Waiting::new(&*scheduler);
        Inside {
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

    /// Whether its scheduler ranks by where the head is.
    pub fn by_position(&self) -> bool {
        self.scheduler.by_position()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// A command comes; its first sector is at `place`.
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

    /// Fills the window with the oldest outside of it.
    fn fill(&mut self) {
        while self.window.len() < self.spec.window() as usize {
            let Some(slot) = self.outside.pop_front() else { return };
            let (command, waiter) = &self.commands[slot];
            self.window.add(command.at.start, *waiter);
        }
    }

    /// A command is done: what is here now was queued behind it.
    pub fn done(&mut self) {
        self.arrived_before = self.arrivals;
    }

    /// The next command, and whether it came while the one before was carried out.
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
