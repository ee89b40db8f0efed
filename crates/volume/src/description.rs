//! Description of a volume: components, slices of them, layers over those, and exports to clients.
//! The flags of the program and a volume file both end up as this.
//!
//! Invariants of a checked description: every name leads somewhere, nothing is made of itself, and no
//! sector belongs to two devices of the tree. Fault model: a file may hold anything; what cannot be a
//! volume is refused with the file, the key, what was found and what was expected.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use seekless_core::names::perhaps;
use seekless_core::{Class, Extent, Lba, Size};
use seekless_layers::Refused;
use seekless_layers::registry::{Entry, Sizes};
use seekless_layers::schedule::Schedule;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::component::Component;
use crate::settings::Ranges;

/// The kinds of components of a description: simulated drives here, devices and files in a served volume.
pub trait Leaf: Sized {
    /// Keys of a component in a volume file; unknown ones are errors.
    type Keys: DeserializeOwned;

    /// The component called `name` in a volume file.
    fn read(file: &str, name: &str, keys: Self::Keys) -> Result<Self, VolumeError>;

    /// Size in sectors.
    fn sectors(&self) -> u64;

    /// Checks it; the key, what was found and what was expected.
    fn check(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Short description.
    fn line(&self) -> String;

    /// Why it cannot be opened, if it is not there: a layer above it may do without it.
    fn missing(&self) -> Option<&VolumeError> {
        None
    }

    /// Sets the size in sectors of one that is not there.
    fn suppose(&self, _sectors: u64) {}
}

/// A volume, as it is to be built.
#[derive(Clone, Debug)]
pub struct Description<C = Component> {
    /// Where it was read, for messages.
    pub file: String,
    /// The leaves, by name.
    pub components: BTreeMap<String, C>,
    /// Windows on components, by name.
    pub slices: BTreeMap<String, Window>,
    /// Layers, by name.
    pub layers: BTreeMap<String, Layer>,
    /// The device that clients see: one of these names. With several exports, that of the first.
    pub top: String,
    /// Addresses of the server; empty for none.
    pub exports: Vec<Export>,
    /// Control socket of the server, if any.
    pub control: Option<PathBuf>,
    /// Where metrics are served over HTTP, if anywhere: `tcp:HOST:PORT` or `unix:PATH`. Not used by the lab.
    pub metrics: Option<String>,
    /// Certificates, if connections are encrypted. Not used by the lab.
    pub tls: Option<Tls>,
    /// Values drawn by runs of an exploration, by layer or slice and key.
    pub explore: Ranges,
    /// Maximum number of clients at a time, if set. Not used by the lab.
    pub clients: Option<NonZeroU32>,
}

/// Files of certificates and keys, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Authorities whose clients are admitted.
    pub clients: PathBuf,
}

impl<C> Default for Description<C> {
    fn default() -> Self {
        Description {
            file: String::new(),
            components: BTreeMap::new(),
            slices: BTreeMap::new(),
            layers: BTreeMap::new(),
            top: String::new(),
            exports: Vec::new(),
            control: None,
            metrics: None,
            tls: None,
            explore: Ranges::new(),
            clients: None,
        }
    }
}

/// A place where clients see a device of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The device.
    pub top: String,
    /// Name of the export; by default the device's.
    pub name: String,
    /// Where an NBD server listens for it: `unix:PATH` or `tcp:HOST:PORT`. The lab serves nothing.
    pub nbd: Option<String>,
    /// Where a virtual machine connects to it: `unix:PATH`.
    pub vhost: Option<String>,
    /// Clients may not write.
    pub read_only: bool,
    /// Class of its clients' requests: with a lower one, a backup or a scan by any program yields to others.
    pub class: Class,
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
    /// The devices below, in order: one, except for layers over several.
    pub over: Vec<String>,
    /// Other devices, by key, in order.
    pub devices: BTreeMap<String, Vec<String>>,
    /// When it is reconfigured, if the layer can be; `None` where its volume file does not say so.
    pub reconfigure: Option<Schedule>,
    /// Options of the layer.
    pub options: toml::Table,
}

impl Layer {
    /// All devices that it lies on.
    pub fn below(&self) -> impl Iterator<Item = &String> {
        self.over.iter().chain(self.devices.values().flatten())
    }

    /// Its options where the volume is served.
    pub fn options_where_served(&self) -> toml::Table {
        self.entry.options_where_served(&self.options)
    }

    /// The devices that hold its metadata: its own; if it has none, or is over several, those below.
    pub fn metadata_on(&self) -> impl Iterator<Item = &String> {
        let below = self.entry.has_metadata_below();
        self.over.iter().filter(move |_| below).chain(self.devices.values().flatten())
    }
}

