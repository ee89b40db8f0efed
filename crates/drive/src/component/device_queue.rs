//! The queue inside a drive (NCQ): commands accepted and not begun.
//!
//! Ordered by a scheduler of the drive's own, within the limits of its description. There is no merging and there are
//! no classes. A flush goes first, but not twice in a row while others wait.

use std::collections::VecDeque;

use seekless_core::{Lba, Nanos, Op};
use slab::Slab;

use crate::queue::Command;
use crate::scheduler::{Moment, Place, Positioning, Slot, Waiter, Window};
use crate::spec::QueueSpec;

/// The device queue.
pub struct DeviceQueue {
    commands: Slab<(Command, Waiter)>,
    window: Window,
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
        DeviceQueue {
            commands: Slab::new(),
            window: Window::new(spec.scheduler, spec.limits()),
            flushes: VecDeque::new(),
            flushed: false,
            arrivals: 0,
            arrived_before: 0,
            head: Lba(0),
        }
    }

    /// Whether its scheduler depends on the head's position.
    pub fn by_position(&self) -> bool {
        self.window.by_position()
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
        if command.op == Op::Flush {
            self.flushes.push_back(slot);
        } else {
            self.window.add(command.at.start, waiter);
        }
        vacant.insert((command, waiter));
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
            _ => {
                let arrived_before = self.arrived_before;
                self.window.next(&Moment { now, head: self.head, arrived_before, drive })?
            }
        };
        let (mut command, waiter) = self.commands.remove(slot);
        self.flushed = command.op == Op::Flush;
        if self.flushed {
            self.flushes.pop_front();
        } else {
            self.window.remove(command.at.start, &waiter);
            self.head = command.at.end();
        }
        command.queued = waiter.arrival <= self.arrived_before;
        Some(command)
    }
}
