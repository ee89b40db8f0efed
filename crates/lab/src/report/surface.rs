//! The surface of a search: the saving by two parameters, a cell for each pair of values.

use std::fmt::Write;

use super::figure::{Figure, Panel};
use super::legend::Legend;
use super::standalone;
use super::text::escape;
use crate::tune::Surface;

const WIDTH: f64 = 520.0;
const LEFT: f64 = 92.0;
const TOP: f64 = 8.0;
const CELL: f64 = 34.0;
/// Levels of the saving.
const LEVELS: usize = 6;

/// The surface as the text of an SVG file of its own; `setup` says what was tuned.
pub fn surface(setup: &str, surface: &Surface) -> String {
    let title = format!("Busy time saved, per cent, by {} and {}", surface.rows.name, surface.columns.name);
    let figure = Figure {
        id: "surface",
        title,
        caption: setup.to_owned(),
        legend: legend(range(surface)),
        panels: vec![Panel { svg: cells(surface), ..Panel::default() }],
        ..Figure::default()
    };
    standalone::svg(&figure)
}

/// The smallest and the largest saving, some way apart.
fn range(surface: &Surface) -> (f64, f64) {
    let all = surface.saved_pct.iter().flatten().flatten().copied();
    let (least, most) =
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), each| (least.min(each), most.max(each)));
    let least = if least.is_finite() { least } else { 0.0 };
    (least, most.max(least + 0.6))
}

/// Level of a saving within the range.
fn level(saved: f64, (least, most): (f64, f64)) -> usize {
    let share = (saved - least) / (most - least);
    ((share * LEVELS as f64) as usize).min(LEVELS - 1)
}

fn legend((least, most): (f64, f64)) -> Legend {
    let mut legend = Legend::default();
    for level in 0..LEVELS {
        let [from, to] = [level, level + 1].map(|at| least + (most - least) * at as f64 / LEVELS as f64);
        let name = format!("{} to {}", number(from), number(to));
        legend.add(format!("<rect class=\"h{level} edge\" width=\"32\" height=\"14\"/>"), &name);
    }
    legend
}

/// A saving with one digit, and without the sign of a zero.
fn number(saved: f64) -> String {
    format!("{:.1}", (saved * 10.0).round() / 10.0 + 0.0)
}

/// The picture.
fn cells(surface: &Surface) -> String {
    let (rows, columns) = (&surface.rows, &surface.columns);
    let across = (WIDTH - LEFT) / columns.values.len().max(1) as f64;
    let bottom = TOP + CELL * rows.values.len() as f64;
    let mut out = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {:.0}\" aria-label=\"{}\">",
        bottom + 46.0,
        escape(&format!("Saving by {} and {}", rows.name, columns.name)),
    );
    let range = range(surface);
    for (row, (value, saved)) in rows.values.iter().zip(&surface.saved_pct).enumerate() {
        let top = TOP + row as f64 * CELL;
        let (x, y) = (LEFT - 8.0, top + CELL / 2.0 + 5.0);
        let _ = write!(out, "<text class=\"end\" x=\"{x}\" y=\"{y}\">{}</text>", escape(value));
        for (column, saved) in saved.iter().enumerate() {
            let left = LEFT + column as f64 * across;
            let level = saved.map_or(0, |saved| level(saved, range));
            let _ = write!(
                out,
                "<rect class=\"h{level} edge\" x=\"{left:.1}\" y=\"{top}\" width=\"{across:.1}\" height=\"{CELL}\"/>"
            );
            let shown = saved.map_or_else(|| "–".to_owned(), number);
            let (class, middle) = (if level < 3 { "low" } else { "high" }, left + across / 2.0);
            let _ = write!(out, "<text class=\"mid {class}\" x=\"{middle:.1}\" y=\"{y}\">{shown}</text>");
        }
    }
    for (column, value) in columns.values.iter().enumerate() {
        let (x, y) = (LEFT + (column as f64 + 0.5) * across, bottom + 17.0);
        let _ = write!(out, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escape(value));
    }
    let y = bottom + 38.0;
    let names = [("end", LEFT - 8.0, &rows.name), ("mid", f64::midpoint(LEFT, WIDTH), &columns.name)];
    for (class, x, name) in names {
        let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escape(name));
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Parameter;

    fn parameter(name: &str, values: &[&str]) -> Parameter {
        Parameter { name: name.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn each_pair_of_values_is_a_cell() {
        let saved_pct =
            vec![vec![Some(-3.0), Some(10.0)], vec![None, Some(20.0)], vec![Some(0.0), Some(1.0)]];
        let surface_ = Surface {
            rows: parameter("bopt", &["1GiB", "2GiB", "<4GiB"]),
            columns: parameter("write_buffer", &["0", "0.4"]),
            saved_pct,
        };
        let svg = surface("BORG", &surface_);
        assert_eq!(svg.matches("class=\"mid low\"").count(), 4);
        assert_eq!(svg.matches("class=\"mid high\"").count(), 2);
        assert!(svg.contains(">-3.0<") && svg.contains(">20.0<") && svg.contains(">–<"), "{svg}");
        assert!(svg.contains("&lt;4GiB") && !svg.contains("var(") && !svg.contains("NaN"));
        let drawn = |level| svg.matches(&format!("class=\"h{level} edge\" x=")).count();
        assert_eq!([0, 1, 2, 3, 4, 5].map(drawn), [3, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_level_surface_and_an_empty_one_have_a_scale() {
        let of =
            |saved_pct| Surface { rows: parameter("a", &["1"]), columns: parameter("b", &["1"]), saved_pct };
        assert_eq!(range(&of(vec![vec![Some(5.0)]])), (5.0, 5.6));
        assert_eq!(range(&of(vec![vec![None]])), (0.0, 0.6));
        assert_eq!((number(-0.04), number(-0.06)), ("0.0".to_owned(), "-0.1".to_owned()));
    }
}