/// Why a description is not a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct VolumeError {
    /// The file and the key.
    pub place: String,
    /// Found text.
    pub found: String,
    /// Expected text.
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

    /// This volume without its layers: the slice or component below them; `None` below a layer over several devices.
    pub fn without_layers(&self) -> Option<Description> {
        let bottom = self.bottom_of(&self.top)?.to_owned();
        let mut bare = Description { layers: BTreeMap::new(), explore: Ranges::new(), ..self.clone() };
        for export in &mut bare.exports {
            export.top.clone_from(&bottom);
        }
        bare.top = bottom;
        Some(bare)
    }
}

impl<C> Description<C> {
    /// This volume with other components: those that `with` makes of its own; those without one are left out.
    pub fn with_components<D>(self, mut with: impl FnMut(&str, C) -> Option<D>) -> Description<D> {
        let components = self.components.into_iter().filter_map(|(name, component)| {
            let component = with(&name, component)?;
            Some((name, component))
        });
        Description {
            components: components.collect(),
            file: self.file,
            slices: self.slices,
            layers: self.layers,
            top: self.top,
            exports: self.exports,
            control: self.control,
            metrics: self.metrics,
            tls: self.tls,
            explore: self.explore,
            clients: self.clients,
        }
    }

    /// This volume with one more layer, named after its kind, at the top.
    pub fn with_layer(mut self, entry: &'static Entry, options: toml::Table) -> Description<C> {
        let (name, over) = (entry.name.to_owned(), std::mem::replace(&mut self.top, entry.name.to_owned()));
        for export in self.exports.iter_mut().filter(|export| export.top == over) {
            export.top.clone_from(&name);
        }
        self.layers.insert(
            name,
            Layer { entry, over: vec![over], devices: BTreeMap::new(), reconfigure: None, options },
        );
        self
    }

    /// The components below `name`.
    pub fn leaves(&self, name: &str) -> BTreeSet<String> {
        if let Some(layer) = self.layers.get(name) {
            return layer.below().flat_map(|name| self.leaves(name)).collect();
        }
        let of = self.slices.get(name).map_or(name, |window| &window.of);
        BTreeSet::from([of.to_owned()])
    }

    /// Whether `name`, or a layer below it, is opened in an earlier state, and so read-only.
    pub fn is_older(&self, name: &str) -> bool {
        self.layers.get(name).is_some_and(|layer| {
            let older = layer.options.get("older").and_then(toml::Value::as_bool);
            older == Some(true) || layer.below().any(|name| self.is_older(name))
        })
    }
}

impl<C: Leaf> Description<C> {
    /// Whether it is a volume; the sectors that clients see.
    pub fn check(&self) -> Result<u64, VolumeError> {
        for (name, component) in &self.components {
            component.check().map_err(|refused| {
                self.invalid(&format!("component.{name}.{}", refused.key), refused.found, refused.expected)
            })?;
        }
        for (name, window) in &self.slices {
            let place = format!("slice.{name}");
            let Some(component) = self.components.get(&window.of) else {
                let found = format!("of = '{}'", window.of);
                return Err(self.invalid(&place, found, format!("a component: {}", names(&self.components))));
            };
            let size = component.sectors();
            let end = window.extent.start.0.checked_add(window.extent.sectors);
            if window.extent.sectors == 0 || end.is_none_or(|end| end > size) {
                let found =
                    format!("{} from {}", size_text(window.extent.sectors), size_text(window.extent.start.0));
                let expected = format!("a part of {} ({})", window.of, size_text(size));
                return Err(self.invalid(&place, found, expected));
            }
        }
        let mut claims = Vec::new();
        let sectors = self.claim(&self.top, "export.top", &mut Vec::new(), &mut claims)?;
        let others: BTreeSet<&String> = self.exports.iter().map(|export| &export.top).collect();
        for top in others.into_iter().filter(|top| **top != self.top) {
            self.claim(top, "export.top", &mut Vec::new(), &mut claims)?;
        }
        for (index, claim) in claims.iter().enumerate() {
            let same =
                |other: &&Claim| other.component == claim.component && other.extent.overlaps(claim.extent);
            if let Some(other) = claims[..index].iter().find(same) {
                let found = format!("sectors of {} that {} has too", claim.component, other.by);
                return Err(self.invalid(&claim.by, found, "sectors that nothing else uses".to_owned()));
            }
        }
        Ok(sectors)
    }

