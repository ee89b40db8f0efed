//! Reads that verify (what integrity checking is: freeblock paper, section 2.1): every copy is read, and one that
//! cannot be is written again from the other.
//!
//! A clean page has two, the origin and copy. They are read first and without locks, or a client could wait for a scrub
//! that waits for free time; what that finds wrong is looked at again, page by page, under the page's lock. There it is
//! decided: the origin from the copy, the copy from the origin, block by block. Of a dirty page only the copy counts:
//! the origin is stale. Where both can be read and differ nobody knows which is right: it is told, and both stay.
//!
//! Invariants: nothing is written but what the other side holds, under the lock of its page and while that is clean, so
//! no newer write is overwritten. The origin is repaired durably, or the copy could be dropped before. Requests of
//! others are not profiled: a scrub is no use of a page.
//!
//! Faults: a repair that fails leaves the side that can be read. If that is the copy it counts as newer than the origin
//! from then on, so that nobody drops it.

use std::cell::Cell;

use futures_util::future::{join, join_all};
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Class, Extent, Hints, IoError, Lba, Limits, Mode, PAGE_SECTORS, SECTOR_BYTES,
    Ticket, mutant,
};

use super::pace::{Pace, Throttle};
use super::{Borg, did};
use crate::destage;

/// Sectors that the command reads at once: 64 KiB.
const AT_ONCE: u64 = 128;

/// What reads that verified found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verified {
    /// Blocks of the origin that were written again.
    pub origin_repaired: u64,
    /// Blocks of copies that were.
    pub copies_repaired: u64,
    /// Blocks that could not be.
    pub unrepaired: u64,
    /// Blocks whose origin and copy differ.
    pub differing: u64,
    /// Requests of at most a page that failed: there was nothing to repair them from.
    pub unreadable: u64,
}

/// Sectors that are kept in the same way, contiguous wherever they are.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: Extent,
    /// Where the copy begins.
    copy: Option<Lba>,
    dirty: bool,
}

impl Part {
    fn is_followed_by(&self, with: &Part) -> bool {
        let follows = match (self.copy, with.copy) {
            (None, None) => true,
            (Some(one), Some(other)) => one + self.at.sectors == other,
            _ => false,
        };
        follows && self.dirty == with.dirty
    }

    /// A part of it.
    fn cut(&self, at: Extent) -> Part {
        let copy = self.copy.map(|start| start + (at.start.0 - self.at.start.0));
        Part { at, copy, ..*self }
    }
}

/// What verifying needs and keeps.
pub(super) struct Verifier {
    /// What is held in memory to compare the origin and copies: the largest request at most, twice.
    comparing: Limits,
    found: Cell<Verified>,
}

impl Verifier {
    /// One that has found nothing.
    pub fn new() -> Verifier {
        let comparing = Limits::new(LARGEST_REQUEST_SECTORS * SECTOR_BYTES, u64::MAX);
        Verifier { comparing, found: Cell::default() }
    }

    /// What was found so far.
    pub fn found(&self) -> Verified {
        self.found.get()
    }

    fn count(&self, change: impl FnOnce(&mut Verified)) {
        let mut found = self.found.get();
        change(&mut found);
        self.found.set(found);
    }
}

/// Whether both hold the same; of what has no bytes nobody knows.
pub(super) fn same(one: &Buffer, other: &Buffer) -> bool {
    one.is_hollow() || other.is_hollow() || one.look(|one| other.look(|other| one == other))
}

impl Borg {
    /// Reads all that there is of `at`, and repairs it.
    pub(super) async fn verify(&self, at: Extent, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let parts = self.parts(at);
        let reads = parts.iter().map(|part| {
            let piece = into.cut_sectors(part.at.start.0 - at.start.0, part.at.sectors);
            self.verify_part(part, piece, &how)
        });
        // All of them, also where one fails: the others may have something to repair.
        join_all(reads).await.into_iter().collect::<Result<Vec<()>, _>>().map(|_| into)
    }

