//! `seekless lab explore`: output for a sound volume, a lost write, unreadable files.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{file, folder, json, quietly, seekless};

/// Enough pages for a map of two sectors, which can be torn, and six slots more.
const MAPPER: &str = "\
[component.disk]
drive = \"wd2500aaks\"
[slice.small]
of = \"disk\"
size = \"544KiB\"
[layer.mapper]
over = \"small\"
size = \"512KiB\"
[[export]]
top = \"mapper\"
";

/// Loses the second write, and reports success.
const LOSING: &str = "\
[component.disk]
drive = \"wd2500aaks\"
[slice.small]
of = \"disk\"
size = \"512KiB\"
[layer.lose]
over = \"small\"
nth = 2
[[export]]
top = \"lose\"
";

/// Enough for every edge of the mapper, and short enough for a test.
const SHORT: [&str; 8] =
    ["--states", "2000", "--requests", "200", "--fault-requests", "50", "--plain-runs", "5"];

#[test]
fn a_sound_volume_is_reported_in_figures() {
    let volume = file("mapper.toml", MAPPER.as_bytes());
    let run = [&["lab", "explore", &volume], &SHORT[..]].concat();
    let message = json(&run);
    for key in [
        "states",
        "metadata_states",
        "judged",
        "read_whole",
        "sectors_judged",
        "moments",
        "runs",
        "fault_runs",
        "fault_most_requests",
        "fault_errors",
        "longest_answer_ms",
        "longest_answer_with_faults_ms",
        "cpu_s",
        "states_per_cpu_s",
    ] {
        assert!(message[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {message}");
    }
    for key in ["finding", "reduced", "script"] {
        assert!(message[key].is_null(), "{key}: {message}");
    }
    let number = |key: &str| message[key].as_u64().unwrap();
    let depths = message["states_by_depth"].as_array().unwrap();
    assert_eq!(depths.len(), 3);
    assert_eq!(depths.iter().filter_map(serde_json::Value::as_u64).sum::<u64>(), number("states"));
    assert!(
        number("metadata_states") <= number("states") && number("states") <= number("judged"),
        "{message}"
    );
    assert!(number("states") >= 2_000, "{message}");
    assert_eq!((&message["seed"], &message["workload"]), (&1.into(), &"churn".into()));
    assert_eq!(message["unreached"], serde_json::json!([]));
    assert!(message["edges"]["a torn copy of the map: the other counts"].as_u64() > Some(0), "{message}");
    let pct: f64 =
        message["time_pct"].as_object().unwrap().values().filter_map(serde_json::Value::as_f64).sum();
    assert!((pct - 100.0).abs() < 1.0, "{pct} %");
    let text = quietly(&run);
    assert!(
        text.contains("crash states, all different") && text.ends_with("no violation was found\n"),
        "{text}"
    );
}

#[test]
fn small_workloads_are_looked_at_all_of_them() {
    let volume = file("all.toml", MAPPER.as_bytes());
    let message = json(&["lab", "explore", &volume, "--all", "1"]);
    // A flush, and six requests to each of two pages; every set of the eight sectors of a page.
    assert_eq!((&message["runs"], &message["states_by_depth"].as_array().unwrap().len()), (&13.into(), &1));
    assert!(message["states"].as_u64().unwrap() > 2 * 255, "{message}");
    assert!(message["unreached"].as_array().is_some_and(|edges| !edges.is_empty()), "{message}");
    assert_eq!(message["workload"], "all workloads of up to 1 requests");
}

#[test]
fn what_is_lost_is_reported_reduced_and_kept() {
    let volume = file("losing.toml", LOSING.as_bytes());
    let (script, seen) = (folder().join("lost.script"), folder().join("lost.history"));
    let (script, seen) = (script.to_str().unwrap(), seen.to_str().unwrap());
    let kept = ["--save", script, "--history", seen];
    let ran = seekless(&[&["lab", "explore", &volume], &SHORT[..], &kept].concat());
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.ends_with("error: a promise is broken, see above\n"), "{}", ran.stderr);
    let text = std::fs::read_to_string(script).unwrap();
    assert!(ran.stdout.contains("\nfound: sector ") && ran.stdout.ends_with(&text), "{}", ran.stdout);
    // A few requests of two hundred.
    assert!(
        text.starts_with("seekless crash 1\nrun clients 1 seed ") && text.lines().count() <= 20,
        "{text}"
    );
    let judged = seekless(&["lab", "judge", seen]);
    assert!(judged.code == 3 && judged.stderr.contains("sector "), "{}", judged.stderr);
    let again = seekless(&["lab", "explore", &volume, "--script", script, "--json"]);
    let message: serde_json::Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!((again.code, &message["runs"], &message["script"]), (3, &1.into(), &script.into()));
    assert!(message["finding"].as_str().unwrap().starts_with("sector "), "{message}");
    // A volume that loses nothing has no finding.
    let sound = file("sound.toml", MAPPER.as_bytes());
    let text = quietly(&["lab", "explore", &sound, "--script", script]);
    assert_eq!(text, format!("{script}: no violation was found\n"));
}

#[test]
fn a_script_that_cannot_be_read_is_reported_with_its_line() {
    let volume = file("script.toml", MAPPER.as_bytes());
    let cases = [
        ("", "line 1: found '', expected seekless crash 1"),
        ("seekless crash 1\nflush\n", "line 2: found 'flush', expected run clients N seed N"),
        (
            "seekless crash 1\nrun clients 1 seed 1\n\nwirte 0+8\n",
            "line 4: found 'wirte 0+8', expected read, write, ",
        ),
    ];
    for (text, expected) in cases {
        let bad = file("bad.script", text.as_bytes());
        let ran = seekless(&["lab", "explore", &volume, "--script", &bad]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.contains("bad.script: ") && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_explored_is_refused() {
    let volume = file("refused.toml", MAPPER.as_bytes());
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--all", "9"], 2, "'9' for '--all <REQUESTS>'"),
        (&["--states", "0"], 2, "'--states <N>'"),
        (&["--depth", "0"], 2, "'--depth <N>'"),
        (&["--clients", "0"], 2, "'--clients <N>'"),
        (&["--all", "1", "--states", "3"], 2, "cannot be used with"),
        (&["--script", "x", "--seed", "3"], 2, "cannot be used with"),
        (&["--workload", "crhun"], 2, "found 'crhun', expected one of: "),
        (&["--workload", "random:size=1MiB"], 2, "expected"),
        (&["--save", "/nonexistent/lost.script"], 1, "found no folder /nonexistent, expected one"),
    ];
    for (arguments, code, expected) in cases {
        let ran = seekless(&[&["lab", "explore", &volume], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
    let ran = seekless(&["lab", "explore", "/nonexistent.toml"]);
    assert!(ran.code == 1 && ran.stderr.contains("/nonexistent.toml: found No such file"), "{}", ran.stderr);
    let help = quietly(&["lab", "explore", "--help"]);
    assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
}

/// Without a slice a volume has a whole drive, whose first state takes minutes.
#[test]
fn a_volume_that_is_too_large_is_warned_of() {
    let large = "[component.disk]\ndrive = \"wd2500aaks\"\n[layer.mapper]\nover = \"disk\"\nsize = \"1GiB\"\n\
                 [[export]]\ntop = \"mapper\"\n";
    for (text, warned) in [(large, true), (MAPPER, false)] {
        let ran = seekless(&["lab", "explore", &file("large.toml", text.as_bytes()), "--workload", "crhun"]);
        assert_eq!(
            ran.stderr.contains("found a device of 232.89 GiB, expected at most 1 GiB"),
            warned,
            "{}",
            ran.stderr
        );
    }
}

/// Few states reach few edges, which is not a success.
#[test]
fn an_edge_that_was_not_reached_is_a_failure() {
    let volume = file("edges.toml", MAPPER.as_bytes());
    let few = ["--states", "1", "--requests", "2", "--fault-requests", "0", "--plain-runs", "0"];
    let junit = folder().join("edges.xml");
    let ran =
        seekless(&[&["lab", "explore", &volume, "--junit", junit.to_str().unwrap()], &few[..]].concat());
    assert_eq!(ran.code, 1);
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("name=\"promises\"/>") && xml.contains("<failure message=\"never reached\">"),
        "{xml}"
    );
    assert!(
        ran.stdout.contains("mapper: a page moves while the map is written") && ran.stdout.contains("never"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("found edges that were never reached"), "{}", ran.stderr);
}
