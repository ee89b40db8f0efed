//! A component under exploration: an image, and a log of its events.
//!
//! It has a volatile cache, unless the conditions say otherwise: an answered write is durable after a flush or with
//! FUA; [`super::power`] defines the effect of a power cut. With a pace it answers in an order of its own; without one
//! immediately. A read returns what was there when it began, or when it ended.
//!
//! Fault model, with faults enabled: a read fails. A write fails that was not carried out, or in part, or in full,
//! immediately or later; but a later write over it waits for that, as it would in a device's queue. A flush fails, and
//! what was not durable by then is not made so by any later flush.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::{Rc, Weak};

use seekless_core::device::{Mark, Place, io};
use seekless_core::runtime::{self, Rng};
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Lba, Nanos, Op,
    PAGE_SECTORS, SECTOR_BYTES,
};

use super::conditions::{Conditions, Faults};
use super::image::{Content, Image};
use super::log::{Event, Shared, Write};
use super::weak::WeakSectors;

/// What was read by a look at the mark, which depends on all of a component: a page behind its end.
pub const ALL: Extent = Extent { start: Lba(1 << 50), sectors: PAGE_SECTORS };

/// Of the ways in which a write fails, the one that is carried out later.
const LATER: u64 = 3;
/// Latest time at which a failed write is carried out.
const LATEST: Nanos = Nanos::from_millis(5);

/// Log of a component, and its conditions.
struct Records {
    rng: RefCell<Rng>,
    /// Decides which reads return what was there when they began.
    early: RefCell<Rng>,
    log: Shared,
    conditions: Conditions,
    /// Failed writes that will still be carried out.
    late: RefCell<Vec<(Extent, Vec<Content>)>>,
    weak: WeakSectors,
}

/// The component.
pub struct Component {
    number: u32,
    sectors: u64,
    image: RefCell<Image>,
    /// Extents that were read.
    read: RefCell<Vec<Extent>>,
    records: Option<Records>,
    /// Whether it has a mark.
    marks: bool,
    /// Whether it fails every request.
    is_gone: Cell<bool>,
    /// Itself, for work that continues after a request has failed.
    me: Weak<Component>,
}

impl Component {
    /// Component `number` of its volume, with this content and immediate answers.
    pub fn instant(number: u32, sectors: u64, image: Image) -> Rc<Component> {
        Component::judged(number, sectors, image, false)
    }

    /// As `instant`, perhaps with a mark.
    pub fn judged(number: u32, sectors: u64, image: Image, marks: bool) -> Rc<Component> {
        Component::new(number, sectors, image, None, marks)
    }

    /// A component under conditions, with a log. Build it inside a runtime.
    pub fn recorded(
        number: u32,
        sectors: u64,
        image: Image,
        conditions: Conditions,
        log: Shared,
    ) -> Rc<Component> {
        let rng = |name| RefCell::new(runtime::rng(name));
        let (rng, early) = (rng("component"), rng("early reads"));
        let records =
            Records { rng, early, log, conditions, late: RefCell::default(), weak: WeakSectors::default() };
        Component::new(number, sectors, image, Some(records), conditions.marks)
    }

    fn new(number: u32, sectors: u64, image: Image, records: Option<Records>, marks: bool) -> Rc<Component> {
        let (image, read) = (RefCell::new(image), RefCell::default());
        let is_gone = Cell::new(false);
        Rc::new_cyclic(|me| Component {
            number,
            sectors,
            image,
            read,
            records,
            marks,
            is_gone,
            me: me.clone(),
        })
    }

    /// From now on it is gone.
    pub fn leave(&self) {
        self.is_gone.set(true);
    }

    fn check(&self, at: Option<Extent>) -> Result<(), IoError> {
        let name = || format!("component {}", self.number);
        if self.is_gone.get() { Err(IoError::new(ErrorKind::Gone, name(), at, "it is gone")) } else { Ok(()) }
    }

    /// Its content.
    pub fn image(&self) -> Image {
        self.image.borrow().clone()
    }

    /// Extents read so far.
    pub fn was_read(&self) -> Vec<Extent> {
        self.read.take()
    }

    async fn takes_time(&self) {
        if let Some(Records { rng, conditions, .. }) = &self.records {
            let time = conditions.pace.time(self.number, &mut rng.borrow_mut());
            runtime::sleep(time).await;
        }
    }

