//! Verifying reads (integrity checking in the freeblock paper, section 2.1): every copy is read, and an unreadable one
//! is rewritten from the other.
//!
//! A clean page has two copies, on the origin and in the BOPT. They are first read without locks, or a client could
//! wait for a scrub that waits for free time; pages with errors are read again one by one under their locks. Then each
//! bad block of the one is repaired from the other. Of a dirty page only the BOPT's copy counts: the origin is stale.
//! If both are readable but differ, it is unknown which is right: this is reported, and both stay.
//!
//! Invariants: only data of the other side is written, under the lock of its page and while that is clean, so no newer
//! write is overwritten. Repairs are durable: the copy could be dropped before that of the origin is, and that of a
//! copy counts alone once its page is marked dirty. Requests of others are not profiled: a scrub is not part of the
//! workload.
//!
//! Faults: a failed repair leaves the readable side. If that is the copy, it counts as dirty from then on, so that it
//! is not dropped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use futures_util::future::join;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, Lba, Limits, Mode, PAGE_SECTORS,
    SECTOR_BYTES, Ticket, mutant,
};

use super::pace::{Pace, Throttle};
use super::{Borg, did};
use crate::destage;
use crate::join::join_all;

/// Sectors that the command reads together: 64 KiB.
const AT_ONCE: u64 = 128;

/// Results of verifying reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verified {
    /// Blocks of the origin repaired.
    pub origin_repaired: u64,
    /// Blocks of copies repaired.
    pub copies_repaired: u64,
    /// Blocks that could not be repaired.
    pub unrepaired: u64,
    /// Blocks whose origin and copy differ.
    pub differing: u64,
    /// Requests of at most a page that failed without a source for a repair.
    pub unreadable: u64,
}

/// Contiguous sectors in the same state.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: Extent,
    /// Start of the copy.
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

    /// A sub-extent.
    fn cut(&self, at: Extent) -> Part {
        let copy = self.copy.map(|start| start + (at.start.0 - self.at.start.0));
        Part { at, copy, ..*self }
    }
}

/// State of the verifier.
pub(super) struct Verifier {
    /// Limits the memory used to compare origin and copies: the largest request, twice.
    comparing: Limits,
    found: Cell<Verified>,
    /// Pages that are compared and repaired under their locks.
    settling: RefCell<BTreeSet<u64>>,
}

/// A page that is compared and repaired under its lock.
struct Settling<'a>(&'a Verifier, u64);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.settling.borrow_mut().remove(&self.1);
    }
}

impl Verifier {
    /// Without results.
    pub fn new() -> Verifier {
        let comparing = Limits::new(LARGEST_REQUEST_SECTORS * SECTOR_BYTES, u64::MAX);
        Verifier { comparing, found: Cell::default(), settling: RefCell::default() }
    }

    /// Whether some of these pages are being compared and repaired under their locks.
    pub fn is_settling(&self, at: Extent) -> bool {
        self.settling.borrow().range(at.pages()).next().is_some()
    }

    fn settle(&self, page: u64) -> Settling<'_> {
        self.settling.borrow_mut().insert(page);
        Settling(self, page)
    }

    /// Results so far.
    pub fn found(&self) -> Verified {
        self.found.get()
    }

    fn count(&self, change: impl FnOnce(&mut Verified)) {
        let mut found = self.found.get();
        change(&mut found);
        self.found.set(found);
    }
}

/// Whether both are equal; unknown for hollow buffers.
pub(super) fn same(one: &Buffer, other: &Buffer) -> bool {
    one.is_hollow() || other.is_hollow() || one.look(|one| other.look(|other| one == other))
}

impl Borg {
    /// Reads all copies of `at`, and repairs them.
    pub(super) async fn verify(&self, at: Extent, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let parts = self.parts(at);
        let reads = parts.iter().map(|part| {
            let piece = into.cut_sectors(part.at.start.0 - at.start.0, part.at.sectors);
            self.verify_part(part, piece, &how)
        });
        // All of them, even if one fails: others may need repair.
        join_all(reads).await.into_iter().collect::<Result<Vec<()>, _>>().map(|_| into)
    }

