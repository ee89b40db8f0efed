//! Starts of programs: Figures 2 and 3, and Table 2.

use futures_util::future::join_all;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{Buffer, Extent, Hints, IoError, Nanos, PAGE_BYTES};
use seekless_drive::{QueueOptions, simulated};
use seekless_layers::dispatcher;

use super::{
    LEARNED, Recording, THINK, WARM_START, With, about, by_function, by_name, lacks, largest, launch,
    saved_of_cold,
};
use crate::error::LabError;
use crate::figure::Job;
use crate::figure::shown::{Cell, Column, Grid, Shown, numbers, words};

pub(super) fn figure_2(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let judged = largest(&recording)?;
    let functions = [
        ("no prefetcher", With::Nothing, Some(8.3)),
        ("prefetcher, launch control", launch("class = 'urgent'"), Some(4.4)),
        ("prefetcher", launch(""), None),
    ];
    let (grid, pictures, sums) = by_function(&recording, judged, &functions, None)?;
    let paper = vec![
        about("6.2.4", "hits", "%", 95.4, sums[1].hits_pct(), 5.0),
        about("6.2.4", "time of a cold start saved", "%", 47.0, saved_of_cold(&sums[1]), 15.0),
    ];
    let program = format!(
        "The program that reads most: {}; the paper's is Word 2007. The Windows prefetcher (5.7 s) has no recording.",
        recording.starts[judged].program
    );
    Ok(job.shown(grid, paper, &[&program, LEARNED, THINK], pictures))
}

/// Rows by program.
const BY_PROGRAM: [Column; 9] = [
    words("program", "program"),
    numbers("cold_s", "cold, s", 2),
    numbers("warm_s", "warm, s", 2),
    numbers("control_s", "launch control, s", 2),
    numbers("control_saved_pct", "saved, %", 1),
    numbers("launch_s", "launch, s", 2),
    numbers("launch_saved_pct", "saved, %", 1),
    numbers("hits_pct", "hits, %", 1),
    numbers("useless_pct", "useless, %", 1),
];

pub(super) fn figure_3(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let mut plays = Vec::new();
    for (done, with) in [With::Nothing, launch("class = 'urgent'"), launch("")].iter().enumerate() {
        job.progress(done, 3);
        plays.push(recording.play(with)?);
    }
    let [cold, paused, usual] = &plays[..] else { return Err(lacks("layer")) };
    let mut grid = Grid::new("", &BY_PROGRAM);
    let mut add = |name: &str, starts: &[usize]| {
        let (control, launch) = (recording.sums(starts, cold, paused), recording.sums(starts, cold, usual));
        grid.row([
            Cell::from(name),
            launch.cold.seconds().into(),
            launch.warm.seconds().into(),
            control.with.seconds().into(),
            control.saved_pct().into(),
            launch.with.seconds().into(),
            launch.saved_pct().into(),
            launch.hits_pct().into(),
            launch.useless_pct().into(),
        ]);
        (control, launch)
    };
    let mut judged = recording.judged();
    judged.sort_by_key(|number| &recording.starts[*number].program);
    let mut bars = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for number in &judged {
        let name = &recording.starts[*number].program;
        let (_, launch) = add(name, &[*number]);
        bars.0.push(name.clone());
        for (values, time) in bars.1.iter_mut().zip([launch.cold, launch.with, launch.warm]) {
            values.push(Some(time.seconds()));
        }
    }
    let (control, launch) = add("all", &judged);
    if !job.others {
        let row = [15.8, 7.6, 10.0, 71.0].map(|value| Cell::from(Some(value)));
        grid.row([Cell::from("the paper's Eclipse")].into_iter().chain(row).chain([
            Cell::Nothing,
            Cell::Nothing,
            97.5.into(),
            Cell::Nothing,
        ]));
    }
    recording.think_row(&mut grid);
    let paper = vec![
        about("6.2.5", "saved of cold minus warm, with launch control", "%", 71.0, control.saved_pct(), 10.0),
        about("6.2.5", "time of a cold start saved", "%", 37.0, saved_of_cold(&control), 10.0),
        about("6.2.5", "hits", "%", 97.5, launch.hits_pct(), 3.0),
    ];
    let names: Vec<&str> = bars.0.iter().map(String::as_str).collect();
    let bars = by_name(&names, "time, s", ["cold", "launch", "warm"].into_iter().zip(bars.1));
    let notes = [
        "With launch control fetches are in class urgent, as in the paper; otherwise in class background, and a read has \
         the page that it waits for fetched first.",
        LEARNED,
        THINK,
    ];
    Ok(job.shown(grid, paper, &notes, vec![("time of starts".to_owned(), bars)]))
}

