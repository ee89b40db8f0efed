//! A drive's description: one TOML file, with the source of every value.
//!
//! Fault model: a file may hold anything. What cannot be a drive is refused with the file's name, the line and the key,
//! the value found and the value expected.

mod check;
mod flash;
mod identity;
mod model;
mod parts;
mod place;
mod power;
mod queue;
mod retries;
mod shingled;
mod shipped;

use std::collections::BTreeMap;
use std::path::Path;

use check::SpecFault;
use schemars::JsonSchema;
use seekless_core::names::{nearest_key, perhaps};
use serde::{Deserialize, Serialize};

pub(crate) use check::FIGURES;
pub use flash::{CellSpec, ControllerSpec, FlashSpec};
pub use identity::{is_usual, nearest_in_size, with_identity};
pub use model::Model;
pub use parts::{
    BusSpec, CacheSpec, CommandSpec, ExtraDisconnect, LayoutSpec, Mapping, ReadAhead, SeekCurve, Sparing,
    WriteBack, Zone,
};
pub use power::{PowerSpec, PowerState};
pub use queue::QueueSpec;
pub use retries::RetrySpec;
pub use shingled::ShingledSpec;

/// A drive, as described by its file.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name on the command line.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// What the model numbers of such disks begin with, as they report them: the first 16 letters at most, which is all
    /// that an SATA disk tells the kernel's SCSI layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
    /// Capacity, at most what the zones hold.
    pub sectors: u64,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Surfaces, each with a head: tracks per cylinder.
    pub heads: u32,
    /// Arms that move independently, each with an equal part of the heads and of the sectors.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub actuators: u32,
    /// Switching to another head of the same cylinder, in microseconds.
    pub head_switch_us: f64,
    /// Extra settle time of a write after a seek or head switch; may be negative.
    pub write_settle_us: f64,
    /// Command handling times.
    #[serde(default)]
    pub command: CommandSpec,
    /// The interface.
    #[serde(default)]
    pub bus: BusSpec,
    /// The drive's cache.
    #[serde(default)]
    pub cache: CacheSpec,
    /// The drive's own queue.
    #[serde(default, skip_serializing_if = "QueueSpec::is_none")]
    pub queue: QueueSpec,
    /// Accesses that do not succeed at once, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetrySpec>,
    /// Shingled tracks, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shingled: Option<ShingledSpec>,
    /// Power figures, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerSpec>,
    /// Seek curve.
    pub seek: SeekCurve,
    /// Seek curve before a write, if it is more than `seek` plus a settle time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_seek: Option<SeekCurve>,
    /// Sector layout.
    #[serde(default)]
    pub layout: LayoutSpec,
    /// Zones, from the outer edge to the inner.
    pub zone: Vec<Zone>,
    /// Sources by key, each with its kind: published, measured, extracted, fitted or assumed.
    pub source: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_one(value: &u32) -> bool {
    *value == 1
}

/// Errors of a drive's name or description.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// There is no such drive.
    #[error("no drive is called '{name}'; expected a file that ends in .toml, or one of: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names, and which one may be meant.
        known: String,
    },
    /// A flash drive, where a disk is needed.
    #[error("'{name}' is a flash drive; expected a disk")]
    NotADisk {
        /// The name.
        name: String,
    },
    /// The file could not be read.
    #[error("{file}: {}; expected the keys of a drive file: docs/book/drives.md", .error.to_string().trim_end())]
    Io {
        /// The file.
        file: String,
        /// The error.
        error: std::io::Error,
    },
    /// The file is not TOML, lacks a key, or has an unknown one.
    #[error("{file}: {}; expected the keys of a drive file: docs/book/drives.md{}", .error.to_string().trim_end(), perhaps_key(.error))]
    Syntax {
        /// The file.
        file: String,
        /// The error, with its place.
        error: Box<toml::de::Error>,
    },
    /// A value that no drive can have.
    #[error("{file}{}: {key}: found {found}, expected {expected}", on_line(*.line))]
    Value {
        /// The file.
        file: String,
        /// The line, from 1, if the key or its table is there.
        line: Option<usize>,
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The values expected.
        expected: String,
    },
}

