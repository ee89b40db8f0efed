//! The values of a parameter: a list, a single value, or a range.
//!
//! A range is `{ from, to, step }` (equal distances), `{ from, to, factor }` (equal ratios) or `{ from, to, draw }`
//! (that many values, drawn uniformly and sorted). Its ends are whole numbers, other numbers, or sizes such as "16MiB".

use seekless_core::Size;
use seekless_core::runtime::Rng;
use serde::Deserialize;
use toml::Value;

/// Largest number of values of a range.
const MOST: usize = 100_000;
/// Decimals to which values of a range are rounded, so that a third step of 0.1 is 0.3.
const DECIMALS: usize = 9;
/// Relative distance by which the last value may miss the end of a range.
const TOLERANCE: f64 = 1e-9;

/// What was found, and what was expected.
pub type Refused = (String, String);

/// A range, as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: Value,
    to: Value,
    step: Option<Value>,
    factor: Option<f64>,
    draw: Option<usize>,
}

/// What the numbers of a range are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    Number,
    Size,
}

/// Whether a table is a range rather than a table of further keys.
pub fn is_range(table: &toml::Table) -> bool {
    table.contains_key("from")
}

/// The values, at least one; `seed` is that of draws.
pub fn values(value: &Value, seed: u64) -> Result<Vec<Value>, Refused> {
    let all = match value {
        Value::Array(all) => all.clone(),
        Value::Table(table) => {
            let range = table.clone().try_into().map_err(|error: toml::de::Error| {
                (error.message().to_owned(), "from and to, with step, factor or draw".to_owned())
            });
            Range::values(&range?, seed)?
        }
        one => vec![one.clone()],
    };
    if all.is_empty() { Err(refused("no value", "at least one")) } else { Ok(all) }
}

impl Range {
    fn values(&self, seed: u64) -> Result<Vec<Value>, Refused> {
        let ends =
            || refused(format!("{} to {}", self.from, self.to), "two numbers, or two sizes such as \"4MiB\"");
        let ((from, one), (to, other)) =
            (number(&self.from).ok_or_else(ends)?, number(&self.to).ok_or_else(ends)?);
        let mut kind = if one == other { one } else { Kind::Number };
        if kind == Kind::Number && (one == Kind::Size || other == Kind::Size) {
            return Err(ends());
        }
        let mut numbers = Vec::new();
        match (&self.step, self.factor, self.draw) {
            (Some(step), None, None) => {
                let found = number(step)
                    .filter(|(step, of)| *step > 0.0 && (*of == Kind::Size) == (kind == Kind::Size));
                let Some((step, of)) = found else {
                    return Err(refused(
                        format!("step = {step}"),
                        "a positive one, of the kind of from and to",
                    ));
                };
                kind = if of == Kind::Number { of } else { kind };
                let past = to + step * TOLERANCE;
                let steps = (0..=MOST).map(|index| from + index as f64 * step);
                numbers.extend(steps.take_while(|number| *number <= past));
            }
            (None, Some(factor), None) if factor > 1.0 && from > 0.0 => {
                let past = to * (1.0 + TOLERANCE);
                let powers = std::iter::successors(Some(from), |number| Some(number * factor));
                numbers.extend(powers.take_while(|number| *number <= past).take(MOST + 1));
                kind = if kind == Kind::Whole && factor.fract() != 0.0 { Kind::Number } else { kind };
            }
            (None, Some(factor), None) => {
                let found = format!("factor = {factor} from {}", self.from);
                return Err(refused(found, "a factor above 1, from more than zero"));
            }
            (None, None, Some(count)) if from <= to => {
                let mut rng = Rng::seeded(seed);
                numbers.extend((0..count.min(MOST + 1)).map(|_| drawn(&mut rng, from, to, kind)));
                numbers.sort_by(f64::total_cmp);
            }
            (None, None, Some(_)) => {}
            _ => return Err(refused("not exactly one of step, factor and draw", "one of them")),
        }
        if numbers.len() > MOST {
            return Err(refused(format!("more than {MOST} values"), "fewer"));
        }
        Ok(numbers.into_iter().map(|number| shown(kind, number)).collect())
    }
}

fn refused(found: impl Into<String>, expected: &str) -> Refused {
    (found.into(), expected.to_owned())
}

/// An end of a range; sizes in bytes.
fn number(value: &Value) -> Option<(f64, Kind)> {
    match value {
        Value::Integer(number) => Some((*number as f64, Kind::Whole)),
        Value::Float(number) => Some((*number, Kind::Number)).filter(|_| number.is_finite()),
        Value::String(text) => Some((text.parse::<Size>().ok()?.0 as f64, Kind::Size)),
        _ => None,
    }
}

