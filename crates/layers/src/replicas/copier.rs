//! Makes copies of units, one unit at a time, and has the map on the device void or written.
//!
//! A unit is locked while it is read, not while its copies are written: clients do not wait for those. A write that
//! comes meanwhile is noted, and then the copies do not count. Invariant: after each wait, what to copy is chosen anew.

use seekless_core::runtime::{edge, now};
use seekless_core::{Account, Buffer, Class, Extent, Hints, IoError, Reconfigured, Stage, Ticket};

use super::Replicas;
use crate::join::join_all;
use crate::placed::{Left, in_steps};

impl Replicas {
    /// Has copies made, if there should be any.
    pub(super) fn copy_later(&self) {
        if !self.clients.are_watched() || !self.can_improve() || self.copying.replace(true) {
            return;
        }
        let step = async |replicas: &Replicas| replicas.step(false, replicas.clients.payer()).await;
        in_steps(self.me.clone(), step, |replicas| replicas.copying.set(false));
    }

    /// Makes all copies that there should be, beside clients. It ends, even if they go on making other units hot.
    pub(super) async fn copy_now(&self, account: Account) -> Result<Reconfigured, IoError> {
        let (start, before) = (now(), self.copied.get());
        let (most, unit) = {
            let shape = self.copies.borrow().shape;
            (u64::from(shape.fast), shape.unit)
        };
        self.clients.moved();
        while self.copied.get() - before < most {
            let Left::More = self.step(true, account).await? else { break };
        }
        let pages = (self.copied.get() - before) * unit;
        let stages = vec![Stage { name: "copy", took: now().since(start), pages }];
        Ok(Reconfigured {
            start,
            stages,
            planned_pages: pages,
            copied_pages: pages,
            ..Reconfigured::default()
        })
    }

    /// Whether a unit should be copied.
    pub(super) fn can_improve(&self) -> bool {
        let (heat, copies) = (self.heat.borrow(), self.copies.borrow());
        heat.hottest(0).is_some_and(|(count, _)| copies.free() > 0 || heat.colder(count).is_some())
            && self.failed.borrow().is_none()
            && !self.stopping.get()
    }

    /// Copies the next unit; `asked` does not wait for a pause.
    async fn step(&self, asked: bool, account: Account) -> Result<Left, IoError> {
        let how =
            Hints { class: Class::Background, account, ticket: Some(Ticket::new()), ..Hints::default() };
        let _turn = self.relocating.exclusive(Extent::new(0, 1), &how).await;
        if self.stopping.get() || self.failed.borrow().is_some() {
            return Ok(Left::Nothing);
        }
        if let Some(time) = self.clients.wait(asked) {
            return Ok(Left::Later(time));
        }
        if self.needs_void() {
            self.void(&how).await?;
            // What was hot may have changed.
            return Ok(Left::More);
        }
        let Some((unit, place)) = self.next() else { return Ok(Left::Nothing) };
        self.copy(unit, place, &how).await;
        Ok(Left::More)
    }

    /// The next unit to copy, and a place for its copies. If there is none, another unit loses its copies.
    fn next(&self) -> Option<(u32, u32)> {
        let (mut heat, mut copies) = (self.heat.borrow_mut(), self.copies.borrow_mut());
        let unit = loop {
            let next = heat.next_in_order(copies.free());
            let unit = if let Some(unit) = next {
                unit
            } else {
                let (count, unit) = heat.hottest(0)?;
                let colder = heat.colder(count)?;
                edge("a unit loses its copies to a hotter one");
                copies.remove(colder);
                heat.moved(colder, false);
                unit
            };
            if !self.uncertain.borrow().contains(&unit) {
                break unit;
            }
            heat.cool(unit, false);
        };
        let place = copies.take(unit);
        if place.is_none() {
            edge("all free places are in use");
        }
        Some((unit, place?))
    }

