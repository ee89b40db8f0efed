//! A row of the table: the result of one task.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::Variant;

/// Fields of a variant that are not figures of the run.
const LEFT_OUT: [&str; 2] = ["name", "volume"];
/// Fields of the base's variant that are in the table too, with this prefix.
const OF_BASE: [&str; 3] = ["busy_s", "elapsed_s", "response_ms"];
const BASE: &str = "base.";

/// A cell of the table.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Figure {
    /// Its value, if it is a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Figure::Whole(number) => Some(*number as f64),
            Figure::Number(number) => Some(*number),
            Figure::Text(_) => None,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Figure::Whole(number) => number.fmt(f),
            Figure::Number(number) => number.fmt(f),
            Figure::Text(text) => text.fmt(f),
        }
    }
}

impl From<toml::Value> for Figure {
    fn from(value: toml::Value) -> Figure {
        match value {
            toml::Value::Integer(number) => Figure::Whole(number),
            toml::Value::Float(number) => Figure::Number(number),
            toml::Value::String(text) => Figure::Text(text),
            other => Figure::Text(other.to_string()),
        }
    }
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
pub struct Row {
    /// Identity of the task.
    pub identity: String,
    /// Why the task failed, if it did; then there are no figures.
    pub error: Option<String>,
    /// Caveats about the figures.
    pub notes: Vec<String>,
    /// Figures by name; those of nested objects have the names of both, as `response_ms.reads.p99`.
    pub figures: BTreeMap<String, Figure>,
}

impl Row {
    /// The row of a task that failed.
    pub fn failed(identity: String, error: String) -> Row {
        Row { identity, error: Some(error), notes: Vec::new(), figures: BTreeMap::new() }
    }

    /// The row of a task with the figures of its run, and some of those of the base.
    pub fn of(identity: String, base: &Variant, variant: &Variant) -> Row {
        let mut figures = figures_of(variant);
        let is_of_base = |name: &str| OF_BASE.iter().any(|field| name.split('.').next() == Some(*field));
        let of_base = figures_of(base).into_iter().filter(|(name, _)| is_of_base(name));
        figures.extend(of_base.map(|(name, figure)| (format!("{BASE}{name}"), figure)));
        Row { identity, error: None, notes: variant.notes.clone(), figures }
    }

    /// Names of the figures that every run has.
    pub fn common_figures() -> Vec<String> {
        Row::of(String::new(), &Variant::default(), &Variant::default()).figures.into_keys().collect()
    }
}

/// Every number and text of a variant, but not what is in lists.
fn figures_of(variant: &Variant) -> BTreeMap<String, Figure> {
    let mut figures = BTreeMap::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(variant) {
        for (name, value) in fields.into_iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
            flatten(name, value, &mut figures);
        }
    }
    figures
}

fn flatten(name: String, value: Value, figures: &mut BTreeMap<String, Figure>) {
    match value {
        Value::Object(fields) => {
            fields.into_iter().for_each(|(key, value)| flatten(format!("{name}.{key}"), value, figures));
        }
        Value::Number(number) => {
            let whole = number.as_i64().map(Figure::Whole);
            figures.extend(whole.or(number.as_f64().map(Figure::Number)).map(|figure| (name, figure)));
        }
        Value::String(text) => drop(figures.insert(name, Figure::Text(text))),
        Value::Bool(is) => drop(figures.insert(name, Figure::Text(is.to_string()))),
        Value::Null | Value::Array(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_their_places() {
        let mut variant = Variant { net_reduction_pct: 12.5, failed: 3, ..Variant::default() };
        variant.response_ms.reads.spread.p99 = 7.0;
        variant.layers.entry("cache".to_owned()).or_default().insert("hits".to_owned(), 9);
        variant.notes.push("short".to_owned());
        let mut base = Variant::default();
        base.work.head.busy_s = 2.0;
        let row = Row::of("id".to_owned(), &base, &variant);
        assert_eq!(row.figures["net_reduction_pct"], Figure::Number(12.5));
        assert_eq!(row.figures["failed"], Figure::Whole(3));
        assert_eq!(row.figures["response_ms.reads.p99"], Figure::Number(7.0));
        assert_eq!(row.figures["layers.cache.hits"], Figure::Whole(9));
        assert_eq!(
            (&row.figures["base.busy_s"], &row.figures["busy_s"]),
            (&Figure::Number(2.0), &Figure::Number(0.0))
        );
        assert!(
            row.figures.contains_key("base.response_ms.writes.p999")
                && !row.figures.contains_key("base.failed")
        );
        assert!(!row.figures.contains_key("name") && row.notes == ["short"]);
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }

    #[test]
    fn a_row_read_back_has_every_digit_of_its_figures() {
        let mut row = Row::failed("id".to_owned(), String::new());
        // Found in sweeps; a parser that is off by the last bit reads the first one as 125.791938.
        for number in [125.791_937_999_999_99, 5e-324, f64::MAX, 0.1 + 0.2, 1.0 / 3.0] {
            row.figures.insert(format!("{number:e}"), Figure::Number(number));
        }
        let text = serde_json::to_string(&row).unwrap();
        let back: Row = serde_json::from_str(&text).unwrap();
        assert_eq!(back, row);
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn figures_of_every_run_are_known_before_one() {
        let names = Row::common_figures();
        for name in ["busy_s", "net_reduction_pct", "response_ms.all.mean", "base.busy_s", "event_hash"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
    }
}
