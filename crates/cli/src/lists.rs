//! The lists of a command's JSON that `--csv` may name: known from the schemas, so that a name that is none is refused
//! before the command runs.
//!
//! A command that prints several kinds of objects has the lists of all of them. What the options of a run make of the
//! JSON is only known afterwards: `csv` then refuses a list that it has not.

use std::collections::BTreeSet;

use clap::ArgMatches;
use seekless_core::names::{nearest, perhaps};
use serde_json::{Map, Value};

use crate::{Usage, schema};

/// Stands for any name in a path: the keys of a map are not in its schema.
const ANY: &str = "*";

/// Refuses a list of `--csv` that the command of these arguments never prints.
pub fn check(arguments: &ArgMatches) -> anyhow::Result<()> {
    let (mut path, mut inner) = (Vec::new(), arguments);
    while let Some((name, its)) = inner.subcommand() {
        path.push(name);
        inner = its;
    }
    match inner.try_get_one::<String>("csv") {
        Ok(Some(name)) => refuse(&path.join(" "), name),
        _ => Ok(()),
    }
}

/// An error if the command has no list of this name, which is empty for its usual one.
fn refuse(command: &str, name: &str) -> anyhow::Result<()> {
    let known = of(command);
    let fits = |list: &String| match list.split_once(ANY) {
        Some((before, _)) => name.starts_with(before),
        None => list == name,
    };
    if name.is_empty() || known.iter().any(fits) {
        return Ok(());
    }
    Err(unknown(name, &known).into())
}

/// The error of a list that is none of these.
pub fn unknown(name: &str, known: &BTreeSet<String>) -> Usage {
    // The last part of a path is what is remembered.
    let last = |list: &String| nearest(name, [list.rsplit('.').next().unwrap_or_default()]).is_some();
    let perhaps = match perhaps(name, known.iter().map(String::as_str)) {
        none if none.is_empty() => {
            known.iter().find(|list| last(list)).map_or(none, |list| format!("; perhaps {list}"))
        }
        found => found,
    };
    let named: Vec<&str> = known.iter().map(String::as_str).filter(|list| !list.is_empty()).collect();
    let expected = if named.is_empty() { "--csv alone".to_owned() } else { named.join(", ") };
    Usage(format!("--csv: found the list '{name}', expected {expected}{perhaps}"))
}

/// Names of the lists of objects in the JSON of a command such as `lab compare`.
fn of(command: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for schema in schemas(command) {
        Lists { root: &schema, within: Vec::new(), found: &mut found }.of(&schema, "");
    }
    found
}

/// The schemas of a command; those of `lab sweep` for `lab sweep merge`, which prints what that prints.
fn schemas(command: &str) -> Vec<Value> {
    let all: Vec<Value> = schema::of_command(command).collect();
    match command.rsplit_once(' ') {
        Some((outer, _)) if all.is_empty() => schemas(outer),
        _ => all,
    }
}

/// A walk through a schema.
struct Lists<'a> {
    root: &'a Value,
    /// References that are being followed: a type may contain itself.
    within: Vec<String>,
    found: &'a mut BTreeSet<String>,
}

impl Lists<'_> {
    fn of(&mut self, schema: &Value, path: &str) {
        let Value::Object(keys) = schema else { return };
        for alternatives in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| keys.get(*key)) {
            alternatives.as_array().into_iter().flatten().for_each(|one| self.of(one, path));
        }
        if let Some(Value::String(place)) = keys.get("$ref") {
            self.follow(place, path);
        }
        if let Some(items) = keys.get("items") {
            if self.is_object(items) {
                self.found.insert(path.to_owned());
            }
            self.of(items, path);
        }
        let properties = keys.get("properties").and_then(Value::as_object);
        for (key, inner) in properties.into_iter().flatten().filter(|(key, _)| *key != "schema") {
            self.of(inner, &joined(path, key));
        }
        // A value of any kind may be a list.
        match keys.get("additionalProperties") {
            Some(Value::Bool(true)) => drop(self.found.insert(joined(path, ANY))),
            Some(inner @ Value::Object(_)) => self.of(inner, &joined(path, ANY)),
            _ => (),
        }
    }

    fn follow(&mut self, place: &str, path: &str) {
        if self.within.iter().any(|one| one == place) {
            return;
        }
        if let Some(inner) = self.at(place).cloned() {
            self.within.push(place.to_owned());
            self.of(&inner, path);
            self.within.pop();
        }
    }

    fn at(&self, place: &str) -> Option<&Value> {
        self.root.pointer(place.strip_prefix('#')?)
    }

    /// Whether a value of this schema may be an object.
    fn is_object(&self, schema: &Value) -> bool {
        let Value::Object(keys) = schema else { return true };
        let of = |key: &str| keys.get(key).and_then(Value::as_array).into_iter().flatten();
        let referred = keys.get("$ref").and_then(Value::as_str).and_then(|place| self.at(place));
        is_type_object(keys)
            || referred.is_some_and(|inner| self.is_object(inner))
            || ["anyOf", "oneOf", "allOf"].iter().any(|key| of(key).any(|one| self.is_object(one)))
    }
}

fn is_type_object(keys: &Map<String, Value>) -> bool {
    match keys.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
        None => keys.contains_key("properties"),
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::help;

    fn with_csv(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.get_arguments().any(|arg| arg.get_id() == "csv") {
            found.push(path.to_owned());
        }
        for inner in command.get_subcommands() {
            with_csv(inner, joined(path, inner.get_name()).replace('.', " ").trim(), found);
        }
    }

    #[test]
    fn every_command_with_csv_has_a_schema() {
        let mut commands = Vec::new();
        with_csv(&help::command(), "", &mut commands);
        assert!(commands.len() > 20, "{commands:?}");
        for command in commands {
            assert!(!schemas(&command).is_empty(), "{command}");
        }
    }

    #[test]
    fn lists_are_those_of_the_schemas() {
        let lists = of("advise");
        assert_eq!(lists.iter().map(String::as_str).collect::<Vec<_>>(), ["causes", "remedies"]);
        assert!(refuse("trace stats", "working_sets").is_ok() && refuse("trace stats", "volumes").is_ok());
        assert!(refuse("lab compare", "variants.phases").is_ok());
        let error = refuse("advise", "remedie").unwrap_err().to_string();
        assert_eq!(error, "--csv: found the list 'remedie', expected causes, remedies; perhaps remedies");
        assert!(refuse("lab sweep merge", "best").is_ok());
        let error = refuse("lab judge", "x").unwrap_err();
        assert!(error.is::<Usage>(), "{error}");
    }

    #[test]
    fn a_map_has_lists_of_any_name() {
        let schema = serde_json::json!({ "properties": {
            "map": { "additionalProperties": { "type": "array", "items": { "$ref": "#/$defs/one" } } },
            "numbers": { "type": "array", "items": { "type": "integer" } },
        }, "$defs": { "one": { "properties": { "again": { "$ref": "#/$defs/one" } } } } });
        let mut found = BTreeSet::new();
        Lists { root: &schema, within: Vec::new(), found: &mut found }.of(&schema, "");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["map.*"]);
    }
}
