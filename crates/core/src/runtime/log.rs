//! The event log: everything that determines a run, in order. By default only its hash is kept.

use crate::request::{Class, Op};
use crate::units::{Extent, Nanos};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A timer fired.
    Timer {
        /// The timer's sequence number.
        sequence: u64,
    },
    /// A request was submitted to a device.
    Request {
        /// The device.
        device: u32,
        /// The request's number there.
        id: u64,
        /// Operation.
        op: Op,
        /// Extent.
        extent: Extent,
        /// Class.
        class: Class,
    },
    /// A device completed a request.
    Complete {
        /// The device.
        device: u32,
        /// The request's number there.
        id: u64,
        /// Whether it succeeded.
        ok: bool,
    },
    /// An offloaded job's result arrived.
    Offloaded {
        /// Cost.
        cost: Nanos,
    },
    /// A layer did something notable to a page or a range.
    Did {
        /// The layer.
        layer: &'static str,
        /// The action, in the paper's words.
        what: &'static str,
        /// The extent as clients see it.
        extent: Extent,
        /// The sector where it is, or goes to.
        at: u64,
    },
}

/// A listener for events.
pub type Sink = Box<dyn FnMut(Nanos, &Event)>;

/// The log of a run.
#[derive(Default)]
pub struct Log {
    hash: u64,
    events: u64,
    sink: Option<Sink>,
}

impl Log {
    /// Adds an event to the hash, and calls the listener.
    pub fn add(&mut self, at: Nanos, event: &Event) {
        self.events += 1;
        self.mix(at.0);
        match *event {
            Event::Timer { sequence } => self.mix(sequence << 3 | 1),
            Event::Request { device, id, op, extent, class } => {
                self.mix(id << 3 | 2);
                self.mix(u64::from(device) << 32 | (op as u64) << 8 | class as u64);
                self.mix(extent.start.0);
                self.mix(extent.sectors);
            }
            Event::Complete { device, id, ok } => {
                self.mix(id << 3 | 3);
                self.mix(u64::from(device) << 1 | u64::from(ok));
            }
            Event::Offloaded { cost } => self.mix(cost.0 << 3 | 4),
            Event::Did { layer, what, extent, at } => {
                self.mix(at << 3 | 5);
                self.mix_text(layer);
                self.mix_text(what);
                self.mix(extent.start.0);
                self.mix(extent.sectors);
            }
        }
        if let Some(sink) = &mut self.sink {
            sink(at, event);
        }
    }

    /// Multiply and rotate: every bit of every event reaches the hash, at about a nanosecond each.
    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn mix_text(&mut self, text: &str) {
        for eight in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            self.mix(u64::from_le_bytes(word));
        }
    }

    pub fn watch(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    pub fn hash(&self) -> u64 {
        self.hash ^ self.hash >> 29
    }

    pub fn events(&self) -> u64 {
        self.events
    }
}
