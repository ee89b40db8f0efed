//! A ring that is in use: takes heads as they are made available, has their requests carried out, and answers them.
//!
//! Invariants: a head is answered once. The guest is notified once for all answers of a turn. Fault model: a ring that
//! turns out malformed takes no more heads; what was taken before is answered.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::super::client::poll_once_then_spawn;
use super::request::Request;
use super::session::Session;
use super::socket::Counter;
use crate::vhost::{GuestMemory, Malformed, Ring, Track};

/// See the file's header.
pub struct Queue {
    session: Rc<Session>,
    number: usize,
    kick: Rc<Counter>,
    memory: RefCell<Rc<GuestMemory>>,
    ring: RefCell<Ring>,
    track: RefCell<Option<Track>>,
    /// Requests taken and not answered, and one for the task that takes them.
    in_flight: Cell<u32>,
    stopping: Cell<bool>,
    failed: Cell<bool>,
    /// Whether a task is about to notify the guest.
    notifying: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Queue {
    /// Starts to take heads; the heads in `waiting` were taken before, by another server.
    pub fn start(
        session: &Rc<Session>,
        number: usize,
        kick: Rc<Counter>,
        memory: Rc<GuestMemory>,
        ring: Ring,
        track: Option<Track>,
        waiting: Vec<u16>,
    ) -> Rc<Queue> {
        let queue = Rc::new(Queue {
            session: session.clone(),
            number,
            kick,
            memory: RefCell::new(memory),
            ring: RefCell::new(ring),
            track: RefCell::new(track),
            in_flight: Cell::new(1),
            stopping: Cell::new(false),
            failed: Cell::new(false),
            notifying: Cell::new(false),
            waiting: RefCell::default(),
        });
        if let (true, Some(call)) = (queue.track.borrow().is_some(), &*session.slot(number).call.borrow()) {
            // The server before may have been killed between an answer and its notice.
            call.count();
        }
        let taking = queue.clone();
        spawn(async move {
            if let Err(why) = taking.clone().take_heads(waiting).await {
                taking.fail(&why);
            }
            taking.ended();
        })
        .detach();
        queue
    }

    /// Uses another mapping of the guest's memory from now on.
    pub fn set_memory(&self, memory: &Rc<GuestMemory>) {
        self.memory.replace(memory.clone());
    }

    /// Takes no more heads, and waits until all requests are answered; returns the index of the next head.
    pub async fn stop(&self) -> u16 {
        self.stopping.set(true);
        // Ends the wait for one.
        self.kick.count();
        poll_fn(|context| {
            if self.in_flight.get() == 0 {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.ring.borrow().next_available()
    }

    /// A request has ended, or the task that takes them.
    fn ended(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    async fn take_heads(self: Rc<Self>, waiting: Vec<u16>) -> Result<(), Malformed> {
        for head in waiting {
            self.begin(head, false).await?;
        }
        while !self.stopping.get() {
            self.ring.borrow_mut().wish_for_kicks(&self.memory(), false)?;
            self.take_available().await?;
            let memory = self.memory();
            self.ring.borrow_mut().wish_for_kicks(&memory, true)?;
            let is_empty = !self.ring.borrow().has_available(&memory)?;
            if is_empty && !self.stopping.get() {
                let waited = self.kick.wait(&self.session.server.reactor).await;
                waited.map_err(|error| Malformed::new("kick", error.to_string(), "an eventfd"))?;
            }
        }
        Ok(())
    }

    /// Takes the heads that are available, at most as many as the ring has.
    async fn take_available(self: &Rc<Self>) -> Result<(), Malformed> {
        let most = self.ring.borrow().entries();
        for _ in 0..most {
            let memory = self.memory();
            let head = if self.stopping.get() { None } else { self.ring.borrow_mut().take(&memory)? };
            let Some(head) = head else { return Ok(()) };
            self.begin(head, true).await?;
        }
        // Others have their turn.
        sleep(Nanos(1)).await;
        Ok(())
    }

    fn memory(&self) -> Rc<GuestMemory> {
        self.memory.borrow().clone()
    }

    /// Begins the request of a head, which runs as far as it gets without waiting.
    async fn begin(self: &Rc<Self>, head: u16, is_new: bool) -> Result<(), Malformed> {
        let memory = self.memory();
        if let Some(track) = self.track.borrow_mut().as_mut().filter(|_| is_new) {
            if track.has(head)? {
                let found = format!("head {head}, which is not answered yet");
                return Err(Malformed::new("available ring", found, "another one"));
            }
            track.begin(head)?;
        }
        let chain = self.ring.borrow().chain(&memory, head)?;
        let request = Request::read(memory, head, chain)?;
        let held = self.session.admit(request.bytes()).await;
        self.in_flight.set(self.in_flight.get() + 1);
        let queue = self.clone();
        poll_once_then_spawn(Box::pin(async move {
            let answered = request.carry_out(&queue.session, held).await;
            queue.session.release(held);
            if let Err(why) = answered.and_then(|written| queue.answer(&request, written)) {
                queue.fail(&why);
            }
            queue.ended();
        }))
        .await;
        Ok(())
    }

    /// Puts a request's head into the used ring.
    fn answer(self: &Rc<Self>, request: &Request, written: u32) -> Result<(), Malformed> {
        let (mut ring, mut track) = (self.ring.borrow_mut(), self.track.borrow_mut());
        if let Some(track) = track.as_mut() {
            track.answer(request.head)?;
        }
        ring.put_used(&request.memory, request.head, written)?;
        if let Some(track) = track.as_mut() {
            track.end(request.head, ring.used_index())?;
        }
        if !self.notifying.replace(true) {
            let queue = self.clone();
            // Runs after the other tasks of this turn.
            spawn(async move { queue.notify() }).detach();
        }
        Ok(())
    }

    fn notify(&self) {
        self.notifying.set(false);
        let wanted = self.ring.borrow_mut().wants_notice(&self.memory());
        if let (true, Some(call)) = (wanted.unwrap_or(true), &*self.session.slot(self.number).call.borrow()) {
            call.count();
        }
    }

    /// The ring is malformed: it takes no more heads, and the machine learns of that; the report says why.
    fn fail(&self, why: &Malformed) {
        self.stopping.set(true);
        let (session, number) = (&self.session, self.number);
        let name = &session.export.info.name;
        if self.failed.replace(true) {
            return;
        }
        (session.server.report)(&format!(
            "client {}: virtual machine at {name}: ring {number} is stopped: {why}",
            session.number
        ));
        if let Some(error) = &*session.slot(number).error.borrow() {
            error.count();
        }
    }
}
