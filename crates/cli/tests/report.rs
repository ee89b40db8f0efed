//! `seekless trace report`: output and errors.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use std::fs;

use common::{SMALL, folder, json, quietly, seekless};

fn path(name: &str) -> String {
    folder().join(name).to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn it_tells_the_figures_of_trace_stats_and_what_it_wrote() {
    let (page, pictures) = (path("one.html"), path("pictures"));
    let message = json(&["trace", "report", SMALL, "-o", &page, "--svg", &pictures, "--intervals", "5"]);
    let mut stats = json(&["trace", "stats", SMALL, "--intervals", "5"]);
    // Only the outermost object names its schema.
    stats.as_object_mut().expect("an object").remove("schema");
    assert_eq!(message["traces"][0]["stats"], stats);
    assert_eq!(message["traces"][0]["name"], "svnserver2");
    let accesses = &message["traces"][0]["accesses"];
    assert_eq!((&accesses["requests"], &accesses["one_by_one"]), (&stats["requests"], &true.into()));
    assert_eq!(message["page"]["bytes"], fs::metadata(&page).expect("written").len());
    let written = message["pictures"].as_array().expect("a list");
    assert_eq!(written.len(), 9);
    for picture in written {
        let svg = fs::read_to_string(picture["path"].as_str().expect("a path")).expect("written");
        assert!(svg.starts_with("<svg xmlns=") && svg.len() as u64 == picture["bytes"], "{picture}");
    }
}

#[test]
fn two_traces_stand_side_by_side_and_the_same_command_gives_the_same_bytes() {
    let page = path("two.html");
    let write = || {
        quietly(&["trace", "report", SMALL, SMALL, "-o", &page, "--force"]);
        fs::read(&page).expect("written")
    };
    let first = write();
    assert!(first == write());
    let text = String::from_utf8(first).expect("text");
    assert_eq!(text.matches("<h4>").count(), 2 * 9);
}

#[test]
fn what_is_there_is_replaced_only_with_force() {
    let (page, pictures) = (path("there.html"), path("there"));
    fs::create_dir_all(&pictures).expect("a folder");
    fs::write(&page, "mine").expect("written");
    let refused = |arguments: &[&str]| {
        let ran = seekless(&[&["trace", "report", SMALL], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(ran.stderr.contains("expected none; --force overwrites it"), "{}", ran.stderr);
    };
    refused(&["-o", &page]);
    fs::write(format!("{pictures}/heat-map.svg"), "mine").expect("written");
    refused(&["-o", &path("new.html"), "--svg", &pictures]);
    assert_eq!(fs::read_to_string(&page).expect("there"), "mine");
    quietly(&["trace", "report", SMALL, "-o", &page, "--svg", &pictures, "--force"]);
    assert!(fs::read_to_string(&page).expect("there").starts_with("<!doctype html>"));
}

#[test]
fn what_makes_no_sense_is_reported_before_anything_is_read() {
    let ran = seekless(&["trace", "report", "-", "-", "-o", &path("twice.html")]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("standard input twice"), "{}", ran.stderr);
    let ran = seekless(&["trace", "report", SMALL, "-o", &path("no/such/page.html")]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("found no folder"), "{}", ran.stderr);
    assert_eq!(seekless(&["trace", "report", SMALL, SMALL, SMALL, "-o", &path("three.html")]).code, 2);
}
