//! Whole experiments on small synthetic traces and on the shipped recordings: phases, paces, guarantees of a
//! comparison, and reproducibility.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use seekless_core::runtime::Rng;
use seekless_core::{Class, Extent, Flags, Latency, Nanos, Op, Origin, ProcessId, Record};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Model, Policy, QueueOptions};
use seekless_lab::outcome::{Comparison, Variant};
use seekless_lab::{
    Clock, EventSink, Experiment, LayerSetup, Pace, Partition, Run, compare, run_trace, run_workload,
    workload,
};
use seekless_layers::borg::{MoveClass, Options};
use seekless_layers::registry;
use seekless_trace::{ReadOptions, Trace};

/// As in the paper: no plan is declined.
fn every_plan() -> Options {
    Options { rehearse: false, ..Options::default() }
}

fn experiment() -> Experiment {
    Experiment {
        drive: Model::find("wd2500aaks").unwrap(),
        over_sectors: None,
        layer: Some(LayerSetup {
            entry: registry::find(registry::DEFAULT).unwrap(),
            options: toml::Table::try_from(every_plan()).unwrap(),
            partition: Some(Partition { sectors: 1 << 21, at_sector: None, drive: None }),
        }),
        queue: QueueOptions::default(),
        pace: Pace::Closed { outstanding: 8 },
        reconfigure: 4,
        schedule: None,
        clock: Clock::Run,
        seed: 1,
        bounds: false,
        accesses: false,
    }
}

fn record(time: u64, process: u32, op: Op, page: u64, pages: u64) -> Record {
    let origin = Origin { process: ProcessId(process), ..Origin::default() };
    Record {
        time: Nanos(time),
        device: 1,
        op,
        extent: Extent::of_pages(page, pages),
        flags: Flags::default(),
        origin,
        latency: Latency::UNKNOWN,
    }
}

/// A process that repeatedly reads each of the same scattered pages three times, and writes now and then. (Several
/// would each have its own place in the BOPT, and whether the head then just misses the next one's page is a matter of
/// luck.)
fn repeating(requests: u64) -> Trace {
    let mut rng = Rng::seeded(7);
    let order: Vec<u64> = (0..300).map(|_| rng.below(5_000_000)).collect();
    let records = (0..requests).map(|i| {
        let process = 1;
        let op = if i % 10 == 9 { Op::Write } else { Op::Read };
        record(i * 5_000_000, process, op, order[(i / 3) as usize % 300], 1)
    });
    Trace { records: records.collect(), ..Trace::default() }
}

fn shipped(name: &str) -> Trace {
    let base: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    seekless_trace::load(&[base], &ReadOptions::default()).unwrap()
}

fn compared(trace: &Trace, experiment: &Experiment) -> Comparison {
    compare(trace, experiment, &|_| ()).unwrap()
}

fn layer(comparison: &Comparison) -> &Variant {
    &comparison.variants[1]
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let trace = repeating(3_000);
    let text = || serde_json::to_string(&compared(&trace, &experiment())).unwrap();
    assert_eq!(text(), text());
}

#[test]
fn what_repeats_is_served_faster_and_the_figures_are_consistent() {
    let trace = repeating(6_000);
    let comparison = compared(&trace, &experiment());
    let (vanilla, borg) = (&comparison.variants[0], layer(&comparison));
    assert!(comparison.reduction_pct > 30.0, "{}", comparison.reduction_pct);
    assert!(borg.served_from_bopt_pct > 40.0 && vanilla.served_from_bopt_pct < 0.1);
    for variant in &comparison.variants {
        let sum: f64 = variant.phases.iter().map(|phase| phase.work.head.busy_s).sum();
        let head = &variant.work.head;
        let parts = head.seek_s + head.rotation_s + head.transfer_s + head.overhead_s;
        assert!((sum - head.busy_s).abs() < 1e-6 && (parts - head.busy_s).abs() < 1e-6);
        let last: f64 = variant.phases.iter().filter(|p| p.name == "final").map(|p| p.work.head.busy_s).sum();
        assert!((head.busy_s - last + variant.idle_s - variant.elapsed_s).abs() < 1e-3, "{}", variant.name);
        let split = variant.work.foreground_s + variant.work.background_s;
        assert!((split - head.busy_s).abs() < 1e-6);
    }
    // Phases are disjoint ranges that cover the trace, the same for both.
    let mut next = 0;
    for (ours, theirs) in borg.phases.iter().zip(&vanilla.phases) {
        assert_eq!((ours.first_request, ours.requests), (theirs.first_request, theirs.requests));
        assert_eq!(ours.first_request, next);
        assert!((ours.vanilla_busy_s - theirs.work.head.busy_s).abs() < 1e-9);
        next += ours.requests;
    }
    assert_eq!(next, 6_000);
    let names: Vec<&str> = borg.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["N1", "R1", "N2", "R2", "N3", "R3", "N4", "R4", "N5", "final"]);
    // The formulas, from the phases.
    let over = |kind: &dyn Fn(&str) -> bool, of: &dyn Fn(&seekless_lab::outcome::Phase) -> f64| {
        let sum = |variant: &Variant| variant.phases.iter().filter(|p| kind(&p.name)).map(of).sum::<f64>();
        100.0 * (1.0 - sum(borg) / sum(vanilla))
    };
    let settled = over(&|name| name.starts_with('N') && name != "N1", &|phase| phase.work.head.busy_s);
    // It absorbs from the first write on, so all phases count.
    assert!(borg.phases[0].traffic.as_ref().is_some_and(|traffic| traffic.absorbed_pages > 0));
    let whole = over(&|_| true, &|phase| phase.work.head.busy_s);
    let foreground = over(&|_| true, &|phase| phase.work.foreground_s);
    for (printed, own) in [
        (comparison.reduction_pct, settled),
        (comparison.net_reduction_pct, whole),
        (comparison.foreground_reduction_pct, foreground),
    ] {
        assert!((printed - own).abs() < 0.01, "{printed} against {own}");
    }
}

