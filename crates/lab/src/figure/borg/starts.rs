//! Starts: of guests (section 6.3) and of programs (Table 4).
//!
//! The layer learns from some starts of a recording, is reconfigured once, and the others are timed, each alone on an
//! idle disk. Each read follows its predecessor's answer by the recorded gap.

use std::collections::BTreeSet;

use seekless_core::{Extent, Lba, Nanos, Origin, PAGE_SECTORS, ProcessId, Record, SECTOR_BYTES, Size};
use seekless_trace::Trace;

use super::guests::{GUEST, GUESTS};
use super::{COUNTED, GIB, Setting, about, bars, of_recording};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::figure::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use crate::figure::{Entry, Job};
use crate::report::plot::Series;
use crate::starts::{Start, Starts, Timed};
use crate::variant::drive_work;

/// Boots of guests.
pub const BOOTS: Entry = Entry {
    starts: true,
    ..of_recording(
        &["vmboot"],
        &Entry::new(
            COUNTED,
            "borg-boot",
            "boots of four guests",
            "BORG paper (FAST 2009), section 6.3",
            "167 s become 65 s on average",
            &["maxtor-6l020j1"],
            boots,
        ),
    )
};

/// Starts of programs.
pub const TABLE_4: Entry = Entry {
    starts: true,
    ..of_recording(
        &["appstart2"],
        &Entry::new(
            COUNTED,
            "borg-table-4",
            "starts of programs, of which two were not learned",
            "BORG paper (FAST 2009), section 6.4, Table 4",
            "37 to 67 % less; of two programs that were not learned, 62 % and -1 %",
            &["maxtor-6l020l1"],
            table_4,
        ),
    )
};

/// Programs that the layer does not learn: one that shares its files with others, as the paper's oaimpress does, and
/// one that does so less, as gimp.
const UNLEARNED: [&str; 2] = ["python-scipy", "inkscape"];

/// Parts of a guest's image that are left out where nothing of them is asked for: the recorded image lies scattered on
/// a disk that is larger than a guest's.
const PART: u64 = (64 << 20) / SECTOR_BYTES;

const COLUMNS: [Column; 11] = [
    words("start", "start"),
    words("learned", "learned"),
    numbers("vanilla_s", "vanilla, s", 2),
    numbers("borg_s", "BORG, s", 2),
    numbers("saved_pct", "saved, %", 1),
    numbers("vanilla_busy_s", "disk busy, s", 2),
    numbers("borg_busy_s", "BORG, s", 2),
    numbers("vanilla_nonsequential_pct", "non-seq., %", 2),
    numbers("borg_nonsequential_pct", "BORG, %", 2),
    numbers("vanilla_mean_seek_cylinders", "mean seek, cyl", 0),
    numbers("borg_mean_seek_cylinders", "BORG, cyl", 0),
];

/// A start to be played.
struct Part {
    name: String,
    /// Whether the layer learns from starts of this name.
    learned: bool,
    records: Vec<Record>,
}

/// The requests of each start of a recording, of which there are as many as the figure is of.
fn recorded(job: &Job) -> Result<Vec<(Start, Vec<Record>)>, LabError> {
    let Some(starts) = job.starts else {
        let (found, expected) = ("none".to_owned(), "a list of the starts in the recording".to_owned());
        return Err(LabError::Setting { setting: "starts", found, expected });
    };
    let records = job.recording()?.records;
    let index = |at: Nanos| records.partition_point(|record| record.time < at);
    let ends = starts.iter().skip(1).map(|next| index(next.at)).chain([records.len()]);
    let each =
        starts.iter().zip(ends).map(|(start, end)| (start.clone(), records[index(start.at)..end].to_vec()));
    Ok(each.filter(|(_, records)| !records.is_empty()).collect())
}

/// Starts that were not learned from, with their times without the layer and with it.
type Timings = Vec<(Timed, Timed)>;

/// Plays the starts that are learned from, has the layer reconfigured, and times the others.
fn play(job: &Job, learned: &[Part], judged: &[Part], sectors: u64, bopt: u64) -> Result<Timings, LabError> {
    let (mut records, mut starts, mut clock) = (Vec::new(), Vec::new(), Nanos::ZERO);
    for part in learned.iter().chain(judged) {
        let first = part.records.first().map_or(Nanos::ZERO, |record| record.time);
        starts.push(Start { at: clock, program: part.name.clone(), round: 0 });
        let begin = clock;
        for record in &part.records {
            let time = begin + record.time.since(first);
            records.push(Record { time, ..*record });
            clock = clock.max(time + record.latency.known().unwrap_or(Nanos::ZERO));
        }
        clock += Nanos::from_millis(1);
    }
    let starts = Starts::new(&Trace { records, ..Trace::default() }, &starts, 1.0)?;
    let setting = Setting::new(bopt, 0.4);
    let experiment = Experiment { over_sectors: Some(sectors), ..setting.experiment(job)? };
    let on = |experiment: &Experiment, before| {
        let volume = experiment.volume(&experiment.places("", sectors)?);
        starts.reconfigured_on(&volume, before, job.seed)
    };
    job.progress(0, 2);
    let vanilla = on(&experiment.vanilla(), None)?;
    job.progress(1, 2);
    let borg = on(&experiment, Some(learned.len()))?;
    Ok(vanilla.into_iter().zip(borg).skip(learned.len()).collect())
}

