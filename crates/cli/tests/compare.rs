//! Comparisons of any volumes on the command line: names of layers, volume files, one volume alone, errors.

mod common;

use serde_json::Value;

use common::{SMALL, file, folder, json, quietly, refused, seekless};

const STACK: &str = "\
[component.disk]
drive = \"wd2500aaks\"
[slice.home]
of = \"disk\"
size = \"20GiB\"
[slice.bopt]
of = \"disk\"
at = \"20GiB\"
size = \"256MiB\"
[layer.borg]
over = \"home\"
bopt = \"bopt\"
rehearse = false
[layer.cache]
over = \"borg\"
size = \"1MiB\"
[[export]]
top = \"cache\"
";

const PLAIN: &str = "[component.disk]\ndrive = \"wd2500aaks\"\n[[export]]\ntop = \"disk\"\n";

#[test]
fn layers_are_compared_by_their_names() {
    let list = ["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--layer", "none,cache,borg"];
    let list = [&list[..], &["--option", "cache.size=1MiB", "--option", "borg.rehearse=false"]].concat();
    let compared = json(&list);
    let names: Vec<&str> =
        compared["variants"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "cache", "borg"]);
    // A variant's results are those of a comparison of it alone.
    let alone =
        json(&["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--option", "rehearse=false"]);
    for key in ["event_hash", "reduction_pct", "net_reduction_pct", "response_ms"] {
        assert_eq!(compared["variants"][2][key], alone["variants"][1][key], "{key}");
    }
    assert_eq!(compared["variants"][0]["event_hash"], alone["variants"][0]["event_hash"]);
    let cache = &compared["variants"][1];
    assert_eq!(cache["layers"]["cache"]["pages_held"].as_u64().map(|held| held <= 256), Some(true));
    for op in ["all", "reads", "writes"] {
        for key in ["requests", "mean", "p50", "p90", "p99", "p999", "longest"] {
            assert!(cache["response_ms"][op][key].as_f64().is_some_and(|value| value >= 0.0), "{op}.{key}");
        }
    }
    let text = quietly(&list);
    assert!(text.contains("99.9 %") && text.contains("none") && text.contains("cache"), "{text}");
    for (options, words) in [
        (&["--layer", "none,cash"][..], &["'cash'", "cache", "volume file"][..]),
        (&["--layer", "cache,cache"], &["cache twice"]),
        (&["--layer", "cache,borg", "--option", "size=1MiB"], &["found size", "cache.size"]),
        (&["--layer", "cache", "--option", "lld.size=1MiB"], &["found lld.size", "--layer"]),
        (&["--layer", "cache", "--option", "sise=1MiB"], &["sise"]),
    ] {
        refused(&[&["lab", "compare", "--trace", SMALL], options].concat(), 2, words);
    }
    refused(&["lab", "run", "--trace", SMALL, "--layer", "cache,borg"], 2, &["cache,borg", "lab compare"]);
}

/// The message on an unknown name lists those that can be compared.
#[test]
fn every_layer_that_is_listed_can_be_compared() {
    let compare = ["lab", "compare", "--reconfigure", "2", "--option", "delay.time=1ms", "--trace"];
    let boots = SMALL.replace("svnserver2", "vmboot");
    let message = seekless(&[&compare[..], &[&boots, "--layer", "cash"]].concat()).stderr;
    let listed = message.split("expected ").nth(1).and_then(|list| list.split(" or none").next());
    let names: Vec<&str> = listed.expect("a list").split(", ").collect();
    assert!(names.len() > 20 && names.contains(&"hybrid"), "{message}");
    let compared = json(&[&compare[..], &[&boots, "--layer", &format!("none,{}", names.join(","))]].concat());
    assert_eq!(compared["variants"].as_array().map(Vec::len), Some(names.len() + 1));
}

