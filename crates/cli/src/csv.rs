//! A list of a command's JSON as CSV (RFC 4180): a row per object, a column per key, keys of inner objects as
//! `outer.inner`. Inner lists of numbers or words are a column, other ones are left out: each is a list of its own,
//! such as `variants.phases`.
//!
//! Invariant: columns are in the order of the JSON's keys, which is that of the structs.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::lists;

/// A value of JSON, whose objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// As text; empty for null.
    Scalar(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A row: columns and their values.
type Row = Vec<(String, String)>;

/// The list of this name in JSON text; `usual` if the name is empty. If that is empty too, the outermost value is a
/// list, or a row. Each row begins with the columns of `begin`.
pub fn of(json: &str, name: &str, usual: &str, begin: &[(&str, String)]) -> anyhow::Result<String> {
    let node: Node = serde_json::from_str(json)?;
    let mut known = BTreeSet::new();
    names(&node, "", &mut known);
    let wanted = if name.is_empty() { usual } else { name };
    if !wanted.is_empty() && !known.contains(wanted) {
        return Err(lists::unknown(wanted, &known).into());
    }
    let mut rows = Vec::new();
    let path: Vec<&str> = wanted.split('.').filter(|key| !key.is_empty()).collect();
    let begin: Row = begin.iter().map(|(column, value)| ((*column).to_owned(), value.clone())).collect();
    collect(&node, &path, "", &begin, &mut rows);
    Ok(text(&rows))
}

/// Names of all lists of objects in a value.
fn names(node: &Node, path: &str, found: &mut BTreeSet<String>) {
    match node {
        Node::Scalar(_) => (),
        Node::List(all) => {
            if !all.is_empty() && all.iter().all(|each| matches!(each, Node::Object(_))) {
                found.insert(path.to_owned());
            }
            for each in all {
                names(each, path, found);
            }
        }
        Node::Object(keys) => keys.iter().for_each(|(key, inner)| names(inner, &joined(path, key), found)),
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Adds the rows of the list at `path`. Rows of a list within a list begin with the names of what they belong to.
fn collect(node: &Node, path: &[&str], at: &str, begin: &Row, rows: &mut Vec<Row>) {
    match (node, path) {
        (Node::List(all), []) => rows.extend(all.iter().map(|each| {
            let mut row = begin.clone();
            flatten(each, "", &mut row);
            row
        })),
        (Node::Object(_), []) => {
            let mut row = begin.clone();
            flatten(node, "", &mut row);
            rows.push(row);
        }
        (Node::List(all), _) => {
            for (number, each) in all.iter().enumerate() {
                let begin = [begin.clone(), vec![(at.to_owned(), name_of(each, number))]].concat();
                collect(each, path, at, &begin, rows);
            }
        }
        (Node::Object(keys), [first, rest @ ..]) => {
            for (_, inner) in keys.iter().filter(|(key, _)| key == first) {
                collect(inner, rest, &joined(at, first), begin, rows);
            }
        }
        _ => (),
    }
}

/// What names an object: its first text, but for that of the schema, or its number.
fn name_of(node: &Node, number: usize) -> String {
    let Node::Object(keys) = node else { return number.to_string() };
    let first = keys.iter().find(|(key, _)| key != "schema");
    match first {
        Some((_, Node::Scalar(name))) => name.clone(),
        _ => number.to_string(),
    }
}

fn flatten(node: &Node, path: &str, row: &mut Row) {
    match node {
        // Only the same text in each row.
        Node::Scalar(_) if path == "schema" => (),
        Node::Scalar(text) => row.push((path.to_owned(), text.clone())),
        Node::Object(keys) => keys.iter().for_each(|(key, inner)| flatten(inner, &joined(path, key), row)),
        Node::List(all) => {
            let each: Vec<&str> = all.iter().filter_map(scalar).collect();
            if each.len() == all.len() {
                row.push((path.to_owned(), each.join("; ")));
            }
        }
    }
}

fn scalar(node: &Node) -> Option<&str> {
    if let Node::Scalar(text) = node { Some(text) } else { None }
}

fn text(rows: &[Row]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in rows.iter().flatten() {
        if !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut out = line(columns.iter().map(|column| quoted(column)).collect());
    for row in rows {
        let cell = |column: &&str| {
            row.iter().find(|(name, _)| name == column).map_or_else(String::new, |(_, value)| quoted(value))
        };
        out += &line(columns.iter().map(cell).collect());
    }
    out
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(String::new()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(serde_json::Value::from(value).to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(each) = all.next_element()? {
            list.push(each);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut keys = Vec::new();
        while let Some(entry) = all.next_entry()? {
            keys.push(entry);
        }
        Ok(Node::Object(keys))
    }
}

#[cfg(test)]
mod tests {
    fn of(json: &str, name: &str, usual: &str) -> anyhow::Result<String> {
        super::of(json, name, usual, &[])
    }

    #[test]
    fn rows_of_a_sample_begin_with_its_time() {
        let time = [("up_s", "3.5".to_owned())];
        let text = super::of(r#"{"rows":[{"x":1},{"x":2}]}"#, "", "rows", &time).unwrap();
        assert_eq!(text, "up_s,x\n3.5,1\n3.5,2\n");
    }

    const JSON: &str = r#"{"schema":"seekless/x/1","b":[{"name":"q","z":1.5,"in":{"a":null,"c":"x, \"y\""},"p":[{"n":1},{"n":2,"m":true}]},
        {"name":"r","z":2,"p":[{"n":3}]}],"empty":[],"numbers":[1,2]}"#;

    #[test]
    fn rows_keep_the_order_of_keys_and_quote_what_has_to_be() {
        assert_eq!(of(JSON, "", "b").unwrap(), "name,z,in.a,in.c\nq,1.5,,\"x, \"\"y\"\"\"\nr,2,,\n");
        assert_eq!(of(r#"[{"schema":"s","x":1},{"x":2}]"#, "", "").unwrap(), "x\n1\n2\n");
    }

    #[test]
    fn an_object_without_a_list_is_a_row() {
        assert_eq!(of(r#"{"schema":"s","x":[1,2],"y":true,"z":[[1]]}"#, "", "").unwrap(), "x,y\n1; 2,true\n");
    }

    #[test]
    fn a_list_within_a_list_says_whose_it_is() {
        assert_eq!(of(JSON, "b.p", "b").unwrap(), "b,n,m\nq,1,\nq,2,true\nr,3,\n");
    }

    #[test]
    fn an_unknown_list_is_refused_with_those_that_exist() {
        let error = of(JSON, "b.q", "b").unwrap_err().to_string();
        assert_eq!(error, "--csv: found the list 'b.q', expected b, b.p; perhaps b.p");
    }
}
