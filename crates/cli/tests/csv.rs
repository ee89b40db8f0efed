//! CSV of the commands' tables: the numbers of the JSON, in rows.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{SMALL, json, quietly, refused};

/// The columns and the rows; no cell of these tests has a comma.
fn table(text: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    let mut lines = text.lines().map(|line| line.split(',').collect());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn a_list_of_the_json_is_a_table() {
    let text = quietly(&["lab", "hits", SMALL, "--size", "4MiB", "--csv"]);
    let (columns, rows) = table(&text);
    assert_eq!(columns[..3], ["policy", "bytes", "accesses"]);
    let all = json(&["lab", "hits", SMALL, "--size", "4MiB"]);
    let all = all.as_array().unwrap();
    assert_eq!(rows.len(), all.len());
    for (row, object) in rows.iter().zip(all) {
        for (column, cell) in columns.iter().zip(row) {
            assert_eq!(object[column].to_string().trim_matches('"'), *cell, "{column}");
        }
    }
}

#[test]
fn a_figure_and_an_inner_list_are_tables() {
    let text = quietly(&["lab", "figure", "freeblock-2", "--requests", "20", "--csv"]);
    assert!(table(&text).1.len() > 3 && !text.contains("schema"), "{text}");
    let run = ["lab", "run", "--trace", SMALL, "--layer", "none"];
    let phases = quietly(&[&run[..], &["--csv"]].concat());
    assert_eq!(table(&phases).0[..3], ["name", "first_request", "requests"]);
    let stats = quietly(&["trace", "stats", SMALL, "--csv=working_sets"]);
    assert_eq!(table(&stats).1.len(), 7, "{stats}");
}

#[test]
fn figures_of_drives_and_kinds_of_damage_are_tables() {
    let text = quietly(&["drive", "check", "seagate-st2000dm006-2", "--csv"]);
    let (columns, rows) = table(&text);
    assert!(columns.contains(&"drive") && !rows.is_empty(), "{columns:?}");
    let text = quietly(&["volume", "damage", "--list", "home.toml", "--csv"]);
    let (columns, rows) = table(&text);
    assert_eq!(columns, ["layer", "kind", "does"]);
    assert!(rows.iter().any(|row| row[..2] == ["borg", "map-both"]), "{rows:?}");
}

#[test]
fn a_list_that_is_not_there_is_refused() {
    let words = ["--csv", "'woking_sets'", "expected ", "perhaps working_sets"];
    refused(&["trace", "stats", SMALL, "--csv=woking_sets"], 2, &words);
    refused(&["trace", "stats", SMALL, "--csv", "--json"], 2, &["--csv"]);
    // Before anything runs or is read.
    let words = ["--csv", "'remedie'", "expected causes, remedies; perhaps remedies"];
    refused(&["advise", "no-such-trace", "--csv=remedie"], 2, &words);
    refused(&["lab", "hits", "no-such-trace", "--size", "4MiB", "--csv=rows"], 2, &["expected --csv alone"]);
}
