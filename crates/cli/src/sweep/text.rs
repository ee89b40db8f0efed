//! The report of a sweep as text.

use std::collections::BTreeMap;

use seekless_lab::sweep::Figure;
use seekless_lab::sweep::fleet::Fleet;
use seekless_lab::sweep::report::{Level, Point, Report};

use crate::table::Table;
use crate::text::{count, counted, number, percent};

/// Most pairs of parameters that are listed.
const PAIRS: usize = 10;
/// Smallest share of a pair that is listed.
const LEAST_PCT: f64 = 0.1;
/// Most values of a parameter that are listed; of more, those with the smallest and the largest mean.
const LEVELS: usize = 8;
/// Most volumes that are listed.
const VOLUMES: usize = 20;
/// Most errors that are listed.
const FAILURES: usize = 5;

/// The report.
pub fn text(report: &Report) -> String {
    let failed = if report.failed == 0 {
        "none failed".to_owned()
    } else {
        format!("{} failed", count(report.failed))
    };
    let mut text = vec![format!("{}: {}, {failed}\n", report.file, counted(report.tasks, "task"))];
    let listed = report.failures.iter().take(FAILURES);
    text.extend(listed.map(|failure| format!("  {}: {}\n", counted(failure.tasks, "task"), failure.error)));
    if report.failures.len() > FAILURES {
        let others = report.failures.len() - FAILURES;
        text.push(format!("  and {others} other errors, in the column error of the table\n"));
    }
    let Some(best) = report.best.first() else { return text.concat() };
    text.push(format!("\nBest ({}), means of {}:\n\n", report.objectives[0], counted(best.tasks, "task")));
    text.push(points(report, None, &report.best));
    if !report.best_of_trace.is_empty() {
        let (traces, best): (Vec<String>, Vec<Point>) =
            report.best_of_trace.iter().map(|best| (best.trace.clone(), best.point.clone())).unzip();
        text.extend(["\nBest for each trace:\n\n".to_owned(), points(report, Some(&traces), &best)]);
    }
    if report.objectives.len() > 1 {
        text.push(format!("\nPareto front ({}):\n\n", report.objectives.join(", ")));
        text.push(points(report, None, &report.front));
    }
    if !report.sensitivity.is_empty() {
        let figure = figure(report, 0);
        text.push(format!("\nShare of the variance of {figure} that each parameter explains:\n\n"));
        text.push(effects(report));
    }
    let pairs = report.interactions.iter().filter_map(|pair| Some((pair, pair.share_pct?)));
    let pairs: Vec<_> = pairs.filter(|(_, share)| *share >= LEAST_PCT).take(PAIRS).collect();
    if !pairs.is_empty() {
        let mut table = Table::new(&["parameters", ">share"]);
        for (pair, share) in pairs {
            table.row([pair.parameters.join(" and "), percent(share)]);
        }
        text.extend(["\nAnd each pair, beyond both alone:\n\n".to_owned(), table.text()]);
    }
    text.extend(report.fleet.iter().map(|of| fleet(report, of)));
    text.extend(report.notes.iter().map(|note| format!("\n{note}\n")));
    text.concat()
}

/// The figure of an objective.
fn figure(report: &Report, at: usize) -> &str {
    report.objectives[at].split_once(' ').map_or("", |(_, figure)| figure)
}

/// Configurations: their varying parameters, and the objectives.
fn points(report: &Report, traces: Option<&[String]>, points: &[Point]) -> String {
    let varying: Vec<&String> = report
        .parameters
        .iter()
        .filter(|name| points.iter().chain(&report.best).any(|point| point.settings.contains_key(*name)))
        .collect();
    let figures = (0..report.objectives.len()).map(|at| format!(">{}", figure(report, at)));
    let spans = points.iter().any(|point| point.tasks > 1);
    let mut titles: Vec<String> = traces.map(|_| "trace".to_owned()).into_iter().collect();
    titles.extend(varying.iter().map(|name| (*name).clone()));
    titles.extend(figures);
    titles.extend([">from", ">to"].into_iter().filter(|_| spans).map(str::to_owned));
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, point) in points.iter().enumerate() {
        let mut row: Vec<String> = traces.map(|traces| traces[at].clone()).into_iter().collect();
        let value =
            |name: &&String| point.settings.get(*name).map_or_else(|| "-".to_owned(), ToString::to_string);
        row.extend(varying.iter().map(value));
        let span = point.span.iter().filter(|_| spans);
        row.extend(point.means.iter().chain(span).map(|mean| number(*mean, 2)));
        table.row(row);
    }
    table.text()
}

