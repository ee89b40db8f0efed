//! A trace in shards: outlines, partials, and merged statistics that are those of one pass; and a fleet of volumes.

mod common;

use std::fmt::Write;

use common::{SMALL, file, folder, json, quietly, refused};

/// A trace of two volumes in the format of MSR Cambridge.
fn lines(range: std::ops::Range<u64>) -> String {
    let mut text = String::new();
    for at in range {
        let (disk, op) = (at % 3 % 2, if at % 4 == 0 { "Write" } else { "Read" });
        let offset = (at * at % 97 + at / 50) * 4096;
        let time = 128_166_372_000_000_000 + at * 1_700_000 + at % 7 * 90_000;
        writeln!(text, "{time},web,{disk},{op},{offset},{},{}", 4096 * (1 + at % 3), at % 11 * 400_000)
            .unwrap();
    }
    text
}

/// The paths of the whole trace, and of its shards.
fn written(name: &str) -> (String, Vec<String>) {
    let shard = |number: u64| {
        let (begin, end) = (number * 130, (number * 130 + 130).min(500));
        file(&format!("{name}-{number}.csv"), lines(begin..end).as_bytes())
    };
    (file(&format!("{name}.csv"), lines(0..500).as_bytes()), (0..4).map(shard).collect())
}

fn outlined(shards: &[String], whole: &str) {
    let outlines: Vec<String> = shards.iter().map(|shard| format!("{shard}.outline")).collect();
    for (shard, outline) in shards.iter().zip(&outlines) {
        quietly(&["trace", "stats", shard, "--outline", outline]);
    }
    let all: Vec<&str> = outlines.iter().rev().map(String::as_str).collect();
    quietly(&[&["trace", "stats", "--merge", "--outline", whole], all.as_slice()].concat());
}

fn characterised(shard: &str, whole: &str, more: &[&str]) -> String {
    let partial = format!("{shard}-{}.partial", more.len());
    quietly(&[&["trace", "stats", shard, "--partial", &partial, "--of", whole], more].concat());
    partial
}

#[test]
fn merged_partials_print_what_one_pass_prints() {
    let (whole, shards) = written("merged");
    let outline = file("merged.outline", b"");
    outlined(&shards, &outline);
    let parts: Vec<String> = shards.iter().map(|shard| characterised(shard, &outline, &[])).collect();
    let half = file("half.partial", b"");
    let text = quietly(&["trace", "stats", "--merge", &parts[2], &parts[1], "--partial", &half]);
    assert!(text.contains("half.partial: 2 of 4 shards, 260 requests, "), "{text}");
    for form in [&[][..], &["--json"], &["--csv"], &["--csv=over_time"]] {
        let merged = quietly(&[&["trace", "stats", "--merge", &parts[3], &parts[0], &half], form].concat());
        assert_eq!(merged, quietly(&[&["trace", "stats", &whole], form].concat()), "{form:?}");
    }
}

