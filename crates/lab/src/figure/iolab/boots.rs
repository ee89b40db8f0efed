//! Boots of a guest: Figures 4 and 5.

use seekless_core::Nanos;

use super::{
    Access, BOOTS, Recording, THINK, WARM_BOOT, With, about, ascending_pct, by_function, largest, launch,
    picture, saved_of_cold,
};
use crate::error::LabError;
use crate::figure::Job;
use crate::figure::shown::{Cell, Grid, Shown, numbers, words};

pub(super) fn figure_4(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_BOOT)?;
    let cold = recording.play(&With::Nothing)?;
    let columns = [
        words("boot", "boot"),
        numbers("boot_s", "time, s", 2),
        numbers("read_mb", "read, MB", 1),
        numbers("disk_reads", "disk reads", 0),
        numbers("ascending_pct", "ascending, %", 1),
        numbers("idle_s", "disk idle, s", 2),
        numbers("paper_s", "paper, s", 1),
    ];
    let (mut grid, mut pictures, mut last_s) = (Grid::new("", &columns), Vec::new(), 0.0);
    for (number, timed) in cold.timed.iter().enumerate() {
        let accesses = cold.accesses(number);
        let bytes: u64 = accesses.iter().map(|access| access.at.bytes()).sum();
        let name = format!("{} {}", recording.starts[number].program, recording.starts[number].round + 1);
        last_s = timed.took.seconds();
        grid.row([
            Cell::from(name.as_str()),
            last_s.into(),
            (bytes as f64 / 1e6).into(),
            (accesses.len() as u64).into(),
            ascending_pct(&accesses).into(),
            idle(&accesses, timed.began, timed.took).seconds().into(),
            job.theirs(Some(38.1)),
        ]);
        pictures.push((name, picture(&accesses, timed.began)));
    }
    recording.think_row(&mut grid);
    let paper = vec![about("6.3.5", "time of a cold boot, Linux", "s", 38.1, last_s, 50.0)];
    Ok(job.shown(grid, paper, &[BOOTS, THINK], pictures))
}

pub(super) fn figure_5(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_BOOT)?;
    let judged = largest(&recording)?;
    // One boot is there to learn from; and a boot loader waits for some seconds.
    let cdp = With::Layer("cdp", "starts = 1\nquiet = '5s'".parse().unwrap_or_default());
    let functions = [
        ("no prefetcher", With::Nothing, Some(38.1)),
        ("prefetcher, launch control", launch("starts = 1\nquiet = '5s'\nclass = 'urgent'"), Some(28.2)),
        ("prefetcher", launch("starts = 1\nquiet = '5s'"), None),
        ("CDP (the paper: Windows XP)", cdp, Some(29.5)),
    ];
    let (grid, pictures, sums) = by_function(&recording, judged, &functions, Some(28.6))?;
    let paper = vec![
        about("6.3.5", "prefetcher: time of a cold boot saved", "%", 26.0, saved_of_cold(&sums[1]), 10.0),
        about("6.3.5", "prefetcher: hits", "%", 95.2, sums[1].hits_pct(), 5.0),
        about("6.3.5", "CDP: saved of cold minus warm", "%", 93.0, sums[3].saved_pct(), 10.0),
        about("6.3.5", "CDP: hits", "%", 98.0, sums[3].hits_pct(), 5.0),
    ];
    let learned = "Learned from one boot, the one before, which ends when no read comes for 5 s, since the boot loader waits \
                   for less; the paper's sequence was captured by hand.";
    Ok(job.shown(grid, paper, &[learned, BOOTS, THINK], pictures))
}

/// Time in which a disk had nothing to do, in a start that took so long.
fn idle(accesses: &[Access], began: Nanos, took: Nanos) -> Nanos {
    let (mut idle, mut until) = (Nanos::ZERO, began);
    for access in accesses {
        idle += access.issued.since(until);
        until = until.max(access.answered);
    }
    idle + (began + took).since(until)
}
