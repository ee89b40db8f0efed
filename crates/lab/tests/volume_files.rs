//! Volume files: they describe the same as the flags, and invalid ones are errors.

use seekless_core::PAGE_SECTORS;
use seekless_drive::{Model, QueueOptions};
use seekless_lab::workload::client::Limit;
use seekless_lab::{Clock, Experiment, LayerSetup, Pace, Partition, Run, run_workload, workload};
use seekless_layers::registry;
use seekless_volume::file::parse;

const GOOD: &str = r#"
[component.disk]
drive = "wd2500aaks"
[slice.home]
of = "disk"
size = "100GiB"
[slice.bopt]
of = "disk"
at = "100GiB"
size = "1GiB"
[layer.borg]
over = "home"
bopt = "bopt"
write_buffer = 0.4
[[export]]
top = "borg"
"#;

const TWO: &str = r#"
[component.disk]
drive = "wd2500aaks"
scheduler = "sptf"
starvation_limit = "1s"
merge = true
background_share = 20
depth = 32
write_cache = false
[component.other]
drive = "wd2500aaks"
[layer.slow]
is = "delay"
over = "other"
time = "2ms"
[layer.mapper]
over = "slow"
size = "1GiB"
[[export]]
top = "mapper"
"#;

#[test]
fn a_file_and_the_flags_build_the_same_volume() {
    let layer = LayerSetup {
        entry: registry::find(registry::DEFAULT).unwrap(),
        options: toml::Table::new(),
        partition: Some(Partition { sectors: 1 << 21, at_sector: None, drive: None }),
    };
    let flags = Experiment {
        drive: Model::find("wd2500aaks").unwrap(),
        over_sectors: Some((100 << 21) / PAGE_SECTORS * PAGE_SECTORS),
        layer: Some(layer),
        queue: QueueOptions::default(),
        pace: Pace::Closed { outstanding: 1 },
        reconfigure: 0,
        schedule: None,
        clock: Clock::Run,
        seed: 1,
        bounds: false,
        accesses: false,
    };
    let load = workload::parse("oltp").unwrap();
    let run = Run { limit: Limit { requests: Some(500), time: None }, seed: 1, keep: false };
    let of = |volume| run_workload(&load, &volume, &run, None).unwrap().0;
    assert_eq!(of(parse("v.toml", GOOD).unwrap()), of(flags.whole_volume().unwrap()));
}

#[test]
fn a_layout_that_is_reconfigured_serves_from_the_bopt() {
    let often = GOOD.replace("write_buffer = 0.4", "reconfigure = \"every 60s\"");
    let load = workload::parse("startup:apps=2,reads=100,pause=1s").unwrap();
    let run = Run { limit: Limit { requests: Some(5_000), time: None }, seed: 1, keep: false };
    let outcome = run_workload(&load, &parse("v.toml", &often).unwrap(), &run, None).unwrap().0;
    assert!(outcome.reconfigurations > 0 && outcome.served_from_bopt_pct > 30.0, "{outcome:?}");
}

