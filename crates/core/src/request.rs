//! What travels with a request besides its data: who asked, how urgent it is, who pays for the
//! head's time, and a ticket that reaches the request wherever it is queued.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

pub use crate::record::NameId;

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Bring data.
    Read,
    /// Take data.
    Write,
    /// Make durable what was written.
    Flush,
    /// Forget data: afterwards it reads as zeroes or as before.
    Discard,
    /// Reads as zeroes afterwards.
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

/// How urgent a request is; lower sorts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Holds the foreground back.
    Urgent,
    /// What clients wait for.
    #[default]
    Foreground,
    /// Work of our own; has a guaranteed share of the head's time, so that movers end.
    Background,
    /// Only where it costs the foreground nothing.
    Free,
}

impl Class {
    /// All of them, most urgent first.
    pub const ALL: [Class; 4] = [Class::Urgent, Class::Foreground, Class::Background, Class::Free];
}

/// A process as the system that was traced numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A stream, volume or client, where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Who asked: from the trace, the guest or the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The process.
    pub process: ProcessId,
    /// Its name at that time.
    pub name: NameId,
    /// The stream, volume or client.
    pub stream: StreamId,
}

/// Who pays for the time a device spends on a request: a phase of an experiment, a tenant.
/// Devices add up what they did per account; merged requests share by their sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(pub u16);

/// What travels with a request besides its data.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// How urgent it is.
    pub class: Class,
    /// Durable when acknowledged, data and map (force unit access).
    pub fua: bool,
    /// Of a read: every copy that there is of its sectors is read, from the medium and out of no cache; one that cannot
    /// be is written again from one that can. It fails only if what any read would be given cannot be read. It may
    /// take long and holds nobody up: it is not ordered with writes that are in flight with it.
    pub verify: bool,
    /// Who asked.
    pub origin: Origin,
    /// Who pays.
    pub account: Account,
    /// Reaches the request wherever it is queued.
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

/// A queue that holds ticketed requests: told when one of them is to change.
pub trait TicketHolder {
    /// The request with this number in this queue is now of class `class`.
    fn promoted(&self, id: usize, class: Class);
    /// The request with this number is no longer wanted: answer it with `Aborted` if not yet issued.
    fn aborted(&self, id: usize);
}

/// Reaches the requests that carry it, wherever they are queued.
#[derive(Clone, Default)]
pub struct Ticket(Rc<TicketState>);

struct TicketState {
    class: Cell<Class>,
    aborted: Cell<bool>,
    holders: RefCell<Vec<(Weak<dyn TicketHolder>, usize)>>,
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

    /// Whoever holds a request with the ticket that was not issued yet answers it with `Aborted`.
    pub fn abort(&self) {
        self.0.aborted.set(true);
        let holders = self.0.holders.borrow().clone();
        for (holder, id) in holders {
            if let Some(holder) = holder.upgrade() {
                holder.aborted(id);
            }
        }
    }

    /// A queue says that it now holds a request with this ticket, under number `id`.
    pub fn held_by(&self, holder: Weak<dyn TicketHolder>, id: usize) {
        self.0.holders.borrow_mut().push((holder, id));
    }

    /// The queue says that request `id` has left it.
    pub fn left(&self, holder: &Weak<dyn TicketHolder>, id: usize) {
        self.0.holders.borrow_mut().retain(|(h, i)| !(h.ptr_eq(holder) && *i == id));
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?}, aborted {})", self.class(), self.is_aborted())
    }
}
