//! The verdict on a recording: what is shown, and what is declined.

mod common;

use common::{SMALL, folder, json, quietly, seekless};

#[test]
fn the_verdict_rests_on_the_runs_that_are_shown() {
    let advice = json(&["advise", SMALL]);
    let remedies = advice["remedies"].as_array().unwrap();
    let names: Vec<&str> = remedies.iter().map(|remedy| remedy["name"].as_str().unwrap()).collect();
    for name in ["scheduler", "more cache", "launch prefetcher", "BORG"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let base = advice["base"]["work"]["busy_s"].as_f64().unwrap();
    for remedy in remedies {
        let number = |key: &str| remedy[key].as_f64().unwrap();
        let (gain, error) = (number("net_gain_pct"), number("error_pct"));
        let ours = remedy["run"]["work"]["busy_s"].as_f64().unwrap();
        assert!((gain - 100.0 * (1.0 - ours / base)).abs() < 1e-6, "{remedy}");
        let expected = match remedy["judgement"].as_str().unwrap() {
            "recommended" => gain >= 3.0 && gain > 2.0 * error,
            "too-short" => gain >= 3.0 && gain <= 2.0 * error,
            "not-worth-it" => true,
            other => panic!("{other}"),
        };
        assert!(expected, "{remedy}");
    }
    let best =
        remedies.iter().find(|remedy| remedy["judgement"] == "recommended").map(|remedy| &remedy["name"]);
    assert_eq!(best.unwrap_or(&serde_json::Value::Null), &advice["advised"]);
    let causes: f64 =
        advice["causes"].as_array().unwrap().iter().map(|one| one["busy_pct"].as_f64().unwrap()).sum();
    assert!((causes - 100.0).abs() < 1e-6, "{causes}");
}

#[test]
fn random_and_idle_recordings_are_declined() {
    let random = folder().join("random.txt").to_str().unwrap().to_owned();
    quietly(&["trace", "synth", "random:rate=20/s", "--over", "100GiB", "--requests", "4000", "-o", &random]);
    let advice = json(&["advise", &random]);
    assert_eq!(advice["advised"], serde_json::Value::Null, "{}", advice["verdict"]);
    assert!(advice["verdict"].as_str().unwrap().starts_with("Nothing"), "{}", advice["verdict"]);
    let text = quietly(&["advise", &random]);
    assert_eq!(text.lines().next(), advice["verdict"].as_str());
    for remedy in advice["remedies"].as_array().unwrap() {
        assert!(text.contains(remedy["name"].as_str().unwrap()), "{text}");
    }
    // A request every ten seconds.
    let lines: Vec<String> =
        (0..500_u64).map(|n| format!("{} ; {} ; 8 ; R\n", n * 10, n * 7_919 % 400_000 * 1_000)).collect();
    let idle = common::file("idle.load", lines.concat().as_bytes());
    let advice = json(&["advise", &idle]);
    assert!(advice["verdict"].as_str().unwrap().contains("busy 0."), "{}", advice["verdict"]);
}

/// Of a disk that was faster, without names of processes: several requests wait together, so that their order matters.
#[test]
fn a_queue_of_requests_without_processes_is_there_to_be_sorted() {
    let lines: Vec<String> = (0..3_000_u64)
        .map(|n| format!("{} ; {} ; 8 ; R\n", n as f64 / 1_000.0, n * 48_271 % 65_537 * 6_000))
        .collect();
    let queue = common::file("queue.load", lines.concat().as_bytes());
    // The note is on the standard error too, before the runs.
    let ran = seekless(&["advise", &queue, "--json"]);
    assert!(ran.code == 0 && ran.stderr.contains("does not name processes"), "{}", ran.stderr);
    let advice = common::schemas::parsed(&ran.stdout);
    assert_eq!(advice["pace"], "closed");
    let remedies = advice["remedies"].as_array().unwrap();
    let scheduler = remedies.iter().find(|remedy| remedy["name"] == "scheduler").unwrap();
    assert!(scheduler["net_gain_pct"].as_f64().unwrap() > 3.0, "{scheduler}");
    assert!(advice["notes"].to_string().contains("does not name processes"), "{}", advice["notes"]);
}

/// A recording of one event, the name of a process, as `trace record` writes of a disk that rests.
fn named_process() -> Vec<u8> {
    let name = b"sh\0\0";
    // The mark of the format and its version 7; number, time, sector and length; a message that names a process, of
    // process 7; device, processor and error; the length of the name.
    let head = [0x6561_7407_u32, 0, 0, 0, 0, 0, 0, 1 << 26, 7, 0, 0].map(u32::to_le_bytes).concat();
    [&head[..], &[0, 0], &(name.len() as u16).to_le_bytes(), name].concat()
}

/// What `trace record` notes beside its file.
#[test]
fn notes_of_a_recording_are_used_and_must_fit_it() {
    let lines: Vec<String> =
        (0..500_u64).map(|n| format!("{n} ; {} ; 8 ; R\n", n * 7_919 % 400_000 * 1_000)).collect();
    let recording = common::file("noted.load", lines.concat().as_bytes());
    let noted = |seconds: u64, size: u64, turns: bool| {
        let disk = format!(
            "{{\"model\": \"ST1000\", \"size_bytes\": {size}, \"rotational\": {turns}, \"logical_block_bytes\": 512, \"physical_block_bytes\": 4096, \"scheduler\": \"none\", \"queue_depth\": 32}}"
        );
        common::file(
            "noted.load.about.json",
            format!("{{\"seconds\": {seconds}, \"disk\": {disk}}}").as_bytes(),
        );
    };
    let alone = json(&["advise", &recording]);
    noted(4_990, 1_000_204_886_016, false);
    let advice = json(&["advise", &recording]);
    // Ten times as long, and on a disk that is as large.
    assert_eq!((alone["drive"].as_str(), advice["drive"].as_str()), (Some("wd2500aaks"), Some("wd-re3-1tb")));
    assert!(advice["drive_chosen_because"].as_str().unwrap().contains("ST1000"), "{advice}");
    assert_eq!(advice["length_s"], 4_990.0);
    assert!(advice["notes"].to_string().contains("does not turn"), "{}", advice["notes"]);
    noted(4_990, 1_000_000, true);
    common::refused(
        &["advise", &recording],
        1,
        &["noted.load.about.json", "found a disk of", "another recording"],
    );
    noted(99, 1_000_204_886_016, true);
    common::refused(&["advise", &recording], 1, &["of recording, expected at least", "another recording"]);
    // Larger than all disks that are known.
    noted(4_990, 64_000_000_000_000, true);
    let advice = json(&["advise", &recording]);
    assert_eq!(advice["drive"], "seagate-exos-x20-20tb");
    let because = advice["drive_chosen_because"].as_str().unwrap();
    assert!(because.starts_with("the largest known disk; the recorded one is larger: ST1000"), "{because}");
    let compared = json(&["lab", "compare", "--trace", &recording]);
    assert_eq!(compared["settings"]["drive_chosen_because"], because);
    noted(u64::MAX, 1_000_204_886_016, true);
    common::refused(&["advise", &recording], 1, &["noted.load.about.json", "expected at most"]);
    common::file("noted.load.about.json", b"{");
    common::refused(&["advise", &recording], 1, &["noted.load.about.json", "what trace record writes"]);
}

#[test]
fn a_disk_that_is_only_written_and_one_that_rests_get_a_verdict() {
    let lines: Vec<String> =
        (0..1_000_u64).map(|n| format!("{n} ; {} ; 8 ; W\n", n * 48_271 % 65_537 * 6_000)).collect();
    let written = common::file("written.load", lines.concat().as_bytes());
    let advice = json(&["advise", &written]);
    assert!(!advice["base"].is_null() && advice["remedies"].as_array().unwrap().len() > 3, "{advice}");
    let resting = common::file("resting", &named_process());
    let advice = json(&["advise", &resting]);
    assert_eq!(advice["verdict"], "Nothing is worth it: the recording has no requests.");
}

/// Its times would be wrong, and with them the waiting that a scheduler saves.
#[test]
fn rows_in_disorder_are_not_judged() {
    let row = |n: u64| {
        (n * 48_271 % 3_001, format!("{} ; {} ; 8 ; R\n", n as f64 / 30.0, n * 7_919 % 65_537 * 6_000))
    };
    let mut rows: Vec<(u64, String)> = (0..3_000).map(row).collect();
    let sorted = common::file("sorted.load", rows.iter().map(|row| &*row.1).collect::<String>().as_bytes());
    rows.sort();
    let unsorted: String = rows.iter().map(|row| &*row.1).collect();
    let unsorted = common::file("unsorted.load", unsorted.as_bytes());
    let judged = |file: &str| common::schemas::parsed(&seekless(&["advise", file, "--json"]).stdout);
    let verdict = judged(&unsorted)["verdict"].to_string();
    assert!(verdict.contains("Not known") && verdict.contains("sort the rows by time"), "{verdict}");
    let verdict = judged(&sorted)["verdict"].to_string();
    assert!(verdict.contains("Nothing that was tried"), "{verdict}");
}

/// As each real disk is: the last sectors were used.
#[test]
fn a_disk_that_was_used_to_its_end_gets_a_larger_model() {
    for end in [488_397_168_u64, 488_500_000] {
        let sector = |n: u64| if n == 0 { end - 8 } else { n * 48_271 % 65_537 * 7_000 };
        let lines: Vec<String> = (0..400).map(|n| format!("{} ; {} ; 8 ; R\n", n, sector(n))).collect();
        let full = common::file("full.load", lines.concat().as_bytes());
        let advice = json(&["advise", &full]);
        assert_eq!((&advice["drive"], &advice["not_tried"]), (&"wd6400aaks".into(), &serde_json::json!([])));
        json(&["lab", "compare", "--trace", &full]);
    }
}

/// A gap of a year, as a wrong clock leaves it.
#[test]
fn a_recording_with_a_gap_of_a_year_is_judged() {
    let at = |n: u64| n + if n > 600 { 31_536_000 } else { 0 };
    let lines: Vec<String> = (0..1_200_u64).map(|n| format!("{} ; {} ; 8 ; R\n", at(n), n * 16)).collect();
    let gap = common::file("gap.load", lines.concat().as_bytes());
    assert!(json(&["advise", &gap])["verdict"].is_string());
}

#[test]
fn a_recording_that_is_too_short_says_how_long_one_should_be() {
    let few = common::file("few.load", b"0 ; 0 ; 8 ; R\n600 ; 8 ; 8 ; W\n");
    let text = quietly(&["advise", &few]);
    assert!(
        text.starts_with("Not known: the recording has 2 requests, too few to judge by; record "),
        "{text}"
    );
    assert!(!text.contains("remedy") && text.lines().count() < 7, "{text}");
    let advice = json(&["advise", &few]);
    assert_eq!(advice["base"], serde_json::Value::Null);
    assert_eq!(advice["record_s"], 600.0 * 4_000.0 / 2.0);
    // What seems to help, and is not certain to, has the length that would tell.
    let advice = json(&["advise", SMALL]);
    let short =
        advice["remedies"].as_array().unwrap().iter().find(|one| one["judgement"] == "too-short").unwrap();
    let [needed, gain, error] =
        ["record_s", "net_gain_pct", "error_pct"].map(|key| short[key].as_f64().unwrap());
    let expected = advice["length_s"].as_f64().unwrap() * (2.0 * error / gain).powi(2);
    assert!((needed - expected).abs() < 1e-6, "{needed} {expected}");
    let minutes = (needed / 60.0).ceil();
    assert!(quietly(&["advise", SMALL]).contains(&format!("record {minutes} minutes")), "{minutes}");
    assert_eq!(advice["record_s"], serde_json::Value::Null, "another remedy is certain");
}

#[test]
fn a_disk_that_is_too_small_is_refused_with_those_that_fit() {
    let with_more = |name, first: &str| {
        let more = (1..500).map(|n| format!("{n} ; {} ; 8 ; W\n", 8 * n));
        common::file(name, (first.to_owned() + &more.collect::<String>()).as_bytes())
    };
    let far = with_more("far.load", "0 ; 3000000000 ; 8 ; R\n");
    let refused = seekless(&["advise", &far, "--drive", "wd2500aaks"]);
    assert!(refused.code == 1 && refused.stderr.contains("--drive with one that fits"), "{}", refused.stderr);
    let advice = json(&["advise", &far]);
    assert_ne!(advice["drive"], "wd2500aaks");
    let why = advice["drive_chosen_because"].as_str().unwrap();
    assert!(why.starts_with("the smallest known disk with room for 1.40 TiB"), "{why}");
    assert!(quietly(&["advise", &far]).contains(why));
    let compared = json(&["lab", "compare", "--trace", &far]);
    assert_eq!(compared["settings"]["drive_chosen_because"], why);
    let full = with_more("full.load", "0 ; 488396000 ; 8 ; R\n");
    let advice = json(&["advise", &full, "--drive", "wd2500aaks"]);
    assert_eq!(advice["not_tried"], serde_json::json!(["BORG", "BORG, copying for free"]));
    assert_eq!(advice.get("drive_chosen_because"), None);
    let text = quietly(&["advise", &full, "--drive", "wd2500aaks"]);
    assert!(text.contains("Not tried, since the drive has no room"), "{text}");
}
