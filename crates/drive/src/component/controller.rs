//! The controller: takes commands from the queue in front, lets the drive order those that it holds, starts as many as
//! it serves at once, and completes each when it is done.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent};
use seekless_core::{Buffer, Class, Extent, Hints, IoFuture, Lba, Nanos, Op};

use super::content::Content;
use super::device_queue::DeviceQueue;
use crate::device_model::{DeviceModel, HeadState, Request};
use crate::disk::trajectory::Step;
use crate::freeblock::{FillResult, Foreground, Freeblock};
use crate::power::Meter;
use crate::queue::{Command, Queue, QueueOptions};
use crate::scheduler::{Place, Places, Positioning, Slot};
use crate::work::Ledger;

/// One arm of a drive, or the whole drive if it has none, with its queue.
pub struct Controller<M> {
    pub queue: Queue,
    pub model: RefCell<M>,
    pub ledger: RefCell<Ledger>,
    pub meter: RefCell<Meter>,
    content: RefCell<Content>,
    /// Freeblock scheduler, if enabled.
    pub free: Option<Rc<Freeblock>>,
    trajectory: RefCell<Vec<Step>>,
    /// Scratch memory for free requests that are done.
    free_done: RefCell<Vec<Slot>>,
    /// When the last command started.
    last_begin: Cell<Nanos>,
    /// Commands in the drive that have not started; `None` if it does not queue commands.
    device_queue: Option<RefCell<DeviceQueue>>,
    serving: RefCell<Vec<InService>>,
    /// Most commands in the drive, and most in service.
    depth: usize,
    channels: usize,
    in_drive: Cell<usize>,
    /// When all started commands will be done.
    busy_until: Cell<Nanos>,
    /// An idle drive's head has no new work until then.
    idle_until: Cell<Nanos>,
    /// Unused commands, kept for their memory.
    spare: RefCell<Vec<Command>>,
}

/// A command in service.
struct InService {
    command: Command,
    took: Nanos,
    done: Nanos,
}

impl<M> TicketHolder for Controller<M> {
    fn promoted(&self, id: usize, class: Class) {
        self.queue.promote(id, class);
    }

    fn aborted(&self, id: usize) {
        self.queue.abort(id);
    }
}

impl<M: DeviceModel + 'static> Foreground for Controller<M> {
    fn submit(self: Rc<Self>, op: Op, at: Extent, buffer: Buffer) -> IoFuture<'static, Buffer> {
        Box::pin(async move { self.queue.submit(op, at, buffer, Hints::default()).await })
    }

    fn wake_for_idle_work(self: Rc<Self>) {
        runtime::turn_when_quiet(self);
    }
}

impl<M: DeviceModel> Places for Controller<M> {
    fn place(&self, lba: Lba) -> Place {
        self.model.borrow().place(lba)
    }
}

/// Delivers free work in an event of its own: nothing else may happen in it, or the foreground's order would change.
struct Delivery<M>(Rc<Controller<M>>);

impl<M: DeviceModel + 'static> Agent for Delivery<M> {
    fn turn(self: Rc<Self>) {
        self.0.deliver();
    }
}

impl<M: DeviceModel + 'static> Agent for Controller<M> {
    /// Completes a command that is done, and asks for another turn once its clients have submitted more. If none is
    /// done, starts what can be started.
    fn turn(self: Rc<Self>) {
        self.deliver();
        let done = self.first_done(runtime::now());
        if let Some(in_service) = done {
            self.finish(in_service);
            runtime::turn_when_quiet(self);
        } else {
            self.fill();
            self.begin();
            self.visit();
        }
    }
}

