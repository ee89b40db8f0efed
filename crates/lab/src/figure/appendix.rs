//! Figure 3 of the proximal paper, and the model of its Appendix A compared with the simulation.

use seekless_core::Op;
use seekless_drive::Spec;

use super::Job;
use super::birthday::{bins, expected_revolutions, fullest, moments};
use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::strand::{Kind, Strand, mean, response_ms};
use crate::error::LabError;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};

/// Length of the appendix's strand.
const REQUESTS: usize = 8;
/// Drive of the appendix.
const PAPER: Clock = Clock { seek_ms: 3.5, turn_ms: 4.0 };
/// Track switch time of the appendix, in milliseconds.
const SWITCH_MS: f64 = 0.475;
/// Bins that follow from its inputs, and bins that its results are for.
const BINS: [u32; 2] = [8, 6];

/// Times of a drive.
#[derive(Clone, Copy)]
struct Clock {
    /// Average seek, in milliseconds.
    seek_ms: f64,
    /// Revolution, in milliseconds.
    turn_ms: f64,
}

const SPREAD: [Column; 5] = [
    numbers("within_ms", "within ms", 1),
    numbers("strands_pct", "strands %", 1),
    numbers("fifo_pct", "FIFO %", 1),
    numbers("model_8_bins_pct", "model, 8 bins %", 1),
    numbers("model_6_bins_pct", "model, 6 bins %", 1),
];
const MODELS: [Column; 6] = [
    words("what", ""),
    numbers("revolutions", "revolutions", 2),
    numbers("strand_ms", "strand ms", 2),
    numbers("variance_ms2", "variance ms2", 1),
    numbers("most_likely", "likeliest", 0),
    numbers("none_extra_of_6_pct", "6 requests, none extra %", 1),
];

/// Computes the figure.
pub fn figure_3(job: &Job) -> Result<Shown, LabError> {
    let drive = job.drive();
    let strand = Strand::new(Kind::Proximal, REQUESTS, Op::Read);
    let times = |drive: &Spec, strand| response_ms(drive, strand, job.requests, job.seed);
    job.progress(0, 4);
    let strands = times(drive, strand)?;
    job.progress(1, 4);
    let fifo = times(drive, Strand { depth: 1, ..strand })?;
    job.progress(2, 4);
    let mut settling = drive.clone();
    settling.command.turn_round_us = 0.0;
    let settling = times(&settling, strand)?;
    job.progress(3, 4);
    // A single request takes a seek and half a revolution.
    let turn_ms = 60e3 / drive.rpm;
    let seek_ms = mean(&times(drive, Strand::new(Kind::Proximal, 1, Op::Read))?) - turn_ms / 2.0;
    let own = Clock { seek_ms, turn_ms };
    let modelled = if job.others { own } else { PAPER };

    let mut main = Grid::new("", &SPREAD);
    for half_turns in 3..=20 {
        let ms = modelled.turn_ms / 2.0 * f64::from(half_turns);
        let within = |times: &[f64]| {
            100.0 * times.iter().filter(|&&time| time <= ms).count() as f64 / times.len().max(1) as f64
        };
        let models = BINS.map(|bins| 100.0 * modelled.within(ms, bins));
        main.row([ms, within(&strands), within(&fifo), models[0], models[1]].map(Cell::from));
    }
    let pictures = vec![(String::new(), picture(&main))];
    let revolutions = [&strands, &settling].map(|times| (mean(times) - own.seek_ms) / own.turn_ms);
    let notes = notes(revolutions);
    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
    let notes = if job.others { &notes[..2] } else { &notes[..] };
    let mut shown = job.shown(main, statements(&strands), notes, pictures);
    let mut models = models(job, modelled);
    for (what, times, revolutions) in
        [("simulated", &strands, revolutions[0]), ("simulated, settling alone", &settling, revolutions[1])]
    {
        let numbers = [revolutions, mean(times), variance(times)].map(Cell::from);
        models.row([what.into()].into_iter().chain(numbers).chain([Cell::Nothing, Cell::Nothing]));
    }
    shown.more.push(models);
    Ok(shown)
}

impl Clock {
    /// The model's share of strands that are done within `ms` milliseconds: the average seek, a wait between none and a
    /// revolution, and as many revolutions as the fullest bin holds requests.
    fn within(self, ms: f64, bins: u32) -> f64 {
        let turns = (ms - self.seek_ms) / self.turn_ms;
        let chances = fullest(REQUESTS, bins);
        chances.iter().zip(1_u32..).map(|(chance, k)| chance * (turns - f64::from(k)).clamp(0.0, 1.0)).sum()
    }
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len().max(1) as f64
}

