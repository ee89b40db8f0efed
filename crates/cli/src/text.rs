//! Numbers as people read them, with units.

use seekless_core::Size;
pub use seekless_core::units::thousands as count;

/// A number with thousands separators.
pub fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, part) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let zero = !plain.contains(|digit: char| ('1'..='9').contains(&digit));
    let minus = if value < 0.0 && !zero { "-" } else { "" };
    match whole.parse() {
        Ok(whole) => format!("{minus}{}{part}", count(whole)),
        Err(_) => format!("{minus}{plain}"),
    }
}

/// `12.3 %`.
pub fn percent(value: f64) -> String {
    number(value, 1) + " %"
}

/// `1,234.56 s`.
pub fn seconds(value: f64) -> String {
    number(value, 2) + " s"
}

/// Seconds, with hours and minutes where they help: `7,432.10 s (2 h 3 min)`.
pub fn span(value: f64) -> String {
    let minutes = (value / 60.0) as u64;
    match (minutes / 60, minutes % 60) {
        (0, 0..2) => seconds(value),
        (0, minutes) => format!("{} ({minutes} min)", seconds(value)),
        (hours, minutes) => format!("{} ({hours} h {minutes} min)", seconds(value)),
    }
}

/// `1,000 (500 KiB)`: sectors, and their size.
pub fn sectors(sectors: u64) -> String {
    format!("{} ({})", count(sectors), size(sectors.saturating_mul(seekless_core::SECTOR_BYTES)))
}

/// `1.50 GiB`.
pub fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// `1 request`, `2 requests`, `2 flushes`.
pub fn counted(number: u64, one: &str) -> String {
    let more = match one {
        _ if number == 1 => "",
        _ if one.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{} {one}{more}", count(number))
}

/// A factor as the user wrote it: `2`, `0.5`, `1e-9`.
pub fn factor(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A word quoted for a shell.
pub fn shell_word(word: &str) -> String {
    let harmless = |each: char| each.is_ascii_alphanumeric() || "_-./,:=@%+".contains(each);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
        assert_eq!(number(-1234.56, 1), "-1,234.6");
        assert_eq!(number(-0.01, 1), "0.0");
        assert_eq!(number(f64::NAN, 1), "NaN");
        assert_eq!(span(7432.1), "7,432.10 s (2 h 3 min)");
        assert_eq!([2.0, 0.5, 1e-300].map(factor), ["2", "0.5", "1e-300"].map(str::to_owned));
        assert_eq!(counted(1, "flush") + &counted(2, "flush"), "1 flush2 flushes");
        assert_eq!(span(75.0), "75.00 s");
    }

    #[test]
    fn a_shell_reads_words_back() {
        assert_eq!(shell_word("data/mail"), "data/mail");
        assert_eq!(shell_word("it's 4 GiB"), r"'it'\''s 4 GiB'");
        assert_eq!(shell_word(""), "''");
    }
}
