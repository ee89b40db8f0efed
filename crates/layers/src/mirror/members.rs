//! The members of a mirror: which of them are in service, what their labels record, and which regions are being
//! written.
//!
//! A member that fails is put out of service, unless no other would be left; that is recorded durably in the labels of
//! the others before anything that it lacks is answered. So after a crash it is not taken for one that has everything.
//!
//! Before a region is written, its bit is durable in the labels: copies of it may differ. The bit stays until the
//! region was not written for a while and all members were flushed, and as long as a member is out of service, which
//! lacks what is written meanwhile. So the bits are all that a member has to catch up with, and all that is compared
//! after a crash.
//!
//! Invariants: `recorded` is what the labels of all members in service hold durably, at least; `unsure` if writing the
//! next label failed, and it may be on some of them or appear later: then nothing is answered until another one is
//! written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, RangeLocks, mutant};

use super::label::{Bits, HEAD, Label, State};
use super::options::{MOST, NAME};
use crate::arrays::Trouble;
use crate::canary::Canary;
use crate::join::join_all;

/// The members.
pub struct Members {
    devices: RefCell<Vec<Rc<dyn BlockDevice>>>,
    /// The label that was written last.
    recorded: Cell<Label>,
    unsure: Cell<bool>,
    /// The event that each member has recorded durably, at least; and as it was when the mirror was opened.
    events: Cell<[u64; MOST]>,
    events_at_start: [u64; MOST],
    /// Members out of service, as bits.
    out: Cell<u16>,
    /// Those of them whose differences from the others the labels list: other devices get everything.
    known: Cell<u16>,
    /// The member out of service that is being rebuilt: it is written too.
    target: Cell<Option<usize>>,
    /// Regions that the target has.
    copied: Cell<Bits>,
    /// Regions being written, by the number of writes.
    active: Rc<RefCell<BTreeMap<u64, u64>>>,
    /// Number of the last write to each region.
    touched: RefCell<BTreeMap<u64, u64>>,
    writes_begun: Cell<u64>,
    /// Lock of labels.
    turn: RangeLocks,
    /// The error of the flush that failed on the last member.
    failed: RefCell<Option<IoError>>,
    /// Why members are out of service.
    trouble: Trouble,
    canary: Canary,
}

/// Regions that are being written, until it is dropped.
pub struct Active {
    table: Rc<RefCell<BTreeMap<u64, u64>>>,
    regions: std::ops::Range<u64>,
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut table = self.table.borrow_mut();
        for region in self.regions.clone() {
            if let Some(count) = table.get_mut(&region) {
                *count -= 1;
                if *count == 0 {
                    table.remove(&region);
                }
            }
        }
    }
}

impl Members {
    /// The members of a mirror with this label, and the events that they have recorded; those out of service may be
    /// more than it says.
    pub fn new(
        devices: Vec<Rc<dyn BlockDevice>>,
        recorded: &Label,
        events: [u64; MOST],
        (out, known): (u16, u16),
        trouble: Trouble,
        canary: Canary,
    ) -> Members {
        Members {
            devices: RefCell::new(devices),
            recorded: Cell::new(*recorded),
            unsure: Cell::new(false),
            events: Cell::new(events),
            events_at_start: events,
            out: Cell::new(out),
            known: Cell::new(known),
            target: Cell::new(None),
            copied: Cell::new(Bits::NONE),
            active: Rc::default(),
            touched: RefCell::default(),
            writes_begun: Cell::new(0),
            turn: RangeLocks::new(),
            failed: RefCell::default(),
            trouble,
            canary,
        }
    }