    /// Records the extents that the device `name` uses, and returns its size; `by` is the user.
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
            claims.push(claim(name, Extent::new(0, component.sectors())));
            return Ok(component.sectors());
        }
        if let Some(window) = self.slices.get(name) {
            claims.push(claim(&window.of, window.extent));
            return Ok(window.extent.sectors);
        }
        let Some(layer) = self.layers.get(name) else {
            let all = [names(&self.components), names(&self.slices), names(&self.layers)];
            let known: Vec<String> = all.into_iter().filter(|some| !some.is_empty()).collect();
            let all = self.components.keys().chain(self.slices.keys()).chain(self.layers.keys());
            let perhaps = perhaps(name, all.map(String::as_str));
            return Err(self.invalid(
                by,
                format!("'{name}'"),
                format!("one of: {}{perhaps}", known.join(", ")),
            ));
        };
        if above.iter().any(|above| above == name) {
            return Err(self.invalid(
                by,
                format!("'{name}', which is above it"),
                "something below".to_owned(),
            ));
        }
        above.push(name.to_owned());
        let mut sizes = Sizes::default();
        for device in &layer.over {
            sizes.over.push(self.claim(device, &format!("layer.{name}.over"), above, claims)?);
        }
        for (key, pieces) in &layer.devices {
            let of_key = sizes.devices.entry(key.clone()).or_default();
            for device in pieces {
                of_key.push(self.claim(device, &format!("layer.{name}.{key}"), above, claims)?);
            }
        }
        above.pop();
        layer.entry.sectors(&layer.options, &sizes).map_err(|refused| {
            self.invalid(&format!("layer.{name}.{}", refused.key), refused.found, refused.expected)
        })
    }

    /// The error at a key.
    fn invalid(&self, key: &str, found: String, expected: String) -> VolumeError {
        let place = if self.file.is_empty() { key.to_owned() } else { format!("{}: {key}", self.file) };
        VolumeError { place, found, expected }
    }

    /// The layers at and below `name`, each before those below it.
    pub fn downwards(&self, name: &str) -> Vec<String> {
        let Some(layer) = self.layers.get(name) else { return Vec::new() };
        std::iter::once(name.to_owned()).chain(layer.below().flat_map(|name| self.downwards(name))).collect()
    }

    /// The volume in a line, from the top down.
    pub fn line(&self) -> String {
        self.line_of(&self.top)
    }

    /// Where the sectors of `top` would be if there were no layers: the component, and where on it the first would be;
    /// `None` below a layer over several devices.
    pub fn origin_of(&self, top: &str) -> Option<(String, Lba)> {
        let name = self.bottom_of(top)?;
        Some(match self.slices.get(name) {
            Some(window) => (window.of.clone(), window.extent.start),
            None => (name.to_owned(), Lba(0)),
        })
    }

    /// The slice or component below all layers at and below `top`; `None` if one of them lies over several devices.
    pub(crate) fn bottom_of<'a>(&'a self, top: &'a str) -> Option<&'a str> {
        let mut name = top;
        while let Some(layer) = self.layers.get(name) {
            let [over] = &layer.over[..] else { return None };
            name = over;
        }
        Some(name)
    }

    /// The device `top` in a line, from there down.
    pub fn line_of(&self, top: &str) -> String {
        let mut parts = Vec::new();
        let mut name = top;
        while let Some(layer) = self.layers.get(name).filter(|_| parts.len() <= self.layers.len()) {
            let pieces = layer.devices.get("bopt").map(Vec::as_slice).unwrap_or_default();
            let sizes = pieces.iter().map(|piece| Some(self.slices.get(piece)?.extent.sectors));
            let bopt = sizes.sum::<Option<u64>>().filter(|sectors| *sectors > 0);
            let bopt = bopt.map(|sectors| format!(" with a BOPT of {}", size_text(sectors)));
            let every = layer.reconfigure.map(|schedule| format!(", reconfigured {schedule}"));
            let words = [bopt, every].map(Option::unwrap_or_default).concat();
            let several = if layer.entry.is_over_several() {
                format!(" of {}", layer.below().count())
            } else {
                String::new()
            };
            parts.push(format!("{}{several}{words}", layer.entry.name));
            // Devices of a layer over several are alike.
            name = layer.over.first().map_or(name, String::as_str);
        }
        if parts.is_empty() {
            parts.push("no layer".to_owned());
        }
        let drives =
            self.leaves(top).into_iter().filter_map(|leaf| self.components.get(&leaf)).map(Leaf::line);
        format!("{}, {}", drives.collect::<Vec<_>>().join("; "), parts.join(" over "))
    }
}

fn size_text(sectors: u64) -> String {
    Size(sectors.saturating_mul(512)).to_string()
}

fn names<T>(all: &BTreeMap<String, T>) -> String {
    all.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