#[test]
fn with_the_clock_stopped_no_request_falls_into_a_reconfiguration() {
    let stopped = Experiment { clock: Clock::Stop, ..experiment() };
    let comparison = compared(&repeating(3_000), &stopped);
    assert!(comparison.reconfiguring_requests_pct < 0.001);
    let moved =
        layer(&comparison).phases.iter().filter(|p| p.name.starts_with('R')).map(|p| p.work.background_s);
    assert!(moved.sum::<f64>() > 0.0);
}

/// Time and outstanding requests, from the events of a run.
fn outstanding(trace: &Trace, experiment: &Experiment) -> Vec<(u64, i64)> {
    let seen: Rc<RefCell<Vec<(u64, i64)>>> = Rc::default();
    let sink: EventSink = {
        let (seen, mut now) = (seen.clone(), 0);
        Box::new(move |at, event| {
            match event {
                seekless_core::runtime::Event::Request { class: Class::Foreground, .. } => now += 1,
                seekless_core::runtime::Event::Complete { .. } => now -= 1,
                _ => return,
            }
            seen.borrow_mut().push((at.0, now));
        })
    };
    run_trace(trace, experiment, Some(sink), &|_| ()).unwrap();
    seen.take()
}

#[test]
fn a_closed_replay_keeps_n_outstanding_and_a_process_reads_one_at_a_time() {
    let vanilla = Experiment { layer: None, ..experiment() };
    let most = |trace: &Trace, pace| {
        let seen = outstanding(trace, &Experiment { pace, ..vanilla.clone() });
        seen.iter().map(|(_, now)| *now).max().unwrap()
    };
    let one_process =
        Trace { records: (0..50).map(|i| record(0, 1, Op::Read, i * 999, 1)).collect(), ..Trace::default() };
    assert_eq!(most(&one_process, Pace::Closed { outstanding: 8 }), 1);
    let many: Vec<Record> = (0..200_u32).map(|i| record(0, i, Op::Read, u64::from(i) * 999, 1)).collect();
    let many = Trace { records: many, ..Trace::default() };
    for (outstanding, seen) in [(1, 1), (3, 3), (8, 8)] {
        assert_eq!(most(&many, Pace::Closed { outstanding }), seen);
    }
    assert_eq!(most(&many, Pace::Open { speed: 1.0 }), 200, "an open replay issues all that is due");
}

#[test]
fn an_open_replay_keeps_the_recorded_times_and_tells_of_a_backlog() {
    let slow: Vec<Record> = (0..20).map(|i| record(i * 1_000_000_000, 1, Op::Read, i * 999, 1)).collect();
    let slow = Trace { records: slow, ..Trace::default() };
    let vanilla = Experiment { layer: None, pace: Pace::Open { speed: 2.0 }, ..experiment() };
    let starts: Vec<u64> =
        outstanding(&slow, &vanilla).iter().filter(|(_, now)| *now == 1).map(|(at, _)| *at).collect();
    assert_eq!(starts, (0..20).map(|i| i * 500_000_000).collect::<Vec<u64>>());
    let fast = Experiment { pace: Pace::Open { speed: 1_000.0 }, ..experiment() };
    let notes = compared(&repeating(3_000), &fast).notes.concat();
    assert!(notes.contains("the queue only grew") && !notes.contains("no head"), "{notes}");
    let flash = Experiment { drive: Model::find("samsung-870-evo-1tb").unwrap(), ..experiment() };
    let notes = compared(&repeating(300), &flash).notes.concat();
    assert!(notes.contains("no head"), "{notes}");
}