    /// The label that was written last.
    pub fn label(&self) -> Label {
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

    /// Where sectors of clients lie on each member.
    pub fn place(at: Extent) -> Extent {
        Extent { start: at.start + HEAD * PAGE_SECTORS, ..at }
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.devices.borrow().len()
    }

    /// Whether a member is out of service.
    pub fn is_out(&self, member: usize) -> bool {
        self.out.get() >> member & 1 == 1
    }

    /// Whether the labels list what a member out of service lacks.
    pub fn is_known(&self, member: usize) -> bool {
        self.known.get() >> member & 1 == 1
    }

    /// The members in service, which have everything.
    pub fn serving(&self) -> Vec<usize> {
        (0..self.count()).filter(|member| !self.is_out(*member)).collect()
    }

    /// As `serving`, first those that had recorded most when the mirror was opened: in one that had recorded less
    /// nothing was written since, or it is a device from before.
    pub fn newest_first(&self) -> Vec<usize> {
        let mut members = self.serving();
        members.sort_by_key(|member| std::cmp::Reverse(self.events_at_start[*member]));
        members
    }

    /// Whether several members are in service.
    pub fn are_several(&self) -> bool {
        self.count() as u32 - self.out.get().count_ones() > 1
    }

    /// The members that are written: those in service, and the one being rebuilt.
    pub fn written(&self) -> Vec<usize> {
        (0..self.count())
            .filter(|member| !self.is_out(*member) || self.target.get() == Some(*member))
            .collect()
    }

    /// The first member out of service.
    pub fn first_out(&self) -> Option<usize> {
        (0..self.count()).find(|member| self.is_out(*member))
    }

    /// Puts a member out of service, unless it is the last one; whether it is out now. See [`Members::confirm`].
    pub fn fail(&self, member: usize, error: &IoError) -> bool {
        if self.target.get() == Some(member) {
            edge("the member being rebuilt fails");
            self.target.set(None);
        }
        if self.is_out(member) {
            return true;
        }
        if !self.are_several() {
            edge("the last member in service fails");
            return false;
        }
        edge("a member fails: it is out of service");
        self.out.set(self.out.get() | 1 << member);
        self.known.set(self.known.get() | 1 << member);
        self.trouble.begins(member, error);
        true
    }

    /// See [`seekless_core::Layer::trouble`].
    pub fn trouble(&self) -> Option<String> {
        self.trouble.of_members((0..self.count()).filter(|member| self.is_out(*member)))
    }

    /// See [`seekless_core::Layer::on_trouble`].
    pub fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        self.trouble.on(tell);
    }

    /// Returns when it is recorded which members are out of service: before anything is answered that they lack.
    pub async fn confirm(&self) -> Result<(), IoError> {
        if self.canary.is("a failure is not recorded") {
            return Ok(());
        }
        if self.is_confirmed() {
            return Ok(());
        }
        let _turn = self.take_turn().await;
        if self.is_confirmed() { Ok(()) } else { self.record(|_| ()).await }
    }

    fn is_confirmed(&self) -> bool {
        self.recorded.get().out == self.out.get() && !self.unsure.get()
    }

    async fn take_turn(&self) -> seekless_core::lock::Guard {
        self.turn.exclusive(Extent::new(0, 1), &Hints::default()).await
    }

    /// Writes the next label, with a change, to all members in service and the one being rebuilt; the caller has the
    /// turn.
    async fn record(&self, change: impl Fn(&mut Label)) -> Result<(), IoError> {
        loop {
            let mut next = self.recorded.get();
            next.events += 1;
            next.out = self.out.get();
            // Also of an attempt that failed, which is not recorded: those that leave, and those that come back.
            let changed = next.out ^ self.recorded.get().out;
            for member in (0..self.count()).filter(|member| changed >> member & 1 == 1) {
                next.served[member] = next.events;
            }
            let events = self.events.get();
            let all = !mutant::is("mirror: a label does not say what all members have recorded");
            let reached = self.serving().into_iter().filter(|_| all).map(|member| events[member]).min();
            next.reached = reached.unwrap_or(0);
            self.active.borrow().keys().for_each(|region| next.differ.set(*region));
            change(&mut next);
            // If it fails, the number is not used again.
            self.recorded.set(Label { events: next.events, ..self.recorded.get() });
            self.unsure.set(true);
            let flushes = !mutant::is("mirror: labels are not flushed");
            let written = self.written().into_iter().map(async |member| {
                let device = self.device(member);
                (member, next.write(member, &*device, flushes).await)
            });
            let mut failed = None;
            for (member, written) in join_all(written).await {
                let Err(error) = written else {
                    let mut events = self.events.get();
                    events[member] = next.events;
                    self.events.set(events);
                    continue;
                };
                if !self.fail(member, &error) {
                    return Err(error);
                }
                failed = Some(error);
            }
            // A member may have failed meanwhile in another way.
            if failed.is_none() && self.out.get() & !next.out == 0 {
                self.recorded.set(next);
                self.unsure.set(false);
                return Ok(());
            }
        }
    }

