//! Rehearsal: a plan that would not pay is not carried out, one that pays is, and what moving costs is foreseen. The
//! model is the component's own drive, or the one that its key `model` names.

use seekless_core::{Extent, Flags, Latency, Nanos, Op, Origin, ProcessId, Record};
use seekless_lab::outcome::Variant;
use seekless_lab::{Candidate, Clock, Pace, Play, compare_volumes};
use seekless_trace::Trace;
use seekless_volume::{Description, file};

fn volume(model: &str, options: &str) -> Description {
    let text = format!(
        "[component.disk]\ndrive = \"wd2500aaks\"\n{model}\n\
         [slice.home]\nof = \"disk\"\nsize = \"100GiB\"\n[slice.bopt]\nof = \"disk\"\nat = \"100GiB\"\nsize = \"256MiB\"\n\
         [layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n{options}\n[[export]]\ntop = \"borg\"\n"
    );
    file::parse("v.toml", &text).unwrap()
}

/// Reads of one page each by one process, 20 ms apart.
fn reads(pages: impl Iterator<Item = u64>) -> Trace {
    let record = |(page, i): (u64, u64)| Record {
        time: Nanos(i * 20_000_000),
        device: 1,
        op: Op::Read,
        extent: Extent::of_pages(page, 1),
        flags: Flags::default(),
        origin: Origin { process: ProcessId(1), ..Origin::default() },
        latency: Latency::UNKNOWN,
    };
    Trace { records: pages.zip(0..).map(record).collect(), ..Trace::default() }
}

/// A page of the 100 GiB, all over.
fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

fn played(trace: &Trace, volume: Description) -> Variant {
    let candidate = Candidate { name: "borg".to_owned(), volume };
    let play = Play { reconfigure: 2, clock: Clock::Stop, ..Play::default() };
    compare_volumes(trace, &[candidate], &play, &|_| ()).unwrap().variants.remove(0)
}

fn counter(variant: &Variant, name: &str) -> u64 {
    variant.layers["borg"][name]
}

fn copied(variant: &Variant) -> Vec<u64> {
    variant.reconfigurations.iter().map(|one| one.copied_pages).collect()
}

#[test]
fn a_plan_of_what_never_comes_again_is_declined() {
    let trace = reads((0..6_000).map(scattered));
    let as_planned = played(&trace, volume("", "rehearse = false"));
    assert!(copied(&as_planned).iter().all(|pages| *pages > 1_000), "{:?}", copied(&as_planned));
    let rehearsed = played(&trace, volume("", "rehearse = true"));
    assert_eq!(copied(&rehearsed), [0, 0]);
    assert_eq!(counter(&rehearsed, "plans_declined"), 2);
    assert!(
        rehearsed.work.head.busy_s < as_planned.work.head.busy_s / 1.1,
        "{} {}",
        rehearsed.work.head.busy_s,
        as_planned.work.head.busy_s
    );
}

#[test]
fn a_plan_of_what_comes_again_and_again_is_carried_out_at_the_cost_that_was_foreseen() {
    let trace = reads((0..12_000).map(|i| scattered(i % 400)));
    let rehearsed = played(&trace, volume("", "rehearse = true"));
    assert_eq!(copied(&rehearsed)[0], 400, "{:?}", copied(&rehearsed));
    assert!(rehearsed.served_from_bopt_pct > 60.0, "{}", rehearsed.served_from_bopt_pct);
    // The second plan has nothing to move.
    assert_eq!(copied(&rehearsed)[1], 0);
    let again = played(&trace, volume("", "rehearse = false"));
    assert!(
        rehearsed.work.head.busy_s < again.work.head.busy_s * 1.02,
        "{} {}",
        rehearsed.work.head.busy_s,
        again.work.head.busy_s
    );
    // Of the first rehearsal, as the only one there was.
    let once = reads((0..5_000).map(|i| scattered(i % 400)));
    let play = Play { reconfigure: 1, clock: Clock::Stop, ..Play::default() };
    let candidate = Candidate { name: "borg".to_owned(), volume: volume("", "rehearse = true") };
    let once = compare_volumes(&once, &[candidate], &play, &|_| ()).unwrap().variants.remove(0);
    let (foreseen, took) = (counter(&once, "rehearsed_moves_us") as f64 / 1e6, once.work.background_s);
    assert_eq!(counter(&once, "plans_declined"), 0);
    assert!((foreseen / took - 1.0).abs() < 0.1, "foreseen {foreseen} s, took {took} s");
    let (now, then) =
        (counter(&once, "rehearsed_busy_as_it_is_us"), counter(&once, "rehearsed_busy_as_planned_us"));
    assert!(then * 3 < now, "{now} us, and {then} us as planned");
}

