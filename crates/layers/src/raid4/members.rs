//! The members of an array: which of them are in service, and what their superblocks record.
//!
//! A member that fails is put out of service, and that is recorded durably on the others before any write that it lacks
//! is answered: so after a crash it is not taken for one that has everything. Without a log that only happens to a
//! member that is gone: rows that are inconsistent after a crash could not be repaired without it, so after any other
//! error the array refuses writes until it is started again. So it does when more members fail than parity makes up
//! for.
//!
//! An event begins once the one before is durable on all members in service: the first one after a start writes that of
//! before again, which may be on some of them only, or in caches. What changes which data they have, beginning and end
//! of writes and of a rebuild, is recorded as two events. So a crash leaves a member in service one event behind at
//! most, and one that was away meanwhile, or is a copy from before, is two behind at least.
//!
//! Generations of writes are reserved in the superblocks, many at a time, and never used twice.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, Hints, IoError, IoFuture, RangeLocks, mutant};

use super::geometry::{Layout, sectors};
use super::head::Head;
use super::journal::Journal;
use super::options::NAME;
use super::sums::{self, Place};
use super::superblock::{State, Superblock};
use crate::arrays::Trouble;
use crate::durable::session;
use crate::join::join_all;

/// Generations that are reserved at a time.
const RESERVED: u64 = 1 << 20;

/// The members, data first, parity last.
pub struct Members {
    devices: RefCell<Vec<Rc<dyn BlockDevice>>>,
    /// Geometry.
    pub layout: Layout,
    /// Seed of checksums.
    pub seed: u32,
    /// The superblock that was written last.
    recorded: Cell<Superblock>,
    /// Whether a member in service may lack that superblock, or have it in a cache only, as at the start.
    unsure: Cell<bool>,
    /// The member out of service.
    out: Cell<Option<usize>>,
    /// Groups of that member which are in service again.
    rebuilt: Cell<u64>,
    /// Those of them that are durable there: after a crash, only they are in service.
    durable: Cell<u64>,
    /// Whether that member is being rebuilt, and gets superblocks too.
    rebuilds: Cell<bool>,
    /// Whether a write was announced since the array was clean.
    session: Cell<bool>,
    /// Next generation.
    generation: Cell<u64>,
    /// The header of the log, if there is one.
    head: Option<Rc<Head>>,
    /// Lock of superblocks.
    turn: RangeLocks,
    failed: RefCell<Option<IoError>>,
    /// Whether writes are refused since the log failed.
    log_fails: Cell<bool>,
    /// Why the member is out of service.
    trouble: Trouble,
    /// Commands to members, of reads and writes of data, parity and checksums.
    pub reads: Cell<u64>,
    /// As `reads`.
    pub writes: Cell<u64>,
}

impl Members {
    /// The members of an array in this state. The member out of service, and how much of it was rebuilt, may be newer
    /// than their superblocks.
    pub fn new(
        devices: Vec<Rc<dyn BlockDevice>>,
        head: Option<Rc<Head>>,
        recorded: Superblock,
        (out, rebuilt): (Option<usize>, u64),
        trouble: Trouble,
    ) -> Members {
        Members {
            devices: RefCell::new(devices),
            layout: recorded.layout,
            seed: sums::seed(recorded.identity),
            recorded: Cell::new(recorded),
            unsure: Cell::new(true),
            out: Cell::new(out),
            rebuilt: Cell::new(rebuilt),
            durable: Cell::new(rebuilt),
            rebuilds: Cell::new(false),
            session: Cell::new(false),
            generation: Cell::new(recorded.generations),
            head,
            turn: RangeLocks::new(),
            failed: RefCell::default(),
            log_fails: Cell::new(false),
            trouble,
            reads: Cell::new(0),
            writes: Cell::new(0),
        }
    }

    /// The superblock that was written last.
    pub fn superblock(&self) -> Superblock {
        self.recorded.get()
    }

    /// The device of a member.
    pub fn device(&self, member: usize) -> Rc<dyn BlockDevice> {
        self.devices.borrow()[member].clone()
    }

    /// Another device for a member that is out of service, which nothing uses.
    pub fn set_device(&self, member: usize, device: Rc<dyn BlockDevice>) {
        self.devices.borrow_mut()[member] = device;
    }

    /// Number of members.
    fn count(&self) -> usize {
        self.layout.members()
    }

    /// The place of a block, for its checksum.
    pub fn place(&self, member: usize, block: u64) -> Place {
        Place { seed: self.seed, member, block }
    }

    /// The member that is out of service.
    pub fn out(&self) -> Option<usize> {
        self.out.get()
    }

    /// Groups of it that were rebuilt.
    pub fn rebuilt(&self) -> u64 {
        self.rebuilt.get()
    }

    /// The member that has nothing of a group.
    pub fn missing(&self, group: u64) -> Option<usize> {
        self.out.get().filter(|_| group >= self.rebuilt.get())
    }

    /// The members that have something of a group.
    pub fn having(&self, group: u64) -> impl Iterator<Item = usize> + use<> {
        let missing = self.missing(group);
        (0..self.count()).filter(move |member| Some(*member) != missing)
    }

