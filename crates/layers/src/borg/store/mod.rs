//! The store: what the BOPT holds, on disk and in memory (sections 3.3, 4.6 and 5.1).
//!
//! Only the store reads and writes metadata. `format` encodes pages of metadata, `layout` places them; `map` is
//! `borg_map`, `segments` the state of each segment, `log` the write buffer. `recovery` opens a BOPT; `append` absorbs
//! pages, `update` maps and unmaps them; `checkpoint` makes the map durable, `session` begins and ends what a crash may
//! interrupt, `metadata` keeps two copies of each page of metadata.
//!
//! Callers hold the lock of a page while they change its entry; the store's metadata lock orders writes of metadata.
//!
//! Invariants: a slot is handed out only when no entry names it; a copy is dirty on disk before it is overwritten; no
//! flush succeeds after one that failed. A page has at most one valid entry.
//!
//! Fault model: power may fail at any time, and any subset of unflushed sectors may survive; any request may fail.

mod append;
mod area;
mod checkpoint;
mod eager;
mod flush;
mod fork;
pub mod format;
mod formatting;
mod headers;
mod holes;
mod layout;
mod learned;
mod log;
mod lookup;
mod map;
mod metadata;
mod recovery;
mod restored;
mod segments;
mod session;
mod state;
mod sums;
mod table;
mod unproven;
mod update;
mod upgrade;
mod witness;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use seekless_core::lock::Guard;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Mode, PAGE_SECTORS, RangeLocks, mutant};

pub use append::Appended;
pub use fork::Fork;
pub use format::SAMPLES;
pub use layout::{FEWEST_PAGES, LARGEST_SEGMENT, Layout, SMALLEST_SEGMENT};
pub use learned::LearnedState;
pub use lookup::Entry;
pub use map::{BorgMap, Slot};
pub use session::LastStop;
pub use state::State;
pub use update::Update;

use self::format::{OLD, Super};
use learned::Copies;
use metadata::Supers;
use session::Session;
use table::Table;
use witness::Witness;

use super::did;
use crate::canary::Canary;

/// State of the BOPT, on disk and in memory.
pub struct Store {
    origin: Rc<dyn BlockDevice>,
    bopt: Rc<dyn BlockDevice>,
    layout: Layout,
    /// The metadata lock.
    metadata: RangeLocks,
    /// Locks of segments whose headers are being read.
    headers: RangeLocks,
    /// Lock of the area of what was learned, while a part of it is written.
    learned: RangeLocks,
    /// Whether copies carry no data.
    timing_only: bool,
    /// Whether a batch may begin anywhere in its segment.
    eager: bool,
    canary: Canary,
    table: RefCell<Table>,
    disk: RefCell<Disk>,
    /// Whether the first session of a new BOPT is being begun in the background.
    beginning: Cell<bool>,
    /// Whether unproven copies that differ show nothing ([`Super::uncompared`]).
    excused: Cell<bool>,
    /// What opening could not read.
    unreadable: RefCell<Vec<String>>,
    witness: Witness,
    me: Weak<Store>,
}

/// On-disk state other than entries.
pub struct Disk {
    /// The current super page.
    pub(super) super_page: Super,
    /// State of its two copies.
    pub(super) supers: Supers,
    /// Whether both copies of all map pages were written.
    maps_written: bool,
    session: Session,
    /// Torn pages of metadata of version 1.
    torn: Vec<u64>,
    /// The error of every later flush.
    failed: Option<IoError>,
    /// The error of every later flush of the BOPT.
    bopt_failed: Option<IoError>,
    /// Position, in the order in which segments were taken ([`segments::Segment::taken`]), of the segment at which
    /// recovery would begin.
    anchor_taken: u64,
    /// Map pages and headers of batches written.
    metadata_pages: u64,
    /// State of the area of what was learned.
    learned: Copies,
}

/// Parameters for opening a store.
pub struct Setup {
    /// Layout of the BOPT.
    pub layout: Layout,
    /// Whether pages carry no data: for runs that only measure time.
    pub timing_only: bool,
    /// Whether batches are placed where the head arrives first.
    pub eager: bool,
    /// The enabled canary.
    pub canary: Canary,
    /// Whether a damaged BOPT is opened as far as it can be read: see [`Store::unreadable`].
    pub lenient: bool,
}