    /// The regions of pages.
    fn regions(&self, at: Extent) -> std::ops::Range<u64> {
        let (pages, region) = (at.pages(), self.recorded.get().region);
        pages.start / region..pages.end.div_ceil(region)
    }

    /// Announces a write: from now on until the result is dropped, the regions of `at` are being written.
    pub async fn begin(&self, at: Extent) -> Result<Active, IoError> {
        let regions = self.regions(at);
        self.writes_begun.set(self.writes_begun.get() + 1);
        let active = Active { table: self.active.clone(), regions: regions.clone() };
        for region in regions.clone() {
            *self.active.borrow_mut().entry(region).or_default() += 1;
            self.touched.borrow_mut().insert(region, self.writes_begun.get());
        }
        let is_recorded = || {
            let differ = self.recorded.get().differ;
            regions.clone().all(|region| differ.has(region))
        };
        if !is_recorded() {
            let _turn = self.take_turn().await;
            if !is_recorded() {
                edge("a region is written that was clean");
                self.record(|_| ()).await?;
            }
        }
        Ok(active)
    }

    /// Number of writes so far.
    pub fn writes_begun(&self) -> u64 {
        self.writes_begun.get()
    }

    /// Whether nothing was recorded as being written.
    pub fn is_clean(&self) -> bool {
        self.recorded.get().differ == Bits::NONE
    }

    /// Records that copies of regions are the same, those that were not written since the `before`th write; `unsettled`
    /// says of a region that its copies differ.
    pub async fn clean(&self, before: u64, unsettled: impl Fn(Extent) -> bool) -> Result<(), IoError> {
        let label = self.recorded.get();
        let mut clean = Bits::NONE;
        for region in label.differ.each() {
            let is_active = self.active.borrow().contains_key(&region);
            let at = Extent::of_pages(region * label.region, label.region);
            if !is_active
                && !self.was_touched(region, before)
                && self.are_all_written(region)
                && !unsettled(at)
            {
                clean.set(region);
            }
        }
        if clean == Bits::NONE {
            return Ok(());
        }
        let flushed = self.writes_begun.get();
        self.flush(&Hints::default()).await?;
        let _turn = self.take_turn().await;
        for region in clean.each() {
            if self.was_touched(region, flushed) || !self.are_all_written(region) {
                edge("a region is written while it is being cleaned");
                clean.remove(region);
            }
        }
        if clean == Bits::NONE {
            return Ok(());
        }
        edge("a region is clean again");
        // Writes from now on wait for the turn to set the bit.
        let label = self.recorded.get();
        self.recorded.set(Label { differ: label.differ.without(&clean), ..label });
        self.record(|_| ()).await
    }

    fn was_touched(&self, region: u64, since: u64) -> bool {
        self.touched.borrow().get(&region).is_some_and(|last| *last > since)
    }

    /// Whether all members have what is in a region, or get it while it is written.
    fn are_all_written(&self, region: u64) -> bool {
        let (out, target) = (self.out.get(), self.target.get());
        out == 0 || target.is_some_and(|target| out == 1 << target) && self.copied.get().has(region)
    }

    /// Flushes all members that are written; those that fail are put out of service.
    ///
    /// # Errors
    /// No member in service could be flushed, now or before.
    pub async fn flush(&self, how: &Hints) -> Result<(), IoError> {
        self.check()?;
        let skips = |member: &usize| *member == 1 && self.canary.is("a member is not flushed");
        let members = self.written().into_iter().filter(|member| !skips(member));
        let flushes = members.map(async |member| (member, self.device(member).flush(how.clone()).await));
        for (member, flushed) in join_all(flushes).await {
            if let Err(error) = flushed {
                if !self.fail(member, &error) {
                    return Err(self.failed.borrow_mut().get_or_insert(error).clone());
                }
            }
        }
        self.check()?;
        self.confirm().await
    }