/// After 1,400 requests nothing is chosen; they count for the next choice, after 2,800.
#[test]
fn requests_that_are_too_few_to_judge_on_are_kept() {
    let rehearsed = played(&reads((0..4_200).map(|i| scattered(i % 200))), volume("", ""));
    assert_eq!(copied(&rehearsed), [0, 200]);
    let stages = |number: usize| {
        let stages = rehearsed.reconfigurations[number].stages.iter();
        stages.map(|stage| (stage.name.as_str(), stage.pages)).collect::<Vec<_>>()
    };
    assert_eq!(stages(0), [("too few requests", 1_400)]);
    assert_eq!(stages(1)[..2], [("analyse", 2_800), ("rehearse", 2_800)]);
}

/// Layers believe the model, whatever the drive is.
#[test]
fn the_key_model_says_what_layers_take_a_component_for() {
    let trace = reads((0..6_000).map(scattered));
    let busy = |model| {
        let variant = played(&trace, volume(&format!("model = \"{model}\""), "rehearse = true"));
        counter(&variant, "rehearsed_busy_as_it_is_us")
    };
    let (believed, known) = (busy("samsung-870-evo-1tb"), busy("wd2500aaks"));
    assert!(0 < believed && believed * 5 < known, "{believed} us, {known} us on a disk");
    let error = file::parse(
        "v.toml",
        "[component.d]\nram = \"1MiB\"\nemulate = \"wd2500aaks\"\nmodel = \"wd\"\n[[export]]\ntop = \"d\"\n",
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("component.d.model") && error.contains("'wd'"), "{error}");
}

/// Near the spindle the same sectors lie on more cylinders: seeks among them are longer.
#[test]
fn the_key_model_at_says_where_a_component_lies_on_its_model() {
    let trace = reads((0..6_000).map(scattered));
    let busy = |at: &str| {
        let keys = format!("model = \"seagate-st2000dm006-2\"\n{at}");
        counter(&played(&trace, volume(&keys, "rehearse = true")), "rehearsed_busy_as_it_is_us")
    };
    // 488,397,168 sectors from here on are the last ones of 3,907,029,168.
    let (outer, inner) = (busy(""), busy("model_at = 3418632000"));
    assert_eq!(outer, busy("model_at = \"0B\""));
    assert!(0 < outer && outer < inner, "{outer} us at the edge, {inner} us near the spindle");
    let error = file::parse(
        "v.toml",
        "[component.d]\ndrive = \"wd2500aaks\"\nmodel = \"seagate-st2000dm006-2\"\nmodel_at = 3418632001\n\
         [[export]]\ntop = \"d\"\n",
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("component.d.model_at: found sector 3418632001"), "{error}");
    assert!(error.contains("expected at most sector 3418632000"), "{error}");
}

/// A model that is smaller than the component is none: the plan is carried out as before.
#[test]
fn without_a_model_every_plan_is_carried_out() {
    let trace = reads((0..6_000).map(scattered));
    let variant = played(&trace, volume("model = \"wd360gd\"", "rehearse = true"));
    assert!(copied(&variant).iter().all(|pages| *pages > 1_000));
    assert_eq!(counter(&variant, "rehearsed_requests"), 0);
}

fn bare() -> Description {
    let text = "[component.disk]\ndrive = \"wd2500aaks\"\n\
                [slice.home]\nof = \"disk\"\nsize = \"100GiB\"\n[[export]]\ntop = \"home\"\n";
    file::parse("bare.toml", text).unwrap()
}

/// The working set is another one after each reconfiguration, then it stays. The first plan pays as far as anyone
/// knows; once plans have turned out not to last, none is carried out until one would have lasted.
#[test]
fn a_working_set_that_jumps_is_left_alone_until_it_settles() {
    let borg = &jumping("", 6);
    let (copied, pages) = (copied(borg), JUMPING);
    assert!(copied[1..4].iter().all(|pages| *pages == 0), "while it jumps: {copied:?}");
    assert!(copied[4..].iter().sum::<u64>() >= pages, "once it has settled: {copied:?}");
    assert!(counter(borg, "plans_declined") >= 3);
    assert!(borg.net_reduction_pct > 0.0, "{}", borg.net_reduction_pct);
}

