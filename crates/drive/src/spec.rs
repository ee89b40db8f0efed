//! A drive's description: one TOML file, with the source of every figure.
//!
//! Fault model: a file may hold anything. What cannot be a drive is refused with the file's name,
//! the key, what was found and what was expected.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The drives that ship, by file name.
const SHIPPED: [(&str, &str); 2] = [
    ("quantum-atlas-10k", include_str!("../../../drives/quantum-atlas-10k.toml")),
    ("wd2500aaks", include_str!("../../../drives/wd2500aaks.toml")),
];

/// Drives of more sectors than this (16 TiB) are not described yet.
const MOST_SECTORS: u64 = 1 << 35;

/// A drive, as its file describes it. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is called on the command line.
    pub name: String,
    /// What it is called by people.
    pub title: String,
    /// Its capacity, at most what the zones hold.
    pub sectors: u64,
    /// Revolutions a minute.
    pub rpm: u32,
    /// Surfaces, each with a head: tracks in a cylinder.
    pub heads: u32,
    /// Changing to another head of the same cylinder.
    pub head_switch_us: u32,
    /// What a write waits for longer after a seek or head switch.
    pub write_settle_us: u32,
    /// Handling a command.
    pub command_us: u32,
    /// The interface, in 10^6 bytes a second.
    pub bus_mb_s: u32,
    /// Streams that the cache keeps apart.
    pub cache_segments: u32,
    /// Sectors that each segment keeps.
    pub cache_segment_sectors: u32,
    /// Sectors that are read ahead after a read while nothing else is to be done.
    pub read_ahead_sectors: u32,
    /// The arm.
    pub seek: SeekCurve,
    /// From the outer edge to the inner.
    pub zone: Vec<Zone>,
    /// Where each figure comes from, by key.
    pub source: BTreeMap<String, String>,
}

/// How long the arm takes to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekCurve {
    /// Measured points (cylinders, microseconds), straight lines in between.
    Table {
        /// In ascending order of distance, from 1.
        points: Vec<(u32, u32)>,
    },
    /// a + b sqrt(d) + c d through the three figures that manufacturers publish (Lee and Katz).
    ThreePoint {
        /// To the next cylinder.
        track_us: u32,
        /// Over a third of the cylinders.
        average_us: u32,
        /// From edge to edge.
        full_us: u32,
    },
}

/// Cylinders with equally many sectors a track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How many cylinders.
    pub cylinders: u32,
    /// How many sectors a track.
    pub sectors_per_track: u32,
    /// Sectors that the next head's first sector comes later.
    pub track_skew: u32,
    /// Sectors that the next cylinder's first sector comes later.
    pub cylinder_skew: u32,
}

/// Why a description is not a drive.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// No such drive.
    #[error("no drive is called '{name}'; expected a file that ends in .toml, or one of: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The file could not be read.
    #[error("{file}: {error}")]
    Io {
        /// Which.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not TOML, or lacks a key, or has one too many.
    #[error("{file}: {error}")]
    Syntax {
        /// Which.
        file: String,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
    /// A figure that no drive has.
    #[error("{file}: {key}: found {found}, expected {expected}")]
    Value {
        /// Which file.
        file: String,
        /// Which figure.
        key: String,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
}

/// The names of the drives that ship, in order.
pub fn shipped() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The drive of this name, or in this file if the name ends in `.toml`.
pub fn find(name: &str) -> Result<Spec, SpecError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let text =
            std::fs::read_to_string(name).map_err(|error| SpecError::Io { file: name.to_owned(), error })?;
        return parse(name, &text);
    }
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((name, text)) => parse(&format!("drives/{name}.toml"), text),
        None => {
            Err(SpecError::Unknown { name: name.to_owned(), known: shipped().collect::<Vec<_>>().join(", ") })
        }
    }
}

/// Reads a description; `file` is for messages.
pub fn parse(file: &str, text: &str) -> Result<Spec, SpecError> {
    let spec: Spec = toml::from_str(text)
        .map_err(|error| SpecError::Syntax { file: file.to_owned(), error: Box::new(error) })?;
    spec.check().map_err(|(key, found, expected)| SpecError::Value {
        file: file.to_owned(),
        key: key.to_owned(),
        found,
        expected: expected.to_owned(),
    })?;
    Ok(spec)
}

type Wrong = (&'static str, String, &'static str);

impl Spec {
    /// Sectors that the zones hold.
    pub fn zone_sectors(&self) -> u64 {
        let zone = |z: &Zone| u64::from(z.cylinders) * u64::from(self.heads) * u64::from(z.sectors_per_track);
        self.zone.iter().map(zone).sum()
    }

    /// All cylinders.
    pub fn cylinders(&self) -> u64 {
        self.zone.iter().map(|zone| u64::from(zone.cylinders)).sum()
    }

    fn check(&self) -> Result<(), Wrong> {
        let within = |key, value: u32, low: u32, high: u32, expected| {
            if (low..=high).contains(&value) { Ok(()) } else { Err((key, value.to_string(), expected)) }
        };
        within("rpm", self.rpm, 300, 60_000, "300 to 60000")?;
        within("heads", self.heads, 1, 64, "1 to 64")?;
        within("bus_mb_s", self.bus_mb_s, 1, 100_000, "1 to 100000")?;
        within("head_switch_us", self.head_switch_us, 0, 100_000, "at most 100000")?;
        within("write_settle_us", self.write_settle_us, 0, 100_000, "at most 100000")?;
        within("command_us", self.command_us, 0, 1_000_000, "at most 1000000")?;
        within("cache_segments", self.cache_segments, 0, 1024, "at most 1024")?;
        within("cache_segment_sectors", self.cache_segment_sectors, 0, 1 << 20, "at most 1048576")?;
        within(
            "read_ahead_sectors",
            self.read_ahead_sectors,
            0,
            self.cache_segment_sectors,
            "at most cache_segment_sectors",
        )?;
        self.check_zones()?;
        self.check_seek()?;
        self.check_sources()
    }

