//! Parsers of values on the command line, shared by commands.

use seekless_core::{SECTOR_BYTES, Size};

/// A size in whole sectors.
pub fn whole_sectors(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<Size>().map_err(|error| error.to_string())?;
    if bytes.0 % SECTOR_BYTES == 0 && bytes.0 > 0 {
        Ok(bytes.sectors())
    } else {
        Err(format!("found {} bytes, expected a multiple of {SECTOR_BYTES} above zero", bytes.0))
    }
}

/// Parses a key and its value.
pub fn option(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("found '{text}', expected a key, '=' and a value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// `value` as a number, if it is one.
pub fn number_or_text(value: &str) -> toml::Value {
    let whole = value.parse().map(toml::Value::Integer).ok();
    let number = whole.or_else(|| value.parse().map(toml::Value::Float).ok());
    number.unwrap_or_else(|| value.into())
}

/// A sector: a plain number is one, a size is its distance from the start.
pub fn place(text: &str) -> Result<u64, String> {
    text.trim().parse::<u64>().or_else(|_| whole_sectors(text))
}

/// Parses a switch.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("found '{text}', expected on or off")),
    }
}

/// Parses a price or another number above zero.
pub fn positive(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|found| *found > 0.0 && *found <= 1e9);
    found.ok_or_else(|| format!("found '{text}', expected a number above 0, at most 1000000000"))
}

/// Parses a speed-up that keeps every time of a week's trace within 64 bits of nanoseconds.
pub fn speed(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|speed| (0.001..=1e6).contains(speed));
    found.ok_or_else(|| format!("found '{text}', expected 0.001 to 1000000"))
}
