//! Edits of a volume file's text: a layer is inserted above a device, or removed. Comments and order are kept.
//!
//! Invariants: only the names in the edit change; clients see the same exports, of the same names. A file without the
//! layer that was inserted and removed again differs from the first one at most by the names of its exports. Fault
//! model: a text may be anything; one that is no volume file, or has no place for the edit, is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

/// A layer to be inserted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewLayer {
    /// Name in the volume file.
    pub name: String,
    /// Kind of layer.
    pub kind: String,
    /// The device that it will lie on.
    pub over: String,
    /// Its devices, by key.
    pub devices: BTreeMap<String, Vec<String>>,
    /// New components for these, by name: files or block devices.
    pub files: BTreeMap<String, PathBuf>,
    /// Its options.
    pub options: toml::Table,
}

/// Why a text cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct EditError {
    /// Found.
    pub found: String,
    /// Expected.
    pub expected: String,
}

fn refuse<T>(found: impl Into<String>, expected: impl Into<String>) -> Result<T, EditError> {
    Err(EditError { found: found.into(), expected: expected.into() })
}

fn document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse::<DocumentMut>().or_else(|error| refuse(error.to_string().trim_end(), "a volume file in TOML"))
}

/// Names of a file's components, slices and layers.
///
/// # Errors
/// A text that is not TOML.
pub fn names(text: &str) -> Result<BTreeSet<String>, EditError> {
    let document = document(text)?;
    let of = |kind: &str| {
        let table = document.get(kind).and_then(Item::as_table_like);
        table.into_iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>())
    };
    Ok(["component", "slice", "layer"].into_iter().flat_map(of).collect())
}

/// The text with the layer: what lay on, or exported, the device below it does so with the layer.
///
/// # Errors
/// A name that is taken, or a device that nothing lies on and no export shows.
pub fn insert(text: &str, new: &NewLayer) -> Result<String, EditError> {
    let known = names(text)?;
    if let Some(taken) = [&new.name].into_iter().chain(new.files.keys()).find(|name| known.contains(*name)) {
        return refuse(format!("'{taken}', which the file has"), "another name");
    }
    let mut document = document(text)?;
    if rename(&mut document, &new.over, &new.name, true) == 0 {
        let expected = "a device that an export shows, or that a layer is over";
        return refuse(format!("'{}'", new.over), expected);
    }
    for (name, file) in &new.files {
        let Some(file) = file.to_str() else {
            return refuse(format!("{}", file.display()), "a path in UTF-8");
        };
        let mut keys = Table::new();
        keys.insert("file", Item::Value(file.into()));
        add(&mut document, "component", name, keys)?;
    }
    let mut keys = Table::new();
    if new.kind != new.name {
        keys.insert("is", Item::Value(new.kind.as_str().into()));
    }
    keys.insert("over", Item::Value(new.over.as_str().into()));
    for (key, pieces) in &new.devices {
        let value = match pieces.as_slice() {
            [one] => Value::from(one.as_str()),
            all => all.iter().map(String::as_str).collect::<Array>().into(),
        };
        keys.insert(key, Item::Value(value));
    }
    for (key, value) in &new.options {
        let value = value.to_string().parse::<Value>();
        let value = value.or_else(|error| refuse(format!("{key}: {error}"), "a value in TOML"))?;
        keys.insert(key, Item::Value(value));
    }
    add(&mut document, "layer", &new.name, keys)?;
    Ok(document.to_string())
}

/// The text without the layer, which is over `over`: what lay on it lies on that. Its `devices` are removed, as far as
/// nothing else uses them.
///
/// # Errors
/// A file without that layer.
pub fn remove(text: &str, name: &str, over: &str, devices: &[String]) -> Result<String, EditError> {
    let mut document = document(text)?;
    rename(&mut document, name, over, true);
    if !take(&mut document, "layer", name) {
        return refuse(format!("no layer.{name}"), "it in the file");
    }
    for device in devices {
        if uses(&document, device) > 0 {
            continue;
        }
        let of =
            document.get("slice").and_then(|slices| slices.get(device)).and_then(|slice| slice.get("of"));
        let of = of.and_then(Item::as_str).map(str::to_owned);
        take(&mut document, "slice", device);
        let component = of.unwrap_or_else(|| device.clone());
        if uses(&document, &component) == 0 {
            take(&mut document, "component", &component);
        }
    }
    Ok(document.to_string())
}

