//! `seekless lab sweep`: the same results however the tasks are run, and clear errors.

// Processes are killed in real time.
#![allow(clippy::disallowed_methods)]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{file, folder, json, quietly, refused, seekless};

const VOLUME: &str = "\
[component.disk]
drive = \"wd2500aaks\"
[layer.cache]
over = \"disk\"
[[export]]
top = \"cache\"
";

/// A folder with a trace of `requests` requests, a volume, and a sweep of it with `more`.
fn sweep(name: &str, requests: u64, more: &str) -> (PathBuf, String) {
    let place = folder().join(name);
    std::fs::create_dir_all(&place).unwrap();
    let line =
        |n: u64| format!("{}.5 ; {} ; 8 ; {}\n", n, n * n % 997 * 4_000, if n % 3 == 0 { "W" } else { "R" });
    std::fs::write(place.join("small.load"), (0..requests).map(line).collect::<String>()).unwrap();
    std::fs::write(place.join("cache.toml"), VOLUME).unwrap();
    let text = format!("traces = 'small.load'\nvolumes = 'cache.toml'\n{more}\n");
    let path = file(&format!("{name}/sweep.toml"), text.as_bytes());
    (place, path)
}

/// Twelve tasks.
const TWELVE: &str = "outstanding = [1, 4]\nseeds = { from = 1, to = 2, step = 1 }\n\
                      options.layer.cache.size = { from = '64KiB', to = '1MiB', factor = 4 }";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn rows(results: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(results.join("rows")).into_iter().flatten();
    let paths = listed.map(|entry| entry.unwrap().path());
    let mut rows: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    rows.sort();
    rows
}

/// The table's bytes; nothing without Parquet.
fn table(results: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(results.join("table.parquet"));
    if cfg!(feature = "parquet") { Some(bytes.unwrap()) } else { None }
}

