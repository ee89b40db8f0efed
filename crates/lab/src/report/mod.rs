//! Reports, each one HTML file that works offline: of a comparison ([`html`]) and of traces ([`trace`]); and
//! a drive as a picture ([`drive()`]), and how near its model is ([`validation()`]).

pub(crate) mod along;
mod charts;
mod drive;
pub(crate) mod figure;
mod heat;
pub(crate) mod legend;
mod page;
pub(crate) mod plot;
mod scale;
mod sections;
pub(crate) mod stack;
pub(crate) mod standalone;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod trace;
mod validation;

use seekless_trace::Stats;

pub use drive::drive;
pub use validation::validation;

use crate::outcome::Comparison;
use figure::Figure;
use heat::Heat;
use page::Page;
use plot::Plot;

/// The page for `comparison`, whose workload `stats` characterises; `command` is what made it.
pub fn html(stats: &Stats, comparison: &Comparison, command: &str) -> String {
    let mut page = Page::default();
    page.html(&sections::headline(comparison));
    page.command(command);
    page.section("Settings");
    page.table(&sections::settings(comparison));
    page.section("The workload");
    workload(&mut page, stats);
    page.section("The drive");
    the_drive(&mut page, comparison);
    for variant in &comparison.variants {
        if let Some(sides) = &variant.sides {
            page.section(&format!("Both sides of {}", sections::display_name(&variant.name)));
            page.html(sections::BOTH_SIDES);
            page.tables(&sections::sides(variant, sides));
        }
    }
    page.section("All figures");
    page.table(&sections::variants(comparison));
    for variant in comparison.variants.iter().filter(|variant| !variant.phases.is_empty()) {
        page.table(&sections::phases(variant));
    }
    page.finish("seekless: a comparison", None)
}

fn alone(plot: Option<Plot>) -> Option<Figure> {
    Figure::of_plots(vec![(String::new(), plot)])
}

fn workload(page: &mut Page, stats: &Stats) {
    let mut tables = vec![sections::workload(stats)];
    if !stats.top_processes.is_empty() {
        tables.push(sections::processes(stats));
    }
    page.tables(&tables);
    let figures = [
        alone(charts::rank_frequency(stats)),
        alone(charts::working_sets(stats)).map(|each| each.with(Some(charts::interval_table(stats)))),
        alone(charts::request_sizes(stats)),
        heat::figure(&[(String::new(), Heat(&stats.heat_map))]),
    ];
    page.charts(figures.into_iter().flatten());
}

fn the_drive(page: &mut Page, comparison: &Comparison) {
    let layer =
        comparison.variants.iter().find(|variant| !variant.phases.is_empty() && variant.name != "vanilla");
    let figures = [
        alone(layer.and_then(charts::busy_by_phase)),
        alone(charts::seek_distances(comparison)),
        Some(Figure::of_stack(&charts::head_time(comparison))),
        layer.and_then(charts::head_time_by_phase).map(|stack| Figure::of_stack(&stack)),
        layer
            .and_then(charts::stages)
            .map(|stack| Figure::of_stack(&stack).with(layer.map(charts::reconfiguration_table))),
    ];
    page.charts(figures.into_iter().flatten());
}