/// What each configuration gains over the volumes, and what is best for each.
fn fleet(report: &Report, fleet: &Fleet) -> String {
    let of = |settings: &BTreeMap<String, Figure>| {
        let own = report.parameters.iter().filter_map(|name| settings.get(name));
        let own: Vec<String> = own.map(ToString::to_string).collect();
        if own.is_empty() { "the volume".to_owned() } else { own.join(", ") }
    };
    let mut gains = Table::new(&[
        "configuration",
        ">helps",
        ">best for",
        ">failed",
        ">10 %",
        ">median",
        ">90 %",
        ">mean",
    ]);
    for one in &fleet.configurations {
        let counts = [one.helped, one.best_for, one.failed].map(count);
        let gain = one.gain.as_ref().map(|gain| [gain.p10, gain.median, gain.p90, gain.mean]);
        let gain = gain.map_or_else(|| [const { String::new() }; 4], |gain| gain.map(|gain| number(gain, 2)));
        gains.row(std::iter::once(of(&one.settings)).chain(counts).chain(gain));
    }
    let mut verdicts = Table::new(&["volume", "verdict", ">gain"]);
    for one in fleet.verdicts.iter().take(VOLUMES) {
        let verdict = one.settings.as_ref().map_or_else(|| "none".to_owned(), of);
        let gain = one.gain.map_or_else(|| "-".to_owned(), |gain| number(gain, 2));
        verdicts.row([format!("{}: {}", one.trace, one.volume), verdict, gain]);
    }
    let all = fleet.volumes;
    let shown = if all > VOLUMES as u64 { format!(", {VOLUMES} of {}", count(all)) } else { String::new() };
    format!(
        "\nGains over {} ({}); none helps {} of them:\n\n{}\nVerdict on each{shown}:\n\n{}",
        counted(all, "volume"),
        report.objectives[0],
        count(fleet.not_helped),
        gains.text(),
        verdicts.text()
    )
}

fn effects(report: &Report) -> String {
    let mut table = Table::new(&["parameter", ">share", "mean of each value"]);
    for effect in &report.sensitivity {
        let one = |level: &Level| {
            let value = level.value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            format!("{value}: {}", number(level.mean, 2))
        };
        let levels = if effect.levels.len() > LEVELS {
            let order = |one: &&Level, other: &&Level| one.mean.total_cmp(&other.mean);
            let ends = [effect.levels.iter().min_by(order), effect.levels.iter().max_by(order)];
            let ends: Vec<String> = ends.into_iter().flatten().map(one).collect();
            format!("{} values, {}", count(effect.levels.len() as u64), ends.join(" to "))
        } else {
            effect.levels.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        table.row([effect.parameter.clone(), percent(effect.share_pct), levels]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use seekless_lab::sweep::report::{Effect, Failure};

    use super::*;

    fn report(levels: i64) -> Report {
        let level = |n: i64| Level { value: Some(Figure::Whole(n)), tasks: 1, mean: (n * 7 % levels) as f64 };
        let effect = Effect {
            parameter: "seed".to_owned(),
            share_pct: 12.0,
            levels: (0..levels).map(level).collect(),
        };
        Report {
            file: "s.toml".to_owned(),
            tasks: 9,
            failed: 9,
            failures: (0..9).map(|n| Failure { error: format!("error {n}"), tasks: 1 }).collect(),
            parameters: vec!["seed".to_owned()],
            objectives: vec!["min busy_s".to_owned()],
            best: Vec::new(),
            best_of_trace: Vec::new(),
            front: Vec::new(),
            sensitivity: vec![effect],
            interactions: Vec::new(),
            fleet: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn many_values_and_errors_are_shortened() {
        assert!(effects(&report(3)).contains("0: 0.00, 1: 1.00, 2: 2.00"), "{}", effects(&report(3)));
        assert!(effects(&report(10)).contains("10 values, 0: 0.00 to 7: 9.00"), "{}", effects(&report(10)));
        let text = text(&report(3));
        assert!(
            text.contains("error 4")
                && text.ends_with("and 4 other errors, in the column error of the table\n"),
            "{text}"
        );
    }
}