#[test]
fn results_are_the_same_however_the_tasks_are_run() {
    let (place, file) = sweep("same", 400, TWELVE);
    let out = |name: &str| place.join(name);
    let whole = seekless(&["lab", "sweep", &file, "--json"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let results = place.join("sweep.results");
    let report: serde_json::Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!((&report["tasks"], &report["failed"], rows(&results).len()), (&12.into(), &0.into(), 12));
    // Again, with nothing to do; with half of the rows; on one thread; in shards.
    let again = |arguments: &[&str], results: &Path| {
        let ran = seekless(&[&["lab", "sweep"], arguments, &["--json"]].concat());
        assert_eq!((ran.code, &ran.stdout), (0, &whole.stdout), "{arguments:?}: {}", ran.stderr);
        assert_eq!(table(results), table(&place.join("sweep.results")), "{arguments:?}");
    };
    again(&[&file], &results);
    let half: Vec<PathBuf> = rows(&results).into_iter().step_by(2).collect();
    for row in &half {
        std::fs::remove_file(row).unwrap();
    }
    std::fs::write(half[0].with_extension("json.part"), "{\"task\":").unwrap();
    again(&[&file], &results);
    assert!(half.iter().all(|row| row.is_file()) && !half[0].with_extension("json.part").exists());
    again(&[&file, "--out", text(&out("one")), "--threads", "1"], &out("one"));
    let shard = |number: &str, into: &str| {
        let done = json(&["lab", "sweep", &file, "--out", text(&out(into)), "--shard", number]);
        assert_eq!((&done["tasks_in_all"], &done["shards"]), (&12.into(), &3.into()));
        done["ran"].as_u64().unwrap()
    };
    assert_eq!([shard("1/3", "a"), shard("3/3", "a"), shard("1/3", "a")], [4, 4, 0]);
    let a = out("a");
    let merge = ["lab", "sweep", "merge", &file, text(&a)];
    refused(&merge, 1, &["no result for 4 of 12 tasks, such as trace = small.load", "a shard is missing"]);
    assert_eq!(shard("2/3", "b"), 4);
    again(&["merge", &file, text(&out("b")), text(&out("a")), "--out", text(&out("all"))], &out("all"));
    let shown = quietly(&["lab", "sweep", &file, "--out", text(&out("a")), "--shard", "1/3"]);
    assert!(shown.contains("shard 1 of 3: 4 tasks of 12 done, 0 of them now"), "{shown}");
    refused(&["lab", "sweep", &file, "--shard", "4/3"], 2, &["found '4/3', expected I/N"]);
}

#[test]
fn a_killed_sweep_continues_to_the_same_table() {
    let (place, file) = sweep("killed", 6_000, TWELVE);
    let whole = place.join("whole");
    quietly_or_without_table(&["lab", "sweep", &file, "--out", text(&whole)]);
    let killed = place.join("killed");
    let mut child = Command::new(env!("CARGO_BIN_EXE_seekless"))
        .args(["lab", "sweep", &file, "--threads", "1", "--out", text(&killed)])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while rows(&killed).len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "no row after a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = rows(&killed).len();
    assert!(done < 12, "it was not killed before its end");
    quietly_or_without_table(&["lab", "sweep", &file, "--out", text(&killed)]);
    assert_eq!(table(&killed), table(&whole));
    let content =
        |results: &Path| rows(results).iter().map(|row| std::fs::read(row).unwrap()).collect::<Vec<_>>();
    assert_eq!(content(&killed), content(&whole));
}

fn quietly_or_without_table(arguments: &[&str]) -> String {
    let ran = seekless(arguments);
    assert_eq!((ran.code, ran.stderr.is_empty()), (0, cfg!(feature = "parquet")), "{}", ran.stderr);
    ran.stdout
}

#[test]
fn a_task_that_fails_is_a_row_with_its_error() {
    let (place, file) =
        sweep("fails", 200, "options.layer.cache = { size = ['1MiB', '1KiB'], dirty = [0.5, 2.0] }");
    let report = quietly_or_without_table(&["lab", "sweep", &file, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["tasks"], &report["failed"]), (&4.into(), &3.into()), "{report}");
    let errors: Vec<&str> =
        report["failures"].as_array().unwrap().iter().map(|one| one["error"].as_str().unwrap()).collect();
    assert!(errors.iter().any(|error| error.contains("layer.cache.size: found 1024 bytes")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("layer.cache.dirty: found 2")), "{errors:?}");
    assert_eq!(rows(&place.join("sweep.results")).len(), 4);
    let text = quietly_or_without_table(&["lab", "sweep", &file]);
    assert!(text.contains("4 tasks, 3 failed") && text.contains("layer.cache.dirty: found 2"), "{text}");
}

#[test]
fn what_is_no_sweep_is_refused_before_it_runs() {
    let two = "[[grid]]\nseeds = [1, 2]\n[[grid]]\nseeds = [2, 3]";
    for (name, more, words) in [
        ("key", "seed = 1", &["sweep.toml", "unknown field `seed`"][..]),
        ("empty", "seeds = { from = 2, to = 1, step = 1 }", &["sweep.toml: seeds: found no value"]),
        ("twins", two, &["grid 2: found two tasks with one identity: trace = small.load", "seed = 2"]),
        ("option", "options.layer.cache.sise = [1, 2]", &["cache.toml: layer.cache", "sise"]),
        (
            "layer",
            "options.layer.cash.size = '1MiB'",
            &["layer.cash.size: found no layer.cash in", "expected one of: cache"],
        ),
        ("speed", "speed = [1.0, nan]", &["speed: found nan, expected a number above zero"]),
        (
            "seed",
            "seeds = 9223372036854775807",
            &["seeds: found 9223372036854775807, expected a whole number from 0 to 4294967295"],
        ),
        ("sample", "seeds = [1, 2]\nsample = 3", &["sample: found 3, expected at most 2"]),
        ("many", "seeds = { from = 1, to = 90000, step = 1 }\noutstanding = [1, 2]", &["found 180000 tasks"]),
        ("base", "base = 'nowhere.toml'", &["nowhere.toml", "expected a volume file"]),
        ("drive", "drives = ['nowhere']", &["cache.toml: component.disk.drive: found 'nowhere'"]),
    ] {
        let (_, file) = sweep(name, 10, more);
        refused(&["lab", "sweep", &file], 1, words);
    }
    let (place, file) = sweep("missing", 10, "");
    std::fs::remove_file(place.join("small.load")).unwrap();
    refused(&["lab", "sweep", &file], 1, &["sweep.toml: traces: found small.load"]);
    refused(&["lab", "sweep", "nowhere.toml"], 1, &["nowhere.toml", "the file of a sweep"]);
    refused(&["lab", "sweep"], 2, &["<FILE.toml>"]);
}

#[test]
fn results_that_do_not_fit_are_refused() {
    let (place, file) = sweep("damaged", 50, "seeds = [1, 2]");
    quietly_or_without_table(&["lab", "sweep", &file]);
    let results = place.join("sweep.results");
    let merge = ["lab", "sweep", "merge", &file, text(&results)];
    let (row, other) = (&rows(&results)[0], &rows(&results)[1]);
    let content = std::fs::read_to_string(row).unwrap();
    std::fs::write(row, &content[..content.len() / 2]).unwrap();
    for arguments in [&["lab", "sweep", &file][..], &merge] {
        refused(
            arguments,
            1,
            &[text(row), "found a file that is cut short", "remove the file to run its task again"],
        );
    }
    std::fs::copy(other, row).unwrap();
    refused(&merge, 1, &[text(row), "found the row of task"]);
    std::fs::write(row, content).unwrap();
    refused(&["lab", "sweep", "merge", &file, text(&place)], 1, &["found no results"]);
    // Another trace under the same name.
    let trace = place.join("small.load");
    let before = std::fs::read_to_string(&trace).unwrap();
    std::fs::write(&trace, before.replacen("; 8 ;", "; 16 ;", 1)).unwrap();
    for arguments in [&["lab", "sweep", &file][..], &merge] {
        refused(arguments, 1, &["small.load: found content with the hash", "as when its task was hashed"]);
    }
    std::fs::write(&trace, before).unwrap();
    quietly_or_without_table(&merge);
}

#[test]
fn tasks_are_listed_without_running() {
    let (place, file) = sweep("listed", 20, "seeds = [1, 2]\nreconfigure = 4");
    let text = quietly(&["lab", "sweep", &file, "--list"]);
    let last = text.lines().last().unwrap();
    assert!(last.ends_with("  trace = small.load, volume = cache.toml, reconfigure = 4, seed = 2"), "{text}");
    let lines = quietly(&["lab", "sweep", &file, "--list", "--json"]);
    let tasks: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((tasks.len(), &tasks[1]["play"]["seed"]), (2, &2.into()));
    assert!(tasks[0]["volume"]["text"].as_str().unwrap().contains("[layer.cache]"), "{lines}");
    assert!(!place.join("sweep.results").exists());
}

/// A trace of the format of MSR, with three volumes.
fn several(of: &dyn Fn(u64) -> bool) -> String {
    let line = |n: u64| {
        let (host, disk) = [("hm", 0), ("web", 1), ("hm", 0), ("db", 2)][n as usize % 4];
        let kind = if n % 3 == 0 { "Write" } else { "Read" };
        let place = n * n % 97 * 4_096_000;
        format!("{},{host},{disk},{kind},{place},4096,100\n", 128_166_372_003_061_629 + n * 10_000_000)
    };
    (0..400).filter(|n| of(*n)).map(line).collect()
}

#[test]
fn a_sweep_by_volume_has_the_gain_of_each_and_their_distribution() {
    let (place, _) = sweep("fleet", 1, "");
    let options = "volumes = 'cache.toml'\noptions.layer.cache.size = ['64KiB', '1MiB']\nseeds = [1, 2]\n";
    std::fs::write(place.join("fleet.csv"), several(&|_| true)).unwrap();
    std::fs::write(place.join("hm.csv"), several(&|n| n % 2 == 0)).unwrap();
    let all = file("fleet/all.toml", format!("traces = 'fleet.csv'\nby = 'volume'\n{options}").as_bytes());
    let one = file("fleet/one.toml", format!("traces = 'hm.csv'\n{options}").as_bytes());
    let page = place.join("all.html");
    let done = seekless(&["lab", "sweep", &all, "--json", "--report", text(&page)]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let fleet = &report["fleet"];
    assert_eq!((&report["tasks"], &fleet["volumes"]), (&12.into(), &3.into()));
    let volumes = fleet["verdicts"].as_array().unwrap();
    assert_eq!(volumes[0]["volume"], "hm_0", "the busiest is first");
    // A volume has the figures of its requests alone.
    let alone = json(&["lab", "sweep", &one]);
    assert_eq!(alone["fleet"], serde_json::Value::Null);
    let best = alone["best"][0]["means"][0].as_f64().unwrap();
    assert_eq!(volumes[0]["gain"].as_f64(), Some(best));
    let gains = fleet["configurations"].as_array().unwrap();
    assert!(gains.len() == 2 && gains.iter().all(|one| one["gain"]["volumes"] == 3), "{fleet}");
    let helped: u64 = gains.iter().map(|one| one["best_for"].as_u64().unwrap()).sum();
    assert_eq!(helped + fleet["not_helped"].as_u64().unwrap(), 3);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in ["The best configurations", "The Pareto front", "What matters", "The volumes", "hm_0"] {
        assert!(html.contains(part), "{part}");
    }
    // Shards have the same table.
    for shard in ["1/2", "2/2"] {
        let out = place.join("shards");
        assert_eq!(seekless(&["lab", "sweep", &all, "--out", text(&out), "--shard", shard]).code, 0);
    }
    let merged = seekless(&["lab", "sweep", "merge", &all, text(&place.join("shards")), "--json"]);
    assert_eq!((merged.code, &merged.stdout), (0, &done.stdout), "{}", merged.stderr);
    assert_eq!(table(&place.join("shards")), table(&place.join("all.results")));
    let wrong = file("fleet/wrong.toml", format!("traces = 'fleet.csv'\nby = 'disk'\n{options}").as_bytes());
    refused(&["lab", "sweep", &wrong], 1, &["by: found 'disk', expected 'volume', or no such key"]);
    assert!(
        seekless(&["lab", "sweep", &all, "--report", text(&page)]).stderr.contains("--force overwrites it")
    );
}

#[test]
fn a_row_that_was_edited_is_refused() {
    let (place, file) = sweep("edited", 50, "");
    assert_eq!(seekless(&["lab", "sweep", &file]).code, 0);
    let row = rows(&place.join("sweep.results")).remove(0);
    let whole = std::fs::read_to_string(&row).unwrap();
    std::fs::write(&row, whole.replacen("\"busy_s\":", "\"busy_s\":1", 1)).unwrap();
    refused(&["lab", "sweep", &file], 1, &["found figures that do not have the hash of the row"]);
}
