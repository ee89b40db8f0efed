//! Reads a volume file: TOML to a [`Description`]. A key arrives with its feature: one that does nothing
//! yet is an error, so that no file promises more than it gets.
//!
//! Fault model: a file may hold anything. TOML's own errors name the line; what is wrong with a value
//! names its key.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use seekless_core::names::{nearest_key, nearest_quoted};
use seekless_core::{Class, Extent, SECTOR_BYTES, Size};
use seekless_layers::schedule::Schedule;
use seekless_layers::{Refused, registry};
use serde::Deserialize;

use crate::component::existing_path;
use crate::description::{Description, Export, Layer, Leaf, Tls, VolumeError, Window};
use crate::missing;
use crate::settings::{Ranges, check_ranges};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<K> {
    component: BTreeMap<String, K>,
    #[serde(default)]
    slice: BTreeMap<String, SliceKeys>,
    #[serde(default)]
    layer: BTreeMap<String, toml::Table>,
    export: Vec<ExportKeys>,
    control: Option<PathBuf>,
    metrics: Option<String>,
    tls: Option<Tls>,
    #[serde(default)]
    explore: Ranges,
    clients: Option<NonZeroU32>,
}

/// What a text that is no volume file should be.
const KEYS: &str =
    "the keys of a volume file: component, slice, layer, export, control, metrics, tls, clients, explore";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceKeys {
    of: String,
    at: Option<String>,
    size: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportKeys {
    top: String,
    name: Option<String>,
    nbd: Option<String>,
    vhost: Option<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    class: ExportClass,
}

/// Class of the requests of an export's clients.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExportClass {
    #[default]
    Foreground,
    Background,
    Free,
}

impl From<ExportClass> for Class {
    fn from(class: ExportClass) -> Class {
        match class {
            ExportClass::Foreground => Class::Foreground,
            ExportClass::Background => Class::Background,
            ExportClass::Free => Class::Free,
        }
    }
}

/// Reads and checks the file at `path`, a volume of simulated drives with one export.
pub fn read(path: &Path) -> Result<Description, VolumeError> {
    let volume = read_of(path).and_then(one_export)?;
    check_ranges(&volume, &volume.explore)?;
    Ok(volume)
}

/// Reads and checks a description of simulated drives with one export; `file` is for messages, and drive files are
/// sought beside it.
pub fn parse(file: &str, text: &str) -> Result<Description, VolumeError> {
    let volume = parse_of(file, text).and_then(one_export)?;
    check_ranges(&volume, &volume.explore)?;
    Ok(volume)
}

/// A run in the lab has one client and one export.
fn one_export(volume: Description) -> Result<Description, VolumeError> {
    match volume.exports.as_slice() {
        [_] => Ok(volume),
        all => Err(VolumeError {
            place: format!("{}: export", volume.file),
            found: format!("{} of them", all.len()),
            expected: "one".to_owned(),
        }),
    }
}

/// Reads and checks the file at `path`, a volume of any components.
pub fn read_of<C: Leaf>(path: &Path) -> Result<Description<C>, VolumeError> {
    read_text_of(path).map(|(description, _)| description)
}

/// As [`read_of`], with the text.
pub fn read_text_of<C: Leaf>(path: &Path) -> Result<(Description<C>, String), VolumeError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| VolumeError {
        place: file.clone(),
        found: error.to_string(),
        expected: "a volume file".to_owned(),
    })?;
    Ok((parse_of(&file, &text)?, text))
}

/// Reads and checks a description of any components; `file` is for messages.
pub fn parse_of<C: Leaf>(file: &str, text: &str) -> Result<Description<C>, VolumeError> {
    let read: File<C::Keys> = toml::from_str(text).map_err(|error| {
        let found = error.to_string().trim_end().to_owned();
        let expected =
            nearest_key(&found).map_or_else(|| KEYS.to_owned(), |meant| format!("perhaps `{meant}`"));
        VolumeError { place: file.to_owned(), found, expected }
    })?;
    let invalid = |key: String, found: String, expected: &str| VolumeError {
        place: format!("{file}: {key}"),
        found,
        expected: expected.to_owned(),
    };
    let exports: Vec<Export> = read.export.into_iter().map(export).collect();
    let [first, ..] = exports.as_slice() else {
        return Err(invalid("export".to_owned(), "none".to_owned(), "one"));
    };
    let File { control, metrics, tls, clients, explore, .. } = read;
    let mut volume = Description {
        file: file.to_owned(),
        top: first.top.clone(),
        exports,
        control,
        metrics,
        tls,
        explore,
        clients,
        ..Description::default()
    };
    for (name, keys) in read.component {
        match C::read(file, &name, keys) {
            Ok(component) => drop(volume.components.insert(name, component)),
            Err(error) => return Err(unreached(volume, read.layer, &name, error)),
        }
    }
    for (name, keys) in read.slice {
        if volume.components.contains_key(&name) {
            return Err(invalid(
                format!("slice.{name}"),
                "a component of the same name".to_owned(),
                "another name",
            ));
        }
        let size = |key: &str, text: &Option<String>| {
            let bad = |found: String| {
                invalid(format!("slice.{name}.{key}"), found, "a size of whole sectors such as 4GiB")
            };
            let read = text.as_ref().map(|text| text.parse::<Size>().map_err(|_| bad(format!("'{text}'"))));
            match read.transpose()? {
                Some(Size(bytes)) if bytes % SECTOR_BYTES != 0 => Err(bad(format!("{bytes} bytes"))),
                size => Ok(size.map(Size::sectors)),
            }
        };
        let at = size("at", &keys.at)?.unwrap_or(0);
        let whole = volume.components.get(&keys.of).map_or(0, Leaf::sectors);
        let sectors = size("size", &keys.size)?.unwrap_or(whole.saturating_sub(at));
        volume.slices.insert(name, Window { of: keys.of, extent: Extent::new(at, sectors) });
    }
    for (name, keys) in read.layer {
        if volume.components.contains_key(&name) || volume.slices.contains_key(&name) {
            let found = "a component or slice of the same name".to_owned();
            return Err(invalid(format!("layer.{name}"), found, "another name"));
        }
        let layer = layer(file, &name, keys)?;
        volume.layers.insert(name, layer);
    }
    missing::suppose_sizes(&mut volume)?;
    volume.check()?;
    Ok(volume)
}