impl<M: DeviceModel + 'static> Controller<M> {
    /// An idle drive; `device` is its number in the event log.
    pub fn new(device: u32, mut model: M, options: QueueOptions) -> Rc<Controller<M>> {
        let channels = model.channels() as usize;
        let own = model.queue();
        let meter = Meter::new(model.power());
        Rc::new_cyclic(|me: &Weak<Controller<M>>| {
            let free = options.freeblock.and_then(|free| model.freeblock(free, me.clone())).map(Rc::new);
            Controller {
                queue: Queue::new(
                    device,
                    options,
                    own.queued_flush,
                    me.clone(),
                    me.clone(),
                    me.clone(),
                    free.clone(),
                ),
                model: RefCell::new(model),
                ledger: RefCell::default(),
                meter: RefCell::new(meter),
                content: RefCell::default(),
                free,
                trajectory: RefCell::default(),
                free_done: RefCell::default(),
                last_begin: Cell::default(),
                device_queue: options.depth.map(|_| RefCell::new(DeviceQueue::new(own))),
                serving: RefCell::default(),
                depth: options.depth.map_or(channels, |depth| depth as usize),
                channels,
                in_drive: Cell::new(0),
                busy_until: Cell::default(),
                idle_until: Cell::default(),
                spare: RefCell::default(),
            }
        })
    }

    /// Delivers free work that is done.
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

    /// Sends the head of an idle drive to pending free work.
    fn visit(self: &Rc<Self>) {
        let now = runtime::now();
        let Some(free) = self.free.as_ref().filter(|free| free.uses_idle_time()) else { return };
        if self.in_drive.get() > 0 || now < self.idle_until.get() {
            return;
        }
        let mut model = self.model.borrow_mut();
        let until = match model.head_state(now) {
            HeadState::NoHead => return,
            HeadState::BusyUntil(then) => then,
            HeadState::Idle(head) => {
                let Some(visit) = free.visit(head, now) else { return };
                model.move_head(visit.at, visit.landed);
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
            let picked = self.with_estimator(self.queue.by_position(), |estimator| {
                self.queue.pick(&mut command, estimator)
            });
            if !picked {
                self.spare.borrow_mut().push(command);
                if let Some(then) = self.queue.turn_after_yielding() {
                    runtime::turn_at(then, self.clone());
                }
                return;
            }
            self.in_drive.set(self.in_drive.get() + 1);
            match &self.device_queue {
                None => self.serve(command),
                Some(device_queue) => {
                    let mut device_queue = device_queue.borrow_mut();
                    let place = if device_queue.by_position() && command.op != Op::Flush {
                        self.model.borrow().place(command.at.start)
                    } else {
                        Place::default()
                    };
                    device_queue.put(command, place, runtime::now());
                }
            }
        }
    }

    /// Starts commands that are in the drive, as many as it serves at once.
    fn begin(self: &Rc<Self>) {
        let Some(device_queue) = &self.device_queue else { return };
        while self.serving.borrow().len() < self.channels && device_queue.borrow().len() > 0 {
            let by_position = device_queue.borrow().by_position();
            let next = self.with_estimator(by_position, |estimator| {
                device_queue.borrow_mut().take(runtime::now(), estimator)
            });
            let Some(command) = next else { return };
            self.serve(command);
        }
    }

    /// Calls `with` with positioning estimates for the time when the drive is free.
    fn with_estimator<R>(&self, needed: bool, with: impl FnOnce(Option<&dyn Positioning>) -> R) -> R {
        if !needed {
            return with(None);
        }
        let free = self.busy_until.get().max(runtime::now());
        self.model.borrow().with_estimator(free, with)
    }

    /// Time until a command that arrives now would reach `at`, if it were next.
    pub fn estimate(&self, write: bool, at: Lba) -> Option<Nanos> {
        let now = runtime::now();
        let queued = self.in_drive.get() > 0;
        self.with_estimator(true, |estimator| {
            let reach = estimator?.reach(self.place(at), write, queued);
            Some(self.busy_until.get().since(now) + reach.total())
        })
    }

    fn serve(self: &Rc<Self>, command: Command) {
        let now = runtime::now();
        let (mut model, mut ledger) = (self.model.borrow_mut(), self.ledger.borrow_mut());
        let mut meter = self.meter.borrow_mut();
        let woken = meter.wake(now);
        self.idle_until.set(now);
        if let Some(free) = &self.free {
            free.interrupt(now);
        }
        let request = Request { op: command.op, at: command.at, fua: command.fua, queued: command.queued };
        let mut took = model.serve(&request, now + woken);
        took.overhead += woken;
        let free = self.fill_waits(&mut *model, command.queued);
        took.rotation += free.late;
        let (background, overlap) = model.background();
        let (whole, took) = (took.total(), took.without(overlap));
        let (done, overlap) = (now + whole, whole.since(took.total()));
        meter.add_work(model.active_time(&took, &background), done);
        ledger.charge(command.op, &took, &command.sharers, command.waiting);
        ledger.charge_background(&background, overlap, &command.sharers, command.waiting);
        let alone = done.since(self.busy_until.replace(done.max(self.busy_until.get())).max(now));
        ledger.occupied(alone.since(overlap) + background.total(), &command.sharers);
        if let Some(last) = free.last.filter(|&last| last > done) {
            // The write was acknowledged early: the head's rotational wait comes after the answer.
            runtime::turn_at(last, Rc::new(Delivery(self.clone())));
        }
        let in_service = InService { command, took: whole, done };
        runtime::turn_at(in_service.done, self.clone());
        self.serving.borrow_mut().push(in_service);
    }

    /// Fills the rotational waits of the command just served with free work.
    fn fill_waits(&self, model: &mut M, queued: bool) -> FillResult {
        let Some(free) = &self.free else { return FillResult::default() };
        let (mut trajectory, now) = (self.trajectory.borrow_mut(), runtime::now());
        model.take_trajectory(&mut trajectory);
        let last_begin = self.last_begin.replace(now);
        free.fill(&mut trajectory, now, if queued { now.since(last_begin) } else { Nanos::ZERO })
    }

    /// The command in service that was done first, in the order in which they started.
    fn first_done(&self, now: Nanos) -> Option<InService> {
        let mut serving = self.serving.borrow_mut();
        let first = serving.iter().enumerate().min_by_key(|(_, in_service)| in_service.done)?.0;
        (serving[first].done <= now).then(|| serving.remove(first))
    }

    fn finish(&self, in_service: InService) {
        let mut content = self.content.borrow_mut();
        self.in_drive.set(self.in_drive.get() - 1);
        if let Some(device_queue) = &self.device_queue {
            device_queue.borrow_mut().done();
        }
        self.queue.complete(&in_service.command, in_service.took, &mut |at, buffer| {
            content.apply(in_service.command.op, at, &buffer);
            Ok(buffer)
        });
        self.spare.borrow_mut().push(in_service.command);
    }
}
