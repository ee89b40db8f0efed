//! Every workload: its description holds, the same seed gives the same requests, limits are kept, and the requests have
//! the figures of its source.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seekless_core::{Nanos, Op, Record};
use seekless_drive::{Model, QueueOptions};
use seekless_lab::workload::client::Limit;
use seekless_lab::workload::{WORKLOADS, parse};
use seekless_lab::{LoadOutcome, Recorded, Run, arrivals, run_workload};
use seekless_trace::Volumes;
use seekless_trace::write::{Output, Provenance, Tables, Target, Writer};
use seekless_volume::Component;
use seekless_volume::description::Description;

/// Each workload once, small enough for a test.
const EACH: [&str; 10] = [
    "random:local=50%",
    "oltp:mpl=4",
    "serial:area=4MiB",
    "postmark:files=200,dirs=10,transactions=500,commit=50ms",
    "zipf:set=1MiB",
    "startup:reads=50,pause=100ms",
    "churn:size=64KiB,outstanding=3",
    "seq:streams=3",
    "mix:3*oltp+1*seq",
    "phases:100ms*oltp+20*seq",
];

fn volume(gib: u64) -> Description {
    let component = Component::new(Model::find("wd2500aaks").unwrap(), QueueOptions::default());
    Description::bare(component, gib << 21)
}

/// The outcome of a workload on all of a drive of this name.
fn on(drive: &str, text: &str) -> LoadOutcome {
    let drive = Model::find(drive).unwrap();
    let sectors = drive.sectors();
    let volume = Description::bare(Component::new(drive, QueueOptions::default()), sectors);
    let run = Run { limit: Limit { requests: Some(2_000), time: None }, seed: 1, keep: false };
    run_workload(&parse(text).unwrap(), &volume, &run, None).unwrap().0
}

fn run(text: &str, seed: u64, requests: Option<u64>) -> (LoadOutcome, Recorded) {
    let run = Run { limit: Limit { requests, time: None }, seed, keep: true };
    run_workload(&parse(text).unwrap(), &volume(8), &run, None).unwrap()
}

fn records(text: &str, requests: u64) -> Vec<Record> {
    run(text, 1, Some(requests)).1.records
}

fn part(of: &[Record], wanted: impl Fn(&Record) -> bool) -> f64 {
    of.iter().filter(|record| wanted(record)).count() as f64 / of.len() as f64
}

