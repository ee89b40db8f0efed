//! Figure 3 of the proximal paper, and the model of its Appendix A beside the simulation.

use seekless_core::Op;
use seekless_drive::Spec;

use super::Asked;
use super::birthday::{bins, expected_revolutions, fullest, moments};
use super::proximal::mean;
use super::shown::{Cell, Column, Grid, Picture, Shown, Statement, Within, numbers, words};
use super::strand::{Kind, Strand, response_ms};
use crate::experiment::LabError;
use crate::report::along::Along;
use crate::report::plot::{Plot, Series};

/// The strand that the appendix is about.
const REQUESTS: usize = 8;
/// Its average seek and its revolution, in milliseconds.
const SEEK_MS: f64 = 3.5;
const TURN_MS: f64 = 4.0;
/// The time between tracks that it names, in milliseconds.
const SWITCH_MS: f64 = 0.475;
/// How many bins its inputs give, and how many its results are of.
const BINS: [u32; 2] = [8, 6];

const SPREAD: [Column; 5] = [
    numbers("within_ms", "within ms", 0),
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

/// Draws it.
pub fn figure_3(asked: &Asked) -> Result<Shown, LabError> {
    let drive = asked.drive();
    let strand = Strand::new(Kind::Proximal, REQUESTS, Op::Read);
    let times = |drive: &Spec, strand| response_ms(drive, strand, asked.requests, asked.seed);
    asked.progress(0, 3);
    let strands = times(drive, strand)?;
    asked.progress(1, 3);
    let fifo = times(drive, Strand { depth: 1, ..strand })?;
    asked.progress(2, 3);
    let mut settling = drive.clone();
    settling.command.turn_round_us = 0.0;
    let settling = times(&settling, strand)?;

    let mut main = Grid::new("", &SPREAD);
    for ms in (6..=40_u32).step_by(2) {
        let within = |times: &[f64]| {
            let faster = times.iter().filter(|&&time| time <= f64::from(ms)).count();
            100.0 * faster as f64 / times.len().max(1) as f64
        };
        let modelled = BINS.map(|bins| 100.0 * modelled_within(f64::from(ms), bins));
        let values = [within(&strands), within(&fifo), modelled[0], modelled[1]];
        main.row(std::iter::once(Cell::from(u64::from(ms))).chain(values.map(Cell::from)));
    }
    let pictures = vec![(String::new(), picture(&main))];
    let mut shown = asked.shown(main, statements(&strands), &notes(), pictures);
    shown.more.push(models(asked, &strands, &settling));
    Ok(shown)
}

/// The share of strands that the model has done within so many milliseconds: the average seek, a wait between
/// none and a revolution, and as many revolutions as the fullest bin holds requests.
fn modelled_within(ms: f64, bins: u32) -> f64 {
    let turns = (ms - SEEK_MS) / TURN_MS;
    let chances = fullest(REQUESTS, bins);
    chances.iter().zip(1_u32..).map(|(chance, k)| chance * (turns - f64::from(k)).clamp(0.0, 1.0)).sum()
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len().max(1) as f64
}

/// The model with its inputs and with its results, the paper's own figures, and ours.
fn models(asked: &Asked, strands: &[f64], settling: &[f64]) -> Grid {
    let mut grid = Grid::new("Revolutions of a strand of 8 (Appendix A)", &MODELS);
    let mut row = |what: &str, revolutions: f64, ms: f64, variance: f64, likeliest: Cell, none: Cell| {
        grid.row([what.into(), revolutions.into(), ms.into(), variance.into(), likeliest, none]);
    };
    for (bins, what) in BINS.into_iter().zip(["model, 8 bins: its inputs", "model, 6 bins: its results"]) {
        let chances = fullest(REQUESTS, bins);
        let revolutions = expected_revolutions(REQUESTS, bins);
        let likeliest =
            chances.iter().zip(1_u64..).max_by(|a, b| a.0.total_cmp(b.0)).map_or(0, |best| best.1);
        let spread = TURN_MS * TURN_MS * moments(&chances).1;
        let ms = SEEK_MS + TURN_MS * revolutions;
        let none = 100.0 * fullest(6, bins)[0];
        row(what, revolutions, ms, spread, likeliest.into(), none.into());
    }
    if !asked.others {
        row("paper: its model", 3.4, 17.26, 9.0, Cell::Count(3), Cell::Number(2.0));
        let measured = (17.14 - SEEK_MS) / TURN_MS;
        row("paper: measured", measured, 17.14, 9.6, Cell::Nothing, Cell::Nothing);
    }
    let turn = 60e3 / asked.drive().rpm;
    for (what, times) in [("simulated", strands), ("simulated, settling alone", settling)] {
        let ms = mean(times);
        row(what, (ms - SEEK_MS) / turn, ms, variance(times), Cell::Nothing, Cell::Nothing);
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
            f64::from(bins(TURN_MS, SWITCH_MS)),
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

fn notes() -> [&'static str; 3] {
    [
        "A strand takes half a revolution and as many as its fullest bin holds requests. The appendix finds 8 \
         bins in 0.475 ms between tracks, which give 3.10 revolutions; its results are those of 6 bins (\"at best \
         six in a single revolution\"): 3.4 revolutions, a variance of 9, 3 revolutions as the likeliest, and a \
         chance of 0.02 that 6 requests need no extra one.",
        "The simulation supports 6. With 0.475 ms alone strands are far faster than measured; with the 0.65 ms \
         from one request to the next that Table 1 shows (6 requests a revolution) they take as long as there. \
         Either way they need some 0.2 to 0.3 revolutions less than the model has: SPTF may pass from the end of \
         one bin to the start of the next but one.",
        "FIFO is one request at a time. The paper's curves have no numbers.",
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
