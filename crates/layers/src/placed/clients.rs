//! Requests of clients: what of them counts as accesses, and when they pause.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use seekless_core::runtime::now;
use seekless_core::{Account, Class, Extent, Hints, Lba, Nanos, Readiness};

/// Streams of requests that are known at a time.
const STREAMS: usize = 32;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// One of a client that costs positioning.
    Counts,
    /// One that is so large that positioning counts little, or is not of a client.
    Not,
    /// One that goes on where a recent one ended.
    GoesOn,
}

/// What is known of them.
pub struct Clients {
    /// Time without requests before something is moved; 0 to move beside them, `None` to move only when asked.
    idle: Option<Nanos>,
    /// Requests of this many bytes and more are no accesses.
    sequential: u64,
    /// Where recent requests ended, if those that go on there are no accesses either.
    ends: Option<RefCell<VecDeque<Lba>>>,
    /// Requests in flight, the time of the last one's arrival or answer, its account, and their number since units were
    /// moved when asked.
    in_flight: Cell<u64>,
    last: Cell<Nanos>,
    payer: Cell<Account>,
    requests: Cell<u64>,
}

impl Clients {
    /// See the fields of these names.
    pub fn new(idle: Option<Nanos>, sequential: u64, streams: bool) -> Clients {
        Clients {
            idle,
            sequential,
            ends: streams.then(RefCell::default),
            in_flight: Cell::default(),
            last: Cell::new(now()),
            payer: Cell::default(),
            requests: Cell::default(),
        }
    }

    /// Whether something is moved in their pauses.
    pub fn are_watched(&self) -> bool {
        self.idle.is_some()
    }

    /// The account of the last one.
    pub fn payer(&self) -> Account {
        self.payer.get()
    }

    /// Units were moved when asked.
    pub fn moved(&self) {
        self.requests.set(0);
    }

    /// The requests since then; `pays` if moves would help.
    pub fn readiness(&self, pays: bool) -> Readiness {
        Readiness { requests: self.requests.get(), last_request: self.last.get(), pays }
    }

    /// A request arrives.
    pub fn access(&self, at: Extent, how: &Hints) -> Access {
        if how.class > Class::Foreground {
            return Access::Not;
        }
        self.payer.set(how.account);
        self.requests.set(self.requests.get() + 1);
        match (self.goes_on(at), at.bytes() < self.sequential) {
            (true, _) => Access::GoesOn,
            (false, true) => Access::Counts,
            (false, false) => Access::Not,
        }
    }

    /// A request is in flight until the result is dropped.
    pub fn in_flight(&self, how: &Hints) -> InFlight<'_> {
        let counts = how.class <= Class::Foreground;
        self.in_flight.set(self.in_flight.get() + u64::from(counts));
        InFlight { of: self, counts }
    }

    /// Time to wait before something is moved; `None` if that can be done now. If it was `asked` for, always.
    pub fn wait(&self, asked: bool) -> Option<Nanos> {
        let quiet = now().since(self.last.get());
        let idle = self.idle.filter(|idle| !asked && *idle > Nanos::ZERO);
        idle.filter(|idle| self.in_flight.get() > 0 || quiet < *idle)
    }

    /// Whether a request goes on where a recent one ended: it costs no positioning.
    fn goes_on(&self, at: Extent) -> bool {
        let Some(ends) = &self.ends else { return false };
        let mut ends = ends.borrow_mut();
        let before = ends.iter().position(|end| *end == at.start).and_then(|index| ends.remove(index));
        ends.truncate(STREAMS - 1);
        ends.push_front(at.end());
        before.is_some()
    }
}

/// A request in flight.
pub struct InFlight<'a> {
    of: &'a Clients,
    /// Whether it is one of a client.
    pub counts: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.of.in_flight.set(self.of.in_flight.get() - u64::from(self.counts));
        self.of.last.set(now());
    }
}