    /// The same of all pages that have a copy, in the background; it ends early when the layer is to stop or to go.
    pub(super) async fn verify_copies(&self, how: Hints) -> Result<(), IoError> {
        let (pace, how) =
            (Pace::new(self, Throttle::Throttled), Hints { class: Class::Background, verify: true, ..how });
        let sectors = self.origin.geometry().sectors;
        let strands = destage::strands(self.store.pages_where(|_, _| true).into_iter());
        for at in strands.into_iter().flat_map(|strand| strand.split(AT_ONCE).collect::<Vec<_>>()) {
            if !pace.may_continue(at.pages().count()).await {
                break;
            }
            let at = Extent { sectors: at.sectors.min(sectors - at.start.0), ..at };
            let read = self.verify(at, Buffer::hollow_sectors(at.sectors), how.clone()).await;
            // What cannot be read is counted.
            if let Some(error) = read.err().filter(|error| !error.is_medium_error()) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// How the sectors of `at` are kept now.
    fn parts(&self, at: Extent) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        for at in at.split(PAGE_SECTORS) {
            // What nobody compared with the origin is no copy of it yet.
            let entry = self.store.lookup(at.start.page()).filter(|entry| entry.proven);
            let place = |slot| Lba(self.store.layout().page(slot) * PAGE_SECTORS + at.start.0 % PAGE_SECTORS);
            let copy = entry.map(|entry| place(entry.slot));
            let dirty = entry.is_some_and(|entry| entry.dirty);
            let dirty = dirty && !self.canary.is("repaired from home though newer");
            let part = Part { at, copy, dirty };
            match parts.last_mut() {
                Some(last) if last.is_followed_by(&part) => last.at.sectors += at.sectors,
                _ => parts.push(part),
            }
        }
        parts
    }

    /// Reads a part. What is wrong with it is sought by halves, down to a page.
    async fn verify_part(&self, part: &Part, into: Buffer, how: &Hints) -> Result<(), IoError> {
        let (whole, mut result) = (part.at, Ok(()));
        let mut left = vec![*part];
        while let Some(part) = left.pop() {
            let piece = into.cut_sectors(part.at.start.0 - whole.start.0, part.at.sectors);
            match self.read_stored(&part, &piece, how).await {
                Ok(true) => continue,
                Err(error) if !error.is_medium_error() => return Err(error),
                _ => {}
            }
            if let Some(halves) = part.at.halves(PAGE_SECTORS) {
                left.extend(halves.into_iter().rev().map(|half| part.cut(half)));
                continue;
            }
            edge("a read that verifies finds something: its pages are looked at under their locks");
            let one = self.settle_page(part.at, &piece, how).await;
            self.verifier.count(|found| found.unreadable += u64::from(one.is_err()));
            result = result.and(one);
        }
        result
    }

    /// Reads all that there is of a part; false if that differs.
    async fn read_stored(&self, part: &Part, into: &Buffer, how: &Hints) -> Result<bool, IoError> {
        let Part { at, copy, dirty } = *part;
        match copy {
            None => self.origin.read(at, into.clone(), how.clone()).await.map(|_| true),
            Some(start) if dirty => {
                self.bopt.read(Extent { start, ..at }, into.clone(), how.clone()).await.map(|_| true)
            }
            Some(start) => {
                let _room = self.verifier.comparing.admit(how, at.bytes()).await;
                self.read_both(at, start, into, how).await
            }
        }
    }

    /// Whether the origin and copy can be read and are the same. `into` gets what both hold.
    async fn read_both(&self, at: Extent, start: Lba, into: &Buffer, how: &Hints) -> Result<bool, IoError> {
        let (origin, copy) = (self.buffer(at), self.buffer(at));
        let (one, other) = join(
            self.origin.read(at, origin.clone(), how.clone()),
            self.bopt.read(Extent { start, ..at }, copy.clone(), how.clone()),
        )
        .await;
        one.and(other)?;
        copy.look(|bytes| into.put(0, bytes));
        Ok(same(&origin, &copy))
    }

    /// Looks at a page, or a part of one, while nobody uses it. Who waits for it raises that.
    async fn settle_page(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let (class, ticket) = (how.class.min(Class::Background), Ticket::new());
        let how = Hints { class, ticket: Some(ticket.clone()), ..how.clone() };
        let locks = !mutant::is("borg: a repair without the lock");
        let held = self.locks.lock(at.whole_pages(), Mode::Exclusive, class, Some(ticket));
        let _held = if locks { Some(held.await) } else { None };
        let parts = self.parts(at);
        let Some((Part { copy: Some(start), dirty, .. }, [])) = parts.split_first() else {
            return self.origin.read(at, into.clone(), how).await.map(drop);
        };
        if *dirty {
            return self.bopt.read(Extent { start: *start, ..at }, into.clone(), how).await.map(drop);
        }
        let block = self.origin.geometry().logical_sectors.max(self.bopt.geometry().logical_sectors);
        let mut result = Ok(());
        for (part, piece) in into.split(at, block) {
            let there = Extent { start: *start + (part.start.0 - at.start.0), ..part };
            let one = self.settle_block((part, there), &piece, &how).await;
            result = result.and(one);
        }
        self.invalidate_copies(at);
        result
    }

    /// Looks at a block of a clean page, on the origin and in its copy, and repairs the one from the other.
    async fn settle_block(
        &self,
        (at, there): (Extent, Extent),
        into: &Buffer,
        how: &Hints,
    ) -> Result<(), IoError> {
        let origin = self.origin.read(at, self.buffer(at), how.clone());
        let copy = self.bopt.read(there, self.buffer(at), how.clone());
        let read = match join(origin, copy).await {
            (Ok(origin), Ok(copy)) => {
                if !same(&origin, &copy) {
                    did("copy differs from home", at, there.start.0);
                    self.verifier.count(|found| found.differing += 1);
                }
                copy
            }
            (Err(error), Ok(copy)) if error.is_medium_error() => {
                self.repair_origin(at, &copy, how).await?;
                copy
            }
            (Ok(origin), Err(error)) if error.is_medium_error() => {
                self.repair_copy((at, there), &origin, how).await;
                origin
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        read.look(|bytes| into.put(0, bytes));
        Ok(())
    }

    /// A block of the origin is written again from its copy.
    async fn repair_origin(&self, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
        did("home repaired", at, at.start.0);
        let durable = Hints { fua: !mutant::is("borg: a repair of home without FUA"), ..how.clone() };
        self.store.begin_mapping(how).await?;
        if rewrite(&*self.origin, at, from, &durable).await.is_ok() {
            edge("home is repaired from a copy");
            self.verifier.count(|found| found.origin_repaired += 1);
            return Ok(());
        }
        edge("home cannot be repaired: its copy counts as newer");
        self.store.begin_writing(how).await?;
        self.verifier.count(|found| found.unrepaired += 1);
        let slot = self.store.lookup(at.start.page()).map(|entry| entry.slot);
        self.store.mark_dirty(slot.as_slice(), how).await
    }

    /// A block of a copy is written again from the origin. If it cannot be, reads of it go to the origin as before.
    async fn repair_copy(&self, (at, there): (Extent, Extent), from: &Buffer, how: &Hints) {
        did("copy repaired", at, there.start.0);
        let done = rewrite(&*self.bopt, there, from, how).await.is_ok();
        if done {
            edge("a copy is repaired from home");
        } else {
            edge("a copy cannot be repaired: home can be read");
        }
        self.verifier.count(|found| {
            *(if done { &mut found.copies_repaired } else { &mut found.unrepaired }) += 1;
        });
    }
}

/// Writes, and reads again.
async fn rewrite(device: &dyn BlockDevice, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
    device.write(at, from.clone(), how.clone()).await?;
    device.read(at, Buffer::hollow_sectors(at.sectors), how.clone()).await.map(drop)
}