impl Store {
    /// Opens the BOPT of `origin`: recovery (section 5.1). A blank one is empty, and is formatted before its first
    /// change. Fails if the BOPT belongs to another volume, has another layout, or is damaged.
    pub async fn open(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        setup: Setup,
    ) -> Result<Rc<Store>, IoError> {
        let sectors = origin.geometry().sectors;
        let pages = sectors.div_ceil(PAGE_SECTORS);
        let blank = Super::blank(setup.layout, bopt.geometry().sectors / PAGE_SECTORS, sectors);
        let recovery::Opened { map, segments, log, disk, extras } =
            recovery::open(&*bopt, pages, blank, setup.lenient).await?;
        let disk = Disk {
            super_page: disk,
            supers: extras.supers,
            maps_written: extras.maps_written,
            session: Session::Unchanged,
            torn: extras.torn,
            failed: None,
            bopt_failed: None,
            anchor_taken: 0,
            metadata_pages: 0,
            learned: Copies::default(),
        };
        let table = Table::new(map, segments, log, extras.sums);
        let store = Store::over(origin, bopt, setup, table, disk);
        store.unreadable.replace(extras.forgiven.unwrap_or_default());
        store.write_repaired(extras.repaired).await?;
        if store.disk.borrow().super_page.is_upgrading() {
            store.end_upgrade(&Hints::default()).await?;
        }
        if !store.timing_only {
            let unread = store.segments_to_read();
            store.table.borrow_mut().unread = unread;
        }
        Ok(store)
    }

    fn over(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        setup: Setup,
        mut table: Table,
        disk: Disk,
    ) -> Rc<Store> {
        let Setup { layout, timing_only, eager, canary, lenient: _ } = setup;
        table.log.summed &= !timing_only;
        Rc::new_cyclic(|me| Store {
            origin,
            bopt,
            layout,
            metadata: RangeLocks::new(),
            headers: RangeLocks::new(),
            learned: RangeLocks::new(),
            timing_only,
            eager: eager && disk.super_page.version != OLD,
            canary,
            table: RefCell::new(table),
            disk: RefCell::new(disk),
            beginning: Cell::new(false),
            excused: Cell::new(false),
            unreadable: RefCell::default(),
            witness: Witness::default(),
            me: me.clone(),
        })
    }

    /// What a lenient opening could not read, each in words.
    pub fn unreadable(&self) -> Vec<String> {
        self.unreadable.borrow().clone()
    }

    /// Layout of the BOPT.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Identity of the BOPT; `None` before formatting.
    pub fn identity(&self) -> Option<u128> {
        Some(self.disk.borrow().super_page.identity).filter(|identity| *identity != 0)
    }

    /// Generation of the super page; `None` before formatting.
    pub fn generation(&self) -> Option<u64> {
        Some(self.disk.borrow().super_page.generation).filter(|generation| *generation != 0)
    }

    /// Map pages and headers of batches written since opening.
    pub fn metadata_pages(&self) -> u64 {
        self.disk.borrow().metadata_pages
    }

    /// Takes the metadata lock.
    async fn lock_metadata(&self, how: &Hints) -> Guard {
        self.metadata.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone()).await
    }

    /// A buffer for pages of metadata.
    fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow_sectors(at.sectors) } else { Buffer::zeroed(at.bytes()) }
    }

    /// Whether the BOPT's writes are durable without a flush.
    fn is_durable_at_once(&self) -> bool {
        !self.bopt.geometry().volatile_cache || mutant::is("borg: a BOPT counts as one without a write cache")
    }
}

#[cfg(test)]
impl Store {
    /// The map.
    pub fn table(&self) -> std::cell::Ref<'_, Table> {
        self.table.borrow()
    }

    /// The on-disk state.
    pub fn disk(&self) -> std::cell::Ref<'_, Disk> {
        self.disk.borrow()
    }

    /// Has a blank BOPT formatted as version 1.
    pub fn make_old(&self) {
        let free = (self.layout.read_cache..self.layout.segments()).collect();
        self.disk.borrow_mut().super_page.version = format::OLD;
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
