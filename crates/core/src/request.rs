//! Attributes of a request besides its data: origin, class, account, and a ticket that reaches the request wherever it
//! is queued.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};

pub use crate::record::NameId;

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes completed writes durable.
    Flush,
    /// Drops data: they then read as zeroes or as before.
    Discard,
    /// Zeroes data.
    WriteZeroes,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write zeroes",
        })
    }
}

/// Urgency of a request; more urgent sorts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Precedes the foreground.
    Urgent,
    /// Requests that clients wait for.
    #[default]
    Foreground,
    /// Internal work; has a guaranteed share of the head's time, so that movers finish.
    Background,
    /// Only where it costs the foreground nothing.
    Free,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 4] = [Class::Urgent, Class::Foreground, Class::Background, Class::Free];
}

/// A process, as numbered by the traced system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A stream, volume or client, where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Origin of a request: from the trace, the guest or the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The process.
    pub process: ProcessId,
    /// Name at that time.
    pub name: NameId,
    /// The stream, volume or client.
    pub stream: StreamId,
}

/// Account charged for the time a device spends on a request: a phase of an experiment, a tenant. Devices add up their
/// work per account; merged requests share it by their sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(pub u16);

/// Attributes of a request besides its data.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Urgency.
    pub class: Class,
    /// Durable when acknowledged, data and map (force unit access).
    pub fua: bool,
    /// For a read: every copy of its sectors is read, from the medium and not from a cache; an unreadable copy is
    /// rewritten from a readable one. It fails only if the data that an ordinary read returns cannot be read. It may
    /// take long and blocks nothing: it is not ordered with writes in flight.
    pub verify: bool,
    /// Origin.
    pub origin: Origin,
    /// Account charged.
    pub account: Account,
    /// Share of the device's time that requests of class `Background` have at least while this one waits, 1 to 99 per
    /// cent, idle time included; 0: as the queue has it.
    pub share_pct: u8,
    /// Ticket, which reaches the request wherever it is queued.
    pub ticket: Option<Ticket>,
}

impl Hints {
    /// The class in force: the request's own, or the more urgent one its ticket was promoted to.
    pub fn effective_class(&self) -> Class {
        match &self.ticket {
            Some(ticket) => self.class.min(ticket.class()),
            None => self.class,
        }
    }
}

/// A queue that holds ticketed requests: notified when one of them changes.
pub trait TicketHolder {
    /// Request `id` of this queue is now of class `class`.
    fn promoted(&self, id: usize, class: Class);
    /// Request `id` is aborted: answer it with `Aborted` if not yet issued.
    fn aborted(&self, id: usize);
}

/// A handle that reaches the requests carrying it, wherever they are queued.
#[derive(Clone, Default)]
pub struct Ticket(Rc<TicketState>);

struct TicketState {
    class: Cell<Class>,
    aborted: Cell<bool>,
    /// In the order in which they were queued, in which most of them leave.
    holders: RefCell<VecDeque<(Weak<dyn TicketHolder>, usize)>>,
}

impl Default for TicketState {
    fn default() -> Self {
        TicketState { class: Cell::new(Class::Free), aborted: Cell::new(false), holders: RefCell::default() }
    }
}

impl Ticket {
    /// A ticket that has not been promoted.
    pub fn new() -> Ticket {
        Ticket::default()
    }

    /// The most urgent class it was promoted to; `Free` if never.
    pub fn class(&self) -> Class {
        self.0.class.get()
    }

    /// Whether it was aborted.
    pub fn is_aborted(&self) -> bool {
        self.0.aborted.get()
    }

    /// Raises everything that carries the ticket to at least `class`. Never lowers.
    pub fn promote(&self, class: Class) {
        if class >= self.0.class.get() {
            return;
        }
        self.0.class.set(class);
        let holders = self.0.holders.borrow().clone();
        for (holder, id) in holders {
            if let Some(holder) = holder.upgrade() {
                holder.promoted(id, class);
            }
        }
    }

    /// Aborts the requests with the ticket: those not issued yet are answered with `Aborted`.
    pub fn abort(&self) {
        self.0.aborted.set(true);
        let holders = self.0.holders.borrow().clone();
        for (holder, id) in holders {
            if let Some(holder) = holder.upgrade() {
                holder.aborted(id);
            }
        }
    }

    /// Registers that a queue holds a request with this ticket, under number `id`.
    pub fn register(&self, holder: Weak<dyn TicketHolder>, id: usize) {
        self.0.holders.borrow_mut().push_back((holder, id));
    }

    /// Registers that request `id` has left the queue.
    pub fn unregister(&self, holder: &Weak<dyn TicketHolder>, id: usize) {
        let mut holders = self.0.holders.borrow_mut();
        if let Some(index) = holders.iter().position(|(h, i)| *i == id && h.ptr_eq(holder)) {
            holders.remove(index);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?}, aborted {})", self.class(), self.is_aborted())
    }
}
