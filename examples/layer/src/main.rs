//! `seekless` with a layer more: `readahead` reads on where reads follow each other.

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;

use seekless::core::device::io;
use seekless::core::runtime::{self, edge};
use seekless::core::{
    BlockDevice, Buffer, Counters, Extent, Hints, IoError, IoFuture, Layer, Lba, RangeLocks, Zeroes,
};
use seekless::layers::registry::{Built, Entry};

/// Sectors that are read ahead: 256 KiB.
const AHEAD: u64 = 512;

pub static LAYERS: [Entry; 1] = [Entry {
    transparent: true,
    edges: &["a read is served from memory"],
    ..Entry::new("readahead", "reads on where reads follow each other", |below, _options| {
        Box::pin(async move { Ok(Built::new(Rc::new(ReadAhead::over(below.one()?)))) })
    })
}];

fn main() -> ExitCode {
    seekless::main_with(&LAYERS)
}

/// The layer. Invariant: what it keeps equals the device below; a write, and reading ahead, holds the locks of
/// its sectors. A read ahead that fails keeps nothing. A write that failed may still be executed later, and change what
/// was read meanwhile: after one, nothing is read ahead.
struct ReadAhead {
    below: Rc<dyn BlockDevice>,
    locks: RangeLocks,
    /// What was read ahead.
    kept: Rc<RefCell<Option<(Extent, Buffer)>>>,
    /// End of the last read.
    next: Cell<Lba>,
    /// Whether a write failed.
    failed: Rc<Cell<bool>>,
    hits: Cell<u64>,
}

impl ReadAhead {
    fn over(below: Rc<dyn BlockDevice>) -> ReadAhead {
        let (kept, next, failed, hits) = (Rc::default(), Cell::new(Lba(0)), Rc::default(), Cell::new(0));
        ReadAhead { below, locks: RangeLocks::new(), kept, next, failed, hits }
    }

    /// The data of `at`, if all of it was read ahead; with bytes, if `real`.
    fn kept(&self, at: Extent, real: bool) -> Option<Buffer> {
        let kept = self.kept.borrow();
        let (all, data) = kept.as_ref()?;
        let has_all = all.start <= at.start && at.end() <= all.end() && (data.is_real() || !real);
        has_all.then(|| data.cut_sectors(at.start.0 - all.start.0, at.sectors))
    }

    /// Reads on from here in a task of its own, into memory with or without bytes.
    fn read_on(&self, start: Lba, real: bool) {
        let sectors = AHEAD.min(self.below.geometry().sectors.saturating_sub(start.0));
        let at = Extent { start, sectors };
        let into = if real { Buffer::zeroed(at.bytes()) } else { Buffer::hollow(at.bytes()) };
        let (below, locks) = (self.below.clone(), self.locks.clone());
        let (kept, failed) = (self.kept.clone(), self.failed.clone());
        runtime::spawn(async move {
            // Exclusive: a read of these sectors waits until they are in memory.
            let _held = locks.exclusive(at, &Hints::default()).await;
            let read = below.read(at, into, Hints::default()).await;
            kept.replace(read.ok().filter(|_| !failed.get()).map(|data| (at, data)));
        })
        .detach();
    }

    /// Changes sectors below, after what was read ahead of them is forgotten.
    async fn change(&self, at: Extent, how: Hints, change: IoFuture<'_, ()>) -> Result<(), IoError> {
        let _held = self.locks.exclusive(at, &how).await;
        self.kept.borrow_mut().take_if(|(all, _)| all.overlaps(at));
        change.await.inspect_err(|_| self.failed.set(true))
    }
}

impl BlockDevice for ReadAhead {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let follows = self.next.replace(at.end()) == at.start;
            let _held = self.locks.shared(at, &how).await;
            let real = !into.is_hollow();
            let into = if let Some(data) = self.kept(at, real) {
                edge("a read is served from memory");
                self.hits.set(self.hits.get() + 1);
                data.for_each(|start, _, bytes| into.put(start, bytes.unwrap_or_default()));
                into
            } else {
                self.below.read(at, into, how).await?
            };
            let next = Extent { start: at.end(), sectors: 1 };
            if follows && next.end().0 <= self.below.geometry().sectors && self.kept(next, real).is_none() {
                self.read_on(next.start, real);
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.change(at, how.clone(), self.below.write(at, from, how)))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(self.change(at, how.clone(), self.below.write_zeroes(at, how, zeroes)))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.change(at, how.clone(), self.below.discard(at, how)))
    }
}

impl Layer for ReadAhead {
    fn counters(&self) -> Counters {
        vec![("reads_from_memory", self.hits.get())]
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.stop()
    }
}
