//! Tables 2 and 3 of the proximal paper (Schindler et al., FAST 2011, sections 5.2 and 5.3): random updates through
//! the layer `proximal`, and serial reads after them.
//!
//! An array is filled serially; then pages are updated at random, and destaged each time the staging area is full,
//! until half of all pages were updated. Each destage is measured by the disks' busy time; then logically contiguous
//! pages are read at random places, before the updates and after them.

use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{
    Account, BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Layer, Nanos, PAGE_BYTES, PAGE_SECTORS,
    Slice,
};
use seekless_drive::{QueueOptions, Simulated, Spec, Work, simulated, spec};
use seekless_layers::registry::{self, Below};
use seekless_layers::{Bytes, Proximal, proximal};

use super::shown::{Cell, Grid, Picture, Shown, numbers};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};

/// Table 2: random updates by the size of the staging area.
pub const TABLE_2: Entry = Entry {
    usual: 65_536,
    points: "staging areas, in per cent",
    ..Entry::new(
        "pages of the array",
        "proximal-table-2",
        "random updates through a staging area",
        "proximal paper (FAST 2011), section 5.2, Table 2",
        "5.3 to 9.0 I/Os a revolution; 2.7 ms an update at 1 %, 1.3 ms at 5 %",
        &["wd-re3-1tb"],
        table_2,
    )
};
/// Table 3: serial reads after random updates.
pub const TABLE_3: Entry = Entry {
    usual: 65_536,
    points: "staging areas, in per cent",
    ..Entry::new(
        "pages of the array",
        "proximal-table-3",
        "serial reads after random updates",
        "proximal paper (FAST 2011), section 5.3, Table 3",
        "3 % below a fresh layout",
        &["wd-re3-1tb"],
        table_3,
    )
};

/// Serial reads of the volume and of a snapshot, after updates since it was taken.
pub const SNAPSHOTS: Entry = Entry {
    usual: 65_536,
    points: "staging areas, in per cent",
    ..Entry::new(
        "pages of the array",
        "proximal-snapshot",
        "serial reads of a volume and of its snapshot, after random updates",
        "proximal paper (FAST 2011), section 3.3",
        "either with similar efficiency; no numbers",
        &["wd-re3-1tb"],
        snapshots,
    )
};

/// The flash of the staging area.
pub(super) const FLASH: &str = "samsung-pm9a3-1920gb";
/// Disks with data of the array; one more has the parity.
pub(super) const DATA_DISKS: usize = 4;
/// Blocks of a stripe unit.
const UNIT: u64 = 256;
/// Blocks of an allocation range: a unit without its checksum blocks.
pub(super) const RANGE: u64 = UNIT - UNIT / 64;
/// Pages of a serial read (section 5.3).
const READ: u64 = 974;
/// Serial reads of a measurement.
const READS: u64 = 400;
/// Account of destages.
const DESTAGED: Account = Account(1);
/// Cost of a random I/O of the paper's disk, in milliseconds: its OP.
const OP_MS: f64 = 11.1;
/// The paper's rows: staging area in per cent, milliseconds a batch, updates a batch, I/Os a revolution.
const PAPER: [(f64, f64, f64, f64); 8] = [
    (1.0, 129.5, 47.5, 5.3),
    (2.0, 155.0, 85.2, 7.2),
    (3.0, 182.9, 119.7, 8.1),
    (4.0, 227.6, 149.3, 7.7),
    (5.0, 235.9, 179.1, 8.7),
    (6.0, 278.4, 226.1, 9.0),
    (7.0, 315.4, 259.5, 9.0),
    (8.0, 320.9, 254.8, 8.7),
];

