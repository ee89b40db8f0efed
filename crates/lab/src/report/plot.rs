//! Charts with two axes, lines or bars. One value, [`Plot`], gives all three forms of a chart: the SVG that is printed,
//! the data for the interactive chart, and the table. So none can be missing or differ from the others.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::along::{Along, Reach};
use super::legend::Legend;
use super::scale::Scale;
use super::table::Table;
use super::text::{escape, mark, number};

/// Size of the picture, and position of the axes in it; in SVG units, of which a phone shows about 350.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 498.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 248.0;
/// Lines with at most this many points get a mark at each.
const MARKED_POINTS: usize = 40;

/// Form of the values.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Form {
    /// Points, connected.
    #[default]
    Lines,
    /// Points alone, of which there may be very many.
    Points,
    /// Bars side by side.
    Bars,
}

/// Number of colours, dashes and patterns in the style; they repeat after that.
pub const STYLES: usize = 5;

/// One line, or the bars of one colour.
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// One for each place; `None` where nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// A chart.
#[derive(Default)]
pub struct Plot {
    /// Identifier in the page.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Caption: what to see in it.
    pub caption: String,
    /// Horizontal axis.
    pub along: Along,
    /// Label of the horizontal axis, with its unit.
    pub along_label: &'static str,
    /// Label of the values, with their unit.
    pub value_label: &'static str,
    /// Whether the values are on a logarithmic scale.
    pub value_log: bool,
    /// Lines or bars.
    pub form: Form,
    /// At least one.
    pub series: Vec<Series>,
    /// Which places are shaded; empty for none.
    pub shaded: Vec<bool>,
    /// What its axes cover besides its own values.
    pub reach: Reach,
    /// Seconds of a unit of the horizontal axis, where that is the time of a recording: such charts zoom together.
    pub time_unit_s: Option<f64>,
    /// A note about these values alone; empty for none.
    pub note: String,
}

impl Plot {
    fn scale(&self) -> Scale {
        let values = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let values = values.chain(&self.reach.values).copied();
        if self.value_log { Scale::log(values) } else { Scale::linear(values) }
    }

    /// The middle of a place, from the left.
    fn x(&self, at: usize) -> f64 {
        let part = match &self.along {
            Along::Names(names) => (at as f64 + 0.5) / names.len() as f64,
            Along::Log(values) | Along::Linear(values) => {
                self.along.scale(&self.reach.along).map_or(0.0, |scale| scale.at(values[at]))
            }
        };
        LEFT + part * (RIGHT - LEFT)
    }

    /// Ticks of the horizontal axis: positions from 0 to 1, and values.
    fn along_ticks(&self) -> Vec<(f64, f64)> {
        let Some(scale) = self.along.scale(&self.reach.along) else { return Vec::new() };
        let ticks = scale.ticks();
        // About seven units a letter: of very many powers of ten, every other one.
        let each = ticks.len().div_ceil(12);
        ticks.into_iter().step_by(each).map(|tick| (scale.at(tick), tick)).collect()
    }

    /// The static picture.
    pub fn svg(&self) -> String {
        let mut out = format!(
            "<svg class=\"still\" role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-label=\"{}\">",
            escape(&format!("{}. {}", self.title, self.caption)),
        );
        self.draw_shades(&mut out);
        self.draw_axes(&mut out);
        let scale = self.scale();
        for (index, series) in self.series.iter().enumerate() {
            match self.form {
                Form::Lines => self.draw_line(&mut out, scale, index, series),
                Form::Points => self.draw_points(&mut out, scale, index, series),
                Form::Bars => self.draw_bars(&mut out, scale, index, series),
            }
        }
        out.push_str("</svg>");
        out
    }

    fn draw_shades(&self, out: &mut String) {
        let width = (RIGHT - LEFT) / self.along.places().max(1) as f64;
        for at in (0..self.shaded.len()).filter(|&at| self.shaded[at]) {
            let left = self.x(at) - width / 2.0;
            let high = BOTTOM - TOP;
            let _ = write!(
                out,
                "<rect class=\"shade\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{high}\"/>"
            );
        }
    }

