//! What was learned, encoded and decoded.

use proptest::prelude::*;
use seekless_core::ProcessId;

use super::*;
use crate::borg::analyzer::Edges;
use crate::borg::planner::{Greedy, Order};
use crate::borg::profiler::{Access, Profiler};

const BOUNDS: Bounds = Bounds { units: 2_000, granularity: 0, cached_slots: 300 };

fn empty() -> Analyzer {
    Analyzer::bounded(1 << 20).with_global(true)
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access = (0..4_u32, 0..1_900_u32, 1..60_u32, any::<bool>(), 0..9_u64);
    prop::collection::vec(access, 0..80).prop_map(|requests| {
        let mut paused = Nanos::ZERO;
        let access = |(process, first, pages, write, pause)| {
            paused = Nanos(paused.0 + pause);
            Access { process: ProcessId(process), first, pages, write, paused, ..Access::default() }
        };
        requests.into_iter().map(access).collect()
    })
}

/// After requests that were analysed, and some that were not.
fn saved(before: &[Access], since: &[Access], placed: bool) -> Saved {
    let mut analyzer = empty();
    analyzer.add(before.iter().copied());
    let plan = Greedy { threshold: 1 }.order(&analyzer.clone().graph(Edges::Process), 300);
    let mut profiler = Profiler::default();
    for access in since {
        profiler.note(access);
    }
    Saved {
        writes: Some(Writes { absorbs: true, drains: placed }),
        watch: (7, 40_000),
        paused: Nanos(1 << 40),
        requests: (before.len() + since.len()) as u64,
        plans: 3,
        rehearsal: (Prediction { present: Nanos(9), chosen: Nanos(7), moves: Nanos(1), requests: 5 }, 2),
        budget: Budget { requests: Nanos(1_000), saved: if placed { -30 } else { 30 }, moves: Nanos(20) },
        analyzer,
        window: profiler.take(),
        last_plan: if placed { plan.with_slots(0) } else { plan },
    }
}

/// Plans as a layer does.
fn plans(saved: &Saved) -> Vec<Plan> {
    let mut analyzer = saved.analyzer.clone();
    analyzer.add(saved.window.iter());
    [Edges::Process, Edges::Global]
        .map(|edges| Greedy { threshold: 1 }.order(&analyzer.graph(edges), 300))
        .to_vec()
}

proptest! {
    #[test]
    fn what_was_saved_plans_as_before(before in accesses(), since in accesses(), more in accesses(), placed: bool) {
        let saved = saved(&before, &since, placed);
        let bytes = saved.encode();
        let again = Saved::decode(&bytes, &empty(), &BOUNDS).unwrap();
        prop_assert_eq!(again.encode(), bytes);
        prop_assert_eq!(&again.last_plan, &saved.last_plan);
        prop_assert_eq!((again.writes, again.watch, again.plans), (saved.writes, saved.watch, saved.plans));
        prop_assert_eq!((again.requests, again.rehearsal, again.budget), (saved.requests, saved.rehearsal, saved.budget));
        prop_assert_eq!(plans(&again), plans(&saved));
        // And after more requests.
        let [mut one, mut other] = [saved, again];
        one.analyzer.add(more.iter().copied());
        other.analyzer.add(more.iter().copied());
        prop_assert_eq!(plans(&one), plans(&other));
    }

    #[test]
    fn damaged_bytes_are_an_error_or_a_plan(
        before in accesses(),
        since in accesses(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut bytes = saved(&before, &since, true).encode();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(saved) = Saved::decode(&bytes, &empty(), &BOUNDS) {
            plans(&saved);
            prop_assert!(saved.last_plan.pages() <= BOUNDS.units);
        }
    }

    #[test]
    fn with_little_room_the_heaviest_stays(before in accesses(), since in accesses(), room in 20..2_000_u64) {
        let all = saved(&before, &since, false);
        match all.clone().encode_within(room) {
            Some(bytes) => {
                prop_assert!(bytes.len() as u64 <= room);
                let again = Saved::decode(&bytes, &empty(), &BOUNDS).unwrap();
                prop_assert_eq!(again.requests, all.requests);
            }
            None => prop_assert!(room < 100, "an empty graph takes little"),
        }
    }
}

#[test]
fn what_is_not_right_is_named() {
    let decode = |bytes: &[u8]| Saved::decode(bytes, &empty(), &BOUNDS).err().unwrap().to_string();
    assert_eq!(decode(&[9]), "found something else at byte 1, expected version 1 or 2");
    let whole = saved(&[Access { first: 3, pages: 2, ..Access::default() }], &[], false).encode();
    assert_eq!(
        decode(&[&whole[..], &[0]].concat()),
        format!("found something else at byte {}, expected the end", whole.len())
    );
}

/// Version 1 had no budget.
#[test]
fn the_first_version_is_read() {
    let new =
        Saved { budget: Budget::default(), ..saved(&[Access { pages: 2, ..Access::default() }], &[], true) };
    let (mut begin, bytes) = (Vec::new(), new.encode());
    let rehearsal = [new.rehearsal.0.present.0, new.rehearsal.0.chosen.0, new.rehearsal.0.moves.0];
    for number in [1, 4, new.watch.0, new.watch.1, new.paused.0, new.requests, u64::from(new.plans)] {
        put(&mut begin, number);
    }
    for number in rehearsal.into_iter().chain([new.rehearsal.0.requests, new.rehearsal.1]) {
        put(&mut begin, number);
    }
    assert_eq!(begin[1..], bytes[1..begin.len()]);
    assert_eq!(bytes[begin.len()..][..4], [0; 4], "an empty budget");
    let old = [&begin[..], &bytes[begin.len() + 4..]].concat();
    let read = Saved::decode(&old, &empty(), &BOUNDS).unwrap();
    assert_eq!((read.budget, read.encode()), (Budget::default(), bytes));
}
