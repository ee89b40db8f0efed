//! A figure as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::shown::{Cell, Grid, Shown, Statement, Within};

/// A figure.
#[derive(JsonSchema, Serialize)]
pub struct PrintedFigure<'a> {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    /// What the paper shows, in words.
    paper_says: &'static str,
    drives: &'a [String],
    /// What `requests` counts.
    counted: &'static str,
    /// Requests or strands behind each number; zero if nothing was simulated.
    requests: u64,
    seed: u64,
    columns: Vec<PrintedColumn>,
    /// Further tables.
    more: Vec<PrintedGrid<'a>>,
    /// Statements of the paper, each with the value of here.
    paper: Vec<PrintedStatement>,
    notes: &'a [String],
    /// The main table, under the figure's own name of it, such as `rows`: an object per row.
    #[serde(flatten)]
    rows: BTreeMap<&'static str, Vec<PrintedRow<'a>>>,
}

/// A row: a value per column.
type PrintedRow<'a> = BTreeMap<&'static str, &'a Cell>;

/// A column.
#[derive(JsonSchema, Serialize)]
struct PrintedColumn {
    /// Key in each row, with the unit.
    key: &'static str,
    title: &'static str,
}

/// A further table.
#[derive(JsonSchema, Serialize)]
struct PrintedGrid<'a> {
    title: &'static str,
    columns: Vec<PrintedColumn>,
    rows: Vec<PrintedRow<'a>>,
}

/// A statement of the paper.
#[derive(JsonSchema, Serialize)]
struct PrintedStatement {
    /// Place in the paper.
    place: &'static str,
    says: &'static str,
    unit: &'static str,
    /// Lower bound, if stated.
    paper_from: Option<f64>,
    /// Upper bound, if stated.
    paper_to: Option<f64>,
    ours: f64,
    /// Deviation of ours, in the unit of the tolerance.
    off: f64,
    tolerance: f64,
    /// `points` or `per cent`.
    tolerance_in: &'static str,
    /// Whether ours is within the tolerance.
    holds: bool,
}

impl<'a> PrintedFigure<'a> {
    /// The figure.
    pub fn of(shown: &'a Shown) -> PrintedFigure<'a> {
        let Shown { entry, main, .. } = shown;
        PrintedFigure {
            name: entry.name,
            title: entry.title,
            source: entry.source,
            paper_says: entry.says,
            drives: &shown.drives,
            counted: entry.counted,
            requests: shown.requests,
            seed: shown.seed,
            columns: columns(main),
            more: shown
                .more
                .iter()
                .map(|grid| PrintedGrid { title: grid.title, columns: columns(grid), rows: rows(grid) })
                .collect(),
            paper: shown.paper.iter().map(statement).collect(),
            notes: &shown.notes,
            rows: BTreeMap::from([(entry.rows, rows(main))]),
        }
    }
}

fn columns(grid: &Grid) -> Vec<PrintedColumn> {
    grid.columns.iter().map(|column| PrintedColumn { key: column.key, title: column.title }).collect()
}

fn rows(grid: &Grid) -> Vec<PrintedRow<'_>> {
    let keys = || grid.columns.iter().map(|column| column.key);
    grid.rows.iter().map(|row| keys().zip(row).collect()).collect()
}

fn statement(statement: &Statement) -> PrintedStatement {
    let (tolerance, tolerance_in) = match statement.within {
        Within::Points(most) => (most, "points"),
        Within::Percent(most) => (most, "per cent"),
    };
    PrintedStatement {
        place: statement.place,
        says: statement.says,
        unit: statement.unit,
        paper_from: statement.from,
        paper_to: statement.to,
        ours: statement.ours,
        off: statement.off(),
        tolerance,
        tolerance_in,
        holds: statement.holds(),
    }
}