    /// Copies a unit to the slots of a place that was taken.
    async fn copy(&self, unit: u32, place: u32, how: &Hints) {
        let made = self.write_copies(unit, place, how).await;
        let (mut copies, mut heat) = (self.copies.borrow_mut(), self.heat.borrow_mut());
        let stale = self.has_passed();
        self.passed.set(None);
        match made {
            // A failed flush has removed all copies meanwhile.
            Ok(bands) if bands != 0 && !stale && self.failed.borrow().is_none() => {
                copies.add(unit, place, bands);
                heat.moved(unit, true);
                self.copied.set(self.copied.get() + u64::from(bands.count_ones()));
                edge("a unit has copies");
            }
            Ok(_) if stale => {
                edge("a unit is written while it is copied");
                copies.give_back(place);
            }
            _ => {
                edge("a copy failed");
                copies.give_back(place);
                heat.cool(unit, false);
            }
        }
    }

    /// Reads a unit, and writes it to the slots; returns the bands in which that succeeded, as bits.
    async fn write_copies(&self, unit: u32, place: u32, how: &Hints) -> Result<u8, IoError> {
        let shape = self.copies.borrow().shape;
        let at = Extent::new(u64::from(unit) * shape.unit_sectors(), shape.unit_sectors());
        let held = self.locks.shared(at, how).await;
        self.passed.set(Some((unit, false)));
        let bytes = self.buffer(at);
        let bytes = self.below.read(self.slot(shape.first_slot(unit), at), bytes, how.clone()).await?;
        drop(held);
        let (mut written, mut band) = (0, 0);
        loop {
            let next = self.copies.borrow().bands_of(place).find(|next| *next >= band);
            let Some(next) = next.filter(|_| !self.has_passed()) else { break };
            let slot = self.copies.borrow().slot(next, place);
            let done = self.below.write(self.slot(slot, at), bytes.clone(), how.clone()).await;
            if done.is_ok() {
                written |= 1 << next;
            } else {
                self.copies.borrow_mut().avoid(slot);
            }
            band = next + 1;
        }
        Ok(written)
    }

    /// Whether the unit that is copied was written since it was read.
    fn has_passed(&self) -> bool {
        self.passed.get().is_some_and(|(_, passed)| passed) && !self.canary.is("a write passes a copy")
    }

    /// Has no copies made any more, and waits for those that have been begun.
    pub(super) async fn stop_copying(&self) {
        self.stopping.set(true);
        drop(self.relocating.exclusive(Extent::new(0, 1), &Hints::default()).await);
    }

    fn needs_void(&self) -> bool {
        !self.copies.borrow().is_void() && !self.canary.is("copies of before count after a crash")
    }

    /// Makes the map on the device void, durably: before anything is written that copies would not agree with.
    pub(super) async fn void(&self, how: &Hints) -> Result<(), IoError> {
        if !self.needs_void() {
            return Ok(());
        }
        let _turn = self.committing.exclusive(Extent::new(0, 1), how).await;
        if !self.needs_void() {
            return Ok(());
        }
        edge("the map is made void");
        let writes = self.copies.borrow_mut().void();
        self.write_map(writes, how).await
    }

    /// Has the map on the device name the copies. No request is in flight.
    pub(super) async fn name(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.committing.exclusive(Extent::new(0, 1), how).await;
        let writes = self.copies.borrow_mut().name();
        if writes.is_empty() {
            return Ok(());
        }
        edge("the map names the copies");
        self.write_map(writes, how).await
    }

    async fn write_map(&self, writes: Vec<(Extent, Buffer)>, how: &Hints) -> Result<(), IoError> {
        // Others may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, fua: false, ..how.clone() };
        let largest = self.below.geometry().largest_sectors;
        let writes = writes.into_iter().flat_map(|(at, bytes)| {
            let parts = bytes.split(at, largest).collect::<Vec<_>>();
            parts.into_iter().map(|(part, piece)| self.below.write(part, piece, how.clone()))
        });
        join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
        self.flush_below(&how).await?;
        self.copies.borrow_mut().written();
        Ok(())
    }

    /// Flushes the disk. If that fails, all later flushes fail, and there are no copies any more: what was written to
    /// them may be lost.
    pub(super) async fn flush_below(&self, how: &Hints) -> Result<(), IoError> {
        let flushed = self.below.flush(how.clone()).await;
        if let Err(error) = &flushed {
            *self.failed.borrow_mut() = Some(error.clone());
            let (mut copies, mut heat) = (self.copies.borrow_mut(), self.heat.borrow_mut());
            for unit in copies.remove_all() {
                heat.moved(unit, false);
            }
        }
        flushed
    }
}
