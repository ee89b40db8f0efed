//! Where commands meet the drive's arithmetic: takes them from the queue in front, lets the drive order those
//! that it holds, begins as many as it works on at once, and answers each when it is done.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent};
use seekless_core::{Buffer, Class, Extent, Hints, IoFuture, Lba, Nanos, Op};

use super::content::Content;
use super::inside::Inside;
use crate::disk::legs::Leg;
use crate::freeblock::{Filled, Foreground, Freeblock};
use crate::machine::{Asked, Machine, Rest};
use crate::power::Meter;
use crate::queue::{Command, Queue, QueueOptions};
use crate::scheduler::{Place, Places, Positioning, Slot};
use crate::work::Ledger;

/// One arm of a drive, or all of a drive that has none, with its queue.
pub struct Station<M> {
    pub queue: Queue,
    pub machine: RefCell<M>,
    pub ledger: RefCell<Ledger>,
    pub meter: RefCell<Meter>,
    content: RefCell<Content>,
    /// Fills the waits of the head, if it is to.
    pub free: Option<Rc<Freeblock>>,
    legs: RefCell<Vec<Leg>>,
    /// Memory for free requests that are done.
    free_done: RefCell<Vec<Slot>>,
    /// When the command before was begun.
    begun: Cell<Nanos>,
    /// Commands in the drive that it has not begun; `None` if it holds none but those at work.
    inside: Option<RefCell<Inside>>,
    at_work: RefCell<Vec<Working>>,
    /// Commands at most in the drive, and at work.
    depth: usize,
    lanes: usize,
    in_drive: Cell<usize>,
    /// When all commands will be done that were begun.
    busy_until: Cell<Nanos>,
    /// Until then the head of an idle drive has something to do, or nothing new.
    idle_until: Cell<Nanos>,
    /// Commands that are not in use: their memory is.
    spare: RefCell<Vec<Command>>,
}

/// A command that the drive works on.
struct Working {
    command: Command,
    took: Nanos,
    done: Nanos,
}

impl<M> TicketHolder for Station<M> {
    fn promoted(&self, id: usize, class: Class) {
        self.queue.promote(id, class);
    }

    fn aborted(&self, id: usize) {
        self.queue.abort(id);
    }
}

impl<M: Machine + 'static> Foreground for Station<M> {
    fn ask(self: Rc<Self>, op: Op, at: Extent, buffer: Buffer) -> IoFuture<'static, Buffer> {
        Box::pin(async move { self.queue.submit(op, at, buffer, Hints::default()).await })
    }

    fn look(self: Rc<Self>) {
        runtime::turn_when_quiet(self);
    }
}

impl<M: Machine> Places for Station<M> {
    fn place(&self, lba: Lba) -> Place {
        self.machine.borrow().place(lba)
    }
}

/// Hands over what was done for free at a time of its own: nothing else may happen then, or the foreground would
/// notice.
struct Delivery<M>(Rc<Station<M>>);

impl<M: Machine + 'static> Agent for Delivery<M> {
    fn turn(self: Rc<Self>) {
        self.0.deliver();
    }
}

impl<M: Machine + 'static> Agent for Station<M> {
    /// Answers a command that is done, and asks for a turn when its clients have asked for more. If none is
    /// done, begins what can be begun.
    fn turn(self: Rc<Self>) {
        self.deliver();
        let done = self.first_done(runtime::now());
        if let Some(working) = done {
            self.finish(working);
            runtime::turn_when_quiet(self);
        } else {
            self.fill();
            self.begin();
            self.visit();
        }
    }
}