#[test]
fn a_shard_without_a_request_of_the_volume_is_passed_over() {
    let (whole, mut shards) = written("volume");
    // All of the second shard's requests are of the other volume.
    let second = lines(130..260).replace("web,1,", "web,0,");
    shards[1] = file("volume-1.csv", second.as_bytes());
    let text = [lines(0..130), second, lines(260..500)].concat();
    file("volume.csv", text.as_bytes());
    let outline = file("volume.outline", b"");
    let of = ["--volume", "web_1"];
    for shard in &shards {
        let own = format!("{shard}.outline");
        quietly(&[&["trace", "stats", shard, "--outline", &own], &of[..]].concat());
    }
    let all: Vec<String> = shards.iter().map(|shard| format!("{shard}.outline")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    quietly(&[&["trace", "stats", "--merge", "--outline", &outline], all.as_slice()].concat());
    let mut parts = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let partial = file(&format!("volume-{number}.partial"), b"");
        std::fs::remove_file(&partial).unwrap();
        let words = ["trace", "stats", shard, "--partial", &partial, "--of", &outline];
        let done = common::seekless(&[&words, &of[..]].concat());
        assert_eq!(done.code, 0, "{}", done.stderr);
        assert_eq!(
            done.stderr.contains("not written, since the shard has no request of the volume"),
            number == 1
        );
        parts.extend(std::path::Path::new(&partial).exists().then_some(partial));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let merged = quietly(&[&["trace", "stats", "--merge"], parts.as_slice()].concat());
    assert_eq!((parts.len(), merged), (3, quietly(&[&["trace", "stats", &whole], &of[..]].concat())));
    let empty = [&["trace", "stats", "--merge", "--outline", &outline][..], &all[1..2]].concat();
    refused(&empty, 1, &["found no requests in any shard"]);
    let alone = ["trace", "stats", &shards[1], "--partial", "x.partial", "--volume", "web_1"];
    refused(&alone, 2, &["the volume: found \"web_1\", expected web_0"]);
}

#[test]
fn partials_that_do_not_belong_together_are_refused() {
    let (_, shards) = written("refused");
    let outline = file("refused.outline", b"");
    outlined(&shards, &outline);
    let parts: Vec<String> = shards.iter().map(|shard| characterised(shard, &outline, &[])).collect();
    let sampled = characterised(&shards[1], &outline, &["--sample", "1/4"]);
    let whole = std::fs::read(&parts[1]).expect("it was written");
    let cut = file("cut.partial", &whole[..whole.len() / 2]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x55;
    let damaged = file("damaged.partial", &damaged);
    for (words, expected) in [
        (
            vec![&parts[0], &parts[1], &parts[3]],
            "found no partial of refused-2.csv, expected one of each of the 4",
        ),
        (vec![&parts[0], &parts[1]], "found no partial of refused-2.csv, refused-3.csv"),
        (vec![&parts[0], &parts[0]], "found two partials of refused-0.csv"),
        (vec![&parts[0], &sampled], "found the sampling rate 1/4, expected 1/1"),
        (vec![&parts[0], &cut], "cut.partial: found a file that was cut short"),
        (vec![&parts[0], &damaged], "damaged.partial: found a damaged file"),
        (vec![&parts[0], &outline], "found seekless/trace-outline/4, expected seekless/trace-partial/4"),
        (vec![&parts[0], &shards[0]], "refused-0.csv: found another file"),
    ] {
        let words: Vec<&str> = words.into_iter().map(String::as_str).collect();
        refused(&[&["trace", "stats", "--merge"], words.as_slice()].concat(), 1, &[expected]);
    }
    let twice = format!("{}.outline", shards[1]);
    let overlap = ["refused-1.csv: found a first request at ", "the end of refused-1.csv"];
    refused(&["trace", "stats", "--merge", &twice, &twice, "--outline", &outline], 1, &overlap);
    let other = file("other.csv", lines(7..90).as_bytes());
    let begins = ["other.csv: found a trace that begins at"];
    refused(&["trace", "stats", &other, "--partial", &cut, "--of", &outline], 1, &begins);
    assert_eq!(std::fs::read(&cut).expect("it was not replaced").len(), whole.len() / 2);
}

#[test]
fn more_intervals_than_there_may_be_are_refused_in_one_pass_too() {
    let page = folder().join("intervals.html").display().to_string();
    for words in [&["trace", "stats"][..], &["trace", "report", "-o", &page]] {
        let words = [words, &[SMALL, "--interval", "1us"]].concat();
        refused(&words, 2, &["--interval: found ", " intervals, expected at most 1000"]);
    }
}

#[test]
fn a_trace_without_an_outline_is_its_only_shard() {
    let alone = file("alone.partial", b"");
    let written = json(&["trace", "stats", SMALL, "--partial", &alone, "--sample", "1/4"]);
    assert_eq!([&written["shards"], &written["first_shard"], &written["all_shards"]], [1, 1, 1]);
    let (sampled, exact) = (json(&["trace", "stats", "--merge", &alone]), json(&["trace", "stats", SMALL]));
    assert_eq!(sampled["page_sampling"]["kept"], 0.25);
    assert_eq!(sampled["arrivals"], exact["arrivals"]);
    let number = |stats: &serde_json::Value| stats["accessed_pages"].as_f64().expect("a number");
    let apart = 100.0 * (number(&sampled) / number(&exact) - 1.0).abs();
    let error = sampled["page_sampling"]["error_pct"].as_f64().expect("a number");
    assert!(apart <= 1.5 * error && error < 5.0, "{apart} %, expected {error} %");
}

#[test]
fn each_volume_of_a_fleet_is_characterised() {
    let (whole, _) = written("fleet");
    let text = quietly(&["trace", "stats", &whole, "--by", "volume"]);
    for part in
        ["Volumes, by requests\n", "web_0", "web_1", "Over all 2 volumes\n", "partial_determinism_pct"]
    {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let alone = quietly(&["trace", "stats", &whole, "--volume", "web_0", "--csv=volumes"]);
    let requests = alone.lines().nth(1).and_then(|row| row.split(',').nth(1)).expect("a row");
    assert_eq!(json(&["trace", "stats", &whole, "--by", "volume"])["volumes"][0]["name"], "web_0");
    let rows = quietly(&["trace", "stats", &whole, "--by", "volume", "--csv"]);
    assert!(rows.lines().any(|row| row.starts_with(&format!("web_0,{requests},"))), "{rows}");
    assert_eq!(
        quietly(&["trace", "stats", &whole, "--by", "volume", "--csv=distribution"]).lines().count(),
        15
    );
}