/// The names of the shipped drives, in order.
pub fn shipped() -> impl Iterator<Item = &'static str> {
    shipped::names()
}

/// The names of the shipped disks.
pub fn disks() -> impl Iterator<Item = &'static str> {
    shipped().filter(|name| find(name).is_ok())
}

/// The disk of this name, or in this file if the name ends in `.toml`; an error if it is not a disk.
pub fn find(name: &str) -> Result<Spec, SpecError> {
    match Model::find(name)? {
        Model::Disk(spec) => Ok(*spec),
        Model::Flash(spec) => Err(SpecError::NotADisk { name: spec.name }),
    }
}

/// The file and text of the drive of this name or in this file.
fn read_text(name: &str) -> Result<(String, String), SpecError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let text =
            std::fs::read_to_string(name).map_err(|error| SpecError::Io { file: name.to_owned(), error })?;
        return Ok((name.to_owned(), text));
    }
    if let Some(text) = shipped::text(name) {
        return Ok((format!("drives/{name}.toml"), text.to_owned()));
    }
    let known = shipped().collect::<Vec<_>>().join(", ") + &perhaps(name, shipped());
    Err(SpecError::Unknown { name: name.to_owned(), known })
}

/// Parses the description of a disk; `file` is for messages.
pub fn parse(file: &str, text: &str) -> Result<Spec, SpecError> {
    let spec: Spec = read(file, text)?;
    checked(file, text, check::check(&spec))?;
    Ok(spec)
}

/// Why a description cannot be a drive, if it cannot: the key, the value found and the values expected.
pub(crate) fn fault(spec: &Spec) -> Option<(String, String, String)> {
    check::check(spec).err().map(|fault| (fault.key, fault.found, fault.expected))
}

/// Parses the description of a flash drive, if it is one.
fn flash_of(file: &str, text: &str) -> Result<Option<FlashSpec>, SpecError> {
    let table: toml::Table = read(file, text)?;
    // If one of them is misspelt, it is still a flash drive.
    if !table.contains_key("flash") && !table.contains_key("controller") {
        return Ok(None);
    }
    let spec: FlashSpec = read(file, text)?;
    checked(file, text, spec.check())?;
    Ok(Some(spec))
}

fn read<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, SpecError> {
    toml::from_str(text).map_err(|error| SpecError::Syntax { file: file.to_owned(), error: Box::new(error) })
}

fn checked(file: &str, text: &str, found: check::Checked) -> Result<(), SpecError> {
    found.map_err(|SpecFault { key, found, expected }| SpecError::Value {
        file: file.to_owned(),
        line: place::line(text, &key),
        key,
        found,
        expected,
    })
}

/// The key that is meant.
fn perhaps_key(error: &toml::de::Error) -> String {
    nearest_key(&error.to_string()).map_or_else(String::new, |meant| format!("; perhaps {meant}"))
}