pub(super) fn table_2(job: &Job) -> Result<Shown, LabError> {
    let recording = Recording::new(job, WARM_START)?;
    let judged = recording.judged();
    let (cold, prefetched) = (recording.play(&With::Nothing)?, recording.play(&launch("class = 'urgent'"))?);
    let sums = recording.sums(&judged, &cold, &prefetched);
    let fetches = fetches_alone(&recording, &judged)?;
    let columns = [
        words("scenario", "scenario"),
        numbers("ours_s", "here, s", 2),
        numbers("paper_iolab_s", "IOLab, s", 2),
        numbers("paper_fast_s", "FAST, s", 2),
        numbers("paper_iolab_of_cold_pct", "IOLab, % of cold", 1),
        numbers("of_cold_pct", "here, % of cold", 1),
    ];
    let (mut grid, mut paper, mut bars) = (Grid::new("", &columns), Vec::new(), [Vec::new(), Vec::new()]);
    let rows = [
        ("warm start", 6.34, 7.60, sums.warm),
        ("prefetcher alone", 2.65, 2.77, fetches),
        ("cold start, no prefetcher", 15.50, 15.82, sums.cold),
        ("cold start, prefetcher", 8.99, 9.98, sums.with),
    ];
    for (name, fast, theirs, time) in rows {
        let share = |time: f64, cold: f64| 100.0 * time / cold;
        let (theirs_pct, ours_pct) = (share(theirs, 15.82), share(time.seconds(), sums.cold.seconds()));
        grid.row([
            Cell::from(name),
            time.seconds().into(),
            job.theirs(Some(theirs)),
            job.theirs(Some(fast)),
            job.theirs(Some(theirs_pct)),
            ours_pct.into(),
        ]);
        bars.iter_mut().zip([theirs_pct, ours_pct]).for_each(|(values, value)| values.push(Some(value)));
        if name != "warm start" && name != "cold start, no prefetcher" {
            paper.push(about("Table 2", name, "%", theirs_pct, ours_pct, 10.0));
        }
    }
    recording.think_row(&mut grid);
    let notes = [
        "Sums over the last start of each program of the recording, with launch control; the paper's is one start of Eclipse. \
         FAST runs on the host: the recording has no start by it.",
        LEARNED,
        THINK,
    ];
    let names = rows.map(|(name, ..)| name);
    let picture = by_name(&names, "per cent of a cold start", ["IOLab", "here"].into_iter().zip(bars));
    Ok(job.shown(grid, paper, &notes, vec![("times".to_owned(), picture)]))
}

/// Time to read all that these starts read in one sweep each, without a program.
fn fetches_alone(recording: &Recording, judged: &[usize]) -> Result<Nanos, LabError> {
    let reads: Vec<Vec<Extent>> = recording.recorded.reads().map(Iterator::collect).collect();
    let (drive, gap) = (recording.job.drive().clone(), (16 << 10) / PAGE_BYTES);
    let took: Result<Nanos, IoError> = Runtime::new(recording.job.seed).run(async {
        let disk = simulated(0, &drive.into(), QueueOptions::default()).device();
        let mut all = Nanos::ZERO;
        for number in judged {
            let mut pages: Vec<u64> = reads[*number].iter().flat_map(|at| at.pages()).collect();
            pages.sort_unstable();
            pages.dedup();
            let begin = runtime::now();
            let read = |at: Extent| disk.read(at, Buffer::hollow_sectors(at.sectors), Hints::default());
            let read = join_all(dispatcher::runs(pages, 256, gap).into_iter().map(read)).await;
            read.into_iter().collect::<Result<Vec<Buffer>, IoError>>()?;
            all += runtime::now().since(begin);
        }
        Ok(all)
    })?;
    Ok(took?)
}