/// Result of a run.
pub(super) struct Run {
    /// Updates destaged, and destages.
    pub updates: f64,
    pub destages: f64,
    /// Time of destages, and the disks' work in them.
    pub destaging: Nanos,
    pub work: Work,
    /// Time of the updates and their destages, and how long the disks were busy in it.
    pub updating: Nanos,
    pub disks_busy: Nanos,
    /// Commands to the flash while pages were updated and destaged, and 512-byte blocks written by them.
    pub flash_commands: u64,
    pub flash_written: u64,
    /// Serial reads before and after the updates, in MB/s.
    fresh_mb_s: f64,
    aged_mb_s: f64,
    /// Those of the snapshot after them, if there was one.
    snapshot_mb_s: f64,
    /// Share of updates that did not find room in their range, in per cent.
    displaced_pct: f64,
}

/// What is run: the size of the staging area and the reserve as shares, whether free blocks are between pages, whether
/// a snapshot is taken before the updates, whether the map is copied to the disks, and after how many updates there is
/// a flush, if there is any.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub staging: f64,
    pub reserve: f64,
    pub spread: bool,
    pub snapshot: bool,
    pub copies: bool,
    pub flush_after: Option<u64>,
}

impl Setup {
    /// The usual reserve, and no snapshot.
    pub fn new(staging: f64, spread: bool) -> Setup {
        let reserve = proximal::Options::default().reserve;
        Setup { staging, reserve, spread, snapshot: false, copies: false, flush_after: None }
    }
}

fn too_small(what: &str) -> IoError {
    IoError::new(ErrorKind::Invalid, "figure", None, format!("{what} is too small"))
}

fn slice(of: Rc<dyn BlockDevice>, window: Extent) -> Result<Rc<dyn BlockDevice>, IoError> {
    Ok(Rc::new(Slice::new(of, window).ok_or_else(|| too_small("the drive"))?))
}

/// An array with checksums.
pub(super) struct Array {
    /// Its disks, the one with parity last.
    pub disks: Vec<Rc<dyn Simulated>>,
    /// The layer `raid4`.
    pub device: Rc<dyn BlockDevice>,
}

impl Array {
    /// An array of five disks, with room for this many pages.
    pub async fn new(drive: &Spec, pages: u64) -> Result<Array, IoError> {
        let disk = |number| simulated(number, &drive.clone().into(), QueueOptions::default());
        let disks: Vec<_> = (0..=DATA_DISKS as u32).map(disk).collect();
        // A unit is a range and its checksum blocks; the superblock of the array precedes them.
        let member = Extent::of_pages(0, UNIT * (1 + pages.div_ceil(DATA_DISKS as u64 * RANGE)));
        let mut over =
            disks.iter().map(|disk| slice(disk.clone().device(), member)).collect::<Result<Vec<_>, _>>()?;
        let parity = over.split_off(DATA_DISKS);
        let devices = BTreeMap::from([("parity".to_owned(), parity)]);
        let below = Below { over, devices, create: true, timing_only: true };
        let raid = registry::find("raid4").ok_or_else(|| too_small("the list of layers"))?;
        let device = raid.build(below, &toml::Table::new()).await?.device;
        Ok(Array { disks, device })
    }
}

/// A volume over an array, and its clients.
pub(super) struct Bench {
    disks: Vec<Rc<dyn Simulated>>,
    flash: Rc<dyn Simulated>,
    pub layer: Rc<Proximal>,
    pub pages: u64,
    rng: Rng,
    flush_after: Option<u64>,
}