    /// Whether this request fails, as one in `one_in` does.
    fn fails(&self, one_in: impl Fn(&Records) -> u64) -> bool {
        self.records.as_ref().is_some_and(|records| {
            let one_in = one_in(records);
            let Conditions { faults, seed, .. } = records.conditions;
            match faults.together {
                _ if one_in == 0 => false,
                true => Faults::come_at(runtime::now(), seed, one_in),
                false => records.rng.borrow_mut().chance(1, one_in),
            }
        })
    }

    /// Whether all writes that fail are carried out later: in every other run, as few would be otherwise.
    fn fails_late(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.conditions.seed & 2 == 0)
    }

    fn failed(&self, at: Option<Extent>) -> IoError {
        self.error(at, "an injected failure")
    }

    fn error(&self, at: Option<Extent>, what: &'static str) -> IoError {
        IoError::new(ErrorKind::Medium, format!("component {}", self.number), at, what)
    }

    /// Reads, or fails for a sector that cannot be read, or that a verifying read finds weak.
    fn read_image(&self, at: Extent, into: Buffer, verify: bool) -> Result<Buffer, IoError> {
        self.check(Some(at))?;
        let sector = |sector| Some(Extent::new(sector, 1));
        if let Some(bad) = self.image.borrow().first_unreadable(at) {
            return Err(self.error(sector(bad), "a sector whose repair was lost"));
        }
        let weak = self.records.as_ref().filter(|_| verify).and_then(|records| {
            records.weak.found(at, records.conditions.weak, &mut records.rng.borrow_mut())
        });
        if let Some(weak) = weak {
            return Err(self.error(sector(weak), "a weak sector"));
        }
        self.image.borrow().read(at, &into);
        Ok(into)
    }

    async fn store(&self, at: Extent, contents: Vec<Content>, fua: bool) -> Result<(), IoError> {
        self.check(Some(at))?;
        self.let_late_ones_through(at);
        if !self.fails(|records| records.conditions.faults.writes) {
            self.carry_out(at, contents, fua).await;
            return Ok(());
        }
        let draw = |bound| self.records.as_ref().map_or(0, |records| records.rng.borrow_mut().below(bound));
        let kind = if self.fails_late() { LATER } else { draw(LATER + 1) };
        match kind {
            0 => self.takes_time().await,
            1 => self.carry_out(at, contents, false).await,
            2 => {
                let (one, other) = (draw(at.sectors), draw(at.sectors));
                let (first, last) = (one.min(other), one.max(other));
                let part = contents[first as usize..=last as usize].to_vec();
                self.carry_out(Extent::new(at.start.0 + first, last + 1 - first), part, false).await;
            }
            _ => self.goes_on(at, contents, Nanos(draw(LATEST.0))),
        }
        Err(self.failed(Some(at)))
    }

    /// Carries out a failed write later.
    fn goes_on(&self, at: Extent, contents: Vec<Content>, after: Nanos) {
        let (Some(records), Some(me)) = (&self.records, self.me.upgrade()) else { return };
        records.late.borrow_mut().push((at, contents));
        runtime::spawn(async move {
            runtime::sleep(after).await;
            me.let_late_ones_through(at);
        })
        .detach();
    }

    /// Carries out pending failed writes to these sectors now.
    fn let_late_ones_through(&self, at: Extent) {
        let Some(records) = &self.records else { return };
        let late: Vec<_> = {
            let (now, still) = records.late.take().into_iter().partition(|(late, _)| late.overlaps(at));
            records.late.replace(still);
            now
        };
        for (at, contents) in late {
            let number = self.began(records, at, &contents, false);
            records.log.borrow_mut().writes[number].late = true;
            self.image.borrow_mut().put_unmarked(at.start.0, &contents, |_| true);
            records.log.borrow_mut().events.push(Event::WriteEnded(number));
        }
    }

    /// Notes that one of these sectors is read or written, with this content: another one each time.
    fn notes(&self, at: Extent, class: Class, content: impl Fn(u64) -> Content) {
        let Some(Records { log, .. }) = &self.records else { return };
        let mut log = log.borrow_mut();
        let index = log.events.len() as u64 % at.sectors.max(1);
        log.at_work.note(class, &content(index));
    }

    async fn carry_out(&self, at: Extent, contents: Vec<Content>, fua: bool) {
        let logged = self.records.as_ref().map(|records| self.began(records, at, &contents, fua));
        self.takes_time().await;
        self.image.borrow_mut().put(at.start.0, &contents, |_| true);
        if let (Some(records), Some(number)) = (&self.records, logged) {
            records.log.borrow_mut().events.push(Event::WriteEnded(number));
        }
    }

    /// Whether an answered write may be lost.
    fn is_cached(&self) -> bool {
        self.records.as_ref().is_none_or(|records| records.conditions.is_cached(self.number))
    }

    /// Logs the start of a write; returns its number.
    fn began(&self, records: &Records, at: Extent, contents: &[Content], fua: bool) -> usize {
        let fua = fua || !self.is_cached();
        let repairs = records.weak.written(at, contents, &self.image.borrow());
        let mut log = records.log.borrow_mut();
        let number = log.writes.len();
        let (component, contents) = (self.number, contents.to_vec());
        log.writes.push(Write { component, at, contents, fua, late: false, repairs });
        log.events.push(Event::WriteBegan(number));
        number
    }
}

