//! Output of each command on success: the drives, the traces, the comparisons, the files.

mod common;

use common::{SMALL, file, folder, json, quietly, seekless};
use serde_json::Value;

#[test]
fn drives_are_listed_and_shown() {
    let list = quietly(&["drive", "list"]);
    let all = json(&["drive", "list"]);
    let all = all.as_array().unwrap();
    assert!(all.len() > 20, "{}", all.len());
    for drive in all {
        let name = drive["name"].as_str().unwrap();
        assert!(list.contains(name), "{list}");
        let shown = quietly(&["drive", "show", name]);
        let (words, key): (&[&str], _) = match drive["kind"].as_str().unwrap() {
            "flash" => (&["source", "channels", "amplification", "programming a page"], "flash"),
            _ => (&["source", "rpm", "sectors a track", "Seek curve", "head switch", "####"], "seek"),
        };
        for word in words {
            assert!(shown.contains(word), "{word:?} is not in: {shown}");
        }
        assert!(json(&["drive", "show", name])["source"][key].is_string());
    }
    assert_eq!(list.lines().count(), all.len() + 3, "one line a drive, in two tables: {list}");
    let named = |name: &str| all.iter().find(|drive| drive["name"] == name).unwrap();
    assert_eq!(named("wd2500aaks")["capacity_bytes"], 250_059_350_016_u64);
    assert_eq!(named("quantum-atlas-10k")["heads"], 6);
}

#[test]
fn a_simulated_drive_is_calibrated_and_written() {
    let path = folder().join("calibrated.toml");
    let path = path.to_str().unwrap();
    let calibrate = ["drive", "calibrate", "seagate-cheetah-9lp", "-o", path];
    let text = quietly(&calibrate);
    for word in
        ["simulated", "95 % interval", "true", "5,985.0370", "cache segments", "2,581,656", "11 of 11"]
    {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let shown = quietly(&["drive", "show", path]);
    assert!(shown.starts_with("calibrated: ") && shown.contains("timed reads"), "{shown}");
    let refused = seekless(&calibrate);
    assert!(refused.code != 0 && refused.stderr.contains("--force"), "{}", refused.stderr);
    let printed = json(&[&calibrate[..], &["--force", "--name", "mine"]].concat());
    assert_eq!((&printed["found"]["heads"], &printed["near"]["tracks_right"]), (&12.into(), &11.into()));
    assert_eq!(json(&["drive", "show", path])["name"], "mine");
}

/// A file answers too fast for a disk: this is reported after some reads, where direct reads of files are possible at
/// all.
#[test]
#[cfg(target_os = "linux")]
fn a_file_is_tried_and_found_to_be_no_disk() {
    let image = file("disk.img", &vec![7; 64 << 20]);
    let ran = seekless(&["drive", "calibrate", &image, "--anything", "--time", "1min"]);
    assert!(ran.code == 1 && ran.stderr.contains("disk.img"), "{}", ran.stderr);
    let message = ["no multiples", "without direct I/O", "the time is over", "does not go up"];
    assert!(message.iter().any(|message| ran.stderr.contains(message)), "{}", ran.stderr);
    // Opened for writing too, its content is unchanged.
    let write = ["drive", "calibrate", &image, "--anything", "--time", "1min", "--destructive", &image];
    let ran = seekless(&write);
    assert!(ran.code == 1 && message.iter().any(|message| ran.stderr.contains(message)), "{}", ran.stderr);
    assert!(std::fs::read(&image).unwrap().iter().all(|byte| *byte == 7), "bytes have changed");
}

#[test]
fn writes_are_timed_where_the_device_is_named_again() {
    let calibrate = ["drive", "calibrate", "wd2500aaks"];
    let only_read = json(&calibrate);
    assert_eq!(
        (&only_read["found"]["writes"], only_read["found"]["write_settle_us"].is_null()),
        (&0.into(), true)
    );
    let destructive = [&calibrate[..], &["--destructive", "wd2500aaks"]].concat();
    let settle = json(&destructive)["found"]["write_settle_us"].clone();
    let figure = |name: &str| settle[name].as_f64().unwrap();
    assert!((figure("value") - 500.0).abs() < 20.0, "{settle}");
    assert!(figure("low") <= 500.0 && 500.0 <= figure("high"), "{settle}");
    let text = quietly(&destructive);
    assert!(text.contains("write settle") && text.contains(" writes in "), "{text}");
}

#[test]
fn a_drive_has_a_picture_that_is_replaced_only_by_force() {
    let path = folder().join("drive.svg");
    let show = ["drive", "show", "wd-re3-1tb", "--svg", path.to_str().unwrap()];
    let text = quietly(&show);
    assert!(text.contains("serpentine"), "{text}");
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("WD1002FBYS") && svg.contains("MB/s"), "{svg}");
    let refused = seekless(&show);
    assert!(refused.code != 0 && refused.stderr.contains("--force"), "{}", refused.stderr);
    quietly(&[&show[..], &["--force"]].concat());
}