impl Bench {
    /// A volume of about `pages` pages over an array of five disks.
    pub async fn new(
        drive: &Spec,
        model: &spec::Model,
        pages: u64,
        Setup { staging, reserve, spread, copies, flush_after, .. }: Setup,
    ) -> Result<Bench, IoError> {
        let range = Bytes(RANGE * PAGE_BYTES);
        let options = proximal::Options { range, reserve, spread, copies, ..proximal::Options::default() };
        let Array { disks, device: data } =
            Array::new(drive, (pages as f64 / (1.0 - options.reserve)) as u64).await?;
        let flash = simulated(DATA_DISKS as u32 + 1, model, QueueOptions::default());
        // Beside the staged pages, their headers, the map of the staging area, and the map of the volume.
        let extra = 8_192 + pages / 64;
        let staging = Extent::of_pages(0, (pages as f64 * staging * 1.1) as u64 + extra);
        let layer =
            Proximal::open(data, slice(flash.clone().device(), staging)?, &options, true, true).await?;
        let pages = layer.geometry().sectors / PAGE_SECTORS;
        Ok(Bench { disks, flash, layer, pages, rng: runtime::rng("figure"), flush_after })
    }

    /// The disks' work so far.
    fn work(&self, of: impl Fn(&dyn Simulated) -> Work) -> Work {
        let mut all = Work::default();
        self.disks.iter().for_each(|disk| all.add(&of(&**disk)));
        all
    }

    async fn write(&self, at: Extent) -> Result<(), IoError> {
        self.layer.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await
    }

    /// Writes all pages once, serially.
    pub async fn fill(&self) -> Result<(), IoError> {
        for at in Extent::of_pages(0, self.pages).split(1_024 * PAGE_SECTORS) {
            self.write(at).await?;
        }
        self.layer.flush(Hints::default()).await
    }

    /// Updates this many pages at random.
    pub async fn stage(&mut self, pages: u64) -> Result<(), IoError> {
        for number in 1..=pages {
            let page = self.rng.below(self.pages);
            self.write(Extent::of_pages(page, 1)).await?;
            if self.flush_after.is_some_and(|updates| number % updates == 0) {
                self.layer.flush(Hints::default()).await?;
            }
        }
        Ok(())
    }

    /// Writes what is staged to the disks.
    pub async fn destage(&self) -> Result<(), IoError> {
        let how = Hints { account: DESTAGED, ..Hints::default() };
        self.layer.command("destage", how).await.map(drop)
    }

    /// Updates pages at random, half of all in the end, and destages each time `staged` have come together: time
    /// of the destages, and their number.
    pub async fn update(&mut self, staged: u64) -> Result<(Nanos, f64), IoError> {
        let (mut took, mut destages) = (Nanos::ZERO, 0.0);
        for first in (0..self.pages / 2).step_by(staged as usize) {
            self.stage(staged.min(self.pages / 2 - first)).await?;
            let begin = runtime::now();
            self.destage().await?;
            took += runtime::now().since(begin);
            destages += 1.0;
        }
        Ok((took, destages))
    }

    /// Megabytes a second of serial reads of the volume at random places.
    async fn read(&mut self) -> Result<f64, IoError> {
        let layer = self.layer.clone();
        self.read_from(&*layer).await
    }

    /// Megabytes a second of such reads of a snapshot.
    async fn read_snapshot(&mut self) -> Result<f64, IoError> {
        let view = self.layer.views().pop().ok_or_else(|| too_small("the list of snapshots"))?;
        self.read_from(&*view.device).await
    }