    /// The members that have anything, or are being rebuilt.
    fn used(&self) -> impl Iterator<Item = usize> + use<> {
        let idle = self.out.get().filter(|_| !self.rebuilds.get() && self.rebuilt.get() == 0);
        (0..self.count()).filter(move |member| Some(*member) != idle)
    }

    /// Fails if the array refuses writes.
    pub fn check(&self) -> Result<(), IoError> {
        let failed = self.failed.borrow();
        failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// See [`seekless_core::Layer::trouble`].
    pub fn trouble(&self) -> Option<String> {
        let refuses = self.check().err().map(|error| format!("writes are refused: {error}"));
        let all: Vec<String> =
            refuses.into_iter().chain(self.trouble.of_members(self.out.get().into_iter())).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// See [`seekless_core::Layer::on_trouble`].
    pub fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        self.trouble.on(tell);
    }

    fn put_out(&self, member: usize, error: &IoError) {
        self.out.set(Some(member));
        self.trouble.begins(member, error);
    }

    /// Refuses writes from now on, until the log that failed is replaced.
    pub fn refuse_for_log(&self, error: &IoError) -> IoError {
        if self.check().is_ok() {
            self.log_fails.set(true);
        }
        self.refuse_for(error.clone())
    }

    /// Has another log take the place of the journal's; the caller has seen to it that nothing is written in place.
    /// What the old one has is durable there before `commit`.
    pub async fn replace_log(
        &self,
        journal: &Journal,
        other: &Journal,
        commit: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        if self.log_fails.get() {
            self.failed.take();
        }
        self.check()?;
        let replaced = async {
            self.flush(&Hints::default()).await?;
            let _turn = self.take_turn().await;
            other.create(self.superblock().session, journal.head.has_lost_records()).await?;
            commit.await?;
            journal.take(other);
            Ok(())
        };
        let replaced: Result<(), IoError> = replaced.await;
        match &replaced {
            // A write that was waiting may have failed on the old one.
            Ok(()) if self.log_fails.replace(false) => drop(self.failed.take()),
            Err(error) if self.log_fails.get() => drop(self.refuse_for(error.clone())),
            _ => {}
        }
        replaced
    }

    fn refuse_for(&self, error: IoError) -> IoError {
        if let Err(before) = self.check() {
            return before;
        }
        self.trouble.tell(&format!("writes are refused: {error}"));
        self.failed.replace(Some(error.clone()));
        error
    }

    /// Refuses all writes from now on.
    fn refuse_writes(&self, member: usize, error: &IoError) -> IoError {
        let why = match self.out.get() {
            Some(out) => {
                format!("found member {member} failing beside member {out}, expected one at most: {error}")
            }
            None => format!(
                "found a failed write of member {member}, which without a log is repaired when the array is started \
                 again: {error}"
            ),
        };
        self.refuse_for(IoError::new(ErrorKind::Medium, NAME, None, why))
    }

    /// Puts a member out of service that has failed, durably.
    ///
    /// # Errors
    /// The array refuses writes: another member is out of service already, or must not be without a log.
    pub async fn fail(&self, member: usize, error: &IoError) -> Result<(), IoError> {
        match self.out.get() {
            Some(out) if out == member => {
                self.rebuilds.set(false);
                self.forget_rebuilt();
            }
            None if self.superblock().has_log || error.kind() == ErrorKind::Gone => {
                edge("a member fails: it is out of service");
                self.put_out(member, error);
                self.forget_rebuilt();
            }
            _ => {
                edge("a member fails that the array cannot do without");
                return Err(self.refuse_writes(member, error));
            }
        }
        self.record_failures().await
    }

    /// Returns when it is recorded which member is out of service.
    pub async fn record_failures(&self) -> Result<(), IoError> {
        if mutant::is("raid4: a failed member is not told of") {
            return Ok(());
        }
        let recorded = self.superblock();
        if recorded.out == self.out.get() && recorded.rebuilt <= self.durable.get() && self.turn.is_empty() {
            return Ok(());
        }
        let _turn = self.take_turn().await;
        let recorded = self.superblock();
        if recorded.out == self.out.get() && recorded.rebuilt <= self.durable.get() {
            return self.check();
        }
        self.record(recorded).await
    }

    async fn take_turn(&self) -> seekless_core::lock::Guard {
        self.turn.exclusive(Extent::new(0, 1), &Hints::default()).await
    }

    /// Records a change of the data that members have, as two events; the caller has the turn.
    async fn change(&self, next: Superblock) -> Result<(), IoError> {
        self.record(next).await?;
        self.record(self.superblock()).await
    }

    /// Writes the next superblock to all members in service; the caller has the turn.
    async fn record(&self, mut next: Superblock) -> Result<(), IoError> {
        self.check()?;
        if self.unsure.get() {
            self.write_superblocks(&self.superblock()).await?;
            self.unsure.set(false);
        }
        if let Some(head) = self.head.as_ref().filter(|_| next.session != self.superblock().session) {
            if let Err(error) = head.write_session(next.session).await {
                return Err(self.refuse_for_log(&error));
            }
        }
        loop {
            self.check()?;
            next.events = self.superblock().events + 1;
            (next.out, next.rebuilt) = (self.out.get(), self.durable.get());
            // If it fails, the number is not used again.
            self.recorded.set(Superblock { events: next.events, ..self.superblock() });
            if self.write_superblocks(&next).await? {
                self.recorded.set(next);
                return Ok(());
            }
        }
    }

    /// Writes a superblock to all members in service; whether none failed. One that fails is put out of service.
    async fn write_superblocks(&self, next: &Superblock) -> Result<bool, IoError> {
        let written = self.used().map(async |member| (member, self.record_on(member, next).await));
        let mut all = true;
        for (member, written) in join_all(written).await {
            let Err(error) = written else { continue };
            all = false;
            match self.out.get() {
                Some(out) if out == member => self.rebuilds.set(false),
                None if next.has_log || error.kind() == ErrorKind::Gone => self.put_out(member, &error),
                // Another event would leave it two behind.
                _ => return Err(self.refuse_writes(member, &error)),
            }
            self.forget_rebuilt();
        }
        Ok(all)
    }

    async fn record_on(&self, member: usize, next: &Superblock) -> Result<(), IoError> {
        let (device, copy) = (self.device(member), next.copy());
        device.write(sectors(copy), next.encode(member, copy), Hints::default()).await?;
        if mutant::is("raid4: superblocks are not flushed") {
            return Ok(());
        }
        device.flush(Hints::default()).await
    }

    /// Announces writes, before the first one since the array was clean, and reserves generations.
    pub async fn begin(&self) -> Result<(), IoError> {
        self.check()?;
        if self.has_begun() {
            return Ok(());
        }
        let _turn = self.take_turn().await;
        if self.has_begun() {
            return self.check();
        }
        if let Some(head) = self.head.as_ref().filter(|_| self.superblock().state == State::Clean) {
            head.needs_no_records();
        }
        let generations = self.generation.get() + RESERVED;
        // Two events, and with a log two numbers of the session.
        for _ in 0..2 {
            let (superblock, numbered) = (self.superblock(), self.head.is_some());
            let session = if numbered { superblock.session.max(session::FIRST - 1) + 1 } else { 0 };
            self.record(Superblock { state: State::Dirty, generations, session, ..superblock }).await?;
        }
        self.session.set(true);
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.session.get() && self.generation.get() + RESERVED / 2 < self.superblock().generations
    }

    /// The next generation; after [`Members::begin`].
    pub fn next_generation(&self) -> u64 {
        // An entry of generation zero is that of a block that was never written.
        let next = self.generation.get() + 1;
        self.generation.set(next);
        next
    }

    /// Records that nothing is being written, after a flush; `writing` is asked whether that still holds.
    pub async fn end(&self, writing: impl Fn() -> bool) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        if writing() || self.superblock().state == State::Clean {
            return Ok(());
        }
        // Writes from now on wait for the turn to announce themselves.
        self.session.set(false);
        let generations = self.generation.get() + 1;
        self.change(Superblock { state: State::Clean, generations, ..self.superblock() }).await
    }

