//! Cost of random writes (section 5.4 of the proximal paper, FAST 2011): a disk alone, and with flash to stage writes
//! in.
//!
//! The paper takes disk I/Os for writes of users: of the I/Os in a revolution it adds an average seek, and divides by
//! the price. That formula is printed with the simulated figures in it; beside it the same by writes of users, of which
//! each needs several I/Os of an array with parity and checksums.

use futures_util::future::try_join_all;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};
use seekless_drive::{QueueOptions, Spec, Work, simulated};

use super::engine::{self, Array, DATA_DISKS, Setup};
use super::shown::{Grid, Picture, Shown, numbers};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};

/// Section 5.4.
pub const COST: Entry = Entry {
    usual: 65_536,
    priced: true,
    ..Entry::new(
        "pages of the array",
        "proximal-cost",
        "cost of random writes, of a disk alone and with flash to stage them in",
        "proximal paper (FAST 2011), section 5.4",
        "86 I/Os a second at $1.52 each, 333 at $0.48 with 1 % of flash",
        &["wd-re3-1tb"],
        cost,
    )
};

/// Prices, and how often flash can be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Price of a disk, in dollars.
    pub disk: f64,
    /// Price of flash, in dollars for a gigabyte (10^9 bytes).
    pub flash_gb: f64,
    /// How often all of the flash can be written.
    pub flash_writes: f64,
}

impl Default for Prices {
    /// The paper's prices; once a day for five years, as makers rate flash for servers.
    fn default() -> Prices {
        Prices { disk: 130.0, flash_gb: 3.13, flash_writes: 1_825.0 }
    }
}

/// Sizes of the staging area, in per cent; the paper's I/Os a second and dollars for each.
const ROWS: [(f64, Option<(f64, f64)>); 4] =
    [(1.0, Some((333.0, 0.48))), (2.0, None), (5.0, None), (8.0, None)];
/// Writes of a measurement without flash.
const WRITES: u64 = 2_000;
/// Outstanding ones of those to an array.
const OUTSTANDING: u64 = 8;
const YEAR_S: f64 = 365.25 * 86_400.0;

/// The disk's work for random writes all over it, one after the other.
fn alone(job: &Job, drive: &Spec) -> Result<Work, LabError> {
    let ran = Runtime::new(job.seed).run(async {
        let disk = simulated(0, &drive.clone().into(), QueueOptions::default());
        let device = disk.clone().device();
        let (pages, mut rng) = (device.geometry().sectors / PAGE_SECTORS, runtime::rng("figure"));
        for _ in 0..WRITES {
            let at = Extent::of_pages(rng.below(pages), 1);
            device.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
        }
        Ok::<_, IoError>(disk.all())
    });
    ran.map_err(LabError::from)?.map_err(LabError::from)
}

/// Writes a second of clients to an array without a staging area.
fn unstaged(job: &Job, drive: &Spec) -> Result<f64, LabError> {
    let ran = Runtime::new(job.seed).run(async {
        let device = Array::new(drive, job.requests).await?.device;
        let begin = runtime::now();
        let clients = (0..OUTSTANDING).map(async |_| {
            let mut rng = runtime::rng("figure");
            for _ in 0..WRITES / OUTSTANDING {
                let at = Extent::of_pages(rng.below(job.requests), 1);
                device.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await?;
            }
            Ok::<_, IoError>(())
        });
        try_join_all(clients).await?;
        Ok::<_, IoError>(WRITES as f64 / runtime::now().since(begin).seconds())
    });
    ran.map_err(LabError::from)?.map_err(LabError::from)
}