#[test]
fn volume_files_are_compared_and_run() {
    let (plain, stack) = (file("plain.toml", PLAIN.as_bytes()), file("stack.toml", STACK.as_bytes()));
    let report = folder().join("volumes.html");
    let report = report.to_str().unwrap();
    let compared = json(&["lab", "compare", &plain, &stack, "--trace", SMALL, "--reconfigure", "2"]);
    assert_eq!(compared["settings"]["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(compared["variants"][1]["name"], "stack");
    assert!(compared["variants"][1]["volume"].as_str().unwrap().contains("cache over borg"));
    assert_eq!(compared["variants"][1]["sides"]["layer"], "borg");
    let one = ["lab", "run", &stack, "--trace", SMALL, "--reconfigure", "2"];
    assert_eq!(json(&one)["event_hash"], compared["variants"][1]["event_hash"]);
    let text = quietly(&one);
    assert!(text.contains("cache over borg") && text.contains("cache: hits"), "{text}");
    let ran = seekless(&["lab", "compare", &plain, &stack, &plain, "--trace", SMALL, "--report", report]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("Response times") && html.contains("stack"), "{report}");
    let small = file(
        "small.toml",
        PLAIN.replace("top = \"disk\"", "top = \"s\"\n[slice.s]\nof = \"disk\"\nsize = \"2GiB\"").as_bytes(),
    );
    refused(
        &["lab", "compare", &plain, &small, "--trace", SMALL],
        1,
        &["small.toml", "2 GiB", "give it a larger"],
    );
    refused(&["lab", "compare", "--trace", SMALL, &plain], 2, &["plain.toml", "volume files come first"]);
    refused(&["lab", "compare", &plain, "--trace", SMALL, "--drive", "wd2500aaks"], 2, &["--drive"]);
    refused(&["lab", "run", &plain, "--workload", "oltp", "--pace", "open"], 2, &["--pace"]);
}

#[test]
fn a_workload_goes_on_past_failures_and_counts_them() {
    let volume = PLAIN.replace("top = \"disk\"", "top = \"error\"");
    let volume = format!("{volume}[layer.error]\nover = \"disk\"\nrate_pct = 20\n");
    let volume = file("failing.toml", volume.as_bytes());
    let run = ["lab", "run", &volume, "--workload", "random", "--requests", "300"];
    let printed = json(&run);
    let failed = printed["failed"].as_u64().unwrap();
    assert!(
        (20..120).contains(&failed) && printed["requests"].as_u64().unwrap() + failed == 300,
        "{printed}"
    );
    assert!(printed["first_failure"].is_string() && quietly(&run).contains("the first request that failed"));
}

#[test]
fn a_reconfiguration_that_fails_says_why() {
    let volume = PLAIN.replace("top = \"disk\"", "top = \"borg\"");
    let volume = format!(
        "{volume}
        [slice.home]\nof = \"disk\"\nsize = \"16GiB\"\n[slice.area]\nof = \"disk\"\nat = \"200GiB\"\nsize = \"1GiB\"
        [layer.bad]\nis = \"error\"\nover = \"area\"\nops = [\"write\"]\nnth = 400\nfor_ever = true
        [layer.borg]\nover = \"home\"\nbopt = \"bad\"\nrehearse = false\nreconfigure = \"every 20s\"\n"
    );
    let volume = file("failing-reconfiguration.toml", volume.as_bytes());
    let run = ["lab", "run", &volume, "--workload", "random:reads=50", "--requests", "6000"];
    let printed = json(&run);
    assert!(printed["reconfigurations_failed"].as_u64().unwrap() > 0, "{printed}");
    assert!(printed["first_reconfiguration_failure"].as_str().unwrap().contains("made to fail"), "{printed}");
    assert!(quietly(&run).contains("the first reconfiguration that failed: error: Medium"));
}

/// Baselines have BORG's area, and its options where they have them.
#[test]
fn baselines_are_compared_by_their_names() {
    let list =
        ["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--layer", "none,alis,dcd,organpipe"];
    let with = |options: &[&'static str]| json(&[&list[..], options].concat());
    let compared = with(&["--option", "alis.threshold=3"]);
    let [alis, dcd, organpipe] = [1, 2, 3].map(|at| &compared["variants"][at]);
    for (variant, name) in [(alis, "alis"), (dcd, "dcd"), (organpipe, "organpipe")] {
        assert_eq!((&variant["name"], &variant["sides"]["layer"]), (&name.into(), &name.into()));
        assert!(variant["served_from_bopt_pct"].as_f64().is_some_and(|share| share > 1.0), "{name}");
        assert_eq!(variant["failed"], 0);
    }
    let reconfigured = |variant: &Value| variant["reconfigurations"].as_array().unwrap().len();
    assert_eq!([alis, dcd, organpipe].map(reconfigured), [2, 0, 2]);
    let absorbed = |variant: &Value| variant["sides"]["absorbed_pages"].as_u64().unwrap();
    assert!(absorbed(dcd) > 0 && absorbed(alis) + absorbed(organpipe) == 0);
    let other = with(&["--option", "organpipe.placement=planned", "--threshold", "2"]);
    let same = |at: usize| compared["variants"][at]["event_hash"] == other["variants"][at]["event_hash"];
    assert_eq!([1, 2, 3].map(same), [false, true, false]);
    refused(&[&list[..], &["--option", "dcd.planner=address"]].concat(), 2, &["`planner`", "`drain_below`"]);
    refused(&[&list[..], &["--write-buffer", "0.4"]].concat(), 2, &["--write-buffer", "expected borg among"]);
}

#[test]
fn the_papers_pace_is_the_recorded_one_where_it_is_not_faster() {
    let list = ["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--option", "rehearse=false"];
    let with = |more: &[&'static str]| -> Vec<&str> { [&list[..], more].concat() };
    let paper = json(&with(&["--pace", "paper"]));
    assert_eq!((&paper["settings"]["pace"], &paper["settings"]["speed"]), (&"paper".into(), &168.0.into()));
    let [slow, open] = ["paper", "open"].map(|pace| json(&with(&["--pace", pace, "--speed", "1"])));
    for variant in 0..2 {
        assert_eq!(slow["variants"][variant]["busy_s"], open["variants"][variant]["busy_s"]);
        assert_eq!(slow["variants"][variant]["elapsed_s"], open["variants"][variant]["elapsed_s"]);
    }
    let [fast, recorded] = [&paper, &open].map(|run| run["variants"][0]["elapsed_s"].as_f64().unwrap());
    assert!(fast < recorded / 4.0, "{fast} s, {recorded} s");
    assert!(
        quietly(&with(&["--pace", "paper"])).contains("168 times the recorded speed, and the recorded one")
    );
    let words = ["--outstanding: found with --pace paper"];
    refused(&with(&["--pace", "paper", "--outstanding", "4"]), 2, &words);
}
