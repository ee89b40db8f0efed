//! A drive-managed shingled drive: a disk whose tracks overlap, with a media cache in front of its bands.
//!
//! Writes go behind each other into the media cache, at the outer edge; a map says what is there. A stream of
//! writes that begins at the start of a band goes into the band itself. When nothing came for a while, or when
//! the cache is full, bands are cleaned, that with the oldest write first: read, brought up to date, rewritten as
//! a whole. Aghayev and Desnoyers (FAST 2015) found drives to work so.
//!
//! The bytes are kept by address; the disk below sees how much goes where, which is what takes its time. Fault
//! model: none of its own.

mod cache_map;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::try_join_all;
use seekless_core::lock::{Mode, RangeLocks};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Geometry, Hints, IoError, IoFuture, Lba, Nanos, Op, Zeroes,
    device::{Place, io},
    runtime,
};

use crate::component::{Content, Disk, Simulated};
use crate::freeblock::Freeblock;
use crate::queue::QueueOptions;
use crate::spec::{ShingledSpec, Spec};
use crate::work::Work;
use cache_map::CacheMap;

/// A band is read and rewritten in pieces of this size, so that the foreground can come between.
const PIECE: u64 = 2_048;

/// A simulated shingled drive.
pub struct Shingled(Rc<Shared>);

struct Shared {
    disk: Disk,
    spec: ShingledSpec,
    sectors: u64,
    clean_after: Nanos,
    map: RefCell<CacheMap>,
    content: RefCell<Content>,
    /// Where a stream goes on that is written into its band.
    stream: Cell<Option<u64>>,
    /// One band is cleaned at a time.
    cleaning: RangeLocks,
    cleaner_awake: Cell<bool>,
    /// When something was asked for last, and how many requests are under way.
    asked: Cell<Nanos>,
    under_way: Cell<u64>,
}

impl Shingled {
    /// A drive of this kind, at rest, its media cache empty; `device` is its number in the event log.
    pub fn new(device: u32, spec: &Spec, shingled: ShingledSpec, options: QueueOptions) -> Shingled {
        let whole = Spec { sectors: spec.sectors + shingled.media_cache_sectors, ..spec.clone() };
        Shingled(Rc::new(Shared {
            disk: Disk::new(device, &whole, QueueOptions { freeblock: None, ..options }),
            spec: shingled,
            sectors: spec.sectors,
            clean_after: Nanos((shingled.clean_after_ms * 1e6).round() as u64),
            map: RefCell::new(CacheMap::new(shingled.media_cache_sectors, shingled.band_sectors)),
            content: RefCell::default(),
            stream: Cell::new(None),
            cleaning: RangeLocks::new(),
            cleaner_awake: Cell::new(false),
            asked: Cell::new(Nanos::ZERO),
            under_way: Cell::new(0),
        }))
    }
}

impl Shared {
    /// Where a sector of the bands is on the disk.
    fn home(&self, at: Extent) -> Extent {
        Extent { start: at.start + self.spec.media_cache_sectors, ..at }
    }

    async fn on_disk(&self, op: Op, at: Extent, how: Hints) -> Result<(), IoError> {
        let buffer = Buffer::hollow_sectors(at.sectors);
        match op {
            Op::Read => self.disk.read(at, buffer, how).await.map(drop),
            _ => self.disk.write(at, buffer, how).await,
        }
    }

    async fn read(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        let parts = self.map.borrow().parts(at);
        let reads = parts.into_iter().map(|(part, cached)| {
            let place =
                cached.map_or_else(|| self.home(part), |sector| Extent { start: Lba(sector), ..part });
            self.on_disk(Op::Read, place, how.clone())
        });
        try_join_all(reads).await.map(drop)
    }

    async fn write(self: &Rc<Self>, at: Extent, how: &Hints) -> Result<(), IoError> {
        if self.streams(at) {
            self.map.borrow_mut().remove(at);
            return self.on_disk(Op::Write, self.home(at), how.clone()).await;
        }
        let header = self.spec.header_sectors;
        while !self.map.borrow().has_room(at.sectors + header) {
            self.clean(how.class).await?;
        }
        let place = self.map.borrow_mut().append(at, header);
        let written = Extent { start: place, sectors: at.sectors + header };
        self.on_disk(Op::Write, written, how.clone()).await?;
        self.wake_cleaner();
        Ok(())
    }

    /// Whether a write goes into its band: at the band's start, or on behind the last one that did. A stream
    /// that breaks off within a band leaves what was behind it to be rewritten.
    fn streams(self: &Rc<Self>, at: Extent) -> bool {
        let band = self.spec.band_sectors;
        let begins = at.start.0 % band == 0 && at.sectors >= PIECE.min(band);
        let goes_on = self.stream.get() == Some(at.start.0);
        if !begins && !goes_on {
            return false;
        }
        let before = self.stream.replace(Some(at.end().0));
        if let Some(broken) = before.filter(|end| !goes_on && end % band != 0) {
            self.repair(broken);
        }
        true
    }