    /// Flushes all members in service; those that fail are put out of it.
    pub async fn flush(&self, how: &Hints) -> Result<(), IoError> {
        let flushes = self.used().map(async |member| (member, self.device(member).flush(how.clone()).await));
        for (member, flushed) in join_all(flushes).await {
            if let Err(error) = flushed {
                self.fail(member, &error).await?;
            }
        }
        self.record_failures().await
    }

    /// Records on its members that a new array is being created, or with `State::Clean` that it was.
    pub async fn form(&self, state: State) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        self.record(Superblock { state, ..self.superblock() }).await?;
        let why = "found a member failing while the array is created, expected all of them to be written";
        let all = self.out.get().is_none();
        if all { Ok(()) } else { Err(IoError::new(ErrorKind::Medium, NAME, None, why)) }
    }

    /// Begins to rebuild a member: it gets superblocks from now on.
    pub async fn begin_rebuild(&self) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        self.rebuilds.set(true);
        self.record(self.superblock()).await
    }

    /// Whether the member out of service is being rebuilt.
    pub fn rebuilds(&self) -> bool {
        self.rebuilds.get()
    }

    /// Groups of the member out of service up to this one are in service again.
    pub fn has_rebuilt(&self, groups: u64) {
        self.rebuilt.set(groups);
    }

    fn forget_rebuilt(&self) {
        self.rebuilt.set(0);
        self.durable.set(0);
    }

    /// Records durably how much of the one out of service was rebuilt, and with `all` that it is in service. The caller
    /// has flushed it.
    pub async fn record_rebuild(&self, all: bool) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        if !self.rebuilds() {
            return Err(IoError::new(ErrorKind::Medium, NAME, None, "the member being rebuilt failed"));
        }
        self.durable.set(self.rebuilt.get());
        if all {
            self.out.set(None);
            self.forget_rebuilt();
            self.rebuilds.set(false);
        }
        self.change(self.superblock()).await
    }
}