/// The text with another file or block device for a component.
///
/// # Errors
/// A component that is not there, or is no file.
pub fn set_file(text: &str, component: &str, file: &str) -> Result<String, EditError> {
    let mut document = document(text)?;
    let keys = document.get_mut("component").and_then(|components| components.get_mut(component));
    let Some(keys) = keys.and_then(Item::as_table_like_mut) else {
        return refuse(format!("no component.{component}"), "it in the file");
    };
    let Some(value) = keys.get_mut("file").and_then(Item::as_value_mut) else {
        return refuse(format!("component.{component} without a file"), "a file or block device");
    };
    let decor = value.decor().clone();
    *value = file.into();
    *value.decor_mut() = decor;
    Ok(document.to_string())
}

/// Adds a table to a table of tables.
fn add(document: &mut DocumentMut, kind: &str, name: &str, mut keys: Table) -> Result<(), EditError> {
    let item = document.entry(kind).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let item = match item {
        Item::Table(table) => {
            keys.decor_mut().set_prefix("\n");
            table.insert(name, Item::Table(keys));
            return Ok(());
        }
        other => other,
    };
    let Some(table) = item.as_table_like_mut() else { return refuse(kind, "a table") };
    table.insert(name, Item::Value(keys.into_inline_table().into()));
    Ok(())
}

/// Removes a table from a table of tables; whether it was there. Comments above it stay, above the next table.
fn take(document: &mut DocumentMut, kind: &str, name: &str) -> bool {
    let Some(tables) = document.get_mut(kind).and_then(Item::as_table_like_mut) else { return false };
    let Some(removed) = tables.remove(name) else { return false };
    if tables.is_empty() {
        document.remove(kind);
    }
    let Item::Table(removed) = removed else { return true };
    let comment = removed.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if comment.contains('#') {
        keep_comment(document, comment, removed.position());
    }
    true
}

/// Puts a comment above the first table behind a position, or at the end of the file.
fn keep_comment(document: &mut DocumentMut, comment: &str, position: Option<isize>) {
    let mut behind: Option<isize> = None;
    each_table(document.as_table_mut(), &mut |table| {
        let at = table.position().filter(|at| Some(*at) > position);
        behind = behind.into_iter().chain(at).min();
    });
    if behind.is_none() {
        let after = document.trailing().as_str().unwrap_or_default().to_owned();
        return document.set_trailing(format!("{comment}{after}"));
    }
    each_table(document.as_table_mut(), &mut |table| {
        if table.position() == behind {
            let after = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
            let all = format!("{comment}{after}");
            table.decor_mut().set_prefix(all);
        }
    });
}

/// Calls `each` with the tables below this one that have a heading.
fn each_table(table: &mut Table, each: &mut impl FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(inner) if inner.is_implicit() || inner.is_dotted() => each_table(inner, each),
            Item::Table(inner) => each(inner),
            Item::ArrayOfTables(all) => all.iter_mut().for_each(&mut *each),
            _ => {}
        }
    }
}

/// Replaces a device by another, where a layer is over it or an export shows it; the number of replacements. With
/// `named`, exports keep their names.
fn rename(document: &mut DocumentMut, from: &str, to: &str, named: bool) -> usize {
    let mut count = 0;
    each_export(document, &mut |export| {
        let Some(top) = export.get_mut("top").filter(|top| top.as_str() == Some(from)) else { return };
        replace(top, from, to);
        count += 1;
        if named && !export.contains_key("name") {
            export.insert("name", Item::Value(from.into()));
        }
    });
    let layers = document.get_mut("layer").and_then(Item::as_table_like_mut);
    for (_, layer) in layers.into_iter().flat_map(|layers| layers.iter_mut()) {
        let over = layer.as_table_like_mut().and_then(|layer| layer.get_mut("over"));
        count += over.map_or(0, |over| replace(over, from, to));
    }
    count
}

/// Calls `each` with every export.
fn each_export(document: &mut DocumentMut, each: &mut dyn FnMut(&mut dyn TableLike)) {
    match document.get_mut("export") {
        Some(Item::ArrayOfTables(all)) => all.iter_mut().for_each(|table| each(table)),
        Some(Item::Value(Value::Array(all))) => {
            all.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|table| each(table));
        }
        _ => {}
    }
}

/// Replaces a name in a string or an array of strings; the number of replacements.
fn replace(item: &mut Item, from: &str, to: &str) -> usize {
    let Some(value) = item.as_value_mut() else { return 0 };
    let renamed = |value: &mut Value| {
        let is = value.as_str() == Some(from);
        if is {
            let decor = value.decor().clone();
            *value = to.into();
            *value.decor_mut() = decor;
        }
        usize::from(is)
    };
    match value {
        Value::Array(all) => all.iter_mut().map(renamed).sum(),
        one => renamed(one),
    }
}