/// BORG over a slow disk, under a layer that fails a read now and then; the same kind of layer twice.
#[test]
fn layers_of_all_kinds_lie_over_each_other() {
    let slow =
        GOOD.replace("over = \"home\"", "over = \"lagging\"").replace("top = \"borg\"", "top = \"busy\"")
            + "[layer.lagging]\nis = \"delay\"\nover = \"home\"\ntime = \"2ms\"\n\
           [layer.busy]\nis = \"delay\"\nover = \"borg\"\ntime = \"3ms\"\n";
    let load = workload::parse("random:reads=100%").unwrap();
    let run = Run { limit: Limit { requests: Some(300), time: None }, seed: 1, keep: false };
    let of = |text: &str| run_workload(&load, &parse("v.toml", text).unwrap(), &run, None);
    let (usual, late) = (of(GOOD).unwrap().0, of(&slow).unwrap().0);
    let more = late.mean_response_ms - usual.mean_response_ms;
    assert!((3.0..8.0).contains(&more), "{more} ms: two delays, and other turns of the disk");
    let failing = slow.replace(
        "is = \"delay\"\nover = \"borg\"\ntime = \"3ms\"",
        "is = \"error\"\nover = \"borg\"\nnth = 100",
    );
    let failing = of(&failing).unwrap().0;
    assert_eq!((failing.requests, failing.failed), (299, 1), "one is made to fail, and counted");
    for (from, to, words) in [
        (
            "is = \"delay\"",
            "is = \"dealy\"",
            ["layer.lagging.is", "'dealy'", "borg, cache, cdp, dcd, dedup, defrag, delay"],
        ),
        ("is = \"delay\"", "is = 3", ["layer.lagging.is", "found 3", "name of a layer"]),
        ("time = \"2ms\"", "time = \"2\"", ["layer.lagging", "'2'", "1.5ms"]),
        ("time = \"2ms\"", "times = 0.1", ["layer.lagging.times", "found 0.1", "1 to"]),
        ("time = \"2ms\"", "reconfigure = \"every 1h\"", ["layer.lagging", "reconfigure", "time"]),
    ] {
        let error =
            parse("v.toml", &slow.replacen(from, to, 1)).err().unwrap_or_else(|| panic!("{to}")).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{to}: {error}");
    }
}

#[test]
fn a_layer_may_show_less_than_there_is_below() {
    let text = GOOD
        .replace("bopt = \"bopt\"\nwrite_buffer = 0.4", "size = \"50GiB\"")
        .replace("layer.borg", "layer.mapper")
        .replace("top = \"borg\"", "top = \"mapper\"");
    assert_eq!(parse("v.toml", &text).unwrap().check().unwrap(), 50 << 21);
    let more = parse("v.toml", &text.replace("50GiB", "500GiB")).unwrap_err().to_string();
    assert!(more.contains("v.toml: layer.mapper.size") && more.contains("room for two maps"), "{more}");
}

#[test]
fn what_cannot_be_a_volume_is_reported_with_its_place() {
    for (from, to, words) in [
        ("of = \"disk\"", "off = \"disk\"", ["v.toml", "line 5", "unknown field `off`"]),
        ("of = \"disk\"", "of = \"dusk\"", ["slice.home", "of = 'dusk'", "disk"]),
        ("write_buffer", "write_bufer", ["v.toml: layer.borg", "write_bufer", "threshold"]),
        ("write_buffer = 0.4", "write_buffer = 4.0", ["layer.borg.write_buffer", "found 4", "0 to 1"]),
        ("write_buffer = 0.4", "reconfigure = 7", ["layer.borg.reconfigure", "7", "every 42h"]),
        ("at = \"100GiB\"", "at = \"99GiB\"", ["layer.borg.bopt", "sectors of disk", "layer.borg.over"]),
        ("at = \"100GiB\"", "at = \"232.5GiB\"", ["slice.bopt", "232.50 GiB", "a part of disk"]),
        ("at = \"100GiB\"", "at = \"a lot\"", ["slice.bopt.at", "'a lot'", "4GiB"]),
        ("over = \"home\"", "over = \"borg\"", ["layer.borg.over", "'borg'", "above"]),
        ("over = \"home\"", "over = 7", ["layer.borg.over", "found 7", "name"]),
        ("bopt = \"bopt\"", "bopt = \"b\"", ["layer.borg.bopt", "'b'", "home"]),
        ("top = \"borg\"", "top = \"brog\"", ["export.top", "'brog'", "borg"]),
        ("layer.borg", "layer.flash", ["layer.flash", "'flash'", "a layer: alis, borg"]),
        ("slice.home", "slice.disk", ["slice.disk", "same name", "another name"]),
        ("\"wd2500aaks\"", "\"floppy\"", ["component.disk.drive", "'floppy'", "wd2500aaks"]),
        (
            "\"wd2500aaks\"",
            "\"wd2500aaks\"\nscheduler = \"x\"",
            ["component.disk.scheduler", "'x'", "c-look"],
        ),
        (
            "\"wd2500aaks\"",
            "\"wd2500aaks\"\nstarvation_limit = \"soon\"",
            ["component.disk.starvation_limit", "'soon'", "0s for never"],
        ),
        ("[[export]]", "[[exports]]", ["v.toml", "unknown field `exports`", "export"]),
    ] {
        let error =
            parse("v.toml", &GOOD.replacen(from, to, 1)).err().unwrap_or_else(|| panic!("{to}")).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{to}: {error}");
    }
}