/// The model with its inputs and with its results, and the paper's own figures.
fn models(job: &Job, clock: Clock) -> Grid {
    let Clock { seek_ms, turn_ms } = clock;
    let mut grid = Grid::new("Revolutions of a strand of 8 (Appendix A)", &MODELS);
    let mut row = |what: &str, revolutions: f64, ms: f64, variance: f64, likeliest: Cell, none: Cell| {
        grid.row([what.into(), revolutions.into(), ms.into(), variance.into(), likeliest, none]);
    };
    for (bins, what) in BINS.into_iter().zip(["model, 8 bins: its inputs", "model, 6 bins: its results"]) {
        let chances = fullest(REQUESTS, bins);
        let revolutions = expected_revolutions(REQUESTS, bins);
        let likeliest =
            chances.iter().zip(1_u64..).max_by(|a, b| a.0.total_cmp(b.0)).map_or(0, |best| best.1);
        let spread = turn_ms * turn_ms * moments(&chances).1;
        let ms = seek_ms + turn_ms * revolutions;
        let none = 100.0 * fullest(6, bins)[0];
        row(what, revolutions, ms, spread, likeliest.into(), none.into());
    }
    if !job.others {
        row("paper: its model", 3.4, 17.26, 9.0, Cell::Count(3), Cell::Number(2.0));
        let measured = (17.14 - seek_ms) / turn_ms;
        row("paper: measured", measured, 17.14, 9.6, Cell::Nothing, Cell::Nothing);
    }
    grid
}

fn statements(strands: &[f64]) -> Vec<Statement> {
    let about =
        |says, unit, theirs, ours, within| Statement::about("Appendix A", says, unit, theirs, ours, within);
    let percent = Within::Percent;
    vec![
        about(
            "bins, of 0.475 ms in a revolution of 4 ms",
            "",
            8.0,
            f64::from(bins(PAPER.turn_ms, SWITCH_MS)),
            percent(0.0),
        ),
        about(
            "revolutions of 8 requests, by its 8 bins",
            "",
            3.4,
            expected_revolutions(REQUESTS, 8),
            percent(2.0),
        ),
        about(
            "revolutions of 8 requests, by 6 bins",
            "",
            3.4,
            expected_revolutions(REQUESTS, 6),
            percent(2.0),
        ),
        about("a strand of 8, measured", "ms", 17.14, mean(strands), percent(5.0)),
    ]
}

fn notes(revolutions: [f64; 2]) -> [String; 3] {
    let [simulated, settling] = revolutions;
    let over = |bins, revolutions| expected_revolutions(REQUESTS, bins) - revolutions;
    let supports = format!(
        "The simulation supports 6. The drive as it is described goes from one request to the next in 0.65 ms, 6 \
         times a revolution, and takes {simulated:.2} revolutions; if settling, 0.475 ms, were all, it would take \
         {settling:.2}, much less than was measured. Each is {:.2} and {:.2} less than the model has for as many \
         bins: SPTF may pass from the end of one bin to the start of the next but one.",
        over(6, simulated),
        over(8, settling),
    );
    [
        "A strand takes half a revolution and as many as its fullest bin holds requests. The appendix finds 8 \
         bins in 0.475 ms between tracks, which give 3.10 revolutions; its results are those of 6 bins (\"at best \
         six in a single revolution\"): 3.4 revolutions, a variance of 9, 3 revolutions as the likeliest, and a \
         chance of 0.02 that 6 requests need no extra one."
            .to_owned(),
        "FIFO is one request at a time. The paper's curves have no numbers.".to_owned(),
        supports,
    ]
}

fn picture(grid: &Grid) -> Picture {
    let names = [
        ("strands_pct", "strands"),
        ("fifo_pct", "FIFO"),
        ("model_8_bins_pct", "model, 8 bins"),
        ("model_6_bins_pct", "model, 6 bins"),
    ];
    let series = names.map(|(key, name)| Series { name: name.to_owned(), values: grid.column(key) });
    let along = grid.column("within_ms").into_iter().flatten().collect();
    Picture::Lines(Plot {
        along: Along::Linear(along),
        along_label: "ms",
        value_label: "per cent of strands done",
        series: series.into(),
        ..Plot::default()
    })
}
