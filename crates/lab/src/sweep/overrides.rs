//! Values set in the text of a volume file.

use seekless_core::names::perhaps;
use toml::{Table, Value};

/// What was found, and what was expected, at a key that cannot be set.
pub type Refused = (String, String);

/// Sets the key at `path`; the table that holds it must be in the file.
pub fn set(volume: &mut Table, path: &[String], value: Value) -> Result<(), Refused> {
    let Some((key, tables)) = path.split_last() else { return Ok(()) };
    let mut table = volume;
    for (depth, name) in tables.iter().enumerate() {
        let known: Vec<String> = table.keys().cloned().collect();
        let Some(Value::Table(inner)) = table.get_mut(name) else {
            let perhaps = perhaps(name, known.iter().map(String::as_str));
            let expected = format!("one of: {}{perhaps}", known.join(", "));
            return Err((format!("no {}", tables[..=depth].join(".")), expected));
        };
        table = inner;
    }
    if tables.is_empty() {
        return Err((format!("'{key}'"), "a key of a component, slice or layer: layer.NAME.KEY".to_owned()));
    }
    table.insert(key.clone(), value);
    Ok(())
}

/// Sets the drive of the only component.
pub fn set_drive(volume: &mut Table, drive: Value) -> Result<(), Refused> {
    let mut components: Vec<&mut Table> = components(volume).collect();
    let [component] = components.as_mut_slice() else {
        let expected = "one; with several, options.component.NAME.drive".to_owned();
        return Err((format!("{} components", components.len()), expected));
    };
    let key = if component.contains_key("emulate") { "emulate" } else { "drive" };
    component.insert(key.to_owned(), drive);
    Ok(())
}

/// The drives that a volume file names.
pub fn drives(volume: &mut Table) -> Vec<String> {
    let keys = ["drive", "emulate", "model"];
    let named = components(volume)
        .flat_map(|component| keys.map(|key| component.get(key)?.as_str().map(str::to_owned)));
    named.flatten().filter(|name| name != "none").collect()
}

fn components(volume: &mut Table) -> impl Iterator<Item = &mut Table> {
    let tables = volume.get_mut("component").and_then(Value::as_table_mut);
    tables
        .into_iter()
        .flat_map(|tables| tables.iter_mut().filter_map(|(_, component)| component.as_table_mut()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn keys_are_set_in_tables_that_are_there() {
        let mut volume = table("[component.d]\ndrive = 'a'\n[layer.cache]\nover = 'd'\n");
        set(&mut volume, &path("layer.cache.size"), "1MiB".into()).unwrap();
        set_drive(&mut volume, "b".into()).unwrap();
        assert_eq!(volume, table("[component.d]\ndrive = 'b'\n[layer.cache]\nover = 'd'\nsize = '1MiB'\n"));
        assert_eq!(drives(&mut volume), ["b"]);
        let error = set(&mut volume, &path("layer.cash.size"), "1MiB".into()).unwrap_err();
        assert_eq!(error, ("no layer.cash".to_owned(), "one of: cache; perhaps cache".to_owned()));
        assert!(set(&mut volume, &path("layer.cache.over.x"), 1.into()).is_err());
        assert!(set(&mut volume, &path("clients"), 1.into()).is_err());
    }

    #[test]
    fn a_drive_is_set_where_there_is_one() {
        let mut two =
            table("[component]\na = { drive = 'x' }\nb = { ram = '1MiB', emulate = 'y', model = 'z' }\n");
        assert_eq!(set_drive(&mut two, "b".into()).unwrap_err().0, "2 components");
        assert_eq!(drives(&mut two), ["x", "y", "z"]);
        let mut emulated = table("[component]\nb = { ram = '1MiB', emulate = 'y' }\n");
        set_drive(&mut emulated, "w".into()).unwrap();
        assert_eq!(emulated, table("[component]\nb = { ram = '1MiB', emulate = 'w' }\n"));
    }
}
