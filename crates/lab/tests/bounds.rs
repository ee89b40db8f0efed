//! Bounds of a comparison: nothing beats them, and knowledge of the future is worth what it should be.

use seekless_core::{Extent, Flags, Latency, Nanos, Op, Origin, ProcessId, Record};
use seekless_lab::outcome::{Comparison, Variant};
use seekless_lab::{Candidate, Clock, Play, compare_volumes};
use seekless_trace::Trace;
use seekless_volume::{Description, file};

const BARE: &str = "[component.disk]\ndrive = \"wd2500aaks\"\n\
     [slice.home]\nof = \"disk\"\nsize = \"100GiB\"\n[slice.bopt]\nof = \"disk\"\nat = \"100GiB\"\nsize = \"16MiB\"\n";

fn bare() -> Description {
    file::parse("bare.toml", &format!("{BARE}[[export]]\ntop = \"home\"\n")).unwrap()
}

fn borg() -> Description {
    let layer = "[layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n[[export]]\ntop = \"borg\"\n";
    file::parse("borg.toml", &format!("{BARE}{layer}")).unwrap()
}

/// Requests for one page each by one process, 20 ms apart.
fn trace(requests: impl Iterator<Item = (Op, u64)>) -> Trace {
    let record = |((op, page), i): ((Op, u64), u64)| Record {
        time: Nanos(i * 20_000_000),
        device: 1,
        op,
        extent: Extent::of_pages(page, 1),
        flags: Flags::default(),
        origin: Origin { process: ProcessId(1), ..Origin::default() },
        latency: Latency::UNKNOWN,
    };
    Trace { records: requests.zip(0..).map(record).collect(), ..Trace::default() }
}

/// A page of the 100 GiB, all over.
fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

fn compared(trace: &Trace, bounds: bool) -> Comparison {
    let candidates = [("bare", bare()), ("borg", borg())]
        .map(|(name, volume)| Candidate { name: name.to_owned(), volume });
    let play = Play { reconfigure: 2, clock: Clock::Stop, bounds, ..Play::default() };
    compare_volumes(trace, &candidates, &play, &|_| ()).unwrap()
}

/// The layer's variant, of which no phase is better than its bounds.
fn bounded(trace: &Trace) -> Variant {
    let variant = compared(trace, true).variants.remove(1);
    let mut bounded = 0;
    for phase in &variant.phases {
        let Some(bounds) = &phase.bounds else { continue };
        bounded += 1;
        assert!(bounds.oracle_s <= bounds.oracle_seen_s, "{phase:?}");
        assert!(bounds.oracle_seen_s <= phase.work.foreground_s.min(phase.vanilla_busy_s), "{phase:?}");
    }
    assert_eq!(bounded, variant.phases.len() - 2, "all but N1 and the final write-back");
    let between = variant.bounds.as_ref().unwrap().between;
    assert!(variant.reduction_pct <= between.oracle_seen_pct, "{between:?}");
    assert!(between.oracle_seen_pct <= between.oracle_pct, "{between:?}");
    variant
}

#[test]
fn what_comes_again_may_be_placed_by_whoever_knows_it() {
    let variant = bounded(&trace((0..900).map(|i| (Op::Read, scattered(i % 100)))));
    let between = variant.bounds.unwrap().between;
    assert!(between.oracle_seen_pct > 60.0, "{between:?}");
    assert!((between.oracle_pct - between.oracle_seen_pct).abs() < 0.1, "all was seen: {between:?}");
    assert!(between.oracle_pct < between.transfer_only_pct, "{between:?}");
    assert!(variant.phases[2].mean_response_ms > 0.0, "{:?}", variant.phases[2]);
    // One request in a hundred may have waited for the layer's own work, which is in the mean alone.
    assert!(variant.phases[2].p99_response_ms > 0.0, "{:?}", variant.phases[2]);
}

#[test]
fn what_never_came_before_only_the_oracle_places() {
    let variant = bounded(&trace((0..900).map(|i| (Op::Read, scattered(i)))));
    let between = variant.bounds.unwrap().between;
    assert!(between.oracle_seen_pct < 1.0, "{between:?}");
    assert!(between.oracle_pct > 60.0, "{between:?}");
    let best = &variant.phases[2].bounds.as_ref().unwrap().oracle_seen_policy;
    assert!(!best.is_empty());
}

#[test]
fn scattered_writes_may_be_absorbed() {
    let variant = bounded(&trace((0..900).map(|i| (Op::Write, scattered(i)))));
    let between = variant.bounds.unwrap().between;
    assert!(between.oracle_seen_pct > 30.0, "{between:?}");
}

#[test]
fn bounds_are_only_found_if_asked_for_and_change_nothing_else() {
    let trace = trace((0..900).map(|i| (Op::Read, scattered(i % 100))));
    let (plain, mut bounded) = (compared(&trace, false), compared(&trace, true));
    let variant = &mut bounded.variants[1];
    variant.bounds = None;
    variant.phases.iter_mut().for_each(|phase| phase.bounds = None);
    assert_eq!(plain, bounded);
    let candidate = Candidate { name: "bare".to_owned(), volume: bare() };
    let play = Play { bounds: true, ..Play::default() };
    let refused = compare_volumes(&trace, &[candidate.clone(), candidate], &play, &|_| ()).unwrap_err();
    assert!(
        refused.to_string().contains("bounds: found no volume whose top layer has planners"),
        "{refused}"
    );
}