impl BlockDevice for Component {
    fn geometry(&self) -> Geometry {
        let volatile_cache = self.is_cached();
        Geometry { volatile_cache, discard_sectors: 1, ..Geometry::of_memory(self.sectors) }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        let Some(records) = &self.records else {
            self.read.borrow_mut().push(at);
            return io(ready(self.read_image(at, into, false)));
        };
        io(async move {
            self.notes(at, how.class, |index| {
                self.image.borrow().content(at.start.0 + index).cloned().unwrap_or_default()
            });
            let early = records.early.borrow_mut().chance(1, 2);
            let read = early.then(|| self.read_image(at, into.clone(), how.verify));
            self.takes_time().await;
            if self.fails(|records| records.conditions.faults.reads) {
                return Err(self.failed(Some(at)));
            }
            read.unwrap_or_else(|| self.read_image(at, into, how.verify))
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        let contents = Content::of_buffer(&from);
        io(async move {
            self.notes(at, how.class, |index| contents.get(index as usize).cloned().unwrap_or_default());
            self.store(at, contents, how.fua).await
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(None)?;
            let Some(Records { log, .. }) = &self.records else { return Ok(()) };
            let began = log.borrow().events.len();
            log.borrow_mut().events.push(Event::FlushBegan(self.number));
            self.takes_time().await;
            let fails = self.fails(|records| records.conditions.faults.flushes);
            let ended = if fails { Event::FlushFailed } else { Event::FlushEnded };
            log.borrow_mut().events.push(ended(self.number, began));
            if fails { Err(self.failed(None)) } else { Ok(()) }
        })
    }

    /// Discarded sectors read as zeroes or as before: neither may be relied on.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let ignored = self.records.as_ref().is_some_and(|records| records.rng.borrow_mut().chance(1, 2));
            if ignored {
                self.takes_time().await;
                return Ok(());
            }
            self.store(at, vec![Content::Zero; at.sectors as usize], how.fua).await
        })
    }

    fn mark(&self) -> IoFuture<'_, Option<Mark>> {
        if self.records.is_none() && self.marks {
            self.read.borrow_mut().push(ALL);
        }
        let (modified, changed) = self.image.borrow().times();
        let (inode, bytes) = (u64::from(self.number) + 1, self.sectors * SECTOR_BYTES);
        io(ready(Ok(self.marks.then_some(Mark { inode, bytes, modified, changed }))))
    }

    /// Any place may be the nearest one, another one each time.
    fn estimate(&self, _op: Op, at: Extent, _how: &Hints) -> Option<Nanos> {
        let mixed = (at.start.0 ^ runtime::now().0 << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(Nanos(mixed >> 40))
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;

    use super::*;

    #[test]
    fn without_a_cache_an_answered_write_is_durable() {
        let log = Shared::default();
        let conditions = Conditions { uncached: 2, ..Conditions::usual(1, 1) };
        let written = Runtime::new(1).run(async {
            for number in [0, 1] {
                let component = Component::recorded(number, 16, Image::new(16), conditions, log.clone());
                assert_eq!(component.geometry().volatile_cache, number == 0);
                component.write(Extent::new(0, 8), Buffer::zeroed(4_096), Hints::default()).await?;
            }
            Ok::<_, IoError>(())
        });
        written.unwrap().unwrap();
        assert_eq!(log.borrow().writes.iter().map(|write| write.fua).collect::<Vec<_>>(), [false, true]);
    }
}
