//! Figure 5 of the proximal paper (Schindler et al., FAST 2011): where the pages of an extent are while it ages.
//!
//! An array is filled serially and updated at random through a staging area. The pages of one allocation range are
//! looked up in the layer's map four times: fresh; when the staging area is full; after that destage; and when half of
//! all pages of the array were updated.

use std::collections::BTreeMap;

use seekless_core::device::Place;
use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Extent, IoError, PAGE_SECTORS};
use seekless_drive::spec;

use super::engine::{Bench, DATA_DISKS, FLASH, RANGE, Setup};
use super::shown::{Grid, Picture, Shown, numbers, words};
use super::{Entry, Job};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};

/// Figure 5.
pub const FIGURE_5: Entry = Entry {
    usual: 16_384,
    ..Entry::new(
        "pages of the array",
        "proximal-5",
        "where the pages of an extent are, on flash and on disk, while it ages",
        "proximal paper (FAST 2011), section 5.1, Figure 5",
        "a drawing; no numbers",
        &["wd-re3-1tb"],
        figure_5,
    )
};

/// Staging area, as a share of the array.
const STAGING: f64 = 0.05;
/// The usual reserve of free blocks (section 5.1: the array is filled to 89 %).
const RESERVE: f64 = 0.11;

/// Places of pages at one time: component and block of each page, in order.
struct Aged {
    when: &'static str,
    pages: Vec<(u32, u64)>,
}

fn on_flash((component, _): &(u32, u64)) -> bool {
    *component > DATA_DISKS as u32
}

impl Aged {
    /// Blocks of the pages that are on disk.
    fn on_disk(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().filter(|page| !on_flash(page)).map(|page| page.1)
    }
}

/// The pages of this range, as the layer finds them now.
fn look(bench: &Bench, when: &'static str, range: Extent) -> Aged {
    let mut pages = BTreeMap::new();
    bench.layer.places(range, &mut |found, place| {
        if let Place::On { component, at } = place {
            for (page, sector) in (found.start.page()..).zip((at.0..at.0 + found.sectors).step_by(8)) {
                pages.insert(page, (component, sector / PAGE_SECTORS));
            }
        }
    });
    Aged { when, pages: pages.into_values().collect() }
}

/// The array's life: where the pages of the range are at each time.
fn life(job: &Job) -> Result<Vec<Aged>, LabError> {
    let (mut drive, flash) = (job.drive().clone(), spec::Model::find(FLASH)?);
    drive.set_write_cache(false);
    let ran = Runtime::new(job.seed).run(async {
        let setup = Setup { reserve: RESERVE, ..Setup::new(STAGING, true) };
        let mut bench = Bench::new(&drive, &flash, job.requests, setup).await?;
        let (staged, first) = ((bench.pages as f64 * STAGING) as u64, bench.pages / RANGE / 2 * RANGE);
        let range = Extent::of_pages(first, RANGE.min(bench.pages - first));
        bench.fill().await?;
        let mut all = vec![look(&bench, "fresh", range)];
        bench.stage(staged).await?;
        all.push(look(&bench, "staged", range));
        bench.destage().await?;
        all.push(look(&bench, "destaged", range));
        job.progress(1, 2);
        bench.update(staged).await?;
        all.push(look(&bench, "aged", range));
        Ok::<_, IoError>(all)
    });
    ran.map_err(LabError::from)?.map_err(LabError::from)
}

fn figure_5(job: &Job) -> Result<Shown, LabError> {
    job.progress(0, 2);
    let all = life(job)?;
    let first = all.iter().flat_map(Aged::on_disk).min().unwrap_or_default();
    let columns = [
        words("when", "when"),
        numbers("on_flash", "on flash", 0),
        numbers("on_disk", "on disk", 0),
        numbers("runs", "runs", 0),
        numbers("span_blocks", "span, blocks", 0),
    ];
    let mut grid = Grid::new("", &columns);
    let mut pictures = Vec::new();
    for aged @ Aged { when, pages } in &all {
        let on_disk: Vec<u64> = aged.on_disk().collect();
        let flash = (pages.len() - on_disk.len()) as u64;
        let span = on_disk.iter().max().zip(on_disk.iter().min()).map_or(0, |(last, first)| last - first + 1);
        let follows = |pair: &[(u32, u64)]| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1;
        let runs = 1 + pages.windows(2).filter(|pair| !follows(pair)).count() as u64;
        grid.row([(*when).into(), flash.into(), (on_disk.len() as u64).into(), runs.into(), span.into()]);
        // Blocks on disk from the first of the range on; pages on flash below them, in the order of the staging area.
        let mut staged: Vec<u64> = pages.iter().filter(|page| on_flash(page)).map(|page| page.1).collect();
        staged.sort_unstable();
        let height = |page: &(u32, u64)| match staged.binary_search(&page.1) {
            Ok(rank) if on_flash(page) => -10.0 - 2.0 * rank as f64,
            _ => (page.1 - first) as f64,
        };
        let series = |name: &str, flash: bool| Series {
            name: name.to_owned(),
            values: pages.iter().map(|page| (on_flash(page) == flash).then(|| height(page))).collect(),
        };
        let plot = Plot {
            along: Along::Linear((0..pages.len()).map(|page| page as f64).collect()),
            along_label: "page of the range",
            value_label: "block of the range; below 0, on flash",
            form: Form::Points,
            series: vec![series("on disk", false), series("on flash", true)],
            ..Plot::default()
        };
        pictures.push(((*when).to_owned(), Picture::Lines(plot)));
    }
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}

/// How the columns are meant.
const NOTES: [&str; 1] = [
    "The pages of one allocation range, in the middle of a volume on an array of four disks and parity. A run is of pages \
     that follow each other on their device; the span is that of the blocks on disk, from the first to the last.",
];
