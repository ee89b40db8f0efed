//! A drive-managed shingled drive: a disk whose tracks overlap, with a media cache in front of its bands.
//!
//! Writes are appended to the media cache, at the outer edge; a map locates them. A stream of writes that begins at the
//! start of a band goes into the band itself. When the drive has been idle for a while, or when the cache is full,
//! bands are cleaned, that with the oldest write first: read, merged with the cache, and rewritten as a whole. Aghayev
//! and Desnoyers (FAST 2015) found that drives work so.
//!
//! The bytes are stored by address; the disk below is charged for where the data would go. Fault model: none of its
//! own.

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

/// A band is read and rewritten in pieces of this many sectors, so that foreground requests can come between.
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
    /// Where a stream continues that is written into its band.
    stream: Cell<Option<u64>>,
    /// One band is cleaned at a time.
    cleaning: RangeLocks,
    cleaner_awake: Cell<bool>,
    /// When the last request arrived, and how many requests are in flight.
    last_request: Cell<Nanos>,
    under_way: Cell<u64>,
}

impl Shingled {
    /// An idle drive of this kind, its media cache empty; `device` is its number in the event log.
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
            last_request: Cell::new(Nanos::ZERO),
            under_way: Cell::new(0),
        }))
    }
}

impl Shared {
    /// The disk's sectors of an extent of the bands.
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

    /// Whether a write goes into its band: at the band's start, or continuing the last one that did. If a stream breaks
    /// off within a band, the rest of the band has to be rewritten.
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

    /// Rewrites the rest of a band after a stream that broke off.
    fn repair(self: &Rc<Self>, from: u64) {
        let band = self.spec.band_sectors;
        let end = (from / band * band + band).min(self.sectors);
        let shared = self.clone();
        let rest = Extent::new(from, end - from);
        runtime::spawn(async move {
            // A failure here also fails the next reader, which reports it.
            let _ = shared.rewrite(rest, Class::Background).await;
        })
        .detach();
    }

    /// Cleans the band with the oldest write, if there is one, unless another task just did.
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

    /// Cleans the media cache once the drive has been idle for a while, until a request arrives.
    fn wake_cleaner(self: &Rc<Self>) {
        if self.cleaner_awake.replace(true) {
            return;
        }
        let shared = self.clone();
        runtime::spawn(async move {
            while !shared.map.borrow().is_empty() {
                let quiet_at = shared.last_request.get() + shared.clean_after;
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

    /// Serves a request, counted as in flight meanwhile.
    async fn serve(self: &Rc<Self>, op: Op, at: Extent, buffer: &Buffer, how: &Hints) -> Result<(), IoError> {
        self.last_request.set(runtime::now());
        let under_way = UnderWay::one_more(self);
        let done = match op {
            Op::Read => self.read(at, how).await,
            Op::Flush => self.disk.flush(how.clone()).await,
            _ => self.write(at, how).await,
        };
        drop(under_way);
        self.last_request.set(runtime::now());
        done?;
        self.content.borrow_mut().apply(op, at, buffer);
        Ok(())
    }
}

/// A request in flight, until it is answered or its client goes away.
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

    /// It has none: tasks would miss what its cleaner moves.
    fn freeblock(&self) -> Vec<Rc<Freeblock>> {
        Vec::new()
    }

    fn joules(&self) -> Option<f64> {
        self.0.disk.joules()
    }

    fn wakes(&self) -> u64 {
        self.0.disk.wakes()
    }
}

impl BlockDevice for Shingled {
    fn geometry(&self) -> Geometry {
        Geometry { sectors: self.0.sectors, physical_sectors: 8, ..self.0.disk.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move { self.0.serve(Op::Read, at, &into, &how).await.map(|()| into) })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.0.serve(Op::Write, at, &from, &how).await })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.0.serve(Op::Flush, Extent::default(), &Buffer::default(), &how).await })
    }

    /// Discards are no-ops, at no cost.
    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(std::future::ready(Ok(())))
    }

    /// Addresses as clients know them: the placement in bands is hidden.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.0.disk.places(at, each);
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            crate::component::not_only_if_fast(at, zeroes)?;
            self.0.serve(Op::WriteZeroes, at, &Buffer::default(), &how).await
        })
    }
}
