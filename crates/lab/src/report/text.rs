//! Text for a page: escaping, and numbers as people read them. Names of processes, files and drives come from traces
//! and are not to be trusted: everything on the page goes through [`escape`] or [`script_json`].

pub use seekless_core::units::thousands as whole;
use serde_json::Value;

/// `text` for use in an element or in a quoted attribute. Control characters, which HTML forbids, become `U+FFFD`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(each),
            _ if each.is_control() => out.push('\u{fffd}'),
            _ => out.push(each),
        }
    }
    out
}

/// JSON for use in a script element: no `<` in it, so nothing in it can end the element.
pub fn script_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Three or four significant digits: `0.0123`, `1.23`, `12.3`, `1,235`. A dash for what is not a number.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let size = value.abs();
    let minus = if value < 0.0 { "\u{2212}" } else { "" };
    if size >= 999.5 {
        return format!("{minus}{}", whole(size.round() as u64));
    }
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.01 => 3,
        _ => 5,
    };
    let plain = format!("{size:.decimals$}");
    let short = if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
    if short == "0" { "0".to_owned() } else { format!("{minus}{short}") }
}

/// Short enough for a tick: `250`, `50k`, `1.5M`.
pub fn mark(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{}G", number(value / 1e9)),
        size if size >= 1e6 => format!("{}M", number(value / 1e6)),
        size if size >= 1e4 => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

/// `12.3 %`, with a non-breaking space.
pub fn percent(value: f64) -> String {
    if value.is_finite() { format!("{}\u{a0}%", one_decimal(value)) } else { number(value) }
}

/// One decimal always, so that columns of per cent line up.
fn one_decimal(value: f64) -> String {
    let plain = format!("{:.1}", value.abs());
    let minus = if value < 0.0 && plain != "0.0" { "\u{2212}" } else { "" };
    format!("{minus}{plain}")
}

/// `12.3 s`, with hours and minutes in brackets where that helps.
pub fn seconds(value: f64) -> String {
    let plain = format!("{}\u{a0}s", number(value));
    if !(120.0..1e12).contains(&value) {
        return plain;
    }
    let minutes = (value / 60.0).round() as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{plain} ({minutes}\u{a0}min)"),
        (hours, minutes) => format!("{plain} ({hours}\u{a0}h {minutes}\u{a0}min)"),
    }
}

/// Bytes in the largest unit that leaves at least one of it: `460 GiB`.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut size, mut unit) = (value as f64, 0);
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{}\u{a0}{}", number(size), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(
            escape("<a href=\"x\" b='y'>&\u{0}\n"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\n"
        );
        let json = script_json(&serde_json::json!({"name": "</script><!--<script>\u{2028}"}));
        assert!(!json.contains('<') && !json.contains('\u{2028}'), "{json}");
        let back: Value = serde_json::from_str(&json).expect("still JSON");
        assert_eq!(back["name"], "</script><!--<script>\u{2028}");
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1_234_567.8, "1,234,568"),
            (999.7, "1,000"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.0, "1"),
            (0.012_34, "0.012"),
            (0.000_123, "0.00012"),
            (-1.5, "\u{2212}1.5"),
            (f64::NAN, "\u{2013}"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected, "{value}");
        }
        let marks = [250.0, 5_000.0, 50_000.0, 1_500_000.0, 2e9].map(mark);
        assert_eq!(marks, ["250", "5,000", "50k", "1.5M", "2G"]);
        assert_eq!(percent(-0.01), "0.0\u{a0}%");
        assert_eq!(percent(43.26), "43.3\u{a0}%");
        assert_eq!(bytes(4 << 30), "4\u{a0}GiB");
        assert_eq!(bytes(1000), "1,000\u{a0}B");
        assert_eq!(seconds(3725.0), "3,725\u{a0}s (1\u{a0}h 2\u{a0}min)");
        assert_eq!(seconds(12.0), "12\u{a0}s");
    }
}
