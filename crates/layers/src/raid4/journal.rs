//! The journal: closes the write hole, also when a member is missing at the start.
//!
//! Before anything is written in place, the new data of a row and its parity are durable here. After a crash they are
//! written again, in order: then all rows are consistent. Records that come together are written with one request.
//!
//! The device begins with a header ([`super::head`]); the rest are two halves, used in turn. Each use is an *epoch*. An
//! epoch begins once all that the half held before is durable in place: its writes have ended, and the members were
//! flushed. Its first record names the epoch before and how many records that has; if the other half has fewer, they
//! are being overwritten, and none of them is needed.
//!
//! Invariants: records become durable in the order of their numbers; a half is overwritten only when everything in it
//! is durable in place. Fault model: a request to the log fails: then the array refuses writes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::runtime::{self, edge};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, mutant,
};

use super::done::Done;
use super::geometry::Layout;
use super::head::{self, Head};
use super::members::Members;
use super::options::LOG;
pub use super::record::Item;
use super::record::{self, Key, MOST};
use crate::canary::Canary;
use crate::durable::region;

/// Pages of the largest record.
const LARGEST: u64 = 1 + MOST as u64;
/// Pages read at once at a start.
const WINDOW: u64 = 4 * LARGEST;

/// The journal.
pub struct Journal {
    /// The header.
    pub head: Rc<Head>,
    identity: u128,
    /// Pages of a half.
    half: Cell<u64>,
    state: RefCell<State>,
    /// Records that wait to be written.
    queue: RefCell<Vec<Waiting>>,
    /// Whether a task writes records.
    is_writing: Cell<bool>,
    /// Records of each half whose blocks are being written in place.
    in_place: [Cell<u64>; 2],
    /// Waits for them.
    ended: RefCell<Rc<Done>>,
    canary: Rc<Canary>,
    /// Bytes written, for the counters.
    pub bytes: Cell<u64>,
}

/// Rows that wait to be logged.
struct Waiting {
    items: Vec<Item>,
    done: Rc<Done>,
    /// The halves that they are in, as bits.
    halves: Rc<Cell<usize>>,
    /// Whether the journal begins anew with them: see [`Journal::renew`].
    renews: bool,
}

/// Records that are written together.
#[derive(Default)]
struct Open {
    records: Vec<Buffer>,
    pages: u64,
}

#[derive(Default)]
struct State {
    which: usize,
    /// Zero before the first record of the session.
    epoch: u64,
    before: (u64, u32),
    number: u32,
    /// Pages of the half that are used.
    used: u64,
}

/// A record whose blocks are being written in place: until it is dropped, its half is not used again.
pub struct Logged {
    journal: Rc<Journal>,
    half: usize,
}

impl Drop for Logged {
    fn drop(&mut self) {
        let count = &self.journal.in_place[self.half];
        count.set(count.get() - 1);
        if count.get() == 0 {
            self.journal.ended.replace(Rc::default()).set(Ok(()));
        }
    }
}

fn refused(kind: ErrorKind, why: String) -> IoError {
    IoError::new(kind, LOG, None, why)
}

impl Journal {
    /// The journal of an array.
    ///
    /// # Errors
    /// Its device is too small.
    pub fn new(
        head: Rc<Head>,
        layout: &Layout,
        identity: u128,
        canary: Rc<Canary>,
    ) -> Result<Rc<Journal>, IoError> {
        let half = Cell::new(Journal::half_of(&*head.device(), layout)?);
        Ok(Rc::new(Journal {
            head,
            identity,
            half,
            state: RefCell::default(),
            queue: RefCell::default(),
            is_writing: Cell::new(false),
            in_place: [Cell::new(0), Cell::new(0)],
            ended: RefCell::default(),
            canary,
            bytes: Cell::new(0),
        }))
    }

