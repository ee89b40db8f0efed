//! The page of a sweep: the best configurations, the Pareto front, how much each parameter matters, alone and in pairs,
//! and what each volume of a fleet gains.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::along::Along;
use super::figure::Figure as Chart;
use super::page::Page;
use super::plot::{Form, Plot, Series};
use super::stack::Stack;
use super::table::Table;
use super::text::{escape, number, percent};
use crate::sweep::fleet::{Fleet, Verdict};
use crate::sweep::report::{Effect, Point, Report};
use crate::sweep::row::Figure;

/// Identifiers of the charts of parameters' values, of those that matter most.
const VALUES: [&str; 6] = ["values-1", "values-2", "values-3", "values-4", "values-5", "values-6"];
/// Configurations of a fleet in its chart.
const LINES: usize = 5;
/// Volumes that are listed.
const VOLUMES: usize = 200;

/// The page of a sweep's report; `command` is the command line that made it.
pub fn sweep(report: &Report, command: &str) -> String {
    let mut page = Page::default();
    page.html(&headline(report));
    page.contents();
    page.command(command);
    if !report.failures.is_empty() {
        page.section("Failed tasks");
        let mut table =
            Table { wordy: true, ..Table::new("Errors, the most frequent first", &["tasks", "error"]) };
        report.failures.iter().for_each(|failure| table.pair(&failure.tasks.to_string(), &failure.error));
        page.table(&table);
    }
    if !report.best.is_empty() {
        page.section("The best configurations");
        page.table(&points(
            report,
            "The best by the first objective, as means over traces and seeds",
            &report.best,
        ));
        if !report.best_of_trace.is_empty() {
            page.table(&best_of_traces(report));
        }
    }
    if report.objectives.len() > 1 && !report.front.is_empty() {
        page.section("The Pareto front");
        page.html("<p>Configurations that no other is better than in every objective.</p>");
        page.charts(front(report));
        page.table(&points(report, "The front, in the order of the chart", &report.front));
    }
    if !report.sensitivity.is_empty() {
        page.section("What matters");
        page.charts(std::iter::once(shares(report)).chain(levels(report)));
        if !report.interactions.is_empty() {
            page.html(
                "<p>Two parameters matter together if the best value of one depends on the other: the share of the \
                 variance that a pair explains beyond both alone.</p>",
            );
            page.table(&pairs(report));
        }
    }
    if let Some(fleet) = &report.fleet {
        page.section("The volumes");
        volumes(&mut page, report, fleet);
    }
    page.finish(&format!("seekless: {}", report.file), None)
}

fn headline(report: &Report) -> String {
    let mut out = String::from("<header><p class=\"brand\">seekless: a sweep in virtual time</p>");
    let _ = write!(out, "<h1>{}</h1><dl class=\"tiles\">", escape(&report.file));
    let mut tile = |name: &str, value: String, meaning: &str| {
        let (value, meaning) = (escape(&value), escape(meaning));
        let _ = write!(out, "<div><dt>{name}</dt><dd class=\"figure\">{value}</dd><dd>{meaning}</dd></div>");
    };
    tile("tasks", report.tasks.to_string(), "a trace, a volume and its options each");
    tile("failed", report.failed.to_string(), "without figures");
    if let Some(best) = report.best.first() {
        tile("best", number(best.means[0]), &report.objectives[0]);
    }
    if let Some(fleet) = &report.fleet {
        tile(
            "volumes",
            fleet.volumes.to_string(),
            &format!("{} that no configuration helps", fleet.not_helped),
        );
    }
    out.push_str("</dl>");
    if !report.notes.is_empty() {
        out.push_str("<aside aria-label=\"Notes\"><h2>Before you believe it</h2><ul>");
        report.notes.iter().for_each(|note| out.extend(["<li>", &escape(note), "</li>"]));
        out.push_str("</ul></aside>");
    }
    out.push_str("</header>");
    out
}

/// The parameters that a configuration has, of those with several values.
fn varying(report: &Report) -> Vec<&String> {
    let is_there = |name: &&String| {
        let mut all = report.best.iter().chain(&report.front);
        all.any(|point| point.settings.contains_key(*name))
    };
    report.parameters.iter().filter(is_there).collect()
}

