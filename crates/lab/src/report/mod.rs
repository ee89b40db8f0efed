//! A comparison as one HTML file: readable offline, on a phone, on paper, in light and dark.
//!
//! The page holds all that it needs. A content security policy in it forbids every load, and scripts
//! are an addition: each chart is there as SVG, and each chart's numbers as a table. Names from
//! traces are escaped wherever they appear. The same figures give the same bytes.

mod charts;
mod figure;
mod heat;
mod plot;
mod scale;
mod sections;
mod stack;
mod table;
#[cfg(test)]
mod tests;
mod text;

use seekless_trace::Stats;
use serde_json::{Value, json};

use crate::outcome::Comparison;
use figure::Figure;
use heat::Heat;
use plot::{Form, Plot};
use stack::Stack;
use table::Table;
use text::{escape, script_json};

/// The library of the interactive charts, unchanged (docs/decisions/0004-uplot-in-the-report.md).
const UPLOT_SCRIPT: &str = include_str!("../../../../third_party/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../../../third_party/uplot/uPlot.min.css");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
/// The patterns that tell areas apart without colour.
const PATTERNS: &str = include_str!("assets/patterns.svg");

/// The page for `comparison`, whose workload `stats` characterises; `command` is what made it.
pub fn html(stats: &Stats, comparison: &Comparison, command: &str) -> String {
    let mut page = Page::default();
    page.out.push_str(&sections::headline(comparison));
    page.out.push_str(&sections::command(command));
    page.section("Settings");
    page.table(&sections::settings(comparison));
    page.section("The workload");
    page.workload(stats);
    page.section("The drive");
    page.drive(comparison);
    page.section("All figures");
    page.figures(comparison);
    page.finish()
}

/// What is written so far.
#[derive(Default)]
struct Page {
    out: String,
    /// For the script.
    plots: Vec<Value>,
    in_section: bool,
}

impl Page {
    /// Ends the section before, if any.
    fn section(&mut self, title: &str) {
        self.end_section();
        self.in_section = true;
        self.out.extend(["<section><h2>", &escape(title), "</h2>\n"]);
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.out.push_str("</section>\n");
        }
    }

    fn table(&mut self, table: &Table) {
        self.out.push_str(&table.html());
    }

    fn workload(&mut self, stats: &Stats) {
        self.out.push_str("<div class=\"tables\">");
        self.table(&sections::workload(stats));
        if !stats.top_processes.is_empty() {
            self.table(&sections::processes(stats));
        }
        self.out.push_str("</div><div class=\"charts\">");
        self.plot(charts::rank_frequency(stats), None);
        self.plot(charts::working_sets(stats), Some(charts::interval_table(stats)));
        self.plot(charts::request_sizes(stats), None);
        self.heat(&Heat(&stats.heat_map));
        self.out.push_str("</div>");
    }

    fn drive(&mut self, comparison: &Comparison) {
        let layer = comparison
            .variants
            .iter()
            .find(|variant| !variant.phases.is_empty() && variant.name != "vanilla");
        self.out.push_str("<div class=\"charts\">");
        self.plot(layer.and_then(charts::busy_by_phase), None);
        self.plot(charts::seek_distances(comparison), None);
        self.stack(Some(charts::head_time(comparison)), None);
        self.stack(layer.and_then(charts::head_time_by_phase), None);
        self.stack(layer.and_then(charts::stages), layer.map(charts::reconfiguration_table));
        self.out.push_str("</div>");
    }

    fn figures(&mut self, comparison: &Comparison) {
        self.table(&sections::variants(comparison));
        for variant in comparison.variants.iter().filter(|variant| !variant.phases.is_empty()) {
            self.table(&sections::phases(variant));
        }
    }

    fn plot(&mut self, plot: Option<Plot>, more: Option<Table>) {
        let Some(plot) = plot else { return };
        // The script puts at most two bars beside each other; more stay as they are.
        if plot.form == Form::Lines || plot.series.len() <= 2 {
            self.plots.push(plot.data());
        }
        let tables = std::iter::once(plot.table()).chain(more).collect();
        self.figure(&Figure {
            id: plot.id,
            title: plot.title,
            caption: &plot.caption,
            legend: plot.legend(),
            svg: plot.svg(),
            tables,
        });
    }

    fn stack(&mut self, stack: Option<Stack>, more: Option<Table>) {
        let Some(stack) = stack else { return };
        let tables = std::iter::once(stack.table()).chain(more).collect();
        self.figure(&Figure {
            id: stack.id,
            title: stack.title,
            caption: &stack.caption,
            legend: stack.legend(),
            svg: stack.svg(),
            tables,
        });
    }

    fn heat(&mut self, heat: &Heat) {
        if !heat.is_whole() {
            return;
        }
        let title = "Where on the disk the accesses go";
        self.figure(&Figure {
            id: "heat-map",
            title,
            caption: "Each cell is a region of the disk: the first at the top left, then row by row. Each level of \
                      heat is several times the accesses of the one below.",
            legend: Heat::legend(),
            svg: heat.svg(title),
            tables: vec![heat.table(title)],
        });
    }

    fn figure(&mut self, figure: &Figure) {
        self.out.push_str(&figure.html());
    }

    /// The whole page.
    fn finish(mut self) -> String {
        self.end_section();
        let data = script_json(&json!(self.plots));
        let body = self.out;
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>seekless: a comparison</title>\n\
             <style>{UPLOT_STYLE}</style>\n<style>{STYLE}</style></head>\n<body>{PATTERNS}<main>\n{body}</main>\n\
             <script type=\"application/json\" id=\"plots\">{data}</script>\n\
             <script>{UPLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n</body></html>\n"
        )
    }
}
