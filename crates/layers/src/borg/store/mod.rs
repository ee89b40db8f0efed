//! The store: what the BOPT holds, on disk and in memory (sections 3.3, 4.6 and 5.1).
//!
//! It alone reads and writes metadata. `format` is how pages of metadata look as bytes, `layout` where they are; `map`
//! is `borg_map`, `segments` what is known of each segment, `log` the write buffer. A BOPT is opened by `recovery`;
//! pages are absorbed by `append`, mapped and unmapped by `update`; `checkpoint` makes the map durable, `session`
//! begins and ends what a crash may interrupt, `metadata` keeps two copies of each page of metadata.
//!
//! Callers hold the lock of a page while they change its entry; a metadata lock of the store's own orders what is
//! written of the map.
//!
//! Invariants: a page has at most one entry that counts; a slot is used again only when no entry on disk names it; a
//! copy is dirty on disk before it is overwritten; a flush that failed lets all later ones fail.
//!
//! Fault model: power may go at any time, and any sectors of what was not flushed may survive; any request may fail.

mod append;
mod checkpoint;
mod flush;
mod fork;
pub mod format;
mod formatting;
mod layout;
mod log;
mod lookup;
mod map;
mod metadata;
mod recovery;
mod segments;
mod session;
mod sums;
mod table;
mod unproven;
mod update;
mod upgrade;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::lock::Guard;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Mode, PAGE_SECTORS, RangeLocks};

pub use append::Appended;
pub use fork::Fork;
pub use format::{PAGE, SAMPLES};
pub use layout::{FEWEST_PAGES, LARGEST_SEGMENT, Layout, SMALLEST_SEGMENT};
pub use lookup::Entry;
pub use map::{BorgMap, Slot};
pub use session::LastStop;

use self::format::Super;
use metadata::Supers;
use session::Session;
use table::Table;

use super::did;
use crate::canary::Canary;

/// What the BOPT holds.
pub struct Store {
    origin: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    layout: Layout,
    /// Held by whoever writes metadata.
    metadata: RangeLocks,
    /// Pages move without their bytes.
    timing_only: bool,
    canary: Canary,
    table: RefCell<Table>,
    disk: RefCell<Disk>,
    /// The first session of a new BOPT is being begun in the background.
    beginning: Cell<bool>,
    me: Weak<Store>,
}

/// What is on disk, besides the entries.
pub struct Disk {
    /// The super page that counts.
    pub(super) page: Super,
    /// Its two copies.
    pub(super) supers: Supers,
    session: Session,
    /// Pages of metadata of version 1 that are not whole.
    torn: Vec<u64>,
    /// Why every later flush fails.
    failed: Option<IoError>,
    /// The number of the segment that recovery would begin to read the log in.
    anchored_at: u64,
    /// Pages of metadata written, super pages not counted.
    map_pages: u64,
}

/// How a store is opened.
pub struct Setup {
    /// How the BOPT is divided.
    pub layout: Layout,
    /// Pages carry no bytes: for runs that only measure time.
    pub timing_only: bool,
    /// The known bug that is let loose.
    pub canary: Canary,
}

impl Store {
    /// Opens what `bopt` holds for `origin`: recovery (section 5.1). A blank one is empty, and is formatted before its
    /// first change. Fails where the BOPT is another volume's, divided otherwise, or damaged.
    pub async fn open(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        setup: Setup,
    ) -> Result<Rc<Store>, IoError> {
        let sectors = origin.geometry().sectors;
        let pages = sectors.div_ceil(PAGE_SECTORS);
        let blank = Super::blank(setup.layout, bopt.geometry().sectors / PAGE_SECTORS, sectors);
        let recovery::Opened { map, segments, log, disk, aside } =
            recovery::open(&*bopt, pages, blank).await?;
        let disk = Disk {
            page: disk,
            supers: aside.supers,
            session: Session::Untouched,
            torn: aside.torn,
            failed: None,
            anchored_at: 0,
            map_pages: 0,
        };
        let table = Table::new(map, segments, log, aside.sums);
        let store = Store::over(origin, bopt, setup, table, disk);
        store.write_mended(aside.mended).await?;
        if store.disk.borrow().page.is_upgrading() {
            store.end_upgrade(&Hints::default()).await?;
        }
        Ok(store)
    }

    fn over(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        setup: Setup,
        table: Table,
        disk: Disk,
    ) -> Rc<Store> {
        let Setup { layout, timing_only, canary } = setup;
        Rc::new_cyclic(|me| Store {
            origin,
            bopt,
            layout,
            metadata: RangeLocks::new(),
            timing_only,
            canary,
            table: RefCell::new(table),
            disk: RefCell::new(disk),
            beginning: Cell::new(false),
            me: me.clone(),
        })
    }

    /// How the BOPT is divided.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Identity of the BOPT; `None` before it was formatted.
    pub fn identity(&self) -> Option<u128> {
        Some(self.disk.borrow().page.identity).filter(|identity| *identity != 0)
    }

    /// Pages of metadata written since it was opened, super pages not counted.
    pub fn map_pages(&self) -> u64 {
        self.disk.borrow().map_pages
    }

    /// Waits for the metadata lock.
    async fn lock_metadata(&self, how: &Hints) -> Guard {
        self.metadata.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone()).await
    }

    /// A buffer for pages of metadata.
    fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) }
    }

    /// The BOPT keeps what it acknowledged, without a flush.
    fn is_durable_at_once(&self) -> bool {
        !self.bopt.geometry().volatile_cache
    }
}

#[cfg(test)]
impl Store {
    /// What is mapped.
    pub fn table(&self) -> std::cell::Ref<'_, Table> {
        self.table.borrow()
    }

    /// What is on disk.
    pub fn disk(&self) -> std::cell::Ref<'_, Disk> {
        self.disk.borrow()
    }

    /// Makes a blank one that is formatted as a program would that knows version 1 only.
    pub fn make_old(&self) {
        let free = (self.layout.read_cache..self.layout.segments()).collect();
        self.disk.borrow_mut().page.version = format::OLD;
        self.table.borrow_mut().log = log::Log::new(self.layout, format::OLD, free, 0, 0);
    }

    /// Writes a super page with a change.
    pub async fn change_super(&self, change: impl FnOnce(&mut Super), how: &Hints) -> Result<(), IoError> {
        self.write_super(change, how).await
    }

    /// The slot of a page's copy.
    pub fn slot_of(&self, page: u64) -> Option<Slot> {
        self.lookup(page).map(|entry| entry.slot)
    }
}
