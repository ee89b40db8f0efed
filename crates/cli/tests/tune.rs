//! `seekless lab tune`: a search that ends, whatever the number of threads, and clear errors.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{file, folder, json, quietly, refused};

/// A trace that reads the same few places again and again, and writes in between.
fn trace(name: &str) -> String {
    let line = |n: u64| {
        let write = n % 3 == 0;
        let at = if write { 40_000_000 + n * n % 4_001 * 800 } else { n * 7 % 60 * 500_000 };
        format!("{}.5 ; {at} ; 8 ; {}\n", n, if write { "W" } else { "R" })
    };
    file(name, (0..4_000).map(line).collect::<String>().as_bytes())
}

#[test]
fn the_best_combination_is_found_and_drawn() {
    let trace = trace("tune.load");
    let svg = folder().join("tune.svg");
    let svg = svg.to_str().unwrap();
    let vary = ["--vary", "size=64KiB,1MiB,8MiB", "--vary", "write=through,back"];
    let base = ["lab", "tune", "--trace", &trace, "--layer", "cache"];
    let with = |more: &[&'static str]| -> Vec<&str> { [&base[..], &vary, more].concat() };
    let found = json(&with(&["--threads", "1"]));
    assert_eq!(found["parameters"][1]["values"], serde_json::json!(["through", "back"]));
    let tried = found["tried"].as_array().unwrap();
    assert_eq!(tried.len(), 6, "all of the surface");
    let least = tried.iter().map(|each| each["busy_s"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    let best = found["best"]["busy_s"].as_f64().unwrap();
    assert!(best <= least / 0.999, "{best} against {least}");
    assert!(best < found["start"]["busy_s"].as_f64().unwrap(), "{found}");
    let saved = 100.0 * (1.0 - best / found["base_busy_s"].as_f64().unwrap());
    assert!((saved - found["best"]["saved_pct"].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!(json(&with(&["--threads", "2"])), found);

    let text = quietly(&[&with(&[])[..], &["--svg", svg, "--force"]].concat());
    assert!(text.contains("Saved, per cent, by size and write:"), "{text}");
    let command = text.lines().last().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(!command.contains("--vary") && !command.contains("--svg"), "{command}");
    let compared = json(&words);
    let busy = compared["variants"][1]["busy_s"].as_f64().unwrap();
    assert!((busy - best).abs() < 1e-6, "{busy} by {command}, {best} by the search");
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
}

#[test]
fn values_that_fail_are_reported_and_others_go_on() {
    let trace = trace("tune-fails.load");
    let found = json(&["lab", "tune", "--trace", &trace, "--vary", "bopt=64MiB,900GiB"]);
    assert!(found["surface"].is_null());
    assert_eq!(found["best"]["settings"]["bopt"], "64MiB");
    assert!(found["tried"][1]["error"].as_str().unwrap().contains("900"), "{found}");
    assert!(found["lines"][0]["saved_pct"][1].is_null());
    let only = ["lab", "tune", "--trace", &trace, "--vary", "bopt=900GiB"];
    refused(&only, 1, &["the search cannot start: ", "bopt: found 900 GiB"]);
}

#[test]
fn what_is_no_search_is_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&["--layer", "cache"], "--layer: found cache without --vary, expected --vary KEY=VALUES"),
        (&["--layer", "none"], "--layer: found none without --vary"),
        (&["--vary", "bopt=x"], "--vary bopt: found 'x': "),
        (&["--vary", "tresholds=1"], "unknown field `tresholds`"),
        (&["--vary", "bopt=1GiB", "--vary", "bopt=2GiB"], "--vary: found bopt twice"),
        (&["--vary", "bopt=1GiB", "--svg", "x.svg"], "--svg: found one parameter, expected two"),
    ];
    for (more, words) in cases {
        refused(&[&["lab", "tune", "--trace", "no-such-trace"], more].concat(), 2, &[words]);
    }
}