    fn check_zones(&self) -> Result<(), Wrong> {
        if self.zone.is_empty() {
            return Err(("zone", "none".to_owned(), "at least one [[zone]]"));
        }
        for zone in &self.zone {
            if !(1..=1 << 24).contains(&zone.cylinders) {
                return Err(("zone.cylinders", zone.cylinders.to_string(), "1 to 16777216"));
            }
            if !(1..=1 << 16).contains(&zone.sectors_per_track) {
                return Err(("zone.sectors_per_track", zone.sectors_per_track.to_string(), "1 to 65536"));
            }
            if zone.track_skew.max(zone.cylinder_skew) > zone.sectors_per_track {
                let found = format!("{} and {}", zone.track_skew, zone.cylinder_skew);
                return Err(("zone.track_skew, zone.cylinder_skew", found, "at most sectors_per_track"));
            }
        }
        if self.zone_sectors() > MOST_SECTORS {
            return Err(("zone", format!("{} sectors", self.zone_sectors()), "at most 16 TiB in all zones"));
        }
        if self.sectors == 0 || self.sectors > self.zone_sectors() {
            return Err(("sectors", self.sectors.to_string(), "1 to what the zones hold"));
        }
        Ok(())
    }

    fn check_seek(&self) -> Result<(), Wrong> {
        match &self.seek {
            SeekCurve::Table { points } => {
                let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if points.first().is_none_or(|point| point.0 != 1) || !ascending {
                    return Err((
                        "seek.points",
                        format!("{} points", points.len()),
                        "ascending distances from 1",
                    ));
                }
                if points.iter().any(|point| point.1 > 1_000_000) {
                    return Err(("seek.points", "more than a second".to_owned(), "times of at most 1000000"));
                }
            }
            SeekCurve::ThreePoint { track_us, average_us, full_us } => {
                if !(track_us <= average_us && average_us <= full_us && *full_us <= 1_000_000) {
                    let found = format!("{track_us}, {average_us}, {full_us}");
                    return Err(("seek", found, "track_us <= average_us <= full_us <= 1000000"));
                }
            }
        }
        Ok(())
    }

    fn check_sources(&self) -> Result<(), Wrong> {
        const FIGURES: [&str; 13] = [
            "title",
            "sectors",
            "rpm",
            "heads",
            "head_switch_us",
            "write_settle_us",
            "command_us",
            "bus_mb_s",
            "cache_segments",
            "cache_segment_sectors",
            "read_ahead_sectors",
            "seek",
            "zone",
        ];
        for figure in FIGURES {
            if self.source.get(figure).is_none_or(String::is_empty) {
                return Err(("source", format!("nothing for {figure}"), "where each figure comes from"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_that_ships_is_a_drive_with_sources() {
        for name in shipped() {
            let spec = find(name).unwrap();
            assert_eq!(spec.name, name);
            let again = parse("again", &toml::to_string(&spec).unwrap()).unwrap();
            assert_eq!(again, spec);
        }
    }

    proptest::proptest! {
        /// Whatever a file says, it is a drive that works or an error; it never panics.
        #[test]
        fn any_file_is_a_drive_or_an_error(
            line in 0..80_usize,
            value in proptest::prop_oneof!["-?[0-9]{1,12}", "\\PC{0,12}", "\\[\\[[0-9]+, [0-9]+\\]\\]"],
        ) {
            let mut lines: Vec<String> = SHIPPED[1].1.lines().map(str::to_owned).collect();
            let line = line % lines.len();
            lines[line] = match lines[line].split_once('=') {
                Some((key, _)) => format!("{key}= {value}"),
                None => value,
            };
            if let Ok(spec) = parse("mutated", &lines.join("\n")) {
                let mut drive = crate::disk::Drive::new(&spec);
                let last = seekless_core::Extent::new(spec.sectors - 1, 1);
                drive.serve(seekless_core::Op::Read, last, seekless_core::Nanos(0), false);
            }
        }
    }

    #[test]
    fn an_error_says_where_what_and_what_was_expected() {
        let good = SHIPPED[1].1;
        let told = |text: &str| parse("d.toml", text).unwrap_err().to_string();
        for (from, to, words) in [
            ("rpm = 7200", "rpm = 0", ["d.toml: rpm", "found 0", "300 to 60000"]),
            ("heads = 4", "heads = 1", ["d.toml: sectors", "found 488397168", "zones hold"]),
            ("heads = 4", "hands = 4", ["d.toml", "hands", "unknown field"]),
            ("full_us = 21000", "full_us = 2", ["d.toml: seek", "2000, 8900, 2", "full_us"]),
            ("bus_mb_s = \"SATA", "bus_mbs = \"SATA", ["d.toml: source", "bus_mb_s", "comes from"]),
        ] {
            let error = told(&good.replacen(from, to, 1));
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let error = find("wd2501aaks").unwrap_err().to_string();
        assert!(error.contains("wd2501aaks") && error.contains("wd2500aaks"), "{error}");
    }
}
