//! The line of a key in a file, for errors.

use toml::de::{DeTable, DeValue};

/// The line, from 1, of `key` as errors name it: `rpm`, `command.each_us`, `zone 2: cylinders`. For a missing key, the
/// line of its table; `None` if that is missing too.
pub fn line(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    // Of several keys, the first.
    for part in key.split(',').next()?.split([':', '.']).map(str::trim) {
        let (name, number) = match part.split_once(' ') {
            Some((name, number)) => (name, number.parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((at, value)) = table.get_key_value(name) else { break };
        let value = match (value.get_ref(), number) {
            (DeValue::Array(all), Some(number)) => all.get(number.checked_sub(1)?)?,
            _ => value,
        };
        // A key's own line; an entry of several begins where its value does.
        found = Some(if number.is_some() { value.span().start } else { at.span().start });
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found.map(|byte| text.bytes().take(byte).filter(|&byte| byte == b'\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'x'\n\nbus = { mb_s = 3 }\n[command]\neach_us = 1\n\n[[zone]]\ncylinders = 1\n\
                        [[zone]]\ncylinders = 2\nslips = [1]\n[source]\nrpm = 'y'\n";

    #[test]
    fn keys_are_found_where_they_stand() {
        for (key, expected) in [
            ("name", Some(1)),
            ("bus", Some(3)),
            ("bus.mb_s", Some(3)),
            ("command.each_us", Some(5)),
            ("zone 1: cylinders", Some(8)),
            ("zone 2: cylinders", Some(10)),
            ("zone 2: slips, remaps", Some(11)),
            ("zone 2: offset", Some(9)),
            ("source.rpm", Some(13)),
            ("source", Some(12)),
            ("cache.segments", None),
            ("zone 3: cylinders", None),
        ] {
            assert_eq!(line(TEXT, key), expected, "{key}");
        }
    }
}
