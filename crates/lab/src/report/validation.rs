//! Errors of a drive's model as pictures: both distributions, the error from request to request, and the error by kind
//! of request and the one before it.

use seekless_core::{Nanos, Op};
use seekless_drive::disk::mechanics::Access;
use seekless_drive::validate::Measured;

use super::along::Along;
use super::figure::{Figure, Panel};
use super::plot::{Form, Plot, Series};
use super::standalone;

/// Points of a distribution, and stretches of requests.
const POINTS: usize = 160;
const STRETCHES: usize = 60;

/// Kinds of requests, and whether each came after a read or a write. Cache hits are those of the model.
const KINDS: [&str; 6] = ["hit r", "hit w", "miss r", "miss w", "write r", "write w"];

/// Error of a request: the model's time less the drive's, in milliseconds, and its kind.
struct Error {
    off: f64,
    kind: usize,
}

/// The model's times for `measured` compared with the measured ones, as the text of an SVG file of its own.
pub fn validation(title: &str, accesses: &[Access], measured: &[Measured]) -> String {
    let simulated: Vec<Nanos> = accesses.iter().map(Access::total).collect();
    let errors = errors(accesses, measured);
    let mut plots =
        vec![("Service times: measured (solid), simulated (dashed)", distributions(&simulated, measured))];
    plots.push(("Error from request to request: half (solid), 90 % (dashed)", over_time(&errors)));
    plots.push(("Within 0.5 ms, by kind", by_kind(&errors, "%", within)));
    plots.push(("Half of the errors are smaller, by kind", by_kind(&errors, "ms", median)));
    let panels = plots.into_iter().map(|(name, plot)| Panel {
        name: name.to_owned(),
        svg: plot.svg(),
        note: plot.note,
    });
    let figure = Figure {
        id: "validation",
        title: title.to_owned(),
        caption: "A drive's model against service times measured on the real drive.".to_owned(),
        panels: panels.collect(),
        ..Figure::default()
    };
    standalone::svg(&figure)
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

fn errors(accesses: &[Access], measured: &[Measured]) -> Vec<Error> {
    let mut after_write = false;
    let pairs = accesses.iter().zip(measured);
    pairs
        .map(|(access, request)| {
            let after = usize::from(std::mem::replace(&mut after_write, request.op == Op::Write));
            let found = access.seek + access.rotation == Nanos::ZERO;
            let kind = match request.op {
                Op::Write => 4,
                _ if found => 0,
                _ => 2,
            };
            Error { off: millis(access.total()) - millis(request.service), kind: kind + after }
        })
        .collect()
}

fn distributions(simulated: &[Nanos], measured: &[Measured]) -> Plot {
    let sorted = |times: &mut dyn Iterator<Item = Nanos>| {
        let mut times: Vec<f64> = times.map(millis).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let model = sorted(&mut simulated.iter().copied());
    let drive = sorted(&mut measured.iter().map(|request| request.service));
    // The few longest would squeeze the others together.
    let end = [&model, &drive].map(|times| quantile(times, 0.999)).into_iter().fold(0.0, f64::max);
    let along: Vec<f64> = (0..=POINTS).map(|point| end * point as f64 / POINTS as f64).collect();
    let below = |times: &[f64]| {
        let part = |&at: &f64| times.partition_point(|&time| time <= at) as f64 / times.len().max(1) as f64;
        along.iter().map(|at| Some(100.0 * part(at))).collect()
    };
    Plot {
        series: vec![
            Series { name: "measured".to_owned(), values: below(&drive) },
            Series { name: "simulated".to_owned(), values: below(&model) },
        ],
        along: Along::Linear(along),
        along_label: "ms",
        value_label: "% took no longer",
        ..Plot::default()
    }
}

fn over_time(errors: &[Error]) -> Plot {
    let each = errors.len().div_ceil(STRETCHES).max(1);
    let stretches: Vec<Vec<f64>> = errors
        .chunks(each)
        .map(|stretch| {
            let mut off: Vec<f64> = stretch.iter().map(|error| error.off.abs()).collect();
            off.sort_by(f64::total_cmp);
            off
        })
        .collect();
    let series = |name: &str, part: f64| Series {
        name: name.to_owned(),
        values: stretches.iter().map(|off| Some(quantile(off, part))).collect(),
    };
    Plot {
        series: vec![series("half", 0.5), series("90 %", 0.9)],
        along: Along::Linear((0..stretches.len()).map(|at| (at * each) as f64).collect()),
        along_label: "request",
        value_label: "ms: this share of errors is smaller",
        ..Plot::default()
    }
}

fn by_kind(errors: &[Error], value_label: &'static str, of: fn(&[f64]) -> f64) -> Plot {
    let kinds = (0..KINDS.len()).map(|kind| {
        let mut off: Vec<f64> =
            errors.iter().filter(|error| error.kind == kind).map(|error| error.off.abs()).collect();
        off.sort_by(f64::total_cmp);
        (off.len(), (!off.is_empty()).then(|| of(&off)))
    });
    let (counts, values): (Vec<usize>, Vec<Option<f64>>) = kinds.unzip();
    let names = KINDS.iter().zip(counts).enumerate().filter(|(_, (_, count))| *count > 0);
    let along = Along::names(names.map(|(kind, (name, _))| (kind as f64, (*name).to_owned())));
    let values = values.into_iter().flatten().map(Some).collect();
    let series = vec![Series { name: "model".to_owned(), values }];
    Plot {
        along,
        along_label: "kind, after a read or a write",
        value_label,
        form: Form::Bars,
        series,
        ..Plot::default()
    }
}

fn within(off: &[f64]) -> f64 {
    100.0 * off.iter().filter(|off| **off <= 0.5).count() as f64 / off.len().max(1) as f64
}

fn median(sorted: &[f64]) -> f64 {
    quantile(sorted, 0.5)
}

/// The value that this part of the sorted values does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_core::Extent;

    #[test]
    fn errors_are_drawn_by_time_and_by_the_kinds_that_there_are() {
        let times = |count: u64| (0..count).map(|i| (i % 3 == 0, Nanos(1_000_000 + i % 7 * 900_000)));
        let measured: Vec<Measured> = times(500)
            .map(|(write, service)| Measured {
                op: if write { Op::Write } else { Op::Read },
                at: Extent::new(8, 8),
                service,
                think: Nanos(0),
            })
            .collect();
        let accesses: Vec<Access> =
            times(500).map(|(_, time)| Access { rotation: time, ..Access::default() }).collect();
        let svg = validation("a < b", &accesses, &measured);
        assert!(svg.contains("a &lt; b") && svg.contains("miss w") && svg.contains("write r"), "{svg}");
        assert!(!svg.contains("hit r") && !svg.contains("NaN"), "{svg}");
        let none = validation("nothing", &[], &[]);
        assert!(none.starts_with("<svg") && !none.contains("NaN"), "{none}");
    }
}
