//! How background and free requests yield to the foreground: the I/O scheduler of IOLab (section 5.6).
//!
//! A queue in front of a real device cannot take a command back, and a client that reads one block after the other has
//! no request queued when the next one is chosen. So background and free requests also wait while a foreground request
//! is in the device, and for a while after the last one (anticipation), and few of them are in the device at once: a
//! foreground request then finds at most these few before it.
//!
//! Invariants: with a foreground that never pauses, the background still gets its share of the time, one command at a
//! time; free requests wait until it pauses. No command counts twice.

use seekless_core::{Class, Nanos};

use super::Command;
use super::wait_queue::WaitQueue;

/// Options of yielding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yielding {
    /// How long background and free requests wait for the next foreground request after the last one.
    pub anticipation: Nanos,
    /// Most commands of background and free requests in the device.
    pub most: u32,
}

/// State of yielding.
#[derive(Default)]
pub(super) struct Activity {
    /// Urgent and foreground commands in the device, and the others.
    foreground: u32,
    yielding: u32,
    /// Until then the next foreground request is expected.
    expected_until: Nanos,
    /// When the last command was done.
    last_done: Nanos,
    /// When the component gets a turn for requests that yield.
    turn_at: Nanos,
}

impl Activity {
    /// A foreground request has arrived or is done.
    pub(super) fn anticipate(&mut self, class: Class, now: Nanos, options: &Yielding) {
        if class <= Class::Foreground {
            self.expected_until = now + options.anticipation;
        }
    }

    fn count(&mut self, class: Class) -> &mut u32 {
        if class <= Class::Foreground { &mut self.foreground } else { &mut self.yielding }
    }
}

impl WaitQueue {
    /// The class of the next command; `None` if all that wait have to yield.
    pub(super) fn next_class_yielding(&self, now: Nanos, options: &Yielding) -> Option<Class> {
        let waits = |class: Class| !self.waiting[class as usize].is_empty();
        let room = self.activity.yielding < options.most;
        let pauses = self.activity.foreground == 0 && self.activity.expected_until <= now;
        let order = [Class::Urgent, Class::Background, Class::Foreground, Class::Background, Class::Free];
        let may = [true, room && self.bursting, true, room && pauses, room && pauses];
        order.into_iter().zip(may).find(|&(class, may)| may && waits(class)).map(|(class, _)| class)
    }

    /// When requests that yield now can be issued, if no foreground request comes before; `None` if none yields, or the
    /// component looks at the queue before anyway.
    pub(super) fn turn_after_yielding(&mut self, now: Nanos) -> Option<Nanos> {
        let looks = self.awake || self.activity.foreground > 0 || self.activity.turn_at > now;
        if self.unissued == 0 || looks || self.activity.expected_until <= now {
            return None;
        }
        self.activity.turn_at = self.activity.expected_until;
        Some(self.activity.turn_at)
    }

    /// A command is issued.
    pub(super) fn begin_yielding(&mut self, command: &Command) {
        *self.activity.count(command.class) += 1;
    }

    /// A command is done that took this long: the background's share is one of the time, in which several commands may
    /// be in the device, and the foreground may be waited for.
    pub(super) fn end_yielding(
        &mut self,
        command: &Command,
        took: Nanos,
        share_pct: u8,
        now: Nanos,
        options: &Yielding,
    ) {
        *self.activity.count(command.class) -= 1;
        let since = now.since(std::mem::replace(&mut self.activity.last_done, now));
        self.activity.anticipate(command.class, now, options);
        if command.class <= Class::Foreground {
            let took = since.min(took + options.anticipation);
            self.earn_credit(took, share_pct, 1);
        } else if command.class == Class::Background {
            self.spend_credit(since.min(took));
        }
    }
}