impl<M: Machine + 'static> Station<M> {
    /// A drive at rest; `device` is its number in the event log.
    pub fn new(device: u32, mut machine: M, options: QueueOptions) -> Rc<Station<M>> {
        let lanes = machine.lanes() as usize;
        let own = machine.queue();
        let meter = Meter::new(machine.power());
        Rc::new_cyclic(|me: &Weak<Station<M>>| {
            let free = options.freeblock.and_then(|free| machine.freeblock(free, me.clone())).map(Rc::new);
            Station {
                queue: Queue::new(
                    device,
                    options,
                    own.queued_flush,
                    me.clone(),
                    me.clone(),
                    me.clone(),
                    free.clone(),
                ),
                machine: RefCell::new(machine),
                ledger: RefCell::default(),
                meter: RefCell::new(meter),
                content: RefCell::default(),
                free,
                legs: RefCell::default(),
                free_done: RefCell::default(),
                begun: Cell::default(),
                inside: options.depth.map(|_| RefCell::new(Inside::new(own))),
                at_work: RefCell::default(),
                depth: options.depth.map_or(lanes, |depth| depth as usize),
                lanes,
                in_drive: Cell::new(0),
                busy_until: Cell::default(),
                idle_until: Cell::default(),
                spare: RefCell::default(),
            }
        })
    }

    /// Hands over what was done for free.
    fn deliver(&self) {
        let Some(free) = &self.free else { return };
        let mut content = self.content.borrow_mut();
        let mut done = self.free_done.take();
        free.deliver(runtime::now(), &mut done, |at, from| match from {
            Some(from) => {
                content.apply(Op::Write, at, &from);
                Buffer::default()
            }
            None => content.read(at),
        });
        for slot in done.drain(..) {
            let (op, sharer) = self.queue.complete_free(slot, &mut |op, at, buffer| {
                content.apply(op, at, buffer);
                Ok(())
            });
            self.ledger.borrow_mut().charge_free(op, &sharer);
        }
        self.free_done.replace(done);
    }

    /// Sends the head of an idle drive where something is wanted.
    fn visit(self: &Rc<Self>) {
        let now = runtime::now();
        let Some(free) = self.free.as_ref().filter(|free| free.uses_idle_time()) else { return };
        if self.in_drive.get() > 0 || now < self.idle_until.get() {
            return;
        }
        let mut machine = self.machine.borrow_mut();
        let until = match machine.rest(now) {
            Rest::Never => return,
            Rest::NotBefore(then) => then,
            Rest::At(head) => {
                let Some(visit) = free.visit(head, now) else { return };
                machine.move_head(visit.at, visit.landed);
                visit.until
            }
        };
        self.idle_until.set(until);
        runtime::turn_at(until, self.clone());
    }

    /// Takes commands from the queue in front, as many as there is room for.
    fn fill(self: &Rc<Self>) {
        while self.in_drive.get() < self.depth {
            let mut command = self.spare.borrow_mut().pop().unwrap_or_default();
            let picked = self.seen(self.queue.by_position(), |sight| self.queue.pick(&mut command, sight));
            if !picked {
                self.spare.borrow_mut().push(command);
                return;
            }
            self.in_drive.set(self.in_drive.get() + 1);
            match &self.inside {
                None => self.work_on(command),
                Some(inside) => {
                    let mut inside = inside.borrow_mut();
                    let place = if inside.by_position() && command.op != Op::Flush {
                        self.machine.borrow().place(command.at.start)
                    } else {
                        Place::default()
                    };
                    inside.put(command, place, runtime::now());
                }
            }
        }
    }

    /// Begins commands that are in the drive, as many as it works on at once.
    fn begin(self: &Rc<Self>) {
        let Some(inside) = &self.inside else { return };
        while self.at_work.borrow().len() < self.lanes && inside.borrow().len() > 0 {
            let by_position = inside.borrow().by_position();
            let next = self.seen(by_position, |sight| inside.borrow_mut().take(runtime::now(), sight));
            let Some(command) = next else { return };
            self.work_on(command);
        }
    }

    /// The drive as it is, or will be when it is free.
    fn seen<R>(&self, wanted: bool, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        if !wanted {
            return with(None);
        }
        let free = self.busy_until.get().max(runtime::now());
        self.machine.borrow().seen(free, with)
    }

    fn work_on(self: &Rc<Self>, command: Command) {
        let now = runtime::now();
        let (mut machine, mut ledger) = (self.machine.borrow_mut(), self.ledger.borrow_mut());
        let mut meter = self.meter.borrow_mut();
        let woken = meter.wake(now);
        self.idle_until.set(now);
        if let Some(free) = &self.free {
            free.interrupt(now);
        }
        let asked = Asked { op: command.op, at: command.at, fua: command.fua, queued: command.queued };
        let mut took = machine.serve(&asked, now + woken);
        took.overhead += woken;
        let free = self.fill_waits(&mut *machine, command.queued);
        took.rotation += free.late;
        let (aside, meanwhile) = machine.aside();
        let (whole, took) = (took.total(), took.without(meanwhile));
        let (done, meanwhile) = (now + whole, whole.since(took.total()));
        meter.worked(machine.drawn(&took, &aside), done);
        ledger.charge(command.op, &took, &command.sharers, command.waiting);
        ledger.charge_aside(&aside, meanwhile, &command.sharers, command.waiting);
        let alone = done.since(self.busy_until.replace(done.max(self.busy_until.get())).max(now));
        ledger.occupied(alone.since(meanwhile) + aside.total(), &command.sharers);
        if let Some(last) = free.last.filter(|&last| last > done) {
            // What is acknowledged before it is written: the head's wait comes after the answer.
            runtime::turn_at(last, Rc::new(Delivery(self.clone())));
        }
        let working = Working { command, took: whole, done };
        runtime::turn_at(working.done, self.clone());
        self.at_work.borrow_mut().push(working);
    }

    /// Takes along what is wanted while the machine carries out what it was told last.
    fn fill_waits(&self, machine: &mut M, queued: bool) -> Filled {
        let Some(free) = &self.free else { return Filled::default() };
        let (mut legs, now) = (self.legs.borrow_mut(), runtime::now());
        machine.take_legs(&mut legs);
        let begun = self.begun.replace(now);
        free.fill(&mut legs, now, if queued { now.since(begun) } else { Nanos::ZERO })
    }

    /// The command that was done first of those that are, in the order in which they began.
    fn first_done(&self, now: Nanos) -> Option<Working> {
        let mut at_work = self.at_work.borrow_mut();
        let first = at_work.iter().enumerate().min_by_key(|(_, working)| working.done)?.0;
        (at_work[first].done <= now).then(|| at_work.remove(first))
    }

    fn finish(&self, working: Working) {
        let mut content = self.content.borrow_mut();
        self.in_drive.set(self.in_drive.get() - 1);
        if let Some(inside) = &self.inside {
            inside.borrow_mut().done();
        }
        self.queue.complete(&working.command, working.took, &mut |at, buffer| {
            content.apply(working.command.op, at, buffer);
            Ok(())
        });
        self.spare.borrow_mut().push(working.command);
    }
}
