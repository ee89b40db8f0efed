//! Reports, each one HTML file that works offline: of a comparison ([`html`]), of traces ([`trace`]) and of a sweep
//! ([`sweep()`]); and pictures of a drive ([`drive()`]) and of its model's errors ([`validation()`]).

pub(crate) mod along;
mod charts;
mod drive;
mod drives;
pub(crate) mod figure;
mod heat;
pub(crate) mod legend;
mod page;
pub(crate) mod plot;
mod scale;
mod sections;
pub(crate) mod stack;
pub(crate) mod standalone;
mod surface;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod trace;
mod validation;
mod verdict;

use seekless_trace::Stats;

pub use drive::drive;
pub use page::{PALETTE, STYLE, UPLOT_SCRIPT, UPLOT_STYLE};
pub use surface::surface;
pub use sweep::sweep;
pub use text::escape;
pub use validation::validation;
pub use verdict::Verdict;

use crate::outcome::{Comparison, Variant};
use drives::Drives;
use figure::Figure;
use heat::Heat;
use page::Page;
use plot::Plot;

/// The page for `comparison`, whose workload `stats` characterises; `command` is the command line that made it.
pub fn html(stats: &Stats, comparison: &Comparison, command: &str) -> String {
    with_verdict(stats, comparison, None, command)
}

/// As [`html()`], beginning with a verdict on the recording.
pub fn with_verdict(
    stats: &Stats,
    comparison: &Comparison,
    verdict: Option<&Verdict>,
    command: &str,
) -> String {
    let mut page = Page::default();
    let base = comparison.variants.first().map_or("", |base| base.name.as_str());
    page.html(&sections::headline(comparison, verdict));
    if let Some(savings) = sections::savings(comparison) {
        page.table(&savings);
    }
    page.contents();
    page.command(command);
    page.section("Settings");
    page.table(&sections::settings(comparison));
    page.section("The workload");
    workload(&mut page, stats);
    page.section("The drive");
    the_drive(&mut page, comparison);
    let drives = Drives::of(comparison);
    if let Some(drives) = &drives {
        page.section("Before and after");
        page.charts(drives.figures());
    }
    for variant in &comparison.variants {
        if let Some(traffic) = &variant.traffic {
            let layer = sections::display_name(&traffic.layer);
            let of =
                if traffic.layer == variant.name { layer } else { format!("{layer} in {}", variant.name) };
            page.section(&format!("Both sides of {of}"));
            page.html(sections::BOTH_SIDES);
            page.tables(&sections::traffic(traffic));
        }
    }
    page.section("Response times");
    page.table(&sections::responses(comparison));
    page.charts(alone(charts::response_times(comparison)));
    page.section("All figures");
    page.table(&sections::variants(comparison));
    for variant in comparison.variants.iter().filter(|variant| !variant.phases.is_empty()) {
        page.table(&sections::phases(variant, base));
        if let Some(bounds) = sections::bounds(variant) {
            page.table(&bounds);
        }
    }
    page.finish("seekless: a comparison", drives.as_ref().map(Drives::interactive).as_ref())
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

/// The variants that reconfigure something or, where none does, the first after the base; each with its name where
/// there are several.
fn by_phase(comparison: &Comparison) -> Vec<(String, &Variant)> {
    let others = comparison.variants.get(1..).unwrap_or_default();
    let mut shown: Vec<&Variant> =
        comparison.variants.iter().filter(|variant| !variant.reconfigurations.is_empty()).collect();
    if shown.is_empty() {
        shown.extend(others.iter().find(|variant| !variant.phases.is_empty()));
    }
    let several = shown.len() > 1;
    let name = |variant: &Variant| if several { variant.name.clone() } else { String::new() };
    shown.into_iter().map(|variant| (name(variant), variant)).collect()
}

fn the_drive(page: &mut Page, comparison: &Comparison) {
    let Some(base) = comparison.variants.first() else { return };
    let layers = by_phase(comparison);
    let busy = layers.iter().map(|(name, layer)| (name.clone(), charts::busy_by_phase(layer, &base.name)));
    let mut figures = vec![
        Figure::of_plots(busy.collect()),
        alone(charts::seek_distances(comparison)),
        Some(Figure::of_stack(&charts::head_time(comparison))),
    ];
    for (index, (name, layer)) in layers.iter().enumerate() {
        let stages = charts::stages(layer)
            .map(|stack| Figure::of_stack(&stack).with(Some(charts::reconfiguration_table(layer))));
        let both = [charts::head_time_by_phase(layer).map(|stack| Figure::of_stack(&stack)), stages];
        figures.extend(both.map(|figure| figure.map(|figure| figure.of_variant(index, name))));
    }
    page.charts(figures.into_iter().flatten());
}
