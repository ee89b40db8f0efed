//! Content of a figure: rows of numbers, the paper's statements compared with ours, and pictures.
//!
//! Invariant: text, JSON and picture come from the same numbers. A paper's picture without numbers has no counterpart.

use schemars::JsonSchema;
use serde::Serialize;

use super::Entry;
use super::printed::PrintedFigure;
use crate::report::figure::{Figure, Panel};
use crate::report::legend::Legend;
use crate::report::plot::Plot;
use crate::report::stack::Stack;
use crate::report::standalone;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Key in JSON, with the unit.
    pub key: &'static str,
    /// Title, with the unit.
    pub title: &'static str,
    /// Decimals of its numbers; `None` for words.
    pub decimals: Option<usize>,
}

/// A column of words.
pub const fn words(key: &'static str, title: &'static str) -> Column {
    Column { key, title, decimals: None }
}

/// A column of numbers.
pub const fn numbers(key: &'static str, title: &'static str, decimals: usize) -> Column {
    Column { key, title, decimals: Some(decimals) }
}

/// One value.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Word(String),
    /// A count.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// No value: the paper does not state it, or it is undefined.
    Nothing,
}

impl From<&str> for Cell {
    fn from(word: &str) -> Cell {
        Cell::Word(word.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Cell {
        number.map_or(Cell::Nothing, Cell::Number)
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Title; empty for a figure's main table.
    pub title: &'static str,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Rows, each as long as the columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// An empty table.
    pub fn new(title: &'static str, columns: &[Column]) -> Grid {
        Grid { title, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.columns.len()));
    }

    /// The numbers of a column; `None` where a row has none.
    pub fn column(&self, key: &str) -> Vec<Option<f64>> {
        let Some(at) = self.columns.iter().position(|column| column.key == key) else { return Vec::new() };
        let number = |row: &Vec<Cell>| match row[at] {
            Cell::Number(number) => Some(number),
            Cell::Count(count) => Some(count as f64),
            _ => None,
        };
        self.rows.iter().map(number).collect()
    }
}

/// Tolerance of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Within {
    /// In the statement's own unit.
    Points(f64),
    /// In per cent of the paper's number.
    Percent(f64),
}

/// A statement of the paper, in words or in a table, and our value.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Place in the paper.
    pub place: &'static str,
    /// Subject.
    pub says: &'static str,
    /// Unit of its numbers.
    pub unit: &'static str,
    /// Lower bound, if stated.
    pub from: Option<f64>,
    /// Upper bound, if stated.
    pub to: Option<f64>,
    /// Our value.
    pub ours: f64,
    /// Tolerance.
    pub within: Within,
}

impl Statement {
    /// A statement of one number.
    pub fn about(
        place: &'static str,
        says: &'static str,
        unit: &'static str,
        theirs: f64,
        ours: f64,
        within: Within,
    ) -> Statement {
        Statement { place, says, unit, from: Some(theirs), to: Some(theirs), ours, within }
    }

    /// Deviation of ours, negative if it is less; in points or in per cent, as [`Statement::within`] is.
    pub fn off(&self) -> f64 {
        let (off, theirs) = match (self.from, self.to) {
            (Some(from), _) if self.ours < from => (self.ours - from, from),
            (_, Some(to)) if self.ours > to => (self.ours - to, to),
            _ => (0.0, 1.0),
        };
        if matches!(self.within, Within::Percent(_)) { 100.0 * off / theirs } else { off }
    }

    /// Whether ours is within the tolerance.
    pub fn holds(&self) -> bool {
        let (Within::Points(most) | Within::Percent(most)) = self.within;
        self.off().abs() <= most
    }
}

/// A picture of a figure.
pub enum Picture {
    /// Stacked bars.
    Bars(Stack),
    /// Lines.
    Lines(Plot),
}

/// A figure, computed.
pub struct Shown {
    /// Its description.
    pub entry: &'static Entry,
    /// Names of its drives.
    pub drives: Vec<String>,
    /// Requests or strands behind each number; zero if nothing was simulated.
    pub requests: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Main table.
    pub main: Grid,
    /// Further tables.
    pub more: Vec<Grid>,
    /// The paper's statements, and ours.
    pub paper: Vec<Statement>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Pictures with their names.
    pub pictures: Vec<(String, Picture)>,
}

impl Shown {
    /// As one JSON object.
    pub fn json(&self) -> PrintedFigure<'_> {
        PrintedFigure::of(self)
    }

    /// As the text of an SVG file.
    pub fn svg(&self) -> String {
        let panel = |(name, picture): &(String, Picture)| {
            let svg = match picture {
                Picture::Bars(stack) => stack.svg(),
                Picture::Lines(plot) => plot.svg(),
            };
            Panel { name: name.clone(), svg, ..Panel::default() }
        };
        let legend = |(_, picture): &(String, Picture)| match picture {
            Picture::Bars(stack) => stack.legend(),
            Picture::Lines(plot) => plot.legend(),
        };
        let mut panels: Vec<Panel> = self.pictures.iter().map(panel).collect();
        if let Some(panel) = panels.first_mut() {
            panel.note = format!("The paper: {}.", self.entry.says);
        }
        standalone::svg(&Figure {
            id: self.entry.name,
            title: format!("{}: {}", self.entry.name, self.entry.title),
            caption: self.entry.source.to_owned(),
            legend: self.pictures.first().map_or_else(Legend::default, legend),
            panels,
            ..Figure::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_is_counted_from_the_nearer_end() {
        let range = Statement {
            from: Some(27.0),
            to: Some(36.0),
            ..Statement::about("", "", "%", 0.0, 26.5, Within::Points(2.0))
        };
        assert!((range.off() + 0.5).abs() < 1e-9 && range.holds());
        let above = Statement { ours: 38.5, ..range.clone() };
        assert!((above.off() - 2.5).abs() < 1e-9 && !above.holds());
        assert!(Statement { ours: 30.0, ..range.clone() }.off().abs() < 1e-9);
        let less = Statement { from: None, ours: -90.0, ..range };
        assert!(less.holds(), "nothing is said of less");
        let percent = Statement::about("", "", "ms", 10.0, 11.0, Within::Percent(12.0));
        assert!((percent.off() - 10.0).abs() < 1e-9 && percent.holds());
    }
}