#[test]
fn schedulers_and_merging_can_be_told_apart() {
    let sequential: Vec<Record> = (0..400_u32).map(|i| record(0, i, Op::Write, u64::from(i), 1)).collect();
    let mut sequential = Trace { records: sequential, ..Trace::default() };
    sequential.records.push(record(0, 1, Op::Read, 1_000, 1));
    let run = |merge, policy| {
        let queue = QueueOptions { merge, policy, ..QueueOptions::default() };
        let vanilla = Experiment { layer: None, queue, ..experiment() };
        run_trace(&sequential, &vanilla, None, &|_| ()).unwrap()
    };
    let (merged, single) = (run(true, Policy::CLook), run(false, Policy::CLook));
    assert!(
        merged.merge_ratio > 7.0 && single.merge_ratio < 1.001,
        "{} {}",
        merged.merge_ratio,
        single.merge_ratio
    );
    assert!(run(true, Policy::Fcfs).merge_ratio > 7.0);
}

/// Table 2 of the freeblock paper: 5.0 ms average seek and half a revolution of 5.985 ms.
#[test]
fn random_reads_on_the_atlas_take_what_table_2_says() {
    let queue = QueueOptions { policy: Policy::Fcfs, ..QueueOptions::default() };
    let atlas =
        Experiment { drive: Model::find("quantum-atlas-10k").unwrap(), layer: None, queue, ..experiment() };
    let load = workload::parse("random:reads=100%").unwrap();
    let run = Run { seed: 1, ..Run::default() };
    let (outcome, _) = run_workload(&load, &atlas.whole_volume().unwrap(), &run, None).unwrap();
    assert_eq!(outcome.requests, 10_000);
    let took = &outcome.head_ms_per_request;
    assert!((5.0..5.8).contains(&took.seek), "{} ms seek", took.seek);
    assert!((2.9..3.1).contains(&took.rotation), "{} ms rotation", took.rotation);
}

/// Lower bounds of the savings, with every plan carried out.
#[test]
fn borg_saves_disk_time_on_the_recordings_that_ship() {
    for (name, floor) in [("appstart2", 30.0), ("svnserver2", 10.0), ("mail", 5.0)] {
        let comparison = compared(&shipped(name), &experiment());
        assert!(comparison.reduction_pct >= floor, "{name}: {} %", comparison.reduction_pct);
        let stages: BTreeMap<&str, u64> = layer(&comparison).reconfigurations[0]
            .stages
            .iter()
            .map(|s| (s.name.as_str(), s.pages))
            .collect();
        assert_eq!(stages.len(), 5);
        assert!(stages["incoming"] > 0 && stages["relocate"] > 0, "{name}: {stages:?}");
    }
}

/// Freeblock scheduling and BORG together: free copies of a reconfiguration take no head time; and late copies are
/// still made.
#[test]
fn reconfigurations_copy_for_free_or_end_in_the_background() {
    let trace = shipped("svnserver2");
    let run = |class, deadline| {
        let mut experiment = experiment();
        let layer = experiment.layer.as_mut().unwrap();
        let options = Options { reconfigure_class: class, free_deadline: deadline, ..every_plan() };
        layer.options = toml::Table::try_from(&options).unwrap();
        experiment.queue.freeblock = (class == MoveClass::Free).then(FreeOptions::default);
        compared(&trace, &experiment)
    };
    let usual = Options::default().free_deadline;
    let [paid, free, late] = [
        run(MoveClass::Background, usual),
        run(MoveClass::Free, usual),
        run(MoveClass::Free, Nanos::from_millis(20)),
    ];
    let background = |of: &Comparison| {
        let phases = layer(of).phases.iter().filter(|phase| phase.name.starts_with('R'));
        phases.map(|phase| phase.work.background_s).sum::<f64>()
    };
    let copied = |of: &Comparison| {
        let of = &layer(of).reconfigurations;
        (
            of.iter().map(|one| one.copied_pages).sum::<u64>(),
            of.iter().map(|one| one.promoted_pages).sum::<u64>(),
        )
    };
    assert!(background(&free) < 0.3 * background(&paid), "{} {}", background(&free), background(&paid));
    assert!(free.net_reduction_pct > paid.net_reduction_pct);
    assert!(copied(&paid).0 > 0 && copied(&paid).1 == 0);
    assert!(
        copied(&late).1 > 0 && copied(&late).1 > copied(&free).1,
        "{:?} {:?}",
        copied(&late),
        copied(&free)
    );
}

#[test]
fn traces_that_do_not_fit_are_refused() {
    let message =
        |trace: &Trace, experiment: &Experiment| compare(trace, experiment, &|_| ()).unwrap_err().to_string();
    let no_reads = Trace { records: vec![record(0, 1, Op::Write, 0, 1)], ..Trace::default() };
    assert!(message(&no_reads, &experiment()).contains("found no reads in 1 records"));
    let beyond = Trace { records: vec![record(0, 1, Op::Read, 1 << 40, 1)], ..Trace::default() };
    assert!(message(&beyond, &experiment()).contains("the end of wd2500aaks"));
    let fine = repeating(10);
    let idle = Experiment { pace: Pace::Closed { outstanding: 0 }, ..experiment() };
    assert!(message(&fine, &idle).contains("outstanding: found 0"));
    let queue = QueueOptions { background_share_pct: 100, ..QueueOptions::default() };
    assert!(message(&fine, &Experiment { queue, ..experiment() }).contains("background-share: found 100"));
}