    async fn read_from(&mut self, device: &dyn BlockDevice) -> Result<f64, IoError> {
        let begin = runtime::now();
        let length = READ.min(self.pages);
        for _ in 0..READS {
            let at = Extent::of_pages(self.rng.below(self.pages - length + 1), length);
            device.read(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
        }
        let bytes = (READS * length * PAGE_BYTES) as f64;
        Ok(bytes / 1e6 / runtime::now().since(begin).seconds())
    }
}

/// A run with this setup.
pub(super) fn run(job: &Job, setup: Setup) -> Result<Run, LabError> {
    let Setup { staging, snapshot, .. } = setup;
    let (mut drive, flash) = (job.drive().clone(), spec::Model::find(FLASH)?);
    drive.set_write_cache(false);
    let runtime = Runtime::new(job.seed);
    let ran = runtime.run(async {
        let mut bench = Bench::new(&drive, &flash, job.requests, setup).await?;
        bench.fill().await?;
        let fresh_mb_s = bench.read().await?;
        if snapshot {
            bench.layer.create_snapshot("fresh").await?;
        }
        let staged = ((bench.pages as f64 * staging) as u64).max(1);
        let (before, begin) = (bench.flash.all(), runtime::now());
        let busy_before = bench.work(|disk| disk.all()).busy();
        let (destaging, destages) = bench.update(staged).await?;
        let updating = runtime::now().since(begin);
        let disks_busy = bench.work(|disk| disk.all()).busy() - busy_before;
        let flash = bench.flash.all();
        let aged_mb_s = bench.read().await?;
        let snapshot_mb_s = if snapshot { bench.read_snapshot().await? } else { 0.0 };
        let counters = bench.layer.counters();
        let of =
            |name: &str| counters.iter().find(|(key, _)| *key == name).map_or(0.0, |found| found.1 as f64);
        let displaced_pct = 100.0 * of("pages_displaced") / of("pages_destaged").max(1.0);
        let updates = of("pages_destaged");
        Ok::<_, IoError>(Run {
            updates,
            destages,
            destaging,
            work: bench.work(|disk| disk.account(DESTAGED)),
            updating,
            disks_busy,
            flash_commands: flash.commands - before.commands,
            flash_written: flash.blocks_written - before.blocks_written,
            fresh_mb_s,
            aged_mb_s,
            snapshot_mb_s,
            displaced_pct,
        })
    });
    ran.map_err(LabError::from)?.map_err(LabError::from)
}

fn table_2(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("staging_pct", "staging %", 0),
        numbers("updates", "updates", 0),
        numbers("destages", "destages", 0),
        numbers("ms_per_update", "ms/update", 2),
        numbers("paper_ms_per_update", "the paper's", 2),
        numbers("op_per_update", "OP/update", 2),
        numbers("ios_per_update", "I/Os/update", 2),
        numbers("ios_per_revolution", "I/Os/rev.", 1),
        numbers("paper_ios_per_revolution", "the paper's", 1),
        numbers("displaced_pct", "displaced %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let revolution = 60_000.0 / job.drive().rpm;
    let points = job.points(&PAPER, |(pct, ..)| pct.to_string())?;
    for (done, (pct, batch_ms, writes, ios)) in points.iter().copied().enumerate() {
        job.progress(done, points.len());
        let run = run(job, Setup::new(pct / 100.0, true))?;
        let (updates, busy_ms) = (run.updates.max(1.0), run.work.busy().seconds() * 1e3);
        let ms = run.destaging.seconds() * 1e3 / updates;
        let per_revolution = revolution * run.work.commands as f64 / busy_ms.max(1e-9);
        let cells = [
            pct.into(),
            updates.into(),
            run.destages.into(),
            ms.into(),
            job.theirs(Some(batch_ms / writes)),
            (busy_ms / updates / OP_MS).into(),
            (run.work.commands as f64 / updates).into(),
            per_revolution.into(),
            job.theirs(Some(ios)),
            run.displaced_pct.into(),
        ];
        job.row(&mut grid, cells);
    }
    let pictures = plot(&grid, ["ms_per_update", "paper_ms_per_update"], "ms an update");
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}

/// Columns by the size of the staging area.
fn plot<const N: usize>(grid: &Grid, keys: [&str; N], label: &'static str) -> Vec<(String, Picture)> {
    let plot = Plot {
        along: Along::Linear(grid.column("staging_pct").into_iter().flatten().collect()),
        along_label: "staging area, per cent of the volume",
        value_label: label,
        series: keys.map(|key| Series { name: key.replace('_', " "), values: grid.column(key) }).into(),
        ..Plot::default()
    };
    vec![(label.to_owned(), Picture::Lines(plot))]
}

/// What differs from the paper's setup.
const NOTES: [&str; 1] = [
    "An array of four disks and parity, with checksums, on a part of its disks. A destage goes \
                           through all of it in one sweep; the paper's batches are those of an extent of 16 MB, after a \
                           random seek of each disk.",
];

fn table_3(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("staging_pct", "staging %", 0),
        numbers("packed_mb_s", "packed MB/s", 1),
        numbers("packed_aged_mb_s", "aged", 1),
        numbers("packed_loss_pct", "loss %", 1),
        numbers("spread_mb_s", "spread MB/s", 1),
        numbers("spread_aged_mb_s", "aged", 1),
        numbers("spread_loss_pct", "loss %", 1),
        numbers("loss_to_packed_pct", "to packed %", 1),
        numbers("paper_loss_pct", "the paper's", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let points = job.points(&STAGING, |pct| pct.to_string())?;
    for (done, pct) in points.iter().copied().enumerate() {
        job.progress(done, points.len());
        let setup = |spread| Setup::new(pct / 100.0, spread);
        let (packed, spread) = (run(job, setup(false))?, run(job, setup(true))?);
        let loss = |from: &Run, to: &Run| Cell::from(100.0 * (1.0 - to.aged_mb_s / from.fresh_mb_s));
        let cells = [
            pct.into(),
            packed.fresh_mb_s.into(),
            packed.aged_mb_s.into(),
            loss(&packed, &packed),
            spread.fresh_mb_s.into(),
            spread.aged_mb_s.into(),
            loss(&spread, &spread),
            loss(&packed, &spread),
            job.theirs((pct <= 1.0).then_some(3.1)),
        ];
        job.row(&mut grid, cells);
    }
    let pictures = plot(
        &grid,
        ["packed_mb_s", "packed_aged_mb_s", "spread_mb_s", "spread_aged_mb_s"],
        "MB/s of serial reads",
    );
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}

/// Staging areas of serial reads, in per cent of the array.
const STAGING: [f64; 3] = [1.0, 2.0, 5.0];

/// Share of an array that is kept free for a snapshot of all of it: it is filled to 55 %.
const FREE: f64 = 0.45;

fn snapshots(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("staging_pct", "staging %", 0),
        numbers("packed_mb_s", "packed MB/s", 1),
        numbers("packed_aged_mb_s", "aged", 1),
        numbers("packed_snapshot_mb_s", "snapshot", 1),
        numbers("spread_mb_s", "spread MB/s", 1),
        numbers("spread_aged_mb_s", "aged", 1),
        numbers("aged_loss_pct", "loss %", 1),
        numbers("spread_snapshot_mb_s", "snapshot", 1),
        numbers("snapshot_loss_pct", "loss %", 1),
        numbers("displaced_pct", "displaced %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let points = job.points(&STAGING, |pct| pct.to_string())?;
    for (done, pct) in points.iter().copied().enumerate() {
        job.progress(done, points.len());
        let setup = |spread| Setup { reserve: FREE, snapshot: true, ..Setup::new(pct / 100.0, spread) };
        let (packed, spread) = (run(job, setup(false))?, run(job, setup(true))?);
        let loss = |to: f64| Cell::from(100.0 * (1.0 - to / spread.fresh_mb_s));
        let cells = [
            pct.into(),
            packed.fresh_mb_s.into(),
            packed.aged_mb_s.into(),
            packed.snapshot_mb_s.into(),
            spread.fresh_mb_s.into(),
            spread.aged_mb_s.into(),
            loss(spread.aged_mb_s),
            spread.snapshot_mb_s.into(),
            loss(spread.snapshot_mb_s),
            spread.displaced_pct.into(),
        ];
        job.row(&mut grid, cells);
    }
    let keys = ["packed_aged_mb_s", "packed_snapshot_mb_s", "spread_aged_mb_s", "spread_snapshot_mb_s"];
    let pictures = plot(&grid, keys, "MB/s of serial reads");
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}