proptest::proptest! {
    /// For any content of a line, the file is a volume or an error; it never panics.
    #[test]
    fn any_file_is_a_volume_or_an_error(line in 0..16_usize, value in "\\PC{0,12}|\"[0-9]{1,20}GiB\"|-?[0-9]{1,12}") {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        let line = line % lines.len();
        lines[line] = match lines[line].split_once('=') {
            Some((key, _)) => format!("{key}= {value}"),
            None => value,
        };
        check_error(&lines.join("\n"));
    }

    /// As above, for files in which something is left out, doubled or changed at any place.
    #[test]
    fn a_damaged_file_is_a_volume_or_an_error(
        good in proptest::sample::select(vec![GOOD, TWO]),
        damage in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..30_usize, "\\PC{0,6}|[0-9]{9,20}|\n"), 1..4),
    ) {
        let mut text: Vec<char> = good.chars().collect();
        for (at, left_out, other) in damage {
            let from = at.index(text.len() + 1);
            let to = (from + left_out).min(text.len());
            text.splice(from..to, other.chars());
        }
        check_error(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_is_a_volume_or_an_error(text in "\\PC{0,200}") {
        check_error(&text);
    }
}

/// A server's data has its own size, and the speed of the drive that it emulates.
#[test]
fn data_with_emulate_is_as_large_as_it_is_and_as_slow_as_the_drive() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    let path = file.path().display();
    let of = |keys: &str| parse("v.toml", &format!("[component.disk]\n{keys}\n[[export]]\ntop = \"disk\"\n"));
    for keys in [
        format!("file = \"{path}\"\nemulate = \"wd2500aaks\""),
        "ram = \"8MiB\"\nemulate = \"wd2500aaks\"\ndepth = 4".to_owned(),
    ] {
        let volume = of(&keys).unwrap();
        assert_eq!(volume.check().unwrap(), (8 << 20) / 512, "{keys}");
        let load = workload::parse("random:size=4KiB").unwrap();
        let run = Run { limit: Limit { requests: Some(100), ..Limit::default() }, seed: 1, keep: true };
        let (outcome, recorded) = run_workload(&load, &volume, &run, None).unwrap();
        assert!(outcome.head.busy_s > 0.1, "an arm moves: {}", outcome.head.busy_s);
        assert!(recorded.records.iter().all(|record| record.extent.end().0 <= (8 << 20) / 512));
    }
    for (keys, words) in [
        ("ram = \"8MiB\"".to_owned(), ["data without a drive", "emulate = "]),
        ("drive = \"wd2500aaks\"\nram = \"8MiB\"".to_owned(), ["component.disk.drive", "one of them"]),
        ("drive = \"wd2500aaks\"\nemulate = \"wd2500aaks\"".to_owned(), ["drive and emulate", "one of them"]),
        (
            "nbd = \"nbd://there\"\nemulate = \"wd2500aaks\"".to_owned(),
            ["another server's export", "file or ram"],
        ),
        ("ram = \"1TiB\"\nemulate = \"wd2500aaks\"".to_owned(), ["1 TiB of data", "as large"]),
        (
            "file = \"no such file\"\nemulate = \"wd2500aaks\"".to_owned(),
            ["no such file", "a file or block device"],
        ),
        ("scheduler = \"sptf\"".to_owned(), ["no drive", "file or ram with emulate"]),
    ] {
        let error = of(&keys).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{keys}: {error}");
    }
}

/// Checks that an error says what was found and what was expected.
fn check_error(text: &str) {
    if let Err(error) = parse("v.toml", text) {
        let error = error.to_string();
        assert!(error.contains("expected"), "{error}\n{text}");
    }
}