    fn draw_axes(&self, out: &mut String) {
        let scale = self.scale();
        for tick in scale.ticks() {
            let y = BOTTOM - scale.at(tick) * (BOTTOM - TOP);
            let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            let (x, y) = (LEFT - 6.0, y + 4.5);
            let _ = write!(out, "<text class=\"end\" x=\"{x}\" y=\"{y:.1}\">{}</text>", mark(tick));
        }
        match &self.along {
            Along::Log(_) | Along::Linear(_) => {
                for (part, tick) in self.along_ticks() {
                    let x = LEFT + part * (RIGHT - LEFT);
                    let _ = write!(out, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
                    tick_text(out, x, &mark(tick));
                }
            }
            Along::Names(names) => {
                // About seven units a letter: as many names as fit.
                let longest = names.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(1);
                let each =
                    (names.len() as f64 * (longest as f64 * 7.5 + 8.0) / (RIGHT - LEFT)).ceil() as usize;
                for at in (0..names.len()).step_by(each.max(1)) {
                    tick_text(out, self.x(at), &names[at].1);
                }
            }
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>");
        let _ = write!(out, "<text x=\"4\" y=\"16\">{}</text>", escape(self.value_label));
        let _ =
            write!(out, "<text class=\"end\" x=\"{RIGHT}\" y=\"290\">{}</text>", escape(self.along_label));
    }

    fn draw_line(&self, out: &mut String, scale: Scale, index: usize, series: &Series) {
        let known = series.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let drawn = known.filter(|(_, value)| !self.value_log || *value > 0.0);
        let points: Vec<(usize, f64, f64, f64)> = drawn
            .map(|(at, value)| (at, value, self.x(at), BOTTOM - scale.at(value) * (BOTTOM - TOP)))
            .collect();
        let style = index % STYLES;
        let path: Vec<String> = points.iter().map(|(_, _, x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(out, "<polyline class=\"line s{style}\" points=\"{}\"/>", path.join(" "));
        if points.len() <= MARKED_POINTS {
            for (at, value, x, y) in points {
                let says = self.says(at, series, value);
                let _ = write!(
                    out,
                    "<circle class=\"f{style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\">{says}</circle>"
                );
            }
        }
    }

    /// Points on a grid of half a unit, each place once.
    fn draw_points(&self, out: &mut String, scale: Scale, index: usize, series: &Series) {
        let place = |(at, value): (usize, &Option<f64>)| {
            let y = BOTTOM - scale.at((*value)?) * (BOTTOM - TOP);
            Some(((self.x(at) * 2.0).round() as i64, (y * 2.0).round() as i64))
        };
        let places: BTreeSet<_> = series.values.iter().enumerate().filter_map(place).collect();
        let _ = write!(out, "<path class=\"line s{}\" d=\"", index % STYLES);
        for (x, y) in places {
            let _ = write!(out, "M{},{}h1", x as f64 / 2.0, y as f64 / 2.0);
        }
        out.push_str("\"/>");
    }

    fn draw_bars(&self, out: &mut String, scale: Scale, index: usize, series: &Series) {
        let style = index % STYLES;
        let slot = (RIGHT - LEFT) / self.along.places().max(1) as f64;
        let width = slot * 0.8 / self.series.len() as f64;
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let high = scale.at(value) * (BOTTOM - TOP);
            let x = self.x(at) - slot * 0.4 + width * index as f64;
            let y = BOTTOM - high;
            let says = self.says(at, series, value);
            let _ = write!(
                out,
                "<rect class=\"p{style}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{high:.1}\">{says}</rect>"
            );
        }
    }

    /// The tooltip of a value.
    fn says(&self, at: usize, series: &Series, value: f64) -> String {
        let text = format!("{}, {}: {}", self.along.name(at), series.name, number(value));
        format!("<title>{}</title>", escape(&text))
    }

    /// The same numbers as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.title, &[self.along_label]);
        table.head.extend(self.series.iter().map(|series| format!("{} ({})", series.name, self.value_label)));
        for at in 0..self.along.places() {
            let values = self.series.iter().map(|series| series.values[at].map_or_else(String::new, number));
            table.row(std::iter::once(self.along.name(at)).chain(values));
        }
        table
    }

    /// Data for the script to draw it again in the figure's panel `panel`. It puts at most two bars side by side;
    /// charts with more stay static, as those of points do.
    pub fn data(&self, panel: usize) -> Option<Value> {
        if self.form == Form::Points || self.form == Form::Bars && self.series.len() > 2 {
            return None;
        }
        let (xs, names): (Value, Value) = match &self.along {
            Along::Log(values) | Along::Linear(values) => {
                (values.iter().copied().map(plain).collect(), Value::Null)
            }
            Along::Names(names) => {
                ((0..names.len()).collect(), names.iter().map(|(_, name)| json!(name)).collect())
            }
        };
        let ends = |scale: Scale| scale.ends().map(plain);
        let finite = |series: &Series| -> Value {
            let drawn = |value: &f64| value.is_finite() && (!self.value_log || *value > 0.0);
            series.values.iter().map(|value| value.filter(drawn).map_or(Value::Null, plain)).collect()
        };
        Some(json!({
            "id": self.id,
            "panel": panel,
            "xs": xs,
            "names": names,
            "xLabel": self.along_label,
            "yLabel": self.value_label,
            "xLog": matches!(self.along, Along::Log(_)),
            "yLog": self.value_log,
            // Axes shared with other charts.
            "xEnds": self.along.scale(&self.reach.along).filter(|_| !self.reach.along.is_empty()).map(ends),
            "yEnds": (!self.reach.values.is_empty()).then(|| ends(self.scale())),
            "bars": self.form == Form::Bars,
            "series": self.series.iter().map(|series| &series.name).collect::<Vec<_>>(),
            "values": self.series.iter().map(finite).collect::<Vec<_>>(),
            "shaded": self.shaded,
            "timeUnit": self.time_unit_s,
        }))
    }

    /// Names and marks of the series.
    pub fn legend(&self) -> Legend {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        legend(&names, self.form)
    }
}

/// JSON with whole numbers without a decimal point: most are, and the page is shorter.
fn plain(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn tick_text(out: &mut String, x: f64, text: &str) {
    let y = BOTTOM + 18.0;
    let _ = write!(out, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escape(text));
}

/// A legend whose marks differ by more than their colour: dashes for lines, patterns for areas.
pub fn legend(names: &[&str], form: Form) -> Legend {
    let mut legend = Legend::default();
    for (index, name) in names.iter().enumerate() {
        let style = index % STYLES;
        let mark = match form {
            Form::Lines | Form::Points => format!("<path class=\"line s{style}\" d=\"M0 7H32\"/>"),
            Form::Bars => format!("<rect class=\"p{style}\" width=\"32\" height=\"14\"/>"),
        };
        legend.add(mark, name);
    }
    legend
}