/// `, line 3`.
fn on_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl Spec {
    /// One of its arms with what is under it, as a drive of its own, with its part of the power.
    pub fn arm(&self) -> Spec {
        let parts = self.actuators.max(1);
        Spec {
            actuators: 1,
            heads: self.heads / parts,
            sectors: self.sectors / u64::from(parts),
            power: self.power.as_ref().map(|power| power.part(parts)),
            ..self.clone()
        }
    }

    /// The drive with one surface, and without its defects; `None` if its zones would hold nothing.
    pub fn one_surface(&self) -> Option<Spec> {
        let mut spec = Spec { heads: 1, ..self.clone() };
        for zone in &mut spec.zone {
            (zone.slips, zone.remaps) = (Vec::new(), Vec::new());
        }
        spec.sectors = crate::disk::layout::capacity(&spec);
        check::check(&spec).ok().map(|()| spec)
    }

    /// Turns its write cache on or off: whether writes are acknowledged before they are on the media.
    pub fn set_write_cache(&mut self, on: bool) {
        self.cache.write_back = if on { WriteBack::All } else { WriteBack::None };
    }

    /// The first cylinder of each zone.
    pub fn first_cylinders(&self) -> Vec<u64> {
        let mut next = 0;
        let first = |zone: &Zone| {
            let first = zone.first_cylinder.map_or(next, u64::from);
            next = first + u64::from(zone.cylinders);
            first
        };
        self.zone.iter().map(first).collect()
    }

    /// Number of cylinders.
    pub fn cylinders(&self) -> u64 {
        let last = self.first_cylinders().pop().zip(self.zone.last());
        last.map_or(0, |(first, zone)| first + u64::from(zone.cylinders))
    }

    /// Media rate of a zone, in 10^6 bytes per second.
    pub fn media_mb_s(&self, zone: &Zone) -> f64 {
        f64::from(zone.sectors_per_track) * 512.0 * self.rpm / 60e6
    }

    /// Sequential rate of a zone, in 10^6 bytes per second, including the skew of every step to the next track.
    pub fn stream_mb_s(&self, zone: &Zone) -> f64 {
        let (heads, cylinders) = (f64::from(self.heads), f64::from(zone.cylinders));
        let bands = f64::from(zone.cylinders.div_ceil(self.layout.band(zone)));
        let (switches, seeks) = match self.layout.mapping {
            Mapping::Surface | Mapping::SurfaceSerpentine => (
                heads + (heads - 1.0) * (bands - 1.0),
                heads * (cylinders - 1.0) - (heads - 1.0) * (bands - 1.0),
            ),
            _ => (cylinders * (heads - 1.0), cylinders),
        };
        let sectors = heads * cylinders * f64::from(zone.sectors_per_track);
        let skews = switches * zone.track_skew + seeks * zone.cylinder_skew;
        self.media_mb_s(zone) * sectors / (sectors + skews)
    }

    /// Time to move a sector over the interface, in microseconds: to the host, from the host.
    pub fn bus_sector_us(&self) -> (f64, f64) {
        let each = self.bus.mb_s.map_or(0.0, |mb_s| 512.0 / mb_s);
        (self.bus.read_sector_us.unwrap_or(each), self.bus.write_sector_us.unwrap_or(each))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wd2500aaks() -> &'static str {
        shipped::text("wd2500aaks").unwrap()
    }

    #[test]
    fn every_drive_that_ships_is_a_drive_with_sources() {
        for name in shipped() {
            let model = Model::find(name).unwrap();
            assert_eq!(model.name(), name);
            let again = match &model {
                Model::Disk(spec) => parse("again", &toml::to_string(spec).unwrap()).unwrap().into(),
                Model::Flash(spec) => {
                    flash_of("again", &toml::to_string(spec).unwrap()).unwrap().unwrap().into()
                }
            };
            assert_eq!(model, again);
        }
    }

    proptest::proptest! {
        /// Any file is a working drive or an error; it never panics.
        #[test]
        fn any_file_is_a_drive_or_an_error(
            name in prop_oneof![Just("wd2500aaks"), Just("seagate-st2000dm006-2"), Just("samsung-870-evo-1tb")],
            line in 0..80_usize,
            value in prop_oneof!["-?[0-9]{1,12}", "\\PC{0,12}", "\\[\\[[0-9]+, [0-9]+\\]\\]"],
        ) {
            let mut lines: Vec<String> = shipped::text(name).unwrap().lines().map(str::to_owned).collect();
            let line = line % lines.len();
            lines[line] = match lines[line].split_once('=') {
                Some((key, _)) => format!("{key}= {value}"),
                None => value,
            };
            if let Ok(Some(spec)) = flash_of("mutated", &lines.join("\n")) {
                let last = seekless_core::Extent::new(spec.sectors - 1, 1);
                let mut drive = crate::flash::Flash::new(&spec);
                for op in [seekless_core::Op::Write, seekless_core::Op::Read, seekless_core::Op::Flush] {
                    drive.serve(op, last, seekless_core::Nanos(0), false);
                }
            }
            if let Ok(spec) = parse("mutated", &lines.join("\n")) {
                let mut drive = crate::disk::Drive::new(&spec);
                let last = seekless_core::Extent::new(spec.sectors - 1, 1);
                drive.serve(seekless_core::Op::Read, last, seekless_core::Nanos(0), false);
            }
        }
    }

    #[test]
    fn an_error_gives_place_value_and_expected_value() {
        let good = wd2500aaks();
        let check_sources = |text: &str| parse("d.toml", text).unwrap_err().to_string();
        for (from, to, words) in [
            ("rpm = 7200", "rpm = 0", ["d.toml, line 6: rpm", "found 0", "300 to 60000"]),
            ("heads = 4", "heads = 1", ["d.toml, line 5: sectors", "found 488397168", "zones hold"]),
            (
                "[\"WD2500AAKS\"]",
                "[\"WD2\"]",
                ["d.toml, line 4: identities", "found 'WD2'", "such as WD2500AAKS"],
            ),
            ("heads = 4", "hands = 4", ["d.toml: TOML parse error at line 7", "hands", "unknown field"]),
            ("full_us = 21000", "full_us = 2", ["d.toml, line 28: seek", "2000, 8900, 2", "full_us"]),
            (
                "track_us = 2000\naverage_us = 8900\nfull_us = 21000",
                "track_us = 2\naverage_us = 8.9\nfull_us = 21",
                ["line 28: seek", "found 21.000 over all", "microseconds"],
            ),
            (
                "mb_s = 300",
                "mb_s = 300\nread_sector_us = 1",
                ["d.toml, line 14: bus", "neither or both", "either mb_s"],
            ),
            (
                "each_us = 100",
                "each_us = -1",
                ["d.toml, line 12: command.each_us", "found -1", "0 to 1000000"],
            ),
            (
                "bus = \"published: SATA",
                "bus = \"SATA",
                ["d.toml, line 138: source.bus", "found 'SATA 3", "'assumed: "],
            ),
            (
                "\nbus = \"pub",
                "\nbuses = \"pub",
                ["d.toml, line 130: source", "nothing for bus", "comes from"],
            ),
            (
                "sectors_per_track = 1178",
                "first_cylinder = 5\nsectors_per_track = 1178",
                ["zone 2: first_cylinder", "found 5", "overlap"],
            ),
            ("[cache]", "[cache]\ndestage_window = -1", ["d.toml", "line 18", "destage_window = -1"]),
            (
                "[cache]",
                "[cache]\ndestage_starvation_ms = -1",
                ["line 18: cache.destage_starvation_ms", "found -1", "0 to 1000000"],
            ),
            (
                "[source]",
                "[retries]\nshare = 2\nrevolutions = 3\n[source]",
                ["retries.share", "found 2", "0 to 1"],
            ),
            (
                "[source]",
                "[layout]\nband_cylinders = 65\n[source]",
                ["layout.band_cylinders", "found 65 with this mapping", "surface-serpentine"],
            ),
            (
                "cylinder_skew = 307",
                "cylinder_skew = 307\nslips = [1, 1]",
                ["zone 1: slips", "found 1 twice", "each place once"],
            ),
            (
                "cylinder_skew = 307",
                "cylinder_skew = 307\nfront = 4294967295",
                ["zone 1: slips, remaps", "0 slips, 0 remaps, 0 spares, 4294967295 at", "fewer than use up"],
            ),
        ] {
            let error = check_sources(&good.replacen(from, to, 1));
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let flash = shipped::text("samsung-870-evo-1tb").unwrap();
        let misspelt = flash_of("d.toml", &flash.replacen("[flash]", "[flush]", 1)).unwrap_err().to_string();
        assert!(misspelt.contains("d.toml") && misspelt.contains("unknown field `flush`"), "{misspelt}");
        let power = "[power]\nidle_w = 1\nactive_w = 2\n[[power.state]]\nname = 'off'\nwatts = 1\n\
                     after_s = 1\nrecover_ms = 1e9\nrecover_w = 2\n\n[source]";
        let slow = check_sources(&good.replacen("[source]", power, 1));
        assert!(slow.contains("line 137: power.state 1: recover_ms: found 1000000000"), "{slow}");
        let error = find("wd2501aaks").unwrap_err().to_string();
        assert!(error.contains("wd2501aaks") && error.contains("wd2500aaks"), "{error}");
    }
}