#[test]
fn a_drive_may_be_a_file() {
    let text =
        include_str!("../../../drives/wd2500aaks.toml").replace("name = \"wd2500aaks\"", "name = \"mine\"");
    let mine = file("mine.toml", text.as_bytes());
    assert!(quietly(&["drive", "show", &mine]).starts_with("mine: "));
    let compared =
        json(&["lab", "compare", "--trace", SMALL, "--drive", &mine, "--option", "rehearse=false"]);
    assert_eq!(compared["settings"]["drive"], "mine");
}

#[test]
fn a_trace_is_described() {
    let text = quietly(&["trace", "info", SMALL]);
    for word in ["blktrace", "records", "time span", "processes", "up to sector", "svnserver2.blktrace.1.xz"]
    {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let info = json(&["trace", "info", SMALL]);
    let sum: u64 =
        ["reads", "writes", "flushes", "discards"].iter().filter_map(|key| info[*key].as_u64()).sum();
    assert_eq!(info["records"].as_u64(), Some(sum));
    assert_eq!(info["files"].as_array().map(Vec::len), Some(2));
    let files = [format!("{SMALL}.blktrace.0.xz"), format!("{SMALL}.blktrace.1.xz")];
    assert_eq!(json(&["trace", "info", &files[0], &files[1]]), info);
}

#[test]
fn a_workload_is_characterised_with_units() {
    let text = quietly(&["trace", "stats", SMALL]);
    for word in
        ["GiB", "partial determinism", "top 20 %", "Processes", "Working sets", "Request sizes", "KiB"]
    {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let stats = json(&["trace", "stats", SMALL]);
    for key in [
        "requests",
        "reads",
        "writes",
        "flushes",
        "read_gib_total",
        "read_gib_unique",
        "write_gib_total",
        "write_gib_unique",
        "total_gib_unique",
        "top20_share_pct",
        "nonsequential_pct",
        "partial_determinism_pct",
        "partial_determinism_per_process_pct",
        "seconds",
        "accessed_pages",
        "processes",
    ] {
        assert!(stats[key].is_number(), "{key}");
    }
}

#[test]
fn a_comparison_is_printed_and_reported() {
    let mut compare = vec!["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--bopt", "256MiB"];
    compare.extend(["--option", "rehearse=false"]);
    let text = quietly(&compare);
    for word in
        ["vanilla", "borg", "rotation", "between reconfigurations", "net", "foreground", "N1", "incoming"]
    {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let compared = json(&compare);
    assert_eq!(compared["variants"][0]["name"], "vanilla");
    assert_eq!(compared["settings"]["bopt_bytes"], 256 << 20);
    assert!(compared["net_reduction_pct"].is_number());
    let report = folder().join("a comparison.report.html");
    let ran = common::seekless(&[&compare[..], &["--report", report.to_str().unwrap()]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, text.as_str()), "{}", ran.stderr);
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("seekless lab compare --trace") && html.contains("--bopt 256MiB"));
}

#[test]
fn a_place_is_a_sector_or_a_size() {
    let at = |place: &str| {
        let options = [
            "lab",
            "compare",
            "--trace",
            SMALL,
            "--bopt-at",
            place,
            "--bopt",
            "64MiB",
            "--option",
            "rehearse=false",
        ];
        json(&options)["settings"]["bopt_at_sector"].clone()
    };
    assert_eq!(at("20GiB"), 41_943_040);
    assert_eq!(at("41943040"), 41_943_040);
}

#[test]
fn the_bopt_lies_within_the_clients_volume_or_on_a_drive_of_its_own() {
    let compare = |place: &[&str]| {
        let options = ["lab", "compare", "--trace", SMALL, "--bopt", "64MiB", "--option", "rehearse=false"];
        let compared = json(&[&options[..], place].concat());
        assert_eq!(compared["variants"][1]["failed"], 0, "{place:?}");
        assert!(compared["variants"][1]["served_from_bopt_pct"].as_f64().unwrap() > 0.0, "{place:?}");
        compared
    };
    let within = compare(&["--bopt-at", "8GiB"]);
    let behind = compare(&["--bopt-at", "20GiB"]);
    assert_eq!(within["settings"]["over_bytes"], behind["settings"]["over_bytes"]);
    let base = |compared: &Value| compared["variants"][0]["busy_s"].clone();
    assert_eq!(base(&within), base(&behind), "the base has no BOPT");
    let beside = compare(&["--bopt-drive", "wd360gd"]);
    assert_eq!(
        (&beside["settings"]["bopt_drive"], &within["settings"]["bopt_drive"]),
        (&"wd360gd".into(), &Value::Null)
    );
    let volume = beside["variants"][1]["volume"].as_str().unwrap();
    assert!(volume.contains("wd2500aaks") && volume.contains("wd360gd"), "{volume}");
}

#[test]
fn an_option_of_the_layer_is_a_number_a_size_or_a_word() {
    let hash = |options: &[&str]| {
        let run = ["lab", "run", "--trace", SMALL, "--bopt", "64MiB", "--option", "rehearse=false"];
        json(&[&run[..], options].concat())["event_hash"].clone()
    };
    let plain = hash(&[]);
    assert_eq!(hash(&["--option", "segment=2097152", "--option", "drain_below=0.25"]), plain, "the defaults");
    for other in ["segment=64KiB", "overwrite=in-place", "write_buffer=0.1"] {
        assert_ne!(hash(&["--option", other]), plain, "{other}");
    }
}

#[test]
fn one_variant_runs_and_tells_its_events() {
    let events = folder().join("events");
    let run = [
        "lab",
        "run",
        "--trace",
        SMALL,
        "--events",
        events.to_str().unwrap(),
        "--option",
        "rehearse=false",
        "--force",
    ];
    let variant = json(&run);
    assert_eq!(variant["name"], "borg");
    let all = std::fs::read_to_string(&events).unwrap();
    let absorbed = all.lines().find(|line| line.contains(" borg absorbed: sectors ")).expect("a write");
    let sector = absorbed.split("sectors ").nth(1).unwrap().split("..").next().unwrap();
    let page = sector.parse::<u64>().unwrap() / 8;
    assert_eq!(
        json(&[&run[..], &["--page", &page.to_string()]].concat()),
        variant,
        "listening changes nothing"
    );
    let some = std::fs::read_to_string(&events).unwrap();
    assert!(some.lines().any(|line| line == absorbed), "{absorbed}");
    assert!(some.lines().count() < all.lines().count() / 10);
    let bare = json(&["lab", "run", "--trace", SMALL, "--layer", "none"]);
    assert_eq!(bare["served_from_bopt_pct"], 0.0);
}

#[test]
fn a_random_load_runs() {
    let run =
        ["lab", "run", "--workload", "random", "--layer", "none", "--reads", "100", "--requests", "400"];
    let text = quietly(&run);
    assert!(text.contains("mean response") && text.contains("400 requests: 400 reads of 1.56 MiB"), "{text}");
    let outcome = json(&run);
    assert_eq!(outcome["requests"], 400);
    assert!(outcome["requests_per_s"].is_number());
}

/// (What it prints is compared with the README, by the test of pages.)
#[test]
fn the_demo_keeps_a_report_that_is_there() {
    let report = folder().join("there.report.html");
    std::fs::write(&report, "mine").unwrap();
    let refused = seekless(&["demo", "--report", "there.report.html"]);
    assert!(refused.code == 1 && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(report).unwrap(), "mine");
}

#[test]
fn a_scan_for_free_costs_nothing_and_tells_how_far_it_came() {
    let scan = ["lab", "scan", "--drive", "quantum-atlas-10k", "--for", "20s", "--workload", "oltp:mpl=5"];
    let text = quietly(&scan);
    for word in ["0 ns; each one at the same time", "policy weighted", "scans a day"] {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let [weighted, paper] = [&["--freeblock-policy", "weighted"][..], &["--freeblock-policy", "paper"]]
        .map(|policy| json(&[&scan[..], policy].concat()));
    assert!(weighted["foreground_same"] == true && weighted["foreground_delta_ns"] == 0.0, "{weighted}");
    assert!(
        paper["blocks"].as_u64().unwrap() > 1_000 && paper["requests"] == weighted["requests"],
        "{paper}"
    );
    let guarded = json(&[&scan[..], &["--guard", "1ms", "--decision-us", "500"]].concat());
    assert!(guarded["blocks"].as_u64() < weighted["blocks"].as_u64(), "{guarded}");
    let wrong = [&scan[..], &["--model-error", "1ms"]].concat();
    let (printed, text) = (json(&wrong), quietly(&wrong));
    assert!(printed["foreground_same"] == false && printed["late"].as_u64() > Some(10), "{printed}");
    assert!(text.contains("waited for another turn") && text.contains("not the same"), "{text}");
    let idle = ["lab", "scan", "--drive", "quantum-atlas-10k", "--for", "20s", "--workload", "oltp:mpl=1"];
    let idle = [&idle[..], &["--idle-delay-limit", "1ms"]].concat();
    let printed = json(&idle);
    let later =
        printed["mean_response_ms"].as_f64().unwrap() - printed["mean_response_alone_ms"].as_f64().unwrap();
    assert!(printed["idle_visits"].as_u64() > Some(10) && later <= 1.0, "{printed}");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/svnserver2");
    let trace = seekless(&["lab", "scan", "--drive", "quantum-atlas-10k", "--trace", data]);
    assert!(trace.code != 0 && trace.stderr.contains("expected at most 8.55 GiB"), "{}", trace.stderr);
    let flash = seekless(&["lab", "scan", "--drive", "samsung-870-evo-1tb"]);
    assert!(flash.code != 0 && flash.stderr.contains("is a flash drive"), "{}", flash.stderr);
    let shingled = seekless(&["lab", "scan", "--drive", "seagate-archive-8tb"]);
    assert!(shingled.code != 0 && shingled.stderr.contains("no rotational waits"), "{}", shingled.stderr);
    assert_eq!(seekless(&["lab", "scan", "--freeblock-policy", "best"]).code, 2);
}

#[test]
fn figures_of_papers_are_listed_and_drawn() {
    let list = quietly(&["lab", "figure"]);
    assert_eq!(list, quietly(&["lab", "figure", "--list"]));
    let all = json(&["lab", "figure"]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 39);
    assert!(all.iter().all(|figure| list.contains(figure["name"].as_str().unwrap())), "{list}");

    let table = ["lab", "figure", "proximal-table-1", "--requests", "200", "--seed", "4"];
    let text = quietly(&table);
    for word in ["semi-sequential", "paper: ms", "What the paper says", "within 5 %", "seed 4"] {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let drawn = json(&table);
    for (key, value) in [("name", "proximal-table-1"), ("counted", "strands a number")] {
        assert_eq!(drawn[key], value);
    }
    assert_eq!(
        (&drawn["requests"], &drawn["seed"], &drawn["drives"][0]),
        (&200.into(), &4.into(), &"seagate-cheetah-15k5".into())
    );
    let rows = drawn["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    let last = rows.iter().find(|row| row["kind"] == "proximal read" && row["requests"] == 8).unwrap();
    assert_eq!(last["paper_strand_ms"], 17.1);
    assert!((15.0..18.0).contains(&last["strand_ms"].as_f64().unwrap()), "{last}");
    assert!(rows[0]["paper_strand_ms"].is_null(), "the caption has no single semi-sequential one");
    assert!(
        drawn["columns"]
            .as_array()
            .unwrap()
            .iter()
            .all(|column| rows[0].get(column["key"].as_str().unwrap()).is_some())
    );
    for key in ["place", "says", "unit", "paper_from", "paper_to", "ours", "off", "tolerance", "holds"] {
        assert!(drawn["paper"][0].get(key).is_some(), "{key}");
    }
}

#[test]
fn a_figure_of_starts_takes_their_list() {
    let data = |name: &str| format!("{}/../../data/{name}", env!("CARGO_MANIFEST_DIR"));
    let (boots, list) = (data("vmboot"), data("vmboot.starts"));
    let drawn = json(&["lab", "figure", "iolab-4", "--trace", &boots]);
    assert_eq!((drawn["rows"].as_array().unwrap().len(), &drawn["rows"][1]["boot"]), (3, &"debian 2".into()));
    assert_eq!(drawn, json(&["lab", "figure", "iolab-4", "--trace", &boots, "--starts", &list]));
    let lacks = seekless(&["lab", "figure", "iolab-4", "--trace", &data("svnserver2")]);
    assert!(lacks.code == 1 && lacks.stderr.contains("svnserver2.starts"), "{}", lacks.stderr);
    let bad = file("bad.starts", b"1 vim\n");
    let bad = seekless(&["lab", "figure", "iolab-4", "--trace", &boots, "--starts", &bad]);
    assert!(bad.code == 1 && bad.stderr.contains("line 1: found '1 vim'"), "{}", bad.stderr);
    let none = seekless(&["lab", "figure", "freeblock-5", "--starts", &list]);
    assert!(none.code == 2 && none.stderr.contains("--starts: freeblock-5 has none"), "{}", none.stderr);
}

#[test]
fn a_figure_has_a_picture_and_takes_another_drive() {
    let path = folder().join("figure.svg");
    let draw = [
        "lab",
        "figure",
        "freeblock-5",
        "--requests",
        "300",
        "--drive",
        "wd2500aaks",
        "--svg",
        path.to_str().unwrap(),
    ];
    let text = quietly(&draw);
    assert!(text.contains("wd2500aaks") && !text.contains("What the paper says"), "{text}");
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("c-look") && svg.contains("rotation"), "{svg}");
    let refused = seekless(&draw);
    assert!(refused.code != 0 && refused.stderr.contains("--force"), "{}", refused.stderr);
    quietly(&[&draw[..], &["--force"]].concat());
    let unknown = seekless(&["lab", "figure", "freeblock-99"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("freeblock-2") && unknown.stderr.contains("proximal-table-1"),
        "{}",
        unknown.stderr
    );
    assert_eq!(seekless(&["lab", "figure", "--svg", "x.svg"]).code, 2, "a picture of no figure");
}
