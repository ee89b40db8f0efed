//! What copies of the map on the disks cost (option `copies` of `proximal`): the updates of Table 2 with them and
//! without.

use super::engine::{self, Run, Setup};
use super::shown::{Cell, Grid, Shown, numbers};
use super::{Entry, Job};
use crate::error::LabError;

/// Updates with copies of the map, and without.
pub const COPIES: Entry = Entry {
    usual: 65_536,
    points: "staging areas, in per cent",
    ..Entry::new(
        "pages of the array",
        "proximal-copies",
        "random updates with copies of the map on the disks, and without",
        "proximal paper (FAST 2011), section 4.2",
        "nothing in numbers",
        &["wd-re3-1tb"],
        copies,
    )
};

/// Staging areas, in per cent of the array.
const STAGING: [f64; 4] = [1.0, 2.0, 5.0, 8.0];
/// Updates between two flushes of the clients that make some.
const FLUSH_AFTER: u64 = 16;

/// Milliseconds an update of the destages, of everything, and of the disks' work.
fn each_ms(run: &Run) -> [f64; 3] {
    let each = |seconds: f64| seconds * 1e3 / run.updates.max(1.0);
    [run.destaging, run.updating, run.disks_busy].map(|time| each(time.seconds()))
}

fn copies(job: &Job) -> Result<Shown, LabError> {
    let columns = [
        numbers("staging_pct", "staging %", 0),
        numbers("batch_ms", "batch ms/update", 3),
        numbers("batch_copies_ms", "with copies", 3),
        numbers("batch_more_pct", "more %", 1),
        numbers("disk_ms", "disk ms/update", 3),
        numbers("disk_copies_ms", "with copies", 3),
        numbers("disk_more_pct", "more %", 1),
        numbers("flushed_more_pct", "flushes: more %", 1),
        numbers("flushed_disk_more_pct", "of disks %", 1),
    ];
    let mut grid = Grid::new("", &columns);
    let points = job.points(&STAGING, |pct| pct.to_string())?;
    for (done, pct) in points.iter().copied().enumerate() {
        job.progress(done, points.len());
        let ms = |copies, flush_after| {
            let setup = Setup { copies, flush_after, ..Setup::new(pct / 100.0, true) };
            engine::run(job, setup).map(|run| each_ms(&run))
        };
        let ([batch, _, disk], [with_batch, _, with_disk]) = (ms(false, None)?, ms(true, None)?);
        let after = Some(FLUSH_AFTER);
        let ([_, all, flushed], [_, with_all, with_flushed]) = (ms(false, after)?, ms(true, after)?);
        let more = |from: f64, to: f64| Cell::from(100.0 * (to / from - 1.0));
        let cells = [
            pct.into(),
            batch.into(),
            with_batch.into(),
            more(batch, with_batch),
            disk.into(),
            with_disk.into(),
            more(disk, with_disk),
            more(all, with_all),
            more(flushed, with_flushed),
        ];
        job.row(&mut grid, cells);
    }
    Ok(job.shown(grid, Vec::new(), &NOTES, Vec::new()))
}

/// What is counted.
const NOTES: [&str; 1] = [
    "As the table of random updates. The last two columns have a flush after each 16 updates, which \
                           marks regions on the disks: time of updates and destages together, and work of the disks.",
];
