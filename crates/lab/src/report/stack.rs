//! Stacked horizontal bars: where the time goes.

use std::fmt::Write;

use super::legend::Legend;
use super::plot::{Form, STYLES, legend};
use super::scale::Scale;
use super::table::Table;
use super::text::{escape, mark, number};

const WIDTH: f64 = 520.0;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 500.0;
const BAR: f64 = 20.0;
const STEP: f64 = 28.0;

/// A chart of stacked bars. All values are of one unit.
pub struct Stack {
    /// Identifier in the page.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Caption: what to see in it.
    pub caption: String,
    /// What a bar stands for.
    pub bar_label: &'static str,
    /// Label of the values, with their unit.
    pub value_label: &'static str,
    /// Names of the parts, left to right.
    pub parts: Vec<String>,
    /// Bars, each with one value per part, none below 0.
    pub bars: Vec<(String, Vec<f64>)>,
}

impl Stack {
    /// The picture.
    pub fn svg(&self) -> String {
        let scale = Scale::linear(self.bars.iter().map(|(_, values)| values.iter().sum()));
        let bottom = 8.0 + self.bars.len() as f64 * STEP;
        let mut out = format!(
            "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {:.0}\" aria-label=\"{}\">",
            bottom + 46.0,
            escape(&format!("{}. {}", self.title, self.caption)),
        );
        for tick in scale.ticks() {
            let x = LEFT + scale.at(tick) * (RIGHT - LEFT);
            let _ = write!(out, "<path class=\"grid\" d=\"M{x:.1} 4V{bottom}\"/>");
            let _ = write!(
                out,
                "<text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 17.0,
                mark(tick)
            );
        }
        for (row, (name, values)) in self.bars.iter().enumerate() {
            let top = 8.0 + row as f64 * STEP;
            let _ = write!(out, "<text class=\"end\" x=\"{}\" y=\"{}\">", LEFT - 8.0, top + 15.0);
            let _ = write!(out, "{}</text>", escape(&shortened(name)));
            let mut before = 0.0;
            for (index, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                let x = LEFT + scale.at(before) * (RIGHT - LEFT);
                before += value;
                let width = LEFT + scale.at(before) * (RIGHT - LEFT) - x;
                let style = index % STYLES;
                let says = escape(&format!("{name}, {}: {}", self.parts[index], number(*value)));
                let _ = write!(
                    out,
                    "<rect class=\"p{style}\" x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{BAR}\"><title>{says}</title></rect>"
                );
            }
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} 4V{bottom}H{RIGHT}\"/>");
        let y = bottom + 38.0;
        let _ = write!(
            out,
            "<text class=\"end\" x=\"{RIGHT}\" y=\"{y}\">{}</text></svg>",
            escape(self.value_label)
        );
        out
    }

    /// The same numbers as a table, and each bar's sum.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&format!("{} ({})", self.title, self.value_label), &[self.bar_label]);
        table.head.extend(self.parts.iter().cloned());
        table.head.push("together".to_owned());
        for (name, values) in &self.bars {
            let sum = values.iter().sum();
            let cells = values.iter().copied().chain(std::iter::once(sum)).map(number);
            table.row(std::iter::once(name.clone()).chain(cells));
        }
        table
    }

    /// Names and patterns of the parts.
    pub fn legend(&self) -> Legend {
        let names: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        legend(&names, Form::Bars)
    }
}

/// A name shortened to the room left of a bar.
fn shortened(name: &str) -> String {
    const LETTERS: usize = 13;
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['\u{2026}']).collect()
}
