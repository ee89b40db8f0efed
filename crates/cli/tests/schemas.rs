//! The committed schemas are those of the program, and what commands print fits them. `json` of the other tests checks
//! each output too.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use std::collections::BTreeSet;

use common::{SMALL, file, json, quietly, refused, schemas};

#[test]
fn the_committed_schemas_are_those_of_the_program() {
    let listed = json(&["schema"]);
    let names: BTreeSet<String> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    let committed: BTreeSet<String> = std::fs::read_dir(schemas::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, committed, "seekless schema --folder docs/schemas writes them");
    for name in &names {
        let written = std::fs::read_to_string(schemas::folder().join(format!("{name}.json"))).unwrap();
        let printed = quietly(&["schema", name]);
        assert!(written == printed, "{name}: seekless schema --folder docs/schemas writes it");
        assert_eq!(quietly(&["schema", &format!("seekless/{name}/1")]), printed);
    }
    refused(&["schema", "lab-compart"], 1, &["lab-compart"]);
}

#[test]
fn what_commands_print_fits_their_schemas() {
    let text = "[component.disk]\ndrive = \"wd2500aaks\"\n[[export]]\ntop = \"disk\"\n";
    let volume = file("schemas.toml", text.as_bytes());
    let load = file("schemas.load", b"0.5 ; 800 ; 8 ; R\n1.5 ; 1600 ; 8 ; W\n2.5 ; 808 ; 8 ; R\n");
    let sweep = format!("traces = '{load}'\nvolumes = '{volume}'\n");
    let sweep = file("schemas-sweep.toml", sweep.as_bytes());
    let (page, converted) = (file("schemas.html", b""), file("schemas.csv", b""));
    let commands: [(&[&str], &str); 20] = [
        (&["trace", "info", SMALL], "trace-info"),
        (&["trace", "info", "--formats"], "trace-formats"),
        (&["trace", "stats", SMALL], "trace-stats"),
        (&["trace", "report", &load, "-o", &page, "--force"], "trace-report"),
        (&["trace", "convert", &load, "-o", &converted, "--to", "blkreplay", "--force"], "trace-convert"),
        (&["drive", "check", "hgst-ultrastar-7k8-8tb"], "drive-check"),
        (&["drive", "list"], "drive-list"),
        (&["drive", "show", "wd2500aaks"], "drive-show"),
        (&["drive", "show", "intel-x25-v"], "drive-show-flash"),
        (&["lab", "compare", "--trace", &load], "lab-compare"),
        (&["lab", "run", "--trace", &load], "lab-run"),
        (&["lab", "run", "--workload", "random", "--requests", "50"], "lab-run-workload"),
        (&["lab", "run", "--workloads"], "lab-workloads"),
        (&["lab", "figure"], "lab-figures"),
        (&["lab", "figure", "freeblock-2", "--requests", "20"], "lab-figure"),
        (&["lab", "hits", SMALL, "--size", "4MiB"], "lab-hits"),
        (&["lab", "sweep", &sweep, "--list"], "lab-sweep-task"),
        (&["lab", "sweep", &sweep, "--shard", "1/1"], "lab-sweep-shard"),
        (&["lab", "sweep", &sweep], "lab-sweep"),
        (&["advise", &load], "advise"),
    ];
    for (command, name) in commands {
        let value = json(command);
        assert!(schemas::check(&value).iter().all(|found| found == name), "{command:?}: {value}");
    }
}