fn cell(settings: &BTreeMap<String, Figure>, name: &str) -> String {
    settings.get(name).map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// A configuration in words, as far as it varies.
fn words(report: &Report, settings: &BTreeMap<String, Figure>) -> String {
    let each: Vec<String> = varying(report).into_iter().map(|name| cell(settings, name)).collect();
    if each.is_empty() { "the configuration".to_owned() } else { each.join(", ") }
}

fn points(report: &Report, caption: &str, points: &[Point]) -> Table {
    let mut table = Table::new(caption, &[""]);
    table.head.extend(varying(report).into_iter().cloned());
    table.head.extend(report.objectives.iter().cloned());
    table.head.extend(["from", "to"].map(str::to_owned));
    for (at, point) in points.iter().enumerate() {
        let settings = varying(report).into_iter().map(|name| cell(&point.settings, name));
        let figures = point.means.iter().chain(&point.span).map(|mean| number(*mean));
        table.row(std::iter::once((at + 1).to_string()).chain(settings).chain(figures));
    }
    table
}

fn best_of_traces(report: &Report) -> Table {
    let best: Vec<Point> = report.best_of_trace.iter().map(|best| best.point.clone()).collect();
    let mut table = points(report, "The best for each trace", &best);
    "trace".clone_into(&mut table.head[0]);
    for (row, best) in table.rows.iter_mut().zip(&report.best_of_trace) {
        row[0].clone_from(&best.trace);
    }
    table
}

/// A chart for each objective, with a bar for each configuration of the front.
fn front(report: &Report) -> Option<Chart> {
    let plot = |(at, objective): (usize, &String)| {
        let names = (1..=report.front.len()).map(|number| (number as f64, number.to_string()));
        let values = report.front.iter().map(|point| Some(point.means[at])).collect();
        let plot = Plot {
            id: "front",
            title: "Configurations of the front",
            caption:
                "Each is better than all others in some objective, or as good: what one gains, another costs."
                    .to_owned(),
            along: Along::names(names),
            along_label: "number in the table below",
            form: Form::Bars,
            series: vec![Series { name: objective.clone(), values }],
            ..Plot::default()
        };
        (objective.clone(), Some(plot))
    };
    Chart::of_plots(report.objectives.iter().enumerate().map(plot).collect())
}

/// The last part of a parameter's name: `size` of `layer.cache.size`.
fn short(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

/// What each parameter explains alone.
fn shares(report: &Report) -> Chart {
    let bar = |effect: &Effect| (short(&effect.parameter), vec![effect.share_pct.max(0.0)]);
    Chart::of_stack(&Stack {
        id: "shares",
        title: "Share of the variance",
        caption: format!(
            "How much of the differences in {} each parameter explains by itself: what would be left of them if only \
             this parameter changed.",
            report.objectives[0]
        ),
        bar_label: "parameter",
        value_label: "per cent",
        parts: vec!["alone".to_owned()],
        bars: report.sensitivity.iter().map(bar).collect(),
    })
}

/// The means of the values of the parameters that matter most.
fn levels(report: &Report) -> impl Iterator<Item = Chart> + '_ {
    let chart = |(id, effect): (&'static str, &Effect)| {
        let value =
            |value: &Option<Figure>| value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let names = effect.levels.iter().map(|level| value(&level.value));
        let plot = Plot {
            id,
            title: "Mean of each value",
            caption: format!("{}, over all tasks with the value.", report.objectives[0]),
            along: Along::names((1..).map(f64::from).zip(names)),
            form: Form::Bars,
            series: vec![Series {
                name: report.objectives[0].clone(),
                values: effect.levels.iter().map(|level| Some(level.mean)).collect(),
            }],
            ..Plot::default()
        };
        let mut chart = Chart::of_plots(vec![(String::new(), Some(plot))])?;
        chart.title = format!("{}: {}", chart.title, effect.parameter);
        Some(chart)
    };
    VALUES.into_iter().zip(&report.sensitivity).filter_map(chart)
}

fn pairs(report: &Report) -> Table {
    let mut table =
        Table::new("Pairs of parameters, beyond both alone", &["parameters", "share of the variance"]);
    for pair in &report.interactions {
        table.pair(&pair.parameters.join(" and "), pair.share_pct.map_or_else(|| "-".to_owned(), percent));
    }
    table
}

fn volumes(page: &mut Page, report: &Report, fleet: &Fleet) {
    page.html(
        "<p>A configuration helps a volume if it saves at least 3 % of the busy time, and requests do not wait longer \
         for it. The verdict is the best of those that help. In percentiles each volume counts once.</p>",
    );
    page.charts(gains(report, fleet));
    let head = ["", "helps", "best for", "failed", "least", "10 %", "median", "90 %", "most"];
    let mut table = Table::new(&format!("Gain of each configuration ({})", report.objectives[0]), &head);
    for one in &fleet.configurations {
        let counts = [one.helped, one.best_for, one.failed].map(|count| count.to_string());
        let gain = one
            .gain
            .as_ref()
            .map(|gain| [gain.least, gain.p10, gain.median, gain.p90, gain.most].map(number));
        let gain = gain.unwrap_or_else(|| std::array::from_fn(|_| "-".to_owned()));
        table.row(std::iter::once(words(report, &one.settings)).chain(counts).chain(gain));
    }
    page.table(&table);
    let shown = fleet.verdicts.len().min(VOLUMES);
    let caption = format!("The verdict on each volume, {shown} of {}", fleet.verdicts.len());
    let mut table = Table { wordy: true, ..Table::new(&caption, &["volume", "verdict", "gain"]) };
    for Verdict { trace, volume, settings, gain } in fleet.verdicts.iter().take(VOLUMES) {
        let verdict = settings.as_ref().map_or_else(|| "none".to_owned(), |settings| words(report, settings));
        table.row([format!("{trace}: {volume}"), verdict, gain.map_or_else(|| "-".to_owned(), number)]);
    }
    page.table(&table);
}

/// The distribution of the gains over the volumes: a line for each of the configurations that are best for most.
fn gains(report: &Report, fleet: &Fleet) -> Option<Chart> {
    let mut best: Vec<_> =
        fleet.configurations.iter().filter_map(|one| Some((one, one.gain.as_ref()?))).collect();
    best.sort_by_key(|(one, _)| std::cmp::Reverse((one.best_for, one.helped)));
    let series = best.into_iter().take(LINES).map(|(one, gain)| Series {
        name: words(report, &one.settings),
        values: [gain.least, gain.p10, gain.p25, gain.median, gain.p75, gain.p90, gain.p99, gain.most]
            .map(Some)
            .to_vec(),
    });
    let ranks = ["least", "10 %", "25 %", "median", "75 %", "90 %", "99 %", "most"].map(str::to_owned);
    let plot = Plot {
        id: "gains",
        title: "Gains over the volumes",
        caption: format!("{} of the volume at each rank.", report.objectives[0]),
        along: Along::names((1..).map(f64::from).zip(ranks)),
        along_label: "rank among the volumes",
        form: Form::Lines,
        series: series.collect(),
        ..Plot::default()
    };
    if plot.series.is_empty() { None } else { Chart::of_plots(vec![(String::new(), Some(plot))]) }
}
