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
    let message = json(&[
        "trace",
        "report",
        SMALL,
        "-o",
        &page,
        "--svg",
        &pictures,
        "--intervals",
        "5",
        "--verdict",
        "never",
    ]);
    let mut stats = json(&["trace", "stats", SMALL, "--intervals", "5"]);
    // Only the outermost object names its schema.
    stats.as_object_mut().expect("an object").remove("schema");
    assert_eq!(message["traces"][0]["stats"], stats);
    assert_eq!(message["traces"][0]["name"], "svnserver2");
    let accesses = &message["traces"][0]["accesses"];
    assert_eq!((&accesses["requests"], &accesses["one_by_one"]), (&stats["requests"], &true.into()));
    assert_eq!(message["page"]["bytes"], fs::metadata(&page).expect("written").len());
    let written = message["pictures"].as_array().expect("a list");
    assert_eq!(written.len(), 13);
    for picture in written {
        let svg = fs::read_to_string(picture["path"].as_str().expect("a path")).expect("written");
        assert!(svg.starts_with("<svg xmlns=") && svg.len() as u64 == picture["bytes"], "{picture}");
    }
}

#[test]
fn two_traces_stand_side_by_side_and_the_same_command_gives_the_same_bytes() {
    let page = path("two.html");
    let write = || {
        quietly(&["trace", "report", SMALL, SMALL, "-o", &page, "--force", "--verdict", "never"]);
        fs::read(&page).expect("written")
    };
    let first = write();
    assert!(first == write());
    let text = String::from_utf8(first).expect("text");
    assert_eq!(text.matches("<h4>").count(), 2 * 13);
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
    quietly(&["trace", "report", SMALL, "-o", &page, "--svg", &pictures, "--force", "--verdict", "never"]);
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

/// A few thousand requests, with a queue in which their order matters.
fn queue() -> String {
    let lines: Vec<String> = (0..2_000_u64)
        .map(|n| format!("{} ; {} ; 8 ; R\n", n as f64 / 1_000.0, n * 48_271 % 65_537 * 6_000))
        .collect();
    common::file("queue.load", lines.concat().as_bytes())
}

#[test]
fn both_reports_begin_with_what_advise_says() {
    let queue = queue();
    let ran = seekless(&["advise", &queue, "--json"]);
    let advice = common::schemas::parsed(&ran.stdout);
    let verdict = advice["verdict"].as_str().expect("a sentence");
    assert!(verdict.starts_with("Worth it"), "{verdict}");
    let pages = [path("verdict.html"), path("verdict-compared.html")];
    quietly(&["trace", "report", &queue, "-o", &pages[0]]);
    let compare = ["lab", "compare", "--trace", &queue, "--bopt", "64MiB", "--reconfigure", "2", "--report"];
    let ran = seekless(&[&compare[..], &[&pages[1]]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for page in pages {
        let text = fs::read_to_string(&page).expect("written");
        let head = text.split("</header>").next().unwrap_or_default();
        assert!(
            head.contains(&format!("<p class=\"sentence\">{}</p>", verdict.replace('\'', "&#39;"))),
            "{page}"
        );
        for remedy in advice["remedies"].as_array().expect("a list") {
            let name = remedy["name"].as_str().expect("a name");
            assert!(head.contains(&format!("<th scope=row>{name}</th>")), "{page}: {name}");
        }
    }
}

#[test]
fn a_page_says_how_to_get_the_verdict_that_it_lacks() {
    let lines: Vec<String> = (0..50_001_u64).map(|n| format!("{n} ; {} ; 8 ; R\n", n % 977 * 8)).collect();
    let long = common::file("long.load", lines.concat().as_bytes());
    let page = path("long.html");
    quietly(&["trace", "report", &long, "-o", &page]);
    let text = fs::read_to_string(&page).expect("written");
    assert!(text.contains("all 50,001 requests") && text.contains("seekless advise"), "{page}");
    quietly(&["trace", "report", &long, "-o", &page, "--force", "--verdict", "never"]);
    assert!(!fs::read_to_string(&page).expect("written").contains("Would anything help"));
    let alone = ["lab", "compare", "--trace", SMALL, "--verdict", "always"];
    common::refused(&alone, 2, &["--verdict: found no --report"]);
}
