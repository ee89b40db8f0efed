//! Requests to attach a layer, and what they mean for the volume that is served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use seekless_layers::registry::{self, Entry};
use serde::{Deserialize, Serialize};

use super::error::{At, LiveError};
use super::running::Running;
use crate::edit::{self, NewLayer};

/// A request to attach a layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Name of the layer in the volume file.
    pub layer: String,
    /// Kind of layer; by default its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
    /// The device that it will lie on; by default the one that all exports show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Its devices, by key: names in the volume file, or paths of files and block devices.
    #[serde(default)]
    pub devices: BTreeMap<String, Vec<String>>,
    /// Its options.
    #[serde(default)]
    pub options: toml::Table,
    /// Whether contents of its devices are overwritten.
    #[serde(default)]
    pub replace: bool,
}

fn refuse<T>(key: &str, found: impl AsRef<str>, expected: impl AsRef<str>) -> Result<T, LiveError> {
    Err(LiveError::new(format!("attach: {key}: found {}, expected {}", found.as_ref(), expected.as_ref())))
}

/// The kind of layer, if it can be attached to a device with data.
fn kind(request: &Attach) -> Result<&'static Entry, LiveError> {
    let name = request.is.as_ref().unwrap_or(&request.layer);
    let transparent = || registry::all().filter(|entry| entry.transparent).map(|entry| entry.name);
    let known = transparent().collect::<Vec<_>>().join(", ");
    match registry::find(name) {
        Some(entry) if entry.transparent => Ok(entry),
        Some(entry) => refuse(
            "is",
            format!("{}, which formats the device below it, so that its data is lost", entry.name),
            format!(
                "one that keeps it: {known}; or a new volume with {}, and the data copied to it",
                entry.name
            ),
        ),
        None => refuse("is", format!("'{name}'"), format!("a layer: {known}{}", registry::perhaps(name))),
    }
}

/// The layer as it will be in the volume file.
pub(super) fn new_layer(running: &Running, request: Attach) -> Result<NewLayer, LiveError> {
    let entry = kind(&request)?;
    let over = over(running, request.over)?;
    let known = edit::names(&running.text.borrow()).at(|| running.file.display())?;
    if request.layer.is_empty() || known.contains(&request.layer) {
        return refuse("layer", format!("'{}'", request.layer), "a name that the volume file has not yet");
    }
    if let Some(key) = request.devices.keys().find(|key| !entry.devices.contains(&key.as_str())) {
        let expected = if entry.devices.is_empty() { "none".to_owned() } else { entry.devices.join(" or ") };
        return refuse("devices", format!("'{key}'"), expected);
    }
    let (mut devices, mut files) = (BTreeMap::new(), BTreeMap::new());
    for key in entry.devices {
        let found = request.devices.get(*key).filter(|found| !found.is_empty());
        let Some(found) = found else {
            let expected =
                format!("a file, a block device or a name: {key}=/dev/disk/by-id/... or {key}=FILE");
            return refuse(&format!("devices.{key}"), "nothing", expected);
        };
        let names = found.iter().map(|device| name_of(device, &known, &mut files));
        devices.insert((*key).to_owned(), names.collect::<Vec<_>>());
    }
    if let Some(options) = request.options.keys().find(|key| *key == "over" || *key == "is") {
        return refuse("options", format!("'{options}'"), "options of the layer");
    }
    let (name, kind, options) = (request.layer, entry.name.to_owned(), request.options);
    Ok(NewLayer { name, kind, over, devices, files, options })
}

/// The device to attach above.
fn over(running: &Running, requested: Option<String>) -> Result<String, LiveError> {
    let seams = running.seams.borrow();
    let known = || seams.switches.keys().map(String::as_str).collect::<Vec<_>>().join(" or ");
    let over = requested.or_else(|| {
        let description = running.description.borrow();
        let tops: BTreeSet<&String> = description.exports.iter().map(|export| &export.top).collect();
        tops.first().filter(|_| tops.len() == 1).map(|top| (*top).clone())
    });
    let Some(over) = over else { return refuse("over", "nothing, and exports of several devices", known()) };
    if !seams.switches.contains_key(&over) {
        return refuse("over", format!("'{over}'"), known());
    }
    Ok(over)
}

/// The name of a device: in the volume file, or of a new component for this file.
fn name_of(device: &str, known: &BTreeSet<String>, files: &mut BTreeMap<String, PathBuf>) -> String {
    if known.contains(device) {
        return device.to_owned();
    }
    let stem = Path::new(device).file_stem().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let stem: String = stem.chars().map(plain).collect();
    let numbered = (1..).map(|number| if number == 1 { stem.clone() } else { format!("{stem}-{number}") });
    let mut free =
        numbered.filter(|name| !name.is_empty() && !known.contains(name) && !files.contains_key(name));
    let name = free.next().unwrap_or_default();
    files.insert(name.clone(), PathBuf::from(device));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_component_with_a_name_of_its_own() {
        let known = BTreeSet::from(["disk".to_owned()]);
        let mut files = BTreeMap::new();
        let mut name = |device| name_of(device, &known, &mut files);
        assert_eq!(
            (name("disk"), name("/a/disk.img"), name("b/disk")),
            ("disk".into(), "disk-2".into(), "disk-3".into())
        );
        assert_eq!((name("/dev/ä b"), name("/")), ("--b".into(), "-2".into()));
        assert_eq!(files["disk-2"], Path::new("/a/disk.img"));
    }

    #[test]
    fn layers_that_format_are_refused() {
        let error =
            kind(&Attach { layer: "mapper".to_owned(), ..Attach::default() }).unwrap_err().to_string();
        assert!(error.contains("its data is lost") && error.contains("cache"), "{error}");
        let named = Attach { layer: "mine".to_owned(), is: Some("borg".to_owned()), ..Attach::default() };
        assert_eq!(kind(&named).unwrap().name, "borg");
        assert!(kind(&Attach { layer: "x".to_owned(), ..Attach::default() }).is_err());
    }
}
