//! Seek curves: `dm_mech_g1` has them as parameters of an equation, or names a file of measured points.

use std::path::Path;

use super::ImportError;
use super::language::{self, Place};
use super::reader::Reader;
use crate::spec::SeekCurve;

/// DiskSim's milliseconds in microseconds, without binary rounding noise.
pub fn micros(millis: f64) -> f64 {
    (millis * 1e6).round() / 1e3
}

/// The seek curve of a mechanical model, and its place for errors; `root` is the folder of the first file.
pub fn seek(
    reader: &Reader,
    root: &Path,
    cylinders: u32,
    left_out: &mut Vec<String>,
) -> Result<(SeekCurve, Place), ImportError> {
    let time = |key: &str| reader.some_number(key).map(micros);
    let kind = reader.word("Seek type")?.unwrap_or_default();
    let mut place = reader.place("Seek type");
    let curve = match kind.as_str() {
        "extracted" => {
            let Some(file) = reader.file("Full seek curve", root)? else {
                return Err(reader.wrong("Seek type", "extracted", "a Full seek curve with it"));
            };
            place = Place { file, line: 1 };
            SeekCurve::Table { points: points(&place.file, &reader.place("Full seek curve"), left_out)? }
        }
        "hpl" | "hplplus10" => hewlett_packard(reader, &kind)?,
        "linear" => {
            let third = (cylinders / 3).max(2);
            let points = vec![
                (1, time("Single cylinder seek time")?),
                (third, time("Average seek time")?),
                (cylinders.max(third + 1), time("Full strobe seek time")?),
            ];
            SeekCurve::Table { points }
        }
        "curve" => SeekCurve::ThreePoint {
            track_us: time("Single cylinder seek time")?,
            average_us: time("Average seek time")?,
            full_us: time("Full strobe seek time")?,
        },
        "constant" => {
            let named = reader.number("Constant seek time")?.is_some();
            SeekCurve::Constant { us: time(if named { "Constant seek time" } else { "Average seek time" })? }
        }
        other => {
            let known = "extracted, hpl, hplplus10, linear, curve or constant";
            return Err(reader.wrong("Seek type", other, known));
        }
    };
    // Keys that the curve does not use.
    reader.ignore(&[
        "Full seek curve",
        "HPL seek equation values",
        "First ten seek times",
        "Single cylinder seek time",
        "Average seek time",
        "Constant seek time",
        "Full strobe seek time",
    ]);
    Ok((curve, place))
}

/// Hewlett-Packard's equation, with the first ten distances or the first one apart.
fn hewlett_packard(reader: &Reader, kind: &str) -> Result<SeekCurve, ImportError> {
    let values = reader.numbers("HPL seek equation values")?;
    let [divide, short, root, long, each, single, ..] = values[..] else {
        let found = format!("{} numbers", values.len());
        return Err(reader.wrong("HPL seek equation values", &found, "six"));
    };
    let mut first = if kind == "hpl" { Vec::new() } else { reader.numbers("First ten seek times")? };
    if kind == "hplplus10" && first.len() < 10 {
        let found = format!("{} numbers", first.len());
        return Err(reader.wrong("First ten seek times", &found, "ten"));
    }
    first.truncate(10);
    Ok(SeekCurve::Hp {
        divide: divide as u32,
        short_us: micros(short),
        short_root_us: micros(root),
        long_us: micros(long),
        long_each_us: micros(each),
        single_us: (single >= 0.0 && first.is_empty()).then_some(micros(single)),
        first_us: first.into_iter().map(micros).collect(),
    })
}

/// Points of a seek curve: `cylinders, milliseconds` in each line, perhaps followed by a deviation, perhaps after a
/// line with the number of lines.
///
/// DiskSim searches them in the order of the file: a distance that does not exceed all before is never found. It
/// passes over lines that do not begin with a number; here they are reported.
fn points(file: &Path, named: &Place, left_out: &mut Vec<String>) -> Result<Vec<(u32, f64)>, ImportError> {
    let text = language::load(file, Some(named))?;
    let mut points: Vec<(u32, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (number == 0 && line.contains(':')) {
            continue;
        }
        let place = Place { file: file.to_owned(), line: number + 1 };
        let mut report = |why: &str| left_out.push(format!("{}: \"{line}\": {why}", place.shown()));
        if !line.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            report("no point of the curve");
            continue;
        }
        let (distance, time) = point(line)
            .ok_or_else(|| ImportError::new(&place, &format!("\"{line}\""), "cylinders, milliseconds"))?;
        if points.last().map_or(0, |last| last.0) >= distance {
            if distance > 0 {
                report("not farther than the points before");
            }
            continue;
        }
        points.push((distance, micros(time)));
    }
    // DiskSim's curve begins at no distance and no time.
    match points.first() {
        Some(&(first, time)) if first > 1 => {
            points.insert(0, (1, (time / f64::from(first) * 1e3).round() / 1e3));
        }
        _ => {}
    }
    Ok(points)
}

/// A line's distance and time.
fn point(line: &str) -> Option<(u32, f64)> {
    let mut words = line.split(',').map(str::trim);
    let distance = words.next()?.parse().ok()?;
    let time: f64 = words.next()?.parse().ok()?;
    let deviation = words.next().is_none_or(|word| word.is_empty() || word.parse::<f64>().is_ok());
    (time.is_finite() && deviation).then_some((distance, time))
}