/// How often a device is named by slices, layers and exports.
fn uses(document: &DocumentMut, name: &str) -> usize {
    let mut copy = document.clone();
    let mut count = rename(&mut copy, name, "", false);
    for (kind, own) in [("slice", true), ("layer", false)] {
        let tables = copy.get_mut(kind).and_then(Item::as_table_like_mut);
        for (_, table) in tables.into_iter().flat_map(|tables| tables.iter_mut()) {
            let Some(table) = table.as_table_like_mut() else { continue };
            for (key, item) in table.iter_mut() {
                let names = if own { key.get() == "of" } else { !["is", "over"].contains(&key.get()) };
                count += if names { replace(item, name, "") } else { 0 };
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# My disk.
control = \"c\"   # the socket

[component.disk] # the large one
file = \"disk.img\"

# Clients.
[[export]]
top = \"disk\"   # nothing above it
nbd = \"unix:s\"
";

    fn borg() -> NewLayer {
        let text = |text: &str| text.to_owned();
        NewLayer {
            name: text("fast"),
            kind: text("borg"),
            over: text("disk"),
            devices: BTreeMap::from([(text("bopt"), vec![text("ssd")])]),
            files: BTreeMap::from([(text("ssd"), PathBuf::from("/dev/ssd"))]),
            options: toml::from_str("write_buffer = 0.5\nidle_after = \"9s\"").unwrap(),
        }
    }

    #[test]
    fn a_layer_is_inserted_above_what_is_exported() {
        let found = insert(FILE, &borg()).unwrap();
        let expected = "\
# My disk.
control = \"c\"   # the socket

[component.disk] # the large one
file = \"disk.img\"

[component.ssd]
file = \"/dev/ssd\"

# Clients.
[[export]]
top = \"fast\"   # nothing above it
nbd = \"unix:s\"
name = \"disk\"

[layer.fast]
is = \"borg\"
over = \"disk\"
bopt = \"ssd\"
idle_after = \"9s\"
write_buffer = 0.5
";
        assert_eq!(found, expected);
        let back = remove(&found, "fast", "disk", &["ssd".to_owned()]).unwrap();
        assert_eq!(back, FILE.replace("nbd = \"unix:s\"\n", "nbd = \"unix:s\"\nname = \"disk\"\n"));
    }

    #[test]
    fn a_layer_is_inserted_below_another_and_above_a_slice() {
        let text = "[component]\nd = { file = \"a\" }\n[slice.s]\nof = \"d\"\n# above\n[layer.scrub]\nover = \"s\" # !\n\
                    [[export]]\ntop = \"scrub\"\nname = \"x\"\n";
        let found = insert(text, &NewLayer { over: "s".to_owned(), ..borg() }).unwrap();
        assert!(found.contains("over = \"fast\" # !") && found.contains("top = \"scrub\""), "{found}");
        assert!(found.contains("ssd"), "{found}");
        assert_eq!(remove(&found, "fast", "s", &["ssd".to_owned()]).unwrap(), text);
    }

    #[test]
    fn what_others_use_and_comments_stay() {
        let text = "[component.d]\nfile = \"d\"\n# The fast one.\n[component.f]\nfile = \"f\"\n[slice.one]\nof = \"f\"\n\
                    size = \"1MiB\"\n[slice.two]\nof = \"f\"\nat = \"1MiB\"\n# BORG\n[layer.borg]\nover = \"d\"\n\
                    bopt = [\"one\"]\n[[export]]\ntop = \"borg\"\n[[export]]\ntop = \"two\"\n";
        let found = remove(text, "borg", "d", &["one".to_owned()]).unwrap();
        assert!(found.contains("[component.f]") && !found.contains("slice.one"), "{found}");
        assert!(found.contains("# BORG\n[[export]]\ntop = \"d\"\nname = \"borg\""), "{found}");
        let alone = text
            .replace("[[export]]\ntop = \"two\"\n", "")
            .replace("[slice.two]\nof = \"f\"\nat = \"1MiB\"\n", "");
        let found = remove(&alone, "borg", "d", &["one".to_owned()]).unwrap();
        assert_eq!(
            found,
            "[component.d]\nfile = \"d\"\n# The fast one.\n# BORG\n[[export]]\ntop = \"d\"\nname = \"borg\"\n"
        );
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let error = |text: &str, new: &NewLayer| insert(text, new).unwrap_err().to_string();
        assert!(error("[component", &borg()).contains("expected a volume file in TOML"));
        let taken = NewLayer { name: "disk".to_owned(), ..borg() };
        assert_eq!(error(FILE, &taken), "found 'disk', which the file has, expected another name");
        let nowhere = NewLayer { over: "ssd2".to_owned(), ..borg() };
        assert!(error(FILE, &nowhere).contains("found 'ssd2', expected a device that an export shows"));
        assert!(remove(FILE, "x", "disk", &[]).unwrap_err().to_string().contains("found no layer.x"));
    }
}