    /// Pages of a half of a journal on this device.
    ///
    /// # Errors
    /// It is too small: a half has to have room for all that is written to one group.
    fn half_of(device: &dyn BlockDevice, layout: &Layout) -> Result<u64, IoError> {
        let pages = device.geometry().sectors / PAGE_SECTORS;
        let half = pages.saturating_sub(head::PAGES) / 2;
        let blocks = layout.rows() * layout.members() as u64;
        let full = (MOST / layout.members() * layout.members()) as u64;
        let least = blocks + blocks.div_ceil(full);
        if half < least {
            let least = (head::PAGES + 2 * least) * PAGE_BYTES / 1_024;
            let why =
                format!("found a log of {} KiB, expected {least} KiB at least", pages * PAGE_BYTES / 1_024);
            return Err(refused(ErrorKind::Invalid, why));
        }
        Ok(half)
    }

    /// Makes an empty journal, of an array that was written last in this session ([`Head::create`]).
    pub async fn create(&self, session: u64, records_lost: bool) -> Result<(), IoError> {
        let (device, how) = (self.head.device(), Hints::default());
        for half in 0..2 {
            // A copy of a log of this array may have lain here.
            let at = self.at(half, 0, 1);
            device.write(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
        }
        device.flush(how).await?;
        self.head.create(session, records_lost).await
    }

    /// Another journal of the same array, on this device, which takes this one's place in [`Journal::take`].
    pub fn on(&self, device: Rc<dyn BlockDevice>, layout: &Layout) -> Result<Rc<Journal>, IoError> {
        let head = Rc::new(Head::new(device, self.identity));
        Journal::new(head, layout, self.identity, self.canary.clone())
    }

    /// Goes on in the journal that was made on another device; nothing is written meanwhile.
    pub fn take(&self, other: &Journal) {
        self.head.set_device(other.head.device());
        self.half.set(other.half.get());
        self.state.replace(State::default());
    }

    fn at(&self, which: usize, page: u64, pages: u64) -> Extent {
        Extent::of_pages(head::PAGES + which as u64 * self.half.get() + page, pages)
    }

    /// Makes rows durable here, before they are written in place; the caller holds their group's lock.
    pub async fn append(
        self: &Rc<Self>,
        members: &Rc<Members>,
        items: Vec<Item>,
        how: &Hints,
    ) -> Result<Vec<Logged>, IoError> {
        let halves = Rc::new(Cell::new(0));
        let waiting = Waiting { items, done: Rc::default(), halves: halves.clone(), renews: false };
        self.queued(waiting, members, how).await?;
        let logged = |half: usize| Logged { journal: self.clone(), half };
        Ok((0..2).filter(|half| halves.get() & 1 << half != 0).map(logged).collect())
    }

    /// Begins anew: none of the records so far is replayed any more. For a member that is rebuilt: they may have blocks
    /// of it from before it was out of service, and its newer contents are not in any record. After
    /// [`Members::begin`]; the caller holds no lock of a group.
    pub async fn renew(self: &Rc<Self>, members: &Rc<Members>, how: &Hints) -> Result<(), IoError> {
        let (done, halves) = (Rc::default(), Rc::default());
        self.queued(Waiting { items: Vec::new(), done, halves, renews: true }, members, how).await
    }

    /// Returns when this is written, in its turn.
    async fn queued(
        self: &Rc<Self>,
        waiting: Waiting,
        members: &Rc<Members>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let done = waiting.done.clone();
        self.queue.borrow_mut().push(waiting);
        if !self.is_writing.replace(true) {
            // A task of its own: it may wait for writes in place, and those for their callers.
            let (journal, members) = (self.clone(), members.clone());
            let how = Hints { account: how.account, ..Hints::default() };
            runtime::spawn(async move { journal.write_all(&members, &how).await }).detach();
        }
        done.wait().await
    }

    /// Writes records until none wait.
    async fn write_all(&self, members: &Members, how: &Hints) {
        loop {
            runtime::quiet().await;
            let waiting = self.queue.take();
            if waiting.is_empty() {
                self.is_writing.set(false);
                return;
            }
            if waiting.len() > 1 {
                edge("records that come together are written together");
            }
            self.write_waiting(members, &waiting, how).await;
        }
    }

    /// Writes records that waited.
    async fn write_waiting(&self, members: &Members, waiting: &[Waiting], how: &Hints) {
        let (mut open, mut written) = (Open::default(), 0);
        let mut result = members.check();
        for (number, one) in waiting.iter().enumerate() {
            if one.renews && result.is_ok() {
                result = self.write(std::mem::take(&mut open), how).await;
                // It waits for their writes in place.
                waiting[written..number].iter().for_each(|written| written.done.set(result.clone()));
                written = number;
                if result.is_ok() {
                    result = self.begin_anew(members, how).await;
                }
            }
            for items in rows_of(&one.items) {
                if result.is_ok() && self.is_full(&open, items.len() as u64 + 1) {
                    result = self.write(std::mem::take(&mut open), how).await;
                    // The next epoch may wait for their writes in place.
                    waiting[written..number].iter().for_each(|written| written.done.set(result.clone()));
                    written = number;
                    if result.is_ok() {
                        result = self.begin_epoch(members, how).await;
                    }
                }
                if result.is_ok() {
                    self.add(&mut open, one, &items);
                }
            }
        }
        if result.is_ok() {
            result = self.write(open, how).await;
        }
        if let Err(error) = &result {
            edge("the log fails: the array refuses writes");
            members.refuse_for_log(error);
        }
        waiting[written..].iter().for_each(|waiting| waiting.done.set(result.clone()));
    }

    /// Whether the half has no room for this many pages more.
    fn is_full(&self, open: &Open, pages: u64) -> bool {
        let state = self.state.borrow();
        state.epoch == 0 || state.used + open.pages + pages > self.half.get()
    }

    /// Adds a record to those that are written next.
    fn add(&self, open: &mut Open, waiting: &Waiting, items: &[Item]) {
        let state = &mut *self.state.borrow_mut();
        let half = 1 << state.which;
        if waiting.halves.get() & half == 0 {
            waiting.halves.set(waiting.halves.get() | half);
            self.in_place[state.which].set(self.in_place[state.which].get() + 1);
        }
        let ((before, records), epoch, number) = (state.before, state.epoch, state.number);
        let key = Key { identity: self.identity, epoch, before, records, number };
        state.number += 1;
        open.records.push(record::encode(&key, items));
        open.pages += 1 + items.len() as u64;
    }

    /// Writes records behind those that are there, durably.
    async fn write(&self, Open { records, pages }: Open, how: &Hints) -> Result<(), IoError> {
        if pages == 0 {
            return Ok(());
        }
        let at = {
            let state = self.state.borrow();
            self.at(state.which, state.used, pages)
        };
        let fua = !self.canary.is("missing flush of the journal");
        let how = Hints { fua, ..how.clone() };
        // In order: of records, those before one that is durable are durable, too.
        region::write(&*self.head.device(), at, &Buffer::join(records), &how).await?;
        self.bytes.set(self.bytes.get() + at.bytes());
        self.state.borrow_mut().used += pages;
        Ok(())
    }

    /// Goes on in the other half, when everything in it is durable in place.
    async fn begin_epoch(&self, members: &Members, how: &Hints) -> Result<(), IoError> {
        let other = 1 - self.state.borrow().which;
        self.until_in_place(other).await?;
        members.check()?;
        let first = self.state.borrow().epoch == 0;
        if !first {
            edge("the journal goes on in its other half");
            if !mutant::is("raid4: the journal goes on before its members are flushed") {
                members.flush(&Hints { fua: false, ..how.clone() }).await?;
            }
        }
        let epoch = members.next_generation();
        let state = &mut *self.state.borrow_mut();
        let before = if first { (0, 0) } else { (state.epoch, state.number) };
        *state = State { which: other, epoch, before, number: 0, used: 0 };
        Ok(())
    }

    /// Waits until nothing is written in place any more that is in this half.
    async fn until_in_place(&self, half: usize) -> Result<(), IoError> {
        while self.in_place[half].get() > 0 {
            edge("the journal waits for writes in place");
            let ended = self.ended.borrow().clone();
            ended.wait().await?;
        }
        Ok(())
    }

    /// Begins an epoch that needs none before it, durably, with an empty record.
    async fn begin_anew(&self, members: &Members, how: &Hints) -> Result<(), IoError> {
        for half in 0..2 {
            self.until_in_place(half).await?;
        }
        members.check()?;
        members.flush(&Hints { fua: false, ..how.clone() }).await?;
        edge("the journal begins anew");
        let (epoch, which) = (members.next_generation(), 1 - self.state.borrow().which);
        self.state.replace(State { which, epoch, before: (0, 0), number: 1, used: 0 });
        let key = Key { identity: self.identity, epoch, before: 0, records: 0, number: 0 };
        self.write(Open { records: vec![record::encode(&key, &[])], pages: 1 }, how).await
    }

    /// The records that may not be in place, in order. None of them is needed once they were written there and flushed:
    /// the journal begins anew then. Of a clean array none is needed.
    pub async fn recover(&self, is_clean: bool) -> Result<Vec<Item>, IoError> {
        // A write in place may not depend on a record that is in the cache only.
        if !self.canary.is("unflushed opening") {
            self.head.device().flush(Hints::default()).await?;
        }
        let most = if is_clean { 1 } else { u32::MAX };
        let [first, second] = [self.read_half(0, most).await?, self.read_half(1, most).await?];
        let newest = usize::from(second.0.epoch > first.0.epoch);
        let (older, newer) = if newest == 1 { (first, second) } else { (second, first) };
        // The next epoch overwrites the older half.
        self.state.borrow_mut().which = newest;
        if is_clean {
            return Ok(Vec::new());
        }
        let needed = newer.0.before != 0
            && older.0.epoch == newer.0.before
            && older.1
                >= newer.0.records + u32::from(mutant::is("raid4: the older half needs a record more"));
        let older = if needed {
            edge("records of both halves are replayed");
            older.2
        } else {
            Vec::new()
        };
        if mutant::is("raid4: the halves are replayed in the wrong order") {
            return Ok(newer.2.into_iter().chain(older).collect());
        }
        Ok(older.into_iter().chain(newer.2).collect())
    }

    /// The records of a half, `most` of them: the key of the first one, their number, and their blocks.
    async fn read_half(&self, which: usize, most: u32) -> Result<(Key, u32, Vec<Item>), IoError> {
        let (mut first, mut number, mut items) = (Key::default(), 0_u32, Vec::new());
        let (mut page, mut window, mut bytes) = (0, 0..0, Vec::new());
        while page < self.half.get() && number < most {
            let end = (page + LARGEST).min(self.half.get());
            if end > window.end {
                window = page..(page + WINDOW).min(self.half.get());
                let at = self.at(which, page, window.end - page);
                bytes = region::read(&*self.head.device(), at).await?.to_vec();
            }
            let here = &bytes[((page - window.start) * PAGE_BYTES) as usize..];
            let Some((key, record)) = record::decode(here, self.identity) else { break };
            if key.number != number || (number > 0 && key.epoch != first.epoch) {
                break;
            }
            first = if number == 0 { key } else { first };
            number += 1;
            page += 1 + record.len() as u64;
            items.extend(record);
        }
        Ok((first, number, items))
    }
}

/// Records of a write: whole rows together.
fn rows_of(items: &[Item]) -> Vec<Vec<Item>> {
    let mut rows: std::collections::BTreeMap<u64, Vec<Item>> = std::collections::BTreeMap::new();
    for item in items {
        rows.entry(item.block).or_default().push(item.clone());
    }
    let mut records: Vec<Vec<Item>> = Vec::new();
    for row in rows.into_values() {
        match records.last_mut() {
            Some(record) if record.len() + row.len() <= MOST => record.extend(row),
            _ => records.push(row),
        }
    }
    records
}
