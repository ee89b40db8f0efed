//! What a volume is made of: components, slices on them, layers over those, and the top that clients see.
//! The flags of the program and a volume file both end up as this.
//!
//! Invariants of a checked description: every name leads somewhere, nothing is made of itself, and no
//! sector belongs to two devices of the tree. Fault model: a file may hold anything; what cannot be a
//! volume is refused with the file, the key, what was found and what was expected.

use std::collections::BTreeMap;

use seekless_core::{Extent, Nanos, Size};
use seekless_drive::{Model, QueueOptions};
use seekless_layers::registry::Entry;

/// A volume, as it is to be built.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Where it was read, for messages.
    pub file: String,
    /// The leaves, by name.
    pub components: BTreeMap<String, Component>,
    /// Windows on components, by name.
    pub slices: BTreeMap<String, Window>,
    /// Layers, by name.
    pub layers: BTreeMap<String, Layer>,
    /// What clients see: one of all those names.
    pub top: String,
}

/// A simulated drive with its queue.
#[derive(Clone, Debug)]
pub struct Component {
    /// The drive.
    pub drive: Model,
    /// Its queue.
    pub queue: QueueOptions,
}

/// A window on a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The component.
    pub of: String,
    /// Where on it.
    pub extent: Extent,
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Which.
    pub entry: &'static Entry,
    /// What it lies over.
    pub over: String,
    /// Its other devices, by their keys; several are one behind the other.
    pub devices: BTreeMap<String, Vec<String>>,
    /// BORG: how often the layout is reconfigured while a workload runs; never if `None`.
    pub reconfigure: Option<Nanos>,
    /// Its options.
    pub options: toml::Table,
}

/// Why a description is not a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct VolumeError {
    /// The file and the key.
    pub place: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

/// Sectors of a component that a device of the tree uses.
struct Claim {
    component: String,
    extent: Extent,
    by: String,
}

impl Description {
    /// The first sectors of a drive, with nothing over them.
    pub fn bare(component: Component, sectors: u64) -> Description {
        let home = Window { of: "disk".to_owned(), extent: Extent::new(0, sectors) };
        Description {
            components: BTreeMap::from([("disk".to_owned(), component)]),
            slices: BTreeMap::from([("home".to_owned(), home)]),
            top: "home".to_owned(),
            ..Description::default()
        }
    }

    /// Whether it is a volume; the sectors that clients see.
    pub fn check(&self) -> Result<u64, VolumeError> {
        for (name, component) in &self.components {
            let most = component.drive.queue().depth;
            if let Some(depth) = component.queue.depth.filter(|depth| !(1..=most).contains(depth)) {
                let expected = format!("1 to {most}, which the queue of {} holds", component.drive.name());
                return Err(self.wrong(&format!("component.{name}.depth"), depth.to_string(), expected));
            }
        }
        for (name, window) in &self.slices {
            let place = format!("slice.{name}");
            let Some(component) = self.components.get(&window.of) else {
                let found = format!("of = '{}'", window.of);
                return Err(self.wrong(&place, found, format!("a component: {}", names(&self.components))));
            };
            let size = component.drive.sectors();
            let end = window.extent.start.0.checked_add(window.extent.sectors);
            if window.extent.sectors == 0 || end.is_none_or(|end| end > size) {
                let found = format!("{} from {}", told(window.extent.sectors), told(window.extent.start.0));
                let expected = format!("a part of {} ({})", window.of, told(size));
                return Err(self.wrong(&place, found, expected));
            }
        }
        let mut claims = Vec::new();
        let sectors = self.claim(&self.top, "export.top", &mut Vec::new(), &mut claims)?;
        for (index, claim) in claims.iter().enumerate() {
            let same =
                |other: &&Claim| other.component == claim.component && other.extent.overlaps(claim.extent);
            if let Some(other) = claims[..index].iter().find(same) {
                let found = format!("sectors of {} that {} has too", claim.component, other.by);
                return Err(self.wrong(&claim.by, found, "sectors that nothing else uses".to_owned()));
            }
        }
        Ok(sectors)
    }

    /// Notes what the device `name` uses, and returns its size; `by` asks for it.
    fn claim(
        &self,
        name: &str,
        by: &str,
        above: &mut Vec<String>,
        claims: &mut Vec<Claim>,
    ) -> Result<u64, VolumeError> {
        let claim =
            |component: &str, extent| Claim { component: component.to_owned(), extent, by: by.to_owned() };
        if let Some(component) = self.components.get(name) {
            claims.push(claim(name, Extent::new(0, component.drive.sectors())));
            return Ok(component.drive.sectors());
        }
        if let Some(window) = self.slices.get(name) {
            claims.push(claim(&window.of, window.extent));
            return Ok(window.extent.sectors);
        }
        let Some(layer) = self.layers.get(name) else {
            let all = [names(&self.components), names(&self.slices), names(&self.layers)];
            let known: Vec<String> = all.into_iter().filter(|some| !some.is_empty()).collect();
            return Err(self.wrong(by, format!("'{name}'"), format!("one of: {}", known.join(", "))));
        };
        if above.iter().any(|above| above == name) {
            return Err(self.wrong(by, format!("'{name}', which is above it"), "something below".to_owned()));
        }
        above.push(name.to_owned());
        let sectors = self.claim(&layer.over, &format!("layer.{name}.over"), above, claims)?;
        for (key, pieces) in &layer.devices {
            for device in pieces {
                self.claim(device, &format!("layer.{name}.{key}"), above, claims)?;
            }
        }
        above.pop();
        layer.entry.sectors(&layer.options, sectors).map_err(|refused| {
            self.wrong(&format!("layer.{name}.{}", refused.key), refused.found, refused.expected)
        })
    }

    /// The error at a key.
    fn wrong(&self, key: &str, found: String, expected: String) -> VolumeError {
        let place = if self.file.is_empty() { key.to_owned() } else { format!("{}: {key}", self.file) };
        VolumeError { place, found, expected }
    }

    /// The volume in a line, from the top down.
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        let mut name = &self.top;
        while let Some(layer) = self.layers.get(name).filter(|_| parts.len() <= self.layers.len()) {
            let pieces = layer.devices.get("bopt").map(Vec::as_slice).unwrap_or_default();
            let sizes = pieces.iter().map(|piece| Some(self.slices.get(piece)?.extent.sectors));
            let bopt = sizes.sum::<Option<u64>>().filter(|sectors| *sectors > 0);
            let bopt = bopt.map(|sectors| format!(" with a BOPT of {}", told(sectors)));
            let every = layer.reconfigure.map(|time| format!(", reconfigured every {time}"));
            let words = [bopt, every].map(Option::unwrap_or_default).concat();
            parts.push(format!("{}{words}", layer.entry.name));
            name = &layer.over;
        }
        if parts.is_empty() {
            parts.push("no layer".to_owned());
        }
        let drives = self
            .components
            .values()
            .map(|component| format!("{}, {}", component.drive.name(), component.queue.policy));
        format!("{}, {}", drives.collect::<Vec<_>>().join("; "), parts.join(" over "))
    }
}

fn told(sectors: u64) -> String {
    Size(sectors.saturating_mul(512)).to_string()
}

fn names<T>(all: &BTreeMap<String, T>) -> String {
    all.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
