//! Opening the layer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::{
    BlockDevice, ErrorKind, Extent, FailedWrites, IoError, PAGE_BYTES, PAGE_SECTORS, RangeLocks, runtime,
};

use super::Borg;
use super::accuracy::Accuracy;
use super::analyzer::Edges;
use super::copy_on_read::CopyOnRead;
use super::course::Writes;
use super::devices::Devices;
use super::early::Early;
use super::fallback::Fallback;
use super::gain::Measuring;
use super::history::History;
use super::homing::Homing;
use super::idle::Idle;
use super::keeping::Keeping;
use super::learned::Learned;
use super::mover::Movers;
use super::options::Options;
use super::profiler::Arrivals;
use super::return_on_read::ReturnOnRead;
use super::store::{self, Layout, Setup, Store};
use super::verifier::Verifier;

impl Borg {
    /// Opens BORG over `origin`, with copies in `bopt`, which must have been created for it ([`Borg::format_new`]). A
    /// BOPT of zeroes is refused: the one that was there before may have held newer pages. With `timing_only`, pages
    /// move without their data.
    pub async fn open(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let borg = Borg::open_creating(origin, bopt, options, timing_only).await?;
        if borg.store.identity().is_none() {
            let why = "found no BOPT but zeroes, or one whose creation did not end, expected the one that was created \
                       for what it lies over; if there never was one: seekless volume create; if its beginning was \
                       lost: seekless volume repair finds its pages";
            return Err(IoError::new(ErrorKind::Invalid, "borg", Some(Extent::of_pages(0, 2)), why));
        }
        Ok(borg)
    }

    /// As `open`, but a BOPT of zeroes, or one whose creation was interrupted, is taken for a new one: the store
    /// formats it before its first change.
    pub async fn open_creating(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        timing_only: bool,
    ) -> Result<Rc<Borg>, IoError> {
        let layout = Borg::layout_of(bopt.geometry().sectors / PAGE_SECTORS, &options)?;
        let devices = Devices::counted(origin, bopt);
        let setup =
            Setup { layout, timing_only, eager: options.eager, canary: options.canary(), lenient: false };
        let store = Store::open(devices.origin.clone(), devices.bopt.clone(), setup).await?;
        let borg = Borg::over(devices, store, options, timing_only);
        borg.check_origin().await?;
        borg.recall().await?;
        borg.ledger.take();
        borg.start_idle_work();
        Ok(borg)
    }

    /// The layer over an open store.
    pub(super) fn over(devices: Devices, store: Rc<Store>, options: Options, timing_only: bool) -> Rc<Borg> {
        let Devices { origin, bopt, ledger } = devices;
        let pages = origin.geometry().sectors.div_ceil(PAGE_SECTORS);
        // Until a rehearsal finds something better, everything goes to the origin.
        let rehearses = options.rehearse && origin.model().is_some() && bopt.model().is_some();
        Rc::new_cyclic(|me| Borg {
            origin,
            bopt,
            store,
            granularity: (0..32).find(|granularity| pages >> granularity < u64::from(u32::MAX)).unwrap_or(32),
            locks: RangeLocks::new(),
            movers: Movers::default(),
            after_drains: RefCell::default(),
            failed_writes: FailedWrites::default(),
            fallback: Fallback::default(),
            copy_on_read: CopyOnRead::new(options.copied_on_read()),
            return_on_read: ReturnOnRead::default(),
            homing: Homing::default(),
            verifier: Verifier::new(),
            origin_state: RefCell::default(),
            accuracy: Accuracy::default(),
            measuring: Measuring::new(options.measure_share),
            history: History::new(),
            learned: RefCell::new(Learned::new(
                pages,
                options.profile_memory.0 / 2,
                options.edges == Edges::Global || options.rehearse,
            )),
            watch: Cell::default(),
            idle: RefCell::new(Idle { last_request: runtime::now(), ..Idle::default() }),
            keeping: Keeping::default(),
            ledger,
            timing_only,
            writes: Cell::new(Writes { absorbs: options.absorb && !rehearses, drains: false }),
            emptying: Cell::default(),
            rehearses,
            early: Early::default(),
            arrivals: Arrivals::default(),
            page_writes: Cell::new(0),
            canary: options.canary(),
            options,
            me: me.clone(),
        })
    }

    /// Layout of a BOPT of `pages` pages.
    pub(super) fn layout_of(pages: u64, options: &Options) -> Result<Layout, IoError> {
        let invalid = |why: String| IoError::new(ErrorKind::Invalid, "borg", None, why);
        options.check().map_err(|refused| invalid(refused.to_string()))?;
        Layout::new(pages, options.segment.0 / PAGE_BYTES, options.write_buffer).ok_or_else(|| {
            let least = store::FEWEST_PAGES;
            invalid(format!("found a BOPT of {pages} pages of 4 KiB, expected at least {least}"))
        })
    }
}