    /// Verifies all pages that have a copy, in the background; ends early when the layer stops or is detached.
    pub(super) async fn verify_copies(&self, how: Hints) -> Result<(), IoError> {
        let (pace, how) =
            (Pace::new(self, Throttle::Throttled), Hints { class: Class::Background, verify: true, ..how });
        let sectors = self.origin.geometry().sectors;
        let strands = destage::strands(self.store.pages_where(|_| true).into_iter());
        for at in strands.into_iter().flat_map(|strand| strand.split(AT_ONCE).collect::<Vec<_>>()) {
            if !pace.may_continue(at.pages().count()).await {
                break;
            }
            let at = Extent { sectors: at.sectors.min(sectors - at.start.0), ..at };
            let read = self.verify(at, Buffer::hollow_sectors(at.sectors), how.clone()).await;
            // Unreadable ones are counted.
            let counted = |error: &IoError| error.is_medium_error() || error.kind() == ErrorKind::Corrupt;
            if let Some(error) = read.err().filter(|error| !counted(error)) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Splits `at` by the present state of its sectors.
    fn parts(&self, at: Extent) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        for at in at.split(PAGE_SECTORS) {
            // Unproven copies do not count.
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

    /// Reads a part; errors are narrowed down by halving, to a page.
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
            edge("a verifying read fails: its pages are compared under their locks");
            let one = self.settle_page(part.at, &piece, how).await;
            self.verifier.count(|found| found.unreadable += u64::from(one.is_err()));
            result = result.and(one);
        }
        result
    }

    /// Reads all copies of a part; false if they differ.
    async fn read_stored(&self, part: &Part, into: &Buffer, how: &Hints) -> Result<bool, IoError> {
        let Part { at, copy, dirty } = *part;
        match copy {
            None => self.origin.read(at, into.clone(), how.clone()).await.map(|_| true),
            Some(start) if dirty => {
                self.store.read_sums(at.pages(), how).await;
                Ok(self.read_dirty(at, start, into, how).await?.is_ok())
            }
            Some(start) => {
                let _room = self.verifier.comparing.admit(how, at.bytes()).await;
                self.read_both(at, start, into, how).await
            }
        }
    }

    /// Reads dirty pages; the inner result says whether they are as they were written.
    async fn read_dirty(
        &self,
        at: Extent,
        start: Lba,
        into: &Buffer,
        how: &Hints,
    ) -> Result<Result<(), IoError>, IoError> {
        let there = Extent { start, ..at };
        let (whole, all) = (at.whole_pages(), self.buffer(there.whole_pages()));
        let known: Vec<_> = whole.pages().map(|page| (page, self.store.known_sum(page))).collect();
        self.bopt.read(there.whole_pages(), all.clone(), how.clone()).await?;
        all.cut_sectors(at.start.0 - whole.start.0, at.sectors).look(|bytes| into.put(0, bytes));
        let pages = all.split(whole, PAGE_SECTORS).map(|(_, piece)| piece);
        let mut read = known.into_iter().zip(pages);
        Ok(read.try_for_each(|((page, known), piece)| self.store.verify_sum(page, known, &piece)))
    }

    /// Whether origin and copy are readable and equal. `into` gets their data.
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

    /// Verifies a page, or part of one, under its lock. Tasks that wait for the lock raise the class.
    async fn settle_page(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let (class, ticket) = (how.class.min(Class::Background), Ticket::new());
        let how = Hints { class, ticket: Some(ticket.clone()), ..how.clone() };
        let locks = !mutant::is("borg: a repair without the lock");
        let held = self.locks.lock(at.whole_pages(), Mode::Exclusive, class, Some(ticket));
        let _held = if locks { Some(held.await) } else { None };
        let _settling = self.verifier.settle(at.start.page());
        let parts = self.parts(at);
        let Some((Part { copy: Some(start), dirty, .. }, [])) = parts.split_first() else {
            return self.origin.read(at, into.clone(), how).await.map(drop);
        };
        if *dirty {
            return self.read_dirty(at, *start, into, &how).await?;
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

    /// Verifies a block of a clean page on the origin and in its copy, and repairs the one from the other.
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
                    did("copy differs from origin", at, there.start.0);
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

    /// Repairs a block of the origin from its copy.
    async fn repair_origin(&self, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
        did("origin repaired", at, at.start.0);
        let durable = Hints { fua: !mutant::is("borg: a repair of the origin without FUA"), ..how.clone() };
        self.store.begin_mapping(how).await?;
        if rewrite(&*self.origin, at, from, &durable).await.is_ok() {
            edge("the origin is repaired from a copy");
            self.verifier.count(|found| found.origin_repaired += 1);
            return Ok(());
        }
        edge("the origin cannot be repaired: its copy counts as newer");
        self.store.begin_writing(how).await?;
        self.verifier.count(|found| found.unrepaired += 1);
        let slot = self.store.lookup(at.start.page()).map(|entry| entry.slot);
        self.store.mark_dirty(slot.as_slice(), how).await
    }

    /// Repairs a block of a copy from the origin. If that fails, reads of it go to the origin as before.
    async fn repair_copy(&self, (at, there): (Extent, Extent), from: &Buffer, how: &Hints) {
        did("copy repaired", at, there.start.0);
        // Durably: the page may count as dirty by now, if another of its blocks could not be repaired on the origin.
        let done = rewrite(&*self.bopt, there, from, &Hints { fua: true, ..how.clone() }).await.is_ok();
        if done {
            edge("a copy is repaired from the origin");
        } else {
            edge("a copy cannot be repaired: the origin can be read");
        }
        self.verifier.count(|found| {
            *(if done { &mut found.copies_repaired } else { &mut found.unrepaired }) += 1;
        });
    }
}

/// Rewrites a block, and reads it back.
async fn rewrite(device: &dyn BlockDevice, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
    device.write(at, from.clone(), how.clone()).await?;
    device.read(at, Buffer::hollow_sectors(at.sectors), how.clone()).await.map(drop)
}