/// Pages copied as they are read need no plan: the second pass over a working set is served from their copies.
#[test]
fn copies_on_read_follow_a_working_set_that_jumps() {
    let borg = &jumping("copy_on_read = \"128MiB\"", 2);
    assert_eq!((copied(borg), counter(borg, "plans_declined")), (vec![0; 8], 8));
    let copied = counter(borg, "pages_copied_on_read");
    assert!((3 * JUMPING..=4 * JUMPING).contains(&copied), "{copied}: the last ones still wait");
    let planned = jumping("", 2).net_reduction_pct;
    assert!(borg.net_reduction_pct > planned + 10.0, "{} {planned}", borg.net_reduction_pct);
}

/// Pages of the working set of [`jumping`].
const JUMPING: u64 = 1_000;

/// A layer below a working set that is passed so often in a phase, and is another one in each of the first four.
fn jumping(options: &str, passes: u64) -> Variant {
    let phase = passes * JUMPING;
    let set = |i: u64| (i / phase).min(3);
    let trace = reads((0..9 * phase).map(|i| scattered(set(i) * JUMPING + i % JUMPING)));
    let candidates = [("bare", bare()), ("borg", volume("", options))];
    let candidates = candidates.map(|(name, volume)| Candidate { name: name.to_owned(), volume });
    let play = Play { reconfigure: 8, clock: Clock::Stop, ..Play::default() };
    compare_volumes(&trace, &candidates, &play, &|_| ()).unwrap().variants.remove(1)
}

/// A comparison with the bare drive, of which the layer decides itself when it is reconfigured.
fn compared_when(trace: &Trace, when: &str, pace: Pace) -> Variant {
    let candidates = [("bare", bare()), ("borg", volume("", &format!("reconfigure = \"{when}\"")))];
    let candidates = candidates.map(|(name, volume)| Candidate { name: name.to_owned(), volume });
    let play = Play { pace, ..Play::default() };
    compare_volumes(trace, &candidates, &play, &|_| ()).unwrap().variants.remove(1)
}

#[test]
fn the_layer_decides_when_another_decision_pays() {
    let closed = Pace::Closed { outstanding: 8 };
    let again = compared_when(&reads((0..25_000).map(|i| scattered(i % 400))), "when it pays", closed);
    assert_eq!(copied(&again), [400], "after 20,000 requests");
    let start = again.phases.iter().find(|phase| phase.name == "R1").unwrap().first_request;
    assert_eq!(start, 20_000);
    assert!(again.net_reduction_pct > 30.0, "{}", again.net_reduction_pct);
    let never = compared_when(&reads((0..25_000).map(scattered)), "when it pays", closed);
    assert_eq!((copied(&never), counter(&never, "plans_declined")), (vec![0], 1));
    assert!(never.net_reduction_pct.abs() < 1e-9, "nothing was moved");
}

#[test]
fn a_pause_of_the_clients_is_used() {
    let mut trace = reads((0..6_000).map(|i| scattered(i % 400)));
    // A minute's pause after half of the requests, and a short one before.
    for (record, i) in trace.records.iter_mut().zip(0_u64..) {
        record.time.0 += u64::from(i >= 1_500) * 5_000_000_000 + u64::from(i >= 3_000) * 60_000_000_000;
    }
    let variant = compared_when(&trace, "idle", Pace::Open { speed: 1.0 });
    let start: Vec<f64> = variant.reconfigurations.iter().map(|one| one.start_s).collect();
    // 3,000 requests each 20 ms, the short pause, and ten seconds.
    assert!(start.len() == 1 && (74.9..75.1).contains(&start[0]), "{start:?}");
    assert_eq!(copied(&variant), [400]);
    assert!(variant.reconfiguring_requests_pct < 1e-9, "all was copied in the pause");
    assert!(variant.served_from_bopt_pct > 49.0, "{}", variant.served_from_bopt_pct);
    let closed = compared_when(&trace, "idle", Pace::Closed { outstanding: 8 });
    assert!(closed.reconfigurations.is_empty(), "without pauses");
}