/// The error for a component that cannot be opened; for another server that is not there, with what may help.
fn unreached<C: Leaf>(
    mut volume: Description<C>,
    layers: BTreeMap<String, toml::Table>,
    component: &str,
    error: VolumeError,
) -> VolumeError {
    if error.place != format!("{}: component.{component}.nbd", volume.file) {
        return error;
    }
    let known = layers.into_iter().filter_map(|(name, keys)| {
        let layer = layer(&volume.file, &name, keys).ok()?;
        Some((name, layer))
    });
    volume.layers = known.collect();
    missing::with_way_out(&volume, component, error)
}

fn export(keys: ExportKeys) -> Export {
    let ExportKeys { top, name, nbd, vhost, read_only, class } = keys;
    let name = name.unwrap_or_else(|| top.clone());
    Export { top, name, nbd, vhost, read_only, class: class.into() }
}

/// `over` and `bopt` belong to the tree; the remaining keys are the layer's own options.
fn layer(file: &str, name: &str, mut keys: toml::Table) -> Result<Layer, VolumeError> {
    let invalid = |key: &str, found: String, expected: String| VolumeError {
        place: format!("{file}: layer.{name}{key}"),
        found,
        expected,
    };
    let (key, is) = match keys.remove("is") {
        Some(toml::Value::String(is)) => (".is", is),
        Some(other) => return Err(invalid(".is", other.to_string(), "the name of a layer".to_owned())),
        None => ("", name.to_owned()),
    };
    let Some(entry) = registry::find(&is) else {
        let known: Vec<&str> = registry::all().map(|layer| layer.name).collect();
        return Err(invalid(
            key,
            format!("'{is}'"),
            format!("a layer: {}{}", known.join(", "), registry::perhaps(&is)),
        ));
    };
    let given: BTreeSet<String> = keys.keys().cloned().collect();
    let no_device = |key: &str, found: Option<toml::Value>, expected: &str| {
        let found = found.map_or("nothing".to_owned(), |value| value.to_string());
        invalid(&format!(".{key}"), found, expected.to_owned())
    };
    let mut pieces = |key: &str| {
        let found = keys.remove(key);
        let names = found.clone().map(|found| match found {
            toml::Value::Array(all) => all,
            one => vec![one],
        });
        let names =
            names.and_then(|all| all.into_iter().map(toml::Value::try_into).collect::<Result<_, _>>().ok());
        let expected = "the name of a component, slice or layer, or several: [\"one\", \"two\"]";
        names.filter(|all: &Vec<String>| !all.is_empty()).ok_or_else(|| no_device(key, found, expected))
    };
    let over = pieces("over")?;
    if over.len() > 1 && !entry.is_over_several() {
        let found = format!("{} devices", over.len());
        return Err(invalid(".over", found, format!("one: {is} does not lie over several")));
    }
    let mut devices = BTreeMap::new();
    for key in entry.devices {
        devices.insert((*key).to_owned(), pieces(key)?);
    }
    for key in entry.optional.iter().filter(|key| given.contains(**key)) {
        devices.insert((*key).to_owned(), pieces(key)?);
    }
    let reconfigure = if entry.reconfigures() { keys.remove("reconfigure") } else { None };
    let reconfigure = reconfigure.map(|value| {
        let schedule = value.as_str().unwrap_or_default().parse::<Schedule>();
        schedule.map_err(|expected| invalid(".reconfigure", value.to_string(), expected.to_owned()))
    });
    let reconfigure = reconfigure.transpose()?;
    for key in entry.files {
        if let Some(toml::Value::String(path)) = keys.get_mut(*key) {
            *path = existing_path(file, PathBuf::from(&*path)).display().to_string();
        }
    }
    entry.check(&keys).map_err(|Refused { key, found, expected }| {
        let expected = match nearest_quoted(&found, &expected) {
            Some(meant) if expected.matches('`').count() > 2 => format!("{expected}; perhaps `{meant}`"),
            _ => expected,
        };
        let key = if key.is_empty() { String::new() } else { format!(".{key}") };
        invalid(&key, found, expected)
    })?;
    Ok(Layer { entry, over, devices, reconfigure, options: keys })
}
