//! A component that is explored: an image, and a log of what becomes of it.
//!
//! It has a volatile cache: what it answers is durable after a flush or with FUA, and what that means at a power
//! cut is [`super::power`]'s to say. With a pace it answers in an order of its own; without one at once.

use std::cell::RefCell;
use std::future::ready;

use seekless_core::device::{Place, io};
use seekless_core::runtime::{self, Rng};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, Nanos};

use super::image::{Content, Image};
use super::log::{Event, Shared, Write};

/// The longest that a request takes: long enough for a dozen others to overtake it.
const LONGEST: Nanos = Nanos::from_micros(200);

/// The component.
pub struct Component {
    number: u32,
    sectors: u64,
    image: RefCell<Image>,
    /// Extents that were read.
    read: RefCell<Vec<Extent>>,
    records: Option<(RefCell<Rng>, Shared)>,
}

impl Component {
    /// Number `number` of its volume, which holds this and answers at once.
    pub fn instant(number: u32, sectors: u64, image: Image) -> Component {
        let (image, read) = (RefCell::new(image), RefCell::default());
        Component { number, sectors, image, read, records: None }
    }

    /// The same with a pace, and a log. Build it inside of a runtime.
    pub fn recorded(number: u32, sectors: u64, image: Image, log: Shared) -> Component {
        let rng = RefCell::new(runtime::rng("component"));
        Component { records: Some((rng, log)), ..Component::instant(number, sectors, image) }
    }

    /// What it holds.
    pub fn image(&self) -> Image {
        self.image.borrow().clone()
    }

    /// What was read so far.
    pub fn was_read(&self) -> Vec<Extent> {
        self.read.take()
    }

    async fn takes_time(&self) {
        if let Some((rng, _)) = &self.records {
            let time = rng.borrow_mut().below(LONGEST.0) + 1;
            runtime::sleep(Nanos(time)).await;
        }
    }

    async fn store(&self, at: Extent, contents: Vec<Content>, fua: bool) {
        let logged = self.records.as_ref().map(|(_, log)| {
            let mut log = log.borrow_mut();
            let (number, write) =
                (log.writes.len(), Write { component: self.number, at, contents: contents.clone(), fua });
            log.writes.push(write);
            log.events.push(Event::Began(number));
            number
        });
        self.takes_time().await;
        self.image.borrow_mut().put(at.start.0, &contents, |_| true);
        if let (Some((_, log)), Some(number)) = (&self.records, logged) {
            log.borrow_mut().events.push(Event::Ended(number));
        }
    }
}

impl BlockDevice for Component {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, discard_sectors: 1, ..Geometry::of_memory(self.sectors) }
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        if self.records.is_none() {
            self.read.borrow_mut().push(at);
            self.image.borrow().read(at, &into);
            return io(ready(Ok(into)));
        }
        io(async move {
            self.takes_time().await;
            self.image.borrow().read(at, &into);
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.store(at, Content::of_buffer(&from), how.fua).await;
            Ok(())
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let Some((_, log)) = &self.records else { return Ok(()) };
            let began = log.borrow().events.len();
            log.borrow_mut().events.push(Event::FlushBegan(self.number));
            self.takes_time().await;
            log.borrow_mut().events.push(Event::FlushEnded(self.number, began));
            Ok(())
        })
    }

    /// What is discarded reads as zeroes or as before: who relies on either is wrong.
    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let ignored = self.records.as_ref().is_some_and(|(rng, _)| rng.borrow_mut().chance(1, 2));
            if ignored {
                self.takes_time().await;
            } else {
                self.store(at, vec![Content::Zero; at.sectors as usize], how.fua).await;
            }
            Ok(())
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        each(at, Place::On { component: self.number, at: at.start });
    }
}