#[test]
fn each_workload_is_tried_here_and_says_what_it_is() {
    let tried: BTreeSet<&str> = EACH.iter().map(|text| text.split(':').next().unwrap()).collect();
    let known: BTreeSet<&str> = WORKLOADS.iter().map(|entry| entry.name).collect();
    assert_eq!(tried, known);
    for entry in WORKLOADS {
        assert!(!entry.does.is_empty() && !entry.source.is_empty(), "{}", entry.name);
        for option in entry.options {
            let typed = format!("{}:{}={}", entry.name, option.key, option.default);
            assert!(parse(&typed).is_ok(), "the default of {typed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_others() {
    for text in EACH.iter().filter(|text| !text.starts_with("seq")) {
        let (first, again, other) =
            (run(text, 1, Some(300)), run(text, 1, Some(300)), run(text, 2, Some(300)));
        assert_eq!(first.0, again.0, "{text}");
        assert_eq!(first.1.records, again.1.records, "{text}");
        assert_ne!(first.1.records, other.1.records, "{text}");
    }
}

#[test]
fn limits_are_kept_and_all_that_was_asked_is_answered() {
    for text in EACH {
        let (outcome, recorded) = run(text, 1, Some(77));
        assert_eq!((outcome.requests, recorded.records.len()), (77, 77), "{text}");
        assert!(recorded.records.iter().all(|record| record.latency.known().is_some()), "{text}");
        assert!(recorded.records.windows(2).all(|pair| pair[0].time <= pair[1].time), "{text}");
        assert!(recorded.records.iter().all(|record| record.extent.end().0 <= 8 << 21), "{text}");
        let time = Some(Nanos::from_millis(500));
        let limit = Run { limit: Limit { requests: None, time }, seed: 1, keep: true };
        let (_, timed) = run_workload(&parse(text).unwrap(), &volume(8), &limit, None).unwrap();
        assert!(timed.records.last().is_some_and(|last| Some(last.time) < time), "{text}");
    }
}

#[test]
fn random_is_what_the_freeblock_paper_says() {
    let all = records("random", 10_000);
    assert!((part(&all, |record| record.op == Op::Read) - 2.0 / 3.0).abs() < 0.02);
    assert!(all.iter().all(|record| record.extent.sectors == 8 && record.extent.start.0 % 8 == 0));
    let mean = all.iter().map(|record| record.extent.start.0 as f64).sum::<f64>() / 10_000.0;
    assert!((mean / f64::from(8 << 21) - 0.5).abs() < 0.02, "{mean}");
    // Two thirds of a normal distribution lie within its deviation: 4 MB, 7,812 sectors.
    let near = |all: &[Record]| {
        let close =
            all.windows(2).filter(|pair| pair[0].extent.start.0.abs_diff(pair[1].extent.start.0) <= 7_812);
        close.count() as f64 / all.len() as f64
    };
    assert!(near(&all) < 0.01);
    let local = near(&records("random:local=70%", 10_000));
    assert!((local - 0.7 * 0.683).abs() < 0.02, "{local}");
}

#[test]
fn oltp_is_what_the_freeblock_paper_says() {
    let (outcome, recorded) = run("oltp:mpl=1", 1, Some(20_000));
    let all = &recorded.records;
    assert!((part(all, |record| record.op == Op::Read) - 2.0 / 3.0).abs() < 0.02);
    let kib = all.iter().map(|record| record.extent.sectors as f64 / 2.0).sum::<f64>() / 20_000.0;
    assert!((kib - 8.0).abs() < 0.1, "{kib}");
    assert!(all.iter().all(|record| record.extent.sectors % 8 == 0));
    let think = outcome.elapsed_s * 1e3 / 20_000.0 - outcome.mean_response_ms;
    assert!((think - 30.0).abs() < 0.6, "{think} ms");
    // One task: the drive is idle while it thinks.
    assert!((outcome.idle_s * 1e3 / 20_000.0 - think).abs() < 1e-6);
    assert!((outcome.idle_s + outcome.head.busy_s - outcome.elapsed_s).abs() < 1e-6);
}

#[test]
fn what_does_several_things_at_once_is_idle_when_it_does_none() {
    let think = |outcome: &LoadOutcome| outcome.elapsed_s - outcome.mean_response_ms * 2.0;
    let flash = on("samsung-870-evo-1tb", "oltp:mpl=1");
    assert!((flash.idle_s - think(&flash)).abs() < 1e-6, "one task: {flash:?}");
    let busy = on("samsung-870-evo-1tb", "random:outstanding=32");
    assert!(busy.head.busy_s > 20.0 * busy.elapsed_s && busy.idle_s < 1e-6, "{busy:?}");
    // One arm waits while the other has the only request.
    let arms = on("seagate-exos-2x18-18tb", "random:outstanding=1");
    assert!((arms.head.busy_s - arms.elapsed_s).abs() < 1e-6, "{arms:?}");
    assert!((arms.idle_s - arms.elapsed_s / 2.0).abs() < 1e-6, "{arms:?}");
}

#[test]
fn open_arrivals_come_at_their_rate_whatever_the_device_does() {
    let load = parse("zipf:set=1MiB,rate=50/s").unwrap();
    let run = Run { limit: Limit { requests: Some(5_000), time: None }, seed: 3, keep: true };
    let on_a_drive = run_workload(&load, &volume(8), &run, None).unwrap().1;
    let alone = arrivals(&load, 8 << 21, &run).unwrap().1;
    let arrived = |recorded: &Recorded| -> Vec<_> {
        recorded.records.iter().map(|record| (record.time, record.op, record.extent)).collect()
    };
    assert_eq!(arrived(&on_a_drive), arrived(&alone));
    let rate = 5_000.0 / alone.records[4_999].time.seconds();
    assert!((rate - 50.0).abs() < 2.5, "{rate}");
    assert!(alone.records.iter().all(|record| record.latency.known().is_none()));
    let error = arrivals(&parse("oltp").unwrap(), 8 << 21, &run).unwrap_err().to_string();
    assert!(error.contains("--drive: found none for oltp"), "{error}");
}

#[test]
fn serial_writes_each_block_once_and_reads_in_order() {
    let (outcome, recorded) = run("serial:area=4MiB,at=1GiB", 1, None);
    assert_eq!((outcome.writes, outcome.reads, outcome.flushes), (1_024, 4, 1));
    let writes: Vec<u64> =
        recorded.records.iter().filter(|r| r.op == Op::Write).map(|r| r.extent.start.0).collect();
    assert!(writes.windows(2).any(|pair| pair[0] > pair[1]));
    let blocks: BTreeSet<u64> = writes.into_iter().collect();
    assert_eq!(blocks, (0..1_024).map(|block| (1 << 21) + block * 8).collect());
    let reads: Vec<u64> =
        recorded.records.iter().filter(|r| r.op == Op::Read).map(|r| r.extent.start.0 - (1 << 21)).collect();
    assert_eq!(reads, [0, 2_048, 4_096, 6_144]);
    assert_eq!(run("serial:area=4MiB,part=25%", 1, None).0.writes, 256);
}

#[test]
fn zipf_asks_for_few_often_and_its_working_set_moves() {
    let popular = |all: &[Record]| {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for record in all {
            *counts.entry(record.extent.start.0).or_default() += 1;
        }
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        (counts.len(), counts.iter().take(51).sum::<u64>() as f64 / all.len() as f64)
    };
    // 256 blocks; the first fifth of the ranks have 74 % of the weight for a theta of 0.99.
    let (blocks, top) = popular(&records("zipf:set=1MiB,churn=0", 20_000));
    assert!(blocks <= 256 && (top - 0.74).abs() < 0.03, "{blocks} {top}");
    let moving = records("zipf:set=1MiB,churn=10%", 20_000);
    let set = |all: &[Record]| all.iter().map(|record| record.extent.start.0).collect::<BTreeSet<_>>();
    let (early, late) = (set(&moving[..2_000]), set(&moving[18_000..]));
    assert!(early.intersection(&late).count() * 5 < early.len());
}

#[test]
fn an_application_reads_the_same_at_every_start() {
    let (_, recorded) = run("startup:apps=2,reads=40,noise=0,pause=10ms", 1, Some(400));
    let mut starts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for record in &recorded.records {
        starts.entry(record.origin.process.0).or_default().push(record.extent.start.0);
    }
    let different: BTreeSet<&Vec<u64>> = starts.values().collect();
    assert_eq!((starts.len(), different.len()), (10, 2));
    let noisy = records("startup:apps=1,reads=100,noise=10%,pause=10ms", 5_000);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &noisy {
        *counts.entry(record.extent.start.0).or_default() += 1;
    }
    let once = counts.values().filter(|count| **count == 1).count() as f64 / 5_000.0;
    assert!((once - 0.05 / 0.95).abs() < 0.01, "{once}");
}

#[test]
fn streams_are_sequential() {
    let all = records("seq:streams=3,size=64KiB", 300);
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for record in &all {
        let end = ends.insert(record.origin.process.0, record.extent.end().0);
        assert!(end.is_none_or(|end| end == record.extent.start.0), "{record:?}");
    }
    assert_eq!(ends.len(), 3);
}

#[test]
fn mixtures_keep_their_shares_and_phases_their_lengths() {
    let named = |text: &str, requests| {
        let (_, recorded) = run(text, 1, Some(requests));
        let name = |record: &Record| recorded.names.get(record.origin.name).to_owned();
        recorded.records.iter().map(name).collect::<Vec<String>>()
    };
    let count = |names: &[String], wanted: &str| names.iter().filter(|name| *name == wanted).count();
    let mix = named("mix:3*oltp:mpl=5+1*seq", 4_000);
    assert!(count(&mix, "oltp").abs_diff(3_000) <= 4, "{}", count(&mix, "oltp"));
    let phases = named("phases:30*random+20*seq", 100);
    let expected = [("random", 30), ("seq", 20), ("random", 30), ("seq", 20)];
    let expected: Vec<&str> = expected.iter().flat_map(|(name, times)| vec![*name; *times]).collect();
    assert_eq!(phases, expected);
    let ended = named("phases:10*(serial:area=64KiB,read=64KiB)+5*seq", 60);
    assert_eq!((count(&ended, "serial writes"), count(&ended, "serial reads")), (16, 2));
    let nested = named("mix:1*random+3*(phases:10*oltp+10*seq)", 400);
    assert!(count(&nested, "random").abs_diff(100) <= 2 && count(&nested, "oltp") > 100);
}

#[test]
fn postmark_ends_and_its_commits_go_through_the_journal() {
    let (outcome, recorded) = run("postmark:files=200,dirs=10,transactions=2000,commit=500ms", 1, None);
    assert!(outcome.flushes > 4 && outcome.writes > outcome.flushes && outcome.reads > 0);
    let journal = recorded
        .records
        .iter()
        .filter(|record| record.op == Op::Write && recorded.names.get(record.origin.name) == "kjournald");
    let in_order = journal.clone().count();
    assert_eq!(in_order as u64, outcome.writes, "only the journal's process writes");
    // The benchmark itself only reads, and waits.
    let durable = journal.filter(|record| record.flags.has(seekless_core::Flags::FUA)).count() as u64;
    assert!(durable > 0 && durable <= outcome.flushes);
    let cached = run("postmark:files=200,dirs=10,transactions=2000,cache=1GiB", 1, None).0;
    assert!(cached.reads < 200, "only what was never in memory is read: {}", cached.reads);
}

#[test]
fn what_cannot_be_a_workload_is_reported_with_what_would() {
    for (text, words) in [
        ("olpt", &["workload: found 'olpt'", "one of: random, oltp"][..]),
        ("oltp:think=30", &["oltp, think: found '30'", "30ms"]),
        ("oltp:mpl=0", &["oltp, mpl: found '0'", "1 to 100000"]),
        ("oltp:thnk=3ms", &["oltp: found the key 'thnk'", "think"]),
        ("oltp:mpl=1,mpl=2", &["mpl: found it twice"]),
        ("oltp:mpl", &["found 'mpl'", "key=value"]),
        ("random:size=1GiB", &["random, size: found '1GiB'", "32 MiB"]),
        ("random:size=0", &["size: found '0'"]),
        ("random:reads=101", &["reads: found '101'"]),
        ("random:rate=5,outstanding=2", &["rate", "without outstanding="]),
        ("mix:", &["mix: found 0 members", "mix:3*oltp"]),
        ("mix:0*oltp", &["the weight of oltp", "'0'"]),
        ("mix:2*3*oltp", &["one *"]),
        ("phases:oltp", &["the length of oltp", "10m"]),
        ("serial:area=1TiB", &["area: found '1TiB'", "at most"]),
        ("postmark:area=1MiB", &["area: found '1MiB'", "at least 256 MiB"]),
    ] {
        let error = parse(text).err().unwrap_or_else(|| panic!("{text}")).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
    let deep = format!("{}oltp{}", "mix:(".repeat(500), ")".repeat(500));
    assert!(parse(&deep).err().unwrap().to_string().contains("too deep"));
    let small = parse("serial:area=4GiB").unwrap();
    let error = run_workload(&small, &volume(1), &Run::default(), None).unwrap_err().to_string();
    assert!(error.contains("found a volume of 1 GiB") && error.contains("at least 4 GiB"), "{error}");
}

#[test]
fn a_trace_of_a_workload_is_read_back() {
    let (_, recorded) = run("mix:1*startup+1*serial:area=1MiB", 1, Some(300));
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("synth.txt");
    let target = Target::of_file("synth.txt").unwrap();
    let output = Output::file(&file, true).unwrap();
    let mut writer = Writer::new(target, output, &Provenance::default()).unwrap();
    let volumes = Volumes::default();
    for record in &recorded.records {
        writer.record(record, Tables { names: &recorded.names, volumes: &volumes }).unwrap();
    }
    assert_eq!(writer.finish().unwrap().warnings, [""; 0]);
    let trace = seekless_trace::load(&[file], &seekless_trace::ReadOptions::default()).unwrap();
    let first = recorded.records[0].time;
    for (ours, read) in recorded.records.iter().zip(&trace.records) {
        let theirs = (read.time, read.op, read.extent, read.origin.process);
        assert_eq!((ours.time - first, ours.op, ours.extent, ours.origin.process), theirs);
        assert_eq!(recorded.names.get(ours.origin.name), trace.names.get(read.origin.name));
    }
    assert_eq!(trace.records.len(), 300);
}

proptest! {
    /// Any text is a workload that runs, or an error; it never panics.
    #[test]
    fn any_text_is_a_workload_or_an_error(
        name in prop_oneof!["[a-z]{0,8}", Just("oltp".to_owned()), Just("zipf".to_owned()), Just("seq".to_owned())],
        key in prop_oneof!["[a-z]{0,6}", Just("size".to_owned()), Just("at".to_owned()), Just("area".to_owned())],
        value in prop_oneof!["-?[0-9]{1,20}(KiB|MiB|%|ms)?", "\\PC{0,8}"],
        around in prop_oneof![Just(("", "")), Just(("mix:2*", "+seq")), Just(("phases:5*(", ")+1s*seq"))],
    ) {
        let text = format!("{}{name}:{key}={value}{}", around.0, around.1);
        if let Ok(load) = parse(&text) {
            let limit = Run { limit: Limit { requests: Some(5), time: Some(Nanos::from_millis(200)) }, seed: 1, keep: false };
            let _ = run_workload(&load, &volume(8), &limit, None);
        }
    }
}