    fn check(&self) -> Result<(), IoError> {
        let failed = self.failed.borrow();
        failed.as_ref().map_or(Ok(()), |error| {
            let why = format!("a flush of the last member failed before: {error}");
            Err(IoError::new(ErrorKind::Medium, NAME, None, why))
        })
    }

    /// Records that a new mirror is being created, or with [`State::Formed`] that it was.
    pub async fn form(&self, state: State) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        self.record(|next| next.state = state).await?;
        let why = "found a member failing while the mirror is created, expected all of them to be written";
        if self.out.get() == 0 { Ok(()) } else { Err(IoError::new(ErrorKind::Medium, NAME, None, why)) }
    }

    /// Records that the device of a member out of service is another one from now on, which has nothing.
    pub async fn introduce(&self, member: usize) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        self.known.set(self.known.get() & !(1 << member));
        let all = Bits::first(self.recorded.get().regions());
        self.record(|next| {
            next.joined[member] = next.events;
            next.differ = all;
        })
        .await
    }

    /// Begins to rebuild a member: it is written from now on, and gets labels.
    pub async fn begin_rebuild(&self, member: usize) -> Result<(), IoError> {
        if !self.is_known(member) {
            edge("a member is rebuilt of which nothing is known");
            self.introduce(member).await?;
            self.known.set(self.known.get() | 1 << member);
        }
        self.copied.set(Bits::NONE);
        self.target.set(Some(member));
        let _turn = self.take_turn().await;
        self.record(|_| ()).await
    }

    /// A member is not being rebuilt any more.
    pub fn end_target(&self, member: usize) {
        if self.target.get() == Some(member) {
            self.target.set(None);
        }
    }

    /// The next region that the member being rebuilt lacks, if it is still being rebuilt; none if it lacks none.
    pub fn next_region(&self, member: usize) -> Result<Option<Extent>, IoError> {
        if self.target.get() != Some(member) {
            return Err(IoError::new(ErrorKind::Medium, NAME, None, "the member being rebuilt failed"));
        }
        let label = self.recorded.get();
        let next = label.differ.without(&self.copied.get()).each().next();
        Ok(next.map(|region| {
            let first = region * label.region;
            Extent::of_pages(first, label.region.min(label.pages - first))
        }))
    }

    /// Notes that the member being rebuilt has a region.
    pub fn has_copied(&self, region: Extent) {
        let mut copied = self.copied.get();
        copied.set(region.start.page() / self.recorded.get().region);
        self.copied.set(copied);
    }

    /// Number of regions that members out of service lack.
    pub fn to_rebuild(&self) -> u64 {
        let differ = self.recorded.get().differ;
        let lacking = if self.target.get().is_some() { differ.without(&self.copied.get()) } else { differ };
        if self.out.get() == 0 { 0 } else { lacking.count() }
    }

    /// Whether a canary is enabled.
    pub fn canary(&self, name: &str) -> bool {
        self.canary.is(name)
    }

    /// Puts the member that was rebuilt into service; the caller has flushed it.
    pub async fn end_rebuild(&self, member: usize) -> Result<(), IoError> {
        let _turn = self.take_turn().await;
        self.next_region(member)?;
        self.target.set(None);
        self.out.set(self.out.get() & !(1 << member));
        if let Err(error) = self.record(|_| ()).await {
            // It has everything; if the others failed meanwhile, it is the one that is left.
            if self.are_several() {
                self.out.set(self.out.get() | 1 << member);
            }
            return Err(error);
        }
        let why = "the member being rebuilt failed";
        if self.is_out(member) { Err(IoError::new(ErrorKind::Medium, NAME, None, why)) } else { Ok(()) }
    }
}
