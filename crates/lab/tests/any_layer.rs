//! A layer that exists only here, compared on a trace like any other. And guarantees of a
//! comparison of any volumes: every variant's figures, counted failures, volumes that do not fit.

use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::{
    BlockDevice, Buffer, Counters, Extent, Hints, IoFuture, Latency, Layer, Nanos, Op, Origin, ProcessId,
    Record, Zeroes, runtime,
};
use seekless_lab::outcome::Variant;
use seekless_lab::{Candidate, Play, compare_volumes, run_volume};
use seekless_layers::registry::{Built, Entry};
use seekless_trace::Trace;
use seekless_volume::{Description, file};

/// A distant device: each request takes a millisecond to reach it.
struct Far(Rc<dyn BlockDevice>);

const WAY: Nanos = Nanos::from_millis(1);

impl BlockDevice for Far {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            runtime::sleep(WAY).await;
            self.0.read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            runtime::sleep(WAY).await;
            self.0.write(at, from, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            runtime::sleep(WAY).await;
            self.0.write_zeroes(at, how, zeroes).await
        })
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.0)
    }
}

impl Layer for Far {
    fn counters(&self) -> Counters {
        Vec::new()
    }
}

static FAR: Entry = Entry::new("far", "is a millisecond away", |below, _| {
    Box::pin(async move { Ok(Built::new(Rc::new(Far(below.one()?)))) })
});

fn far_beside_near(trace: &Trace, near: Description) -> Vec<Variant> {
    let far = near.clone().with_layer(&FAR, toml::Table::new());
    let candidates = [("near", near), ("far", far)];
    let candidates = candidates.map(|(name, volume)| Candidate { name: name.to_owned(), volume });
    compare_volumes(trace, &candidates, &Play::default(), &|_| ()).unwrap().variants
}

/// Reads and some writes of scattered pages by one process, one after the other.
fn trace() -> Trace {
    let record = |i: u64| Record {
        time: Nanos(i * 20_000_000),
        device: 1,
        op: if i % 5 == 4 { Op::Write } else { Op::Read },
        extent: Extent::of_pages(i * 7_919 % 100_000, 1),
        flags: seekless_core::Flags::default(),
        origin: Origin { process: ProcessId(1), ..Origin::default() },
        latency: Latency::UNKNOWN,
    };
    Trace { records: (0..1_000).map(record).collect(), ..Trace::default() }
}

fn volume(layers: &str, top: &str) -> Description {
    let text = format!("[component.disk]\ndrive = \"wd2500aaks\"\n{layers}\n[[export]]\ntop = \"{top}\"\n");
    file::parse("v.toml", &text).unwrap()
}

fn candidate(name: &str, layers: &str, top: &str) -> Candidate {
    Candidate { name: name.to_owned(), volume: volume(layers, top) }
}

#[test]
fn a_layer_of_another_crate_is_compared_on_a_trace() {
    let variants = far_beside_near(&trace(), volume("", "disk"));
    let [near, far] = variants.as_slice() else { panic!("two variants") };
    assert_eq!((near.name.as_str(), far.name.as_str()), ("near", "far"));
    assert_eq!(far.response_ms.reads.requests, 800);
    assert_eq!(far.response_ms.writes.requests, 200);
    // While its request is on the way, the disk is idle; nothing is answered before it arrives.
    assert!(near.idle_s < 0.1 && far.idle_s > 0.5, "{} {}", near.idle_s, far.idle_s);
    assert!(far.response_ms.reads.spread.p50 > 1.0);
    assert_eq!(far.phases.len(), 2);
}

const BORG: &str = "[slice.home]\nof = \"disk\"\nsize = \"10GiB\"\n[slice.bopt]\nof = \"disk\"\n\
                    at = \"10GiB\"\nsize = \"64MiB\"\n[layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n";
const CACHE: &str = "[layer.cache]\nover = \"borg\"\nsize = \"1MiB\"\n";

