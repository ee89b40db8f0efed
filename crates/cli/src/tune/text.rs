//! The result of a search as text.

use std::fmt::Write;

use seekless_lab::tune::{Surface, Tried, Tuned};

use crate::table::Table;
use crate::text::{counted, number, percent, seconds};

/// The whole result.
pub fn text(tuned: &Tuned) -> String {
    let runs = counted(tuned.tried.len() as u64, "run");
    let mut out =
        format!("{}\n{runs}; without the layer {} busy\n\n", tuned.setup, seconds(tuned.base_busy_s));
    let mut table = Table::new(&["", "start", "best"]);
    for parameter in &tuned.parameters {
        let value = |tried: &Tried| tried.settings.get(&parameter.name).cloned().unwrap_or_default();
        table.row([parameter.name.clone(), value(&tuned.start), value(&tuned.best)]);
    }
    out.push_str(&table.text());
    out.push('\n');
    let mut table = Table::new(&["busy time saved", ">start", ">best"]);
    let mut row = |name: &str, of: &dyn Fn(&Tried) -> String| {
        table.row([name.to_owned(), of(&tuned.start), of(&tuned.best)]);
    };
    row("all requests", &|tried| percent(tried.saved_pct));
    row("first half", &|tried| percent(tried.first_half_pct));
    row("second half", &|tried| percent(tried.second_half_pct));
    row("99 % of the response times", &|tried| format!("{} ms", number(tried.p99_ms, 1)));
    out.push_str(&table.text());
    out.push_str("\nSaved, per cent, with each value, the others at their best:\n\n");
    let mut table = Table::new(&["", ""]);
    for (line, parameter) in tuned.lines.iter().zip(&tuned.parameters) {
        let each = parameter.values.iter().zip(&line.saved_pct);
        let each: Vec<String> = each.map(|(value, saved)| format!("{value}: {}", cell(*saved))).collect();
        table.row([line.parameter.clone(), each.join(", ")]);
    }
    out.push_str(&table.text());
    if let Some(surface) = &tuned.surface {
        out.push_str(&surface_text(surface));
    }
    let failed: Vec<&Tried> = tuned.tried.iter().filter(|tried| tried.error.is_some()).collect();
    if let Some(error) = failed.first().and_then(|tried| tried.error.as_ref()) {
        let _ = writeln!(out, "\n{} failed, the first: {error}", counted(failed.len() as u64, "run"));
    }
    let _ = writeln!(out, "\n{}", tuned.command);
    out
}

fn surface_text(surface: &Surface) -> String {
    let (rows, columns) = (&surface.rows, &surface.columns);
    let titles: Vec<String> = columns.values.iter().map(|value| format!(">{value}")).collect();
    let titles: Vec<&str> =
        std::iter::once(rows.name.as_str()).chain(titles.iter().map(|title| &**title)).collect();
    let mut table = Table::new(&titles);
    for (value, saved) in rows.values.iter().zip(&surface.saved_pct) {
        table.row(std::iter::once(value.clone()).chain(saved.iter().map(|saved| cell(*saved))));
    }
    format!("\nSaved, per cent, by {} and {}:\n\n{}", rows.name, columns.name, table.text())
}

/// A saving; a dash where there is none.
fn cell(saved: Option<f64>) -> String {
    saved.map_or_else(|| "-".to_owned(), |saved| number(saved, 1))
}