/// Sums of starts.
#[derive(Default)]
struct Sum {
    vanilla: Timed,
    borg: Timed,
}

impl Sum {
    fn of<'a>(timings: impl IntoIterator<Item = &'a (Timed, Timed)>) -> Sum {
        let mut all = Sum::default();
        for (vanilla, borg) in timings {
            for (sum, one) in [(&mut all.vanilla, vanilla), (&mut all.borg, borg)] {
                sum.took += one.took;
                sum.work.add(&one.work);
            }
        }
        all
    }

    /// Time saved, in per cent.
    fn saved_pct(&self) -> f64 {
        let vanilla = self.vanilla.took.seconds();
        if vanilla > 0.0 { 100.0 * (1.0 - self.borg.took.seconds() / vanilla) } else { 0.0 }
    }

    fn row(&self, grid: &mut Grid, name: &str, learned: &str) {
        let [vanilla, borg] = [&self.vanilla, &self.borg].map(|timed| drive_work(&timed.work));
        grid.row([
            Cell::from(name),
            learned.into(),
            self.vanilla.took.seconds().into(),
            self.borg.took.seconds().into(),
            self.saved_pct().into(),
            vanilla.head.busy_s.into(),
            borg.head.busy_s.into(),
            vanilla.nonsequential_pct.into(),
            borg.nonsequential_pct.into(),
            vanilla.mean_seek_cylinders.into(),
            borg.mean_seek_cylinders.into(),
        ]);
    }
}

/// A table with a row for each start, and bars of their times.
fn tabulated(judged: &[Part], timings: &Timings) -> (Grid, Vec<(String, Picture)>) {
    let (mut grid, mut along, mut times) = (Grid::new("", &COLUMNS), Vec::new(), [Vec::new(), Vec::new()]);
    for (part, timing) in judged.iter().zip(timings) {
        Sum::of([timing]).row(&mut grid, &part.name, if part.learned { "yes" } else { "no" });
        along.push((along.len() as f64, part.name.clone()));
        times[0].push(Some(timing.0.took.seconds()));
        times[1].push(Some(timing.1.took.seconds()));
    }
    let series = ["vanilla", "BORG"].into_iter().zip(times);
    let series = series.map(|(name, values)| Series { name: name.to_owned(), values }).collect();
    (grid, vec![("time".to_owned(), bars(along, "time, s", series))])
}

fn boots(job: &Job) -> Result<Shown, LabError> {
    let mut rounds = recorded(job)?;
    let touched = |(_, records): &(Start, Vec<Record>)| {
        records
            .iter()
            .flat_map(|record| [record.extent.start.0, record.extent.end().0.max(1) - 1])
            .collect::<Vec<_>>()
    };
    let parts: BTreeSet<u64> = rounds.iter().flat_map(touched).map(|sector| sector / PART).collect();
    if parts.len() as u64 * PART > GUEST / SECTOR_BYTES {
        let found = format!("a recording of a guest's disk of more than {}", Size(GUEST));
        return Err(LabError::Setting { setting: "trace", found, expected: "less".to_owned() });
    }
    let packed = |sector: u64| parts.range(..sector / PART).count() as u64 * PART + sector % PART;
    for record in rounds.iter_mut().flat_map(|(_, records)| records) {
        record.extent.start = Lba(packed(record.extent.start.0));
    }
    let guests = |(_, records): &(Start, Vec<Record>)| {
        let guest = |number: u64| {
            let moved = |record: &Record| {
                let start = record.extent.start + number * (GUEST / SECTOR_BYTES);
                let origin = Origin { process: ProcessId(number as u32 + 1), ..record.origin };
                Record { extent: Extent { start, ..record.extent }, origin, ..*record }
            };
            let records = records.iter().map(moved).collect();
            Part { name: format!("guest {}", number + 1), learned: true, records }
        };
        (0..GUESTS).map(guest).collect::<Vec<_>>()
    };
    let last = rounds.len().saturating_sub(1);
    let (before, judged) = rounds.split_at(last);
    let [before, judged] = [before, judged].map(|rounds| rounds.iter().flat_map(guests).collect::<Vec<_>>());
    let timings = play(job, &before, &judged, GUESTS * GUEST / SECTOR_BYTES, GIB)?;
    let (mut grid, pictures) = tabulated(&judged, &timings);
    let all = Sum::of(&timings);
    all.row(&mut grid, "all", "yes");
    let theirs = 100.0 * (1.0 - 65.0 / 167.0);
    let busy = 100.0 * (1.0 - all.borg.work.busy().seconds() / all.vanilla.work.busy().seconds().max(1e-9));
    let within = Within::Points(15.0);
    let paper = vec![
        about("time of boots saved", "%", theirs, all.saved_pct(), within),
        about("the same, beside the disk's busy time saved", "%", theirs, busy, within),
    ];
    let notes = [
        "One guest's boots are recorded, twice: the four guests are copies of it, on disks of 4 GiB one behind the other. The \
         recorded image lies scattered on 20 GiB; parts of 64 MiB of which nothing is asked for are left out.",
        "A guest is one process, as with the paper's monitor; in the recording it is a varying thread of an emulator. It \
         computes for most of its boot here, which no layout shortens.",
        GAPS,
    ];
    Ok(job.shown(grid, paper, &notes, pictures))
}

