//! A queue in front of any device: the I/O scheduler of a component (IOLab, section 5.6).
//!
//! It is the queue of a simulated drive in front of a device whose time is not computed: a file, a disk, another
//! server. At most `depth` commands are in the device, so that the order of classes, the scheduler and merging have an
//! effect, and background and free requests [yield](Yielding) to the foreground.
//!
//! Invariants: each request is answered once, as the device answered it; a flush goes to the device after all that were
//! answered before it came. Requests that are merged fail one by one: if the command fails, each is repeated alone.
//! Fault model: the device fails, answers late or never; a request that it never answers keeps its place in the device.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::device::io;
use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent};
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, IoFuture, Lba, Op, Zeroes,
};

use crate::queue::{Command, MERGED_SECTORS, Part, Queue, QueueCounts, QueueOptions};
use crate::scheduler::{Place, Places};

/// See the file's header.
pub struct QueuedDevice(Rc<Front>);

/// The queue and the device behind it.
struct Front {
    queue: Queue,
    device: Rc<dyn BlockDevice>,
    depth: u32,
    in_device: Cell<u32>,
    /// Unused commands, kept for their memory.
    spare: RefCell<Vec<Command>>,
}

impl QueuedDevice {
    /// A queue in front of `device`; `number` is that of the queue in the event log. By default all requests go to the
    /// device at once. Its scheduler does not see the device's head.
    pub fn new(number: u32, device: Rc<dyn BlockDevice>, options: QueueOptions) -> QueuedDevice {
        let merge = options.merge && device.geometry().largest_sectors >= MERGED_SECTORS;
        let options = QueueOptions { merge, freeblock: None, ..options };
        QueuedDevice(Rc::new_cyclic(|me: &Weak<Front>| Front {
            queue: Queue::new(number, options, true, me.clone(), me.clone(), me.clone(), None),
            device,
            depth: options.depth.unwrap_or(u32::MAX),
            in_device: Cell::new(0),
            spare: RefCell::default(),
        }))
    }

    /// Commands in the device.
    pub fn in_device(&self) -> u32 {
        self.0.in_device.get()
    }

    /// Requests by class, most urgent first.
    pub fn counts(&self) -> [QueueCounts; 4] {
        self.0.queue.counts()
    }
}

impl TicketHolder for Front {
    fn promoted(&self, id: usize, class: Class) {
        self.queue.promote(id, class);
    }

    fn aborted(&self, id: usize) {
        self.queue.abort(id);
    }
}

impl Places for Front {
    fn place(&self, _: Lba) -> Place {
        Place::default()
    }
}

impl Agent for Front {
    /// Issues commands, as many as there is room for.
    fn turn(self: Rc<Self>) {
        while self.in_device.get() < self.depth {
            let mut command = self.spare.borrow_mut().pop().unwrap_or_default();
            if !self.queue.pick(&mut command, None) {
                self.spare.borrow_mut().push(command);
                if let Some(then) = self.queue.turn_after_yielding() {
                    runtime::turn_at(then, self);
                }
                return;
            }
            self.in_device.set(self.in_device.get() + 1);
            runtime::spawn(self.clone().execute(command)).detach();
        }
    }
}

impl Front {
    /// Executes a command, answers its requests, and asks for a turn once their clients have submitted more.
    async fn execute(self: Rc<Self>, command: Command) {
        let begin = runtime::now();
        let mut parts = self.queue.parts(&command);
        let mut answers = match parts.pop() {
            Some(only) if parts.is_empty() => vec![self.one(command.op, only).await],
            Some(_) if command.op == Op::Flush => self.flush_for_all(&command).await,
            Some(last) => {
                parts.push(last);
                self.merged(&command, parts).await
            }
            None => Vec::new(),
        }
        .into_iter();
        self.in_device.set(self.in_device.get() - 1);
        self.queue.complete(&command, runtime::now().since(begin), &mut |at, _| {
            let missing = || IoError::new(ErrorKind::Gone, "queue", Some(at), "no answer of its own");
            answers.next().unwrap_or_else(|| Err(missing()))
        });
        self.spare.borrow_mut().push(command);
        runtime::turn_when_quiet(self);
    }

    /// One request, as it came.
    async fn one(&self, op: Op, part: Part) -> Result<Buffer, IoError> {
        let Part { at, buffer, how, zeroes } = part;
        let none = |()| Buffer::default();
        match op {
            Op::Read => self.device.read(at, buffer, how).await,
            Op::Write => self.device.write(at, buffer, how).await.map(none),
            Op::Flush => self.device.flush(how).await.map(none),
            Op::Discard => self.device.discard(at, how).await.map(none),
            Op::WriteZeroes => self.device.write_zeroes(at, how, zeroes).await.map(none),
        }
    }

    /// One flush for all that wait for one.
    async fn flush_for_all(&self, command: &Command) -> Vec<Result<Buffer, IoError>> {
        let how = Hints { class: command.class, ..Hints::default() };
        let answer = self.device.flush(how).await.map(|()| Buffer::default());
        vec![answer; command.sharers.len()]
    }

    /// Adjacent reads or writes as one; each alone if that fails, since an error of one is not one of the others.
    async fn merged(&self, command: &Command, parts: Vec<Part>) -> Vec<Result<Buffer, IoError>> {
        let Part { how: first, zeroes, .. } = &parts[0];
        let how = Hints { class: command.class, ticket: None, ..first.clone() };
        let buffer = Buffer::join(parts.iter().map(|part| part.buffer.clone()));
        let all = Part { at: command.at, buffer, how, zeroes: *zeroes };
        match self.one(command.op, all).await {
            Ok(buffer) if command.op == Op::Read => {
                let from = |part: &Part| part.at.start.0 - command.at.start.0;
                let cut = |part: &Part| Ok(buffer.cut_sectors(from(part), part.at.sectors));
                parts.iter().map(cut).collect()
            }
            Ok(_) => parts.iter().map(|_| Ok(Buffer::default())).collect(),
            Err(error) if is_of_the_device(&error) => vec![Err(error); parts.len()],
            Err(_) => {
                let mut answers = Vec::new();
                for part in parts {
                    answers.push(self.one(command.op, part).await);
                }
                answers
            }
        }
    }

    async fn submit(&self, op: Op, at: Extent, buffer: Buffer, how: Hints) -> Result<(), IoError> {
        self.queue.submit(op, at, buffer, how).await.map(drop)
    }
}

/// Whether an error concerns the whole device, so that its requests need not be repeated.
fn is_of_the_device(error: &IoError) -> bool {
    matches!(error.kind(), ErrorKind::Gone | ErrorKind::Timeout | ErrorKind::ReadOnly)
}

impl BlockDevice for QueuedDevice {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.0.device)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        Box::pin(self.0.queue.submit(Op::Read, at, into, how))
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.0.submit(Op::Write, at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(self.0.submit(Op::Flush, Extent::default(), Buffer::default(), how))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.0.submit(Op::Discard, at, Buffer::default(), how))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move { self.0.queue.submit_zeroes(at, how, zeroes).await.map(drop) })
    }
}

#[cfg(test)]
mod tests;