fn cost(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("staging_pct", "staging %", 0),
        numbers("flash_gb", "flash GB", 0),
        numbers("price", "price $", 2),
        numbers("ios_per_s", "I/Os/s", 0),
        numbers("paper_ios_per_s", "the paper's", 0),
        numbers("dollars_per_io_per_s", "$ each", 2),
        numbers("paper_dollars_per_io_per_s", "the paper's", 2),
        numbers("user_writes_per_s", "writes/s", 0),
        numbers("dollars_per_user_write_per_s", "$ each", 2),
        numbers("flash_ios_per_batch", "flash I/Os/batch", 0),
        numbers("flash_bytes_per_user_byte", "flash B/B", 2),
        numbers("years", "years", 2),
    ];
    let mut grid = Grid::new("", &columns);
    let mut drive = job.drive().clone();
    drive.set_write_cache(false);
    job.progress(0, ROWS.len() + 1);
    let seek_s = disk_alone(job, &drive, &mut grid)?;
    for (done, (pct, paper)) in ROWS.into_iter().enumerate() {
        job.progress(done + 1, ROWS.len() + 1);
        with_flash(job, &drive, seek_s, (pct, paper), &mut grid)?;
    }
    let series = |name: &str, key| Series { name: name.to_owned(), values: grid.column(key) };
    let plot = Plot {
        along: Along::Linear(grid.column("staging_pct").into_iter().flatten().collect()),
        along_label: "staging area, per cent of the disk",
        value_label: "dollars",
        series: vec![
            series("an I/O a second", "dollars_per_io_per_s"),
            series("a user's write a second", "dollars_per_user_write_per_s"),
        ],
        ..Plot::default()
    };
    Ok(job.shown(grid, Vec::new(), &NOTES, vec![("dollars".to_owned(), Picture::Lines(plot))]))
}

/// The row of a disk without flash; returns its average seek, in seconds.
fn disk_alone(job: &Job, drive: &Spec, grid: &mut Grid) -> Result<f64, LabError> {
    let (work, users) = (alone(job, drive)?, unstaged(job, drive)?);
    let (price, ios) = (job.prices.disk, WRITES as f64 / work.busy().seconds());
    grid.row([
        0.0.into(),
        0.0.into(),
        price.into(),
        ios.into(),
        job.theirs(Some(86.0)),
        (price / ios).into(),
        job.theirs(Some(1.52)),
        users.into(),
        ((DATA_DISKS as f64 + 1.0) * price / users).into(),
        None.into(),
        None.into(),
        None.into(),
    ]);
    Ok(work.seek.seconds() / WRITES as f64)
}

/// The row of a staging area of `pct` per cent, with the paper's values if there are any.
fn with_flash(
    job: &Job,
    drive: &Spec,
    seek_s: f64,
    (pct, paper): (f64, Option<(f64, f64)>),
    grid: &mut Grid,
) -> Result<(), LabError> {
    let run = engine::run(job, Setup::new(pct / 100.0, true))?;
    let (prices, data) = (job.prices, DATA_DISKS as f64);
    let revolution_s = 60.0 / drive.rpm;
    let per_revolution = revolution_s * run.work.commands as f64 / run.work.busy().seconds().max(1e-9);
    let ios = per_revolution / (revolution_s + seek_s);
    let flash_gb = drive.sectors as f64 * SECTOR_BYTES as f64 / 1e9 * pct / 100.0;
    let price = prices.disk + flash_gb * prices.flash_gb;
    let users = run.updates / run.destaging.seconds().max(1e-9);
    let array = (data + 1.0) * prices.disk + data * flash_gb * prices.flash_gb;
    let per_byte = (run.flash_written * SECTOR_BYTES) as f64 / (run.updates * PAGE_BYTES as f64);
    let written_per_s = users * PAGE_BYTES as f64 * per_byte;
    let has_their_prices = prices == Prices::default();
    grid.row([
        pct.into(),
        flash_gb.into(),
        price.into(),
        ios.into(),
        job.theirs(paper.map(|(ios, _)| ios)),
        (price / ios).into(),
        job.theirs(paper.map(|(_, dollars)| dollars).filter(|_| has_their_prices)),
        users.into(),
        (array / users).into(),
        (run.flash_commands as f64 / run.destages.max(1.0)).into(),
        per_byte.into(),
        (prices.flash_writes * data * flash_gb * 1e9 / written_per_s / YEAR_S).into(),
    ]);
    Ok(())
}

/// How the columns are meant.
const NOTES: [&str; 2] = [
    "I/Os a second, price and dollars are of one disk and its flash, by the paper's formula: I/Os of a revolution in the time \
     of a revolution and a seek. Writes a second are those of users to an array of four disks and parity while it destages; \
     a write needs several I/Os.",
    "Years: how long the flash lasts if users write at that rate all the time.",
];