const GAPS: &str = "The layer learns from all starts but the last of each, and is reconfigured once; then those are timed, \
                    one after the other. Each read follows its predecessor's answer by the recorded gap.";

fn table_4(job: &Job) -> Result<Shown, LabError> {
    let starts = recorded(job)?;
    let rounds = |program: &str| {
        starts.iter().filter(|(start, _)| start.program == program).map(|(start, _)| start.round).max()
    };
    let is_last = |start: &Start| rounds(&start.program) == Some(start.round);
    let part = |(start, records): &(Start, Vec<Record>)| Part {
        name: start.program.clone(),
        learned: !UNLEARNED.contains(&start.program.as_str()),
        records: records.clone(),
    };
    let (mut judged, before): (Vec<_>, Vec<_>) = starts.iter().partition(|(start, _)| is_last(start));
    judged.sort_by(|(one, _), (other, _)| one.program.cmp(&other.program));
    let before: Vec<Part> = before.into_iter().map(part).filter(|part| part.learned).collect();
    let judged: Vec<Part> = judged.into_iter().map(part).collect();
    let sectors = job.recording()?.end_sector().next_multiple_of(PAGE_SECTORS);
    let room = job.drive().sectors.saturating_sub(sectors) * SECTOR_BYTES;
    let bopt = (2 * GIB).min(room >> 20 << 20);
    let timings = play(job, &before, &judged, sectors, bopt)?;
    let (mut grid, pictures) = tabulated(&judged, &timings);
    let learned = judged.iter().zip(&timings).filter(|(part, _)| part.learned).map(|(_, timing)| timing);
    let learned = Sum::of(learned);
    learned.row(&mut grid, "all that were learned", "yes");
    let saved_by = |name: &str| {
        let of = judged.iter().zip(&timings).filter(|(part, _)| part.name == name).map(|(_, timing)| timing);
        Sum::of(of).saved_pct()
    };
    let place = "Table 4";
    let within = Within::Points(15.0);
    let all = Statement::about(place, "learned programs: time saved", "%", 67.0, learned.saved_pct(), within);
    let paper = vec![
        Statement { from: Some(37.0), ..all },
        Statement::about(place, "not learned, shares libraries", "%", 62.0, saved_by(UNLEARNED[0]), within),
        Statement::about(place, "not learned, shares fewer", "%", -1.0, saved_by(UNLEARNED[1]), within),
    ];
    let size = format!(
        "The recorded volume leaves {} for the BOPT on this drive; the paper's is 2 GB. The layer does not learn {}.",
        Size(bopt),
        UNLEARNED.join(" and ")
    );
    let shown = job.shown(grid, paper, &[&size, GAPS], pictures);
    Ok(Shown { more: if job.others { Vec::new() } else { vec![theirs()] }, ..shown })
}

/// The paper's table.
fn theirs() -> Grid {
    let columns = [
        words("program", "program"),
        numbers("paper_vanilla_s", "vanilla, s", 2),
        numbers("paper_borg_s", "BORG, s", 2),
        numbers("paper_vanilla_nonsequential_pct", "random, %", 1),
        numbers("paper_borg_nonsequential_pct", "BORG, %", 1),
        numbers("paper_vanilla_mean_seek_cylinders", "mean seek, cyl", 0),
        numbers("paper_borg_mean_seek_cylinders", "BORG, cyl", 0),
    ];
    let rows = [
        ("firefox", [3.71, 2.32, 2.7, 1.2, 132.0, 37.0]),
        ("oowriter", [5.30, 2.74, 3.8, 0.2, 193.0, 20.0]),
        ("xemacs", [7.26, 2.72, 2.1, 0.3, 87.0, 9.0]),
        ("acoread", [6.20, 2.65, 4.6, 0.1, 39.0, 9.0]),
        ("eclipse", [4.12, 1.52, 2.5, 0.3, 198.0, 29.0]),
        ("gimp, not learned", [3.62, 3.66, 2.5, 2.1, 102.0, 63.0]),
        ("oaimpress, not learned", [5.18, 1.97, 2.7, 0.3, 61.0, 39.0]),
    ];
    let mut grid = Grid::new("Table 4 of the paper", &columns);
    for (name, values) in rows {
        grid.row([name.into()].into_iter().chain(values.map(Cell::from)));
    }
    grid
}