/// A number from `from` to `to`, of which whole ones include both.
fn drawn(rng: &mut Rng, from: f64, to: f64, kind: Kind) -> f64 {
    if kind == Kind::Number {
        return from + (to - from) * (rng.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    }
    // Sizes are of whole pages of 4 KiB: a device has no others.
    let unit = if kind == Kind::Size { 4096.0 } else { 1.0 };
    from + unit * rng.below(((to - from) / unit).floor() as u64 + 1) as f64
}

/// A number of a range as a file would have it.
fn shown(kind: Kind, number: f64) -> Value {
    match kind {
        Kind::Whole => Value::Integer(number.round() as i64),
        Kind::Number => Value::Float(format!("{number:.DECIMALS$}").parse().unwrap_or(number)),
        Kind::Size => Value::String(size(number.round() as u64)),
    }
}

/// A size in the largest unit of which it is a whole number.
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes % unit == 0);
    whole.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<String>, Refused> {
        let table: toml::Table = toml::from_str(&format!("v = {text}")).unwrap();
        Ok(values(&table["v"], 1)?.iter().map(Value::to_string).collect())
    }

    #[test]
    fn lists_single_values_and_ranges_are_values() {
        for (text, expected) in [
            ("[1, 2]", "1 2"),
            ("'a'", "\"a\""),
            ("{ from = 1, to = 7, step = 3 }", "1 4 7"),
            ("{ from = 0.0, to = 0.3, step = 0.1 }", "0.0 0.1 0.2 0.3"),
            ("{ from = 0, to = 1, step = 0.5 }", "0.0 0.5 1.0"),
            ("{ from = 1, to = 100, factor = 3 }", "1 3 9 27 81"),
            ("{ from = '256MiB', to = '1GiB', factor = 2 }", "\"256MiB\" \"512MiB\" \"1GiB\""),
            ("{ from = '1MiB', to = '3MiB', step = '1MiB' }", "\"1MiB\" \"2MiB\" \"3MiB\""),
            ("{ from = 1, to = 4, factor = 1.5 }", "1.0 1.5 2.25 3.375"),
        ] {
            assert_eq!(of(text).unwrap().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn drawn_values_lie_within_and_stay_the_same() {
        let number = |text: &String| text.parse::<f64>().unwrap();
        let drawn = of("{ from = 0.2, to = 0.8, draw = 40 }").unwrap();
        assert_eq!(drawn, of("{ from = 0.2, to = 0.8, draw = 40 }").unwrap());
        assert!(
            drawn.len() == 40 && drawn.iter().all(|text| (0.2..0.8).contains(&number(text))),
            "{drawn:?}"
        );
        assert!(number(&drawn[39]) - number(&drawn[0]) > 0.4, "{drawn:?}");
        let whole = of("{ from = 1, to = 3, draw = 60 }").unwrap();
        assert!(["1", "2", "3"].iter().all(|each| whole.iter().any(|text| text == each)), "{whole:?}");
        for text in of("{ from = '1MiB', to = '2MiB', draw = 9 }").unwrap() {
            let bytes = text.trim_matches('"').parse::<Size>().unwrap().0;
            assert!((1 << 20..=2 << 20).contains(&bytes) && bytes % 4096 == 0, "{text}");
        }
    }

    #[test]
    fn what_is_no_range_or_holds_nothing_is_refused() {
        for (text, found) in [
            ("[]", "no value"),
            ("{ from = 3, to = 1, step = 1 }", "no value"),
            ("{ from = 3, to = 1, draw = 5 }", "no value"),
            ("{ from = 1, to = 3, draw = 0 }", "no value"),
            ("{ from = 1, to = 3 }", "not exactly one of step, factor and draw"),
            ("{ from = 1, to = 3, step = 1, draw = 2 }", "not exactly one of step, factor and draw"),
            ("{ from = 1, to = '3MiB', step = 1 }", "1 to \"3MiB\""),
            ("{ from = '1MiB', to = '3MiB', step = 1 }", "step = 1"),
            ("{ from = 1, to = 3, step = 0 }", "step = 0"),
            ("{ from = 0, to = 3, factor = 2 }", "factor = 2 from 0"),
            ("{ from = 1, to = 3, factor = 1 }", "factor = 1 from 1"),
            ("{ from = 0, to = 1000000, step = 1 }", "more than 100000 values"),
            ("{ from = 1, to = 3, stop = 1 }", "unknown field `stop`"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.0.contains(found), "{text}: {error:?}");
        }
    }
}
