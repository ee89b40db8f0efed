//! One setting of the layer varied: Figure 12, the size of segments, and the place of the BOPT.

use seekless_core::SECTOR_BYTES;

use super::{COUNTED, GIB, NOTES, Setting, bars, between, of_recording, replayed};
use crate::error::LabError;
use crate::figure::shown::{Column, Grid, Shown, numbers, words};
use crate::figure::{Entry, Job};
use crate::report::plot::Series;

/// Sensitivity to number of reconfigurations, size of the BOPT and share of the write buffer.
pub const FIGURE_12: Entry = of_recording(
    &["svnserver2"],
    &Entry::new(
        COUNTED,
        "borg-12",
        "sensitivity to interval, size and write buffer",
        "BORG paper (FAST 2009), section 6.5, Figure 12",
        "Subversion: worse with longer intervals, the same from 256 MB on, better with more write buffer",
        &["wd2500aaks"],
        figure_12,
    ),
);

/// Size of a segment.
pub const SEGMENTS: Entry = of_recording(
    &["svnserver2"],
    &Entry::new(
        COUNTED,
        "borg-segments",
        "size of the segments of the BOPT",
        "BORG paper (FAST 2009), section 3.3, Figure 3, which does not state it",
        "segments of a fixed size, each with its own part of the map",
        &["wd2500aaks"],
        segments,
    ),
);

/// Place of the BOPT.
pub const PLACES: Entry = of_recording(
    &["svnserver2"],
    &Entry::new(
        COUNTED,
        "borg-place",
        "place of the BOPT",
        "BORG paper (FAST 2009), section 3.3",
        "next to the swap partition, to reduce head movement; no figures",
        &["wd2500aaks"],
        places,
    ),
);

/// Rows by setting.
const SAVED: [Column; 4] = [
    words("varied", "varied"),
    words("value", "value"),
    numbers("reduction_pct", "saved between, %", 1),
    numbers("net_reduction_pct", "net, %", 1),
];
/// Rows by setting, with the paper's two metrics between reconfigurations.
const WITH_METRICS: [Column; 7] = [
    words("value", "value"),
    numbers("reduction_pct", "saved between, %", 1),
    numbers("net_reduction_pct", "net, %", 1),
    numbers("vanilla_nonsequential_pct", "non-seq., %", 2),
    numbers("borg_nonsequential_pct", "BORG, %", 2),
    numbers("vanilla_mean_seek_cylinders", "mean seek, cyl", 0),
    numbers("borg_mean_seek_cylinders", "BORG, cyl", 0),
];

fn figure_12(job: &Job) -> Result<Shown, LabError> {
    let half = |bopt| Setting::new(bopt, 0.5);
    let intervals =
        [18, 9, 6, 3, 1].map(|times| (format!("{times}"), Setting { reconfigure: times, ..half(GIB) }));
    let sizes = [GIB / 4, GIB / 2, GIB, 2 * GIB, 4 * GIB, 8 * GIB];
    let sizes = sizes.map(|bopt| (format!("{} MiB", bopt >> 20), half(bopt)));
    let shares = [0_u8, 20, 40, 50, 60, 80, 100];
    let shares = shares.map(|share| (format!("{share} %"), Setting::new(4 * GIB, f64::from(share) / 100.0)));
    let sweeps: [(&str, Vec<(String, Setting)>); 3] = [
        ("reconfigurations", intervals.to_vec()),
        ("BOPT", sizes.to_vec()),
        ("write buffer", shares.to_vec()),
    ];
    let (mut grid, mut pictures) = (Grid::new("", &SAVED), Vec::new());
    let all = sweeps.iter().map(|(_, settings)| settings.len()).sum();
    for (varied, settings) in sweeps {
        let [mut saved, mut net] = [Vec::new(), Vec::new()];
        for (value, setting) in &settings {
            job.progress(grid.rows.len(), all);
            let compared = replayed(job, setting)?;
            let [one, other] = [compared.reduction_pct, compared.net_reduction_pct];
            saved.push(Some(one));
            net.push(Some(other));
            job.row(&mut grid, [varied.into(), value.as_str().into(), one.into(), other.into()]);
        }
        let along = settings.iter().enumerate().map(|(at, (value, _))| (at as f64, value.clone())).collect();
        let series = [("between reconfigurations", saved), ("net", net)];
        let series = series.map(|(name, values)| Series { name: name.to_owned(), values });
        pictures.push((varied.to_owned(), bars(along, "busy time saved, %", series.into())));
    }
    Ok(job.shown(grid, Vec::new(), &NOTES, pictures))
}

fn segments(job: &Job) -> Result<Shown, LabError> {
    const SIZES: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];
    let of =
        |size: u64| Setting { more: vec![("segment", format!("{size}").into())], ..Setting::new(GIB, 0.5) };
    let settings = SIZES.map(|size| (format!("{} KiB", size >> 10), of(size)));
    let map = "The map's pages lie together in front of the segments here, one for each segment and each twice, not in the \
               segments as in the paper; a segment has at most 2 MiB.";
    with_metrics(job, &settings, "size of a segment", &[map, NOTES[0], NOTES[1]])
}

fn places(job: &Job) -> Result<Shown, LabError> {
    let (trace, behind) = (job.recording()?, Setting::new(GIB, 0.5));
    let places = behind.experiment(job)?.places("", trace.end_sector())?;
    let over = places.over_sectors * SECTOR_BYTES;
    let last = (job.drive().sectors * SECTOR_BYTES - GIB) / GIB * GIB;
    let at = |at| Setting { at: Some(at), ..behind.clone() };
    let settings = [
        ("before the data".to_owned(), at(0)),
        ("in the middle of the data".to_owned(), at(over / 2)),
        ("behind the data".to_owned(), behind.clone()),
        ("at the end of the drive".to_owned(), at(last)),
        ("on a second drive".to_owned(), Setting { beside: true, ..behind.clone() }),
    ];
    let swap = "A recording has no swap area, so there is no place next to one. On a second drive of the same kind the busy \
                time is that of both, and no seek leads from the data to the BOPT.";
    with_metrics(job, &settings, "place of the BOPT", &[swap, NOTES[0], NOTES[1]])
}

/// Busy time saved, and the paper's two metrics, by setting.
fn with_metrics(
    job: &Job,
    settings: &[(String, Setting)],
    varied: &'static str,
    notes: &[&str],
) -> Result<Shown, LabError> {
    let (mut grid, mut saved) = (Grid::new("", &WITH_METRICS), [Vec::new(), Vec::new()]);
    for (value, setting) in settings {
        job.progress(grid.rows.len(), settings.len());
        let compared = replayed(job, setting)?;
        let [vanilla, borg] = between(&compared);
        let both = [compared.reduction_pct, compared.net_reduction_pct];
        saved.iter_mut().zip(both).for_each(|(values, value)| values.push(Some(value)));
        let metrics = [vanilla.0, borg.0, vanilla.1, borg.1];
        let numbers = both.into_iter().chain(metrics).map(Into::into);
        job.row(&mut grid, [value.as_str().into()].into_iter().chain(numbers));
    }
    let along = settings.iter().enumerate().map(|(at, (value, _))| (at as f64, value.clone())).collect();
    let series = ["between reconfigurations", "net"].into_iter().zip(saved);
    let series = series.map(|(name, values)| Series { name: name.to_owned(), values }).collect();
    let picture = bars(along, "busy time saved, %", series);
    Ok(job.shown(grid, Vec::new(), notes, vec![(varied.to_owned(), picture)]))
}