    /// The rest of a band behind a stream that broke off is rewritten.
    fn repair(self: &Rc<Self>, from: u64) {
        let band = self.spec.band_sectors;
        let end = (from / band * band + band).min(self.sectors);
        let shared = self.clone();
        let rest = Extent::new(from, end - from);
        runtime::spawn(async move {
            // What fails here fails its next reader too, which is where it is told.
            let _ = shared.rewrite(rest, Class::Background).await;
        })
        .detach();
    }

    /// Cleans the band with the oldest write, if there is one, unless somebody else just did.
    async fn clean(&self, class: Class) -> Result<(), IoError> {
        let before = self.map.borrow().oldest_band();
        let _held = self.cleaning.lock(Extent::new(0, 1), Mode::Exclusive, class, None).await;
        let band = self.map.borrow().oldest_band();
        let Some(band) = band.filter(|_| band == before) else { return Ok(()) };
        let parts = self.map.borrow().of_band(band);
        let how = Hints { class, ..Hints::default() };
        let cached = parts.iter().map(|&(at, place)| {
            let sector = Lba(place % self.spec.media_cache_sectors);
            self.on_disk(Op::Read, Extent { start: sector, ..at }, how.clone())
        });
        try_join_all(cached).await?;
        let start = band * self.spec.band_sectors;
        let whole = Extent::new(start, self.spec.band_sectors.min(self.sectors - start));
        self.rewrite(whole, class).await?;
        self.map.borrow_mut().cleaned(&parts);
        Ok(())
    }

    /// Reads sectors of a band, and writes them again.
    async fn rewrite(&self, at: Extent, class: Class) -> Result<(), IoError> {
        let how = Hints { class, ..Hints::default() };
        for op in [Op::Read, Op::Write] {
            let mut next = at.start.0;
            while next < at.end().0 {
                let piece = Extent::new(next, PIECE.min(at.end().0 - next));
                self.on_disk(op, self.home(piece), how.clone()).await?;
                next = piece.end().0;
            }
        }
        Ok(())
    }

    /// When nothing was asked for a while, what waits in the media cache is cleaned, until something is.
    fn wake_cleaner(self: &Rc<Self>) {
        if self.cleaner_awake.replace(true) {
            return;
        }
        let shared = self.clone();
        runtime::spawn(async move {
            while !shared.map.borrow().is_empty() {
                let quiet_at = shared.asked.get() + shared.clean_after;
                if shared.under_way.get() > 0 || runtime::now() < quiet_at {
                    runtime::sleep_until(quiet_at.max(runtime::now() + Nanos(1_000_000))).await;
                } else if shared.clean(Class::Background).await.is_err() {
                    break;
                }
            }
            shared.cleaner_awake.set(false);
        })
        .detach();
    }

    /// Carries a request out, and notes that one is under way meanwhile.
    async fn ask(self: &Rc<Self>, op: Op, at: Extent, buffer: &Buffer, how: &Hints) -> Result<(), IoError> {
        self.asked.set(runtime::now());
        let under_way = UnderWay::one_more(self);
        let done = match op {
            Op::Read => self.read(at, how).await,
            Op::Flush => self.disk.flush(how.clone()).await,
            _ => self.write(at, how).await,
        };
        drop(under_way);
        self.asked.set(runtime::now());
        done?;
        self.content.borrow_mut().apply(op, at, buffer);
        Ok(())
    }
}

/// A request that is under way, until it is answered or its client goes away.
struct UnderWay<'a>(&'a Cell<u64>);

impl UnderWay<'_> {
    fn one_more(shared: &Shared) -> UnderWay<'_> {
        shared.under_way.set(shared.under_way.get() + 1);
        UnderWay(&shared.under_way)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Simulated for Shingled {
    fn device(self: Rc<Self>) -> Rc<dyn BlockDevice> {
        self
    }

    fn account(&self, account: Account) -> Work {
        self.0.disk.account(account)
    }

    fn all(&self) -> Work {
        self.0.disk.all()
    }

    fn arms(&self) -> usize {
        self.0.disk.arms()
    }

    /// What its cleaner moves would not be seen by tasks: it has none.
    fn freeblock(&self) -> Vec<Rc<Freeblock>> {
        Vec::new()
    }

    fn joules(&self) -> Option<f64> {
        self.0.disk.joules()
    }
}

impl BlockDevice for Shingled {
    fn geometry(&self) -> Geometry {
        Geometry { sectors: self.0.sectors, physical_sectors: 8, ..self.0.disk.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move { self.0.ask(Op::Read, at, &into, &how).await.map(|()| into) })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.0.ask(Op::Write, at, &from, &how).await })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.0.ask(Op::Flush, Extent::default(), &Buffer::default(), &how).await })
    }

    /// What cannot be discarded stays as it is, at no cost.
    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }

    /// Addresses as clients know them: where the bands have them is the drive's secret.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.0.disk.places(at, each);
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            crate::component::not_only_if_fast(at, zeroes)?;
            self.0.ask(Op::WriteZeroes, at, &Buffer::default(), &how).await
        })
    }
}