/// Each variant's phases are compared with exactly the base's work for the same requests, for any base.
#[test]
fn stacks_are_compared_and_the_phases_of_each_add_up() {
    let stack = format!("{BORG}{CACHE}");
    let all = [
        candidate("borg", BORG, "borg"),
        candidate("stack", &stack, "cache"),
        candidate("bare", "", "disk"),
        candidate("lld", "[layer.lld]\nover = \"disk\"\nsize = \"1GiB\"\n", "lld"),
    ];
    let comparison = compare_volumes(&trace(), &all, &Play::default(), &|_| ()).unwrap();
    assert_eq!(comparison.settings.reconfigure_class, "background");
    let base = &comparison.variants[0];
    assert!(!base.reconfigurations.is_empty());
    assert!(base.reduction_pct.abs() < 1e-9 && base.net_reduction_pct.abs() < 1e-9);
    for (variant, candidate) in comparison.variants.iter().zip(&all) {
        assert_eq!(variant.name, candidate.name);
        let busy: f64 = variant.phases.iter().map(|phase| phase.work.head.busy_s).sum();
        let beside: f64 = variant.phases.iter().map(|phase| phase.vanilla_busy_s).sum();
        assert!((busy - variant.work.head.busy_s).abs() < 1e-6, "{}", variant.name);
        assert!((beside - base.work.head.busy_s).abs() < 1e-6, "{}", variant.name);
        assert_eq!(variant.phases.iter().map(|phase| phase.requests).sum::<u64>(), 1_000);
        assert_eq!(variant.response_ms.all.requests, 1_000, "{}", variant.name);
        let longest = variant.response_ms.all.longest;
        // Percentiles are rounded to three digits.
        assert!(longest * 1.002 >= variant.response_ms.all.spread.p999 && longest > 0.0);
    }
    let stack = &comparison.variants[1];
    assert_eq!(stack.traffic.as_ref().unwrap().layer, "borg");
    assert!(stack.reconfigurations.iter().all(|one| one.layer == "borg"));
    assert!(stack.layers["cache"]["hits"] + stack.layers["cache"]["misses"] > 0);
    assert!(
        comparison.notes.iter().any(|note| note.starts_with("lld: lld begins empty")),
        "{:?}",
        comparison.notes
    );
    // Alone: a volume's results do not depend on what it is compared with.
    let alone = run_volume(&trace(), &all[1], &Play::default(), None, &|_| ()).unwrap();
    assert_eq!((alone.event_hash, &alone.work), (stack.event_hash.clone(), &stack.work));
}

#[test]
fn the_settings_say_in_which_class_a_layer_copies() {
    let free = format!("{BORG}reconfigure_class = \"free\"\n");
    let both = [candidate("bare", "", "disk"), candidate("borg", &free, "borg")];
    let comparison = compare_volumes(&trace(), &both, &Play::default(), &|_| ()).unwrap();
    assert_eq!(comparison.settings.reconfigure_class, "free");
}

#[test]
fn requests_that_fail_are_counted_and_the_trace_goes_on() {
    let failing =
        candidate("bad", "[layer.error]\nover = \"disk\"\nrate_pct = 10\nops = [\"read\"]\n", "error");
    let outcome = run_volume(&trace(), &failing, &Play::default(), None, &|_| ()).unwrap();
    assert!((40..160).contains(&outcome.failed), "{}", outcome.failed);
    assert_eq!(outcome.failed + outcome.response_ms.reads.requests, 800);
    assert_eq!(outcome.response_ms.writes.requests, 200);
    assert!(outcome.notes.iter().any(|note| note.contains("requests failed")), "{:?}", outcome.notes);
}

#[test]
fn a_volume_that_is_too_small_says_what_to_do() {
    let small = candidate("small", "[slice.s]\nof = \"disk\"\nsize = \"1MiB\"\n", "s");
    let message = compare_volumes(&trace(), &[small], &Play::default(), &|_| ()).unwrap_err().to_string();
    for words in ["found requests up to sector", "at most sector 2048", "v.toml", "give it a larger"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}
