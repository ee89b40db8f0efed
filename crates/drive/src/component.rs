//! A simulated disk: a block device that answers when the drive's arithmetic says it would.
//!
//! It keeps the real bytes that are written to it, and gives zeroes where none were; hollow writes
//! leave no bytes behind. Fault model: none of its own; faults are layers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use seekless_core::device::{LARGEST_REQUEST_SECTORS, io};
use seekless_core::request::TicketHolder;
use seekless_core::runtime::{self, Agent};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Geometry, Hints, IoFuture, Lba, Nanos, Op, SECTOR_BYTES,
    Zeroes,
};

use crate::disk::Drive;
use crate::queue::{Command, Queue, QueueOptions};
use crate::scheduler::{Place, Places};
use crate::spec::Spec;
use crate::work::{Ledger, Work};

/// A simulated disk drive.
pub struct Disk {
    shared: Rc<Shared>,
}

struct Shared {
    queue: Queue,
    drive: RefCell<Drive>,
    ledger: RefCell<Ledger>,
    content: RefCell<Content>,
    command: RefCell<Command>,
    /// What the command under way takes; `None` between commands.
    busy: Cell<Option<Nanos>>,
}

/// Sectors that hold real bytes.
type Content = BTreeMap<u64, [u8; SECTOR_BYTES as usize]>;

impl TicketHolder for Shared {
    fn promoted(&self, id: usize, class: Class) {
        self.queue.promote(id, class);
    }

    fn aborted(&self, id: usize) {
        self.queue.abort(id);
    }
}

impl Places for Shared {
    fn place(&self, lba: Lba) -> Place {
        self.drive.borrow().place(lba)
    }
}

impl Disk {
    /// A disk of this kind, at rest; `device` is its number in the event log.
    pub fn new(device: u32, spec: &Spec, options: QueueOptions) -> Disk {
        let shared = Rc::new_cyclic(|me: &Weak<Shared>| Shared {
            queue: Queue::new(device, options, me.clone(), me.clone(), me.clone()),
            drive: RefCell::new(Drive::new(spec)),
            ledger: RefCell::default(),
            content: RefCell::default(),
            command: RefCell::default(),
            busy: Cell::new(None),
        });
        Disk { shared }
    }

    /// What was done for an account so far.
    pub fn account(&self, account: Account) -> Work {
        self.shared.ledger.borrow().account(account)
    }

    /// What was done for all.
    pub fn all(&self) -> Work {
        self.shared.ledger.borrow().all()
    }

    async fn ask(
        &self,
        op: Op,
        at: Extent,
        buffer: Buffer,
        how: Hints,
    ) -> Result<(), seekless_core::IoError> {
        self.shared.queue.submit(op, at, buffer, how).await.map(drop)
    }
}

impl Agent for Shared {
    /// Between commands: carries out the next one, and asks for a turn when it is done. At the end
    /// of one: answers, and asks for a turn when its clients have asked for more.
    fn turn(self: Rc<Self>) {
        if let Some(took) = self.busy.take() {
            self.finish(took);
            runtime::turn_when_quiet(self);
        } else if let Some(took) = self.begin() {
            self.busy.set(Some(took));
            runtime::turn_at(runtime::now() + took, self);
        }
    }
}

impl Shared {
    /// Begins the next command, and says what it takes.
    fn begin(&self) -> Option<Nanos> {
        let mut command = self.command.borrow_mut();
        let (mut drive, now) = (self.drive.borrow_mut(), runtime::now());
        let picked = if self.queue.by_position() {
            self.queue.pick(&mut command, Some(&drive.sight(now)))
        } else {
            self.queue.pick(&mut command, None)
        };
        if !picked {
            return None;
        }
        let took = drive.serve(command.op, command.at, now, command.queued);
        self.ledger.borrow_mut().charge(command.op, &took, &command.sharers, command.waiting);
        Some(took.total())
    }

    fn finish(&self, took: Nanos) {
        let command = self.command.borrow();
        let mut content = self.content.borrow_mut();
        self.queue.complete(&command, took, &mut |at, buffer| {
            match command.op {
                Op::Read => load(&content, at, buffer),
                Op::Write => store(&mut content, at, buffer),
                Op::WriteZeroes => content.retain(|sector, _| !(at.start.0..at.end().0).contains(sector)),
                Op::Flush | Op::Discard => {}
            }
            Ok(())
        });
    }
}

fn load(content: &Content, at: Extent, into: &Buffer) {
    if into.is_hollow() {
        return;
    }
    for sector in at.start.0..at.end().0 {
        let bytes = content.get(&sector).unwrap_or(&[0; SECTOR_BYTES as usize]);
        into.put(((sector - at.start.0) * SECTOR_BYTES) as usize, bytes);
    }
}

fn store(content: &mut Content, at: Extent, from: &Buffer) {
    if content.is_empty() && from.is_hollow() {
        return;
    }
    for (index, sector) in (at.start.0..at.end().0).enumerate() {
        let part = from.cut(index * SECTOR_BYTES as usize, SECTOR_BYTES as usize);
        let mut bytes = [0; SECTOR_BYTES as usize];
        bytes.copy_from_slice(&part.to_vec());
        if part.is_hollow() {
            content.remove(&sector);
        } else {
            content.insert(sector, bytes);
        }
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        Geometry {
            sectors: self.shared.drive.borrow().layout().sectors(),
            logical_sectors: 1,
            physical_sectors: 1,
            volatile_cache: false,
            rotational: true,
            discard_sectors: 0,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        Box::pin(self.shared.queue.submit(Op::Read, at, into, how))
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.ask(Op::Write, at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(self.ask(Op::Flush, Extent::default(), Buffer::default(), how))
    }

    /// A disk drive of this kind knows no discard: nothing changes, at no cost.
    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            if zeroes.only_if_fast {
                let why = "writing zeroes takes as long as writing";
                return Err(seekless_core::IoError::new(
                    seekless_core::ErrorKind::Unsupported,
                    "disk",
                    Some(at),
                    why,
                ));
            }
            self.ask(Op::WriteZeroes, at, Buffer::default(), how).await
        })
    }

    fn estimate(&self, at: Extent, _how: &Hints) -> Option<Nanos> {
        Some(self.shared.drive.borrow().estimate(at.start, runtime::now(), false))
    }
}

#[cfg(test)]
mod tests;
