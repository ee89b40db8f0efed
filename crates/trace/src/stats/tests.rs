//! Statistics of traces small enough to count by hand.

use seekless_core::{
    Extent, Latency, NameId, Names, Nanos, Op, Origin, ProcessId, Record, StreamId, record::Flags,
};

use super::*;
use crate::volumes::Volumes;

fn record(time_ms: u64, process: u32, op: Op, start: u64, sectors: u64) -> Record {
    let origin = Origin { process: ProcessId(process), name: NameId(process), stream: StreamId::default() };
    let extent = Extent::new(start, sectors);
    let (time, flags, latency) = (Nanos::from_millis(time_ms), Flags::default(), Latency::UNKNOWN);
    Record { time, device: 0, op, extent, flags, origin, latency }
}

fn names() -> Names {
    let mut names = Names::default();
    for name in ["git", "kworker/0:1", "kworker/u8:2"] {
        names.intern(name);
    }
    names
}

fn stats(records: &[Record]) -> Stats {
    characterise(records, &names(), &Volumes::default(), &StatsOptions::default())
}

#[test]
fn nothing_gives_zeroes() {
    let none = stats(&[]);
    assert_eq!((none.requests, none.accessed_pages, none.working_sets.len()), (0, 0, 0));
    let numbers = serde_json::to_string(&none).unwrap();
    // Latencies and queue depth, which are unknown; a NaN would be written as null, too.
    assert_eq!(numbers.matches("null").count(), 2, "{numbers}");
    assert_eq!(stats(&[record(0, 1, Op::Flush, 0, 0)]).flushes, 1);
}

#[test]
fn partly_touched_pages_count_whole() {
    let here = stats(&[record(0, 1, Op::Read, 7, 2), record(1, 1, Op::Write, 8, 1)]);
    assert_eq!(here.accessed_pages, 2);
    assert!((here.read_gib_unique - gib(8192)).abs() < 1e-12);
    assert!((here.read_gib_total - gib(1024)).abs() < 1e-12);
    assert!((here.write_gib_unique - gib(4096)).abs() < 1e-12);
    assert_eq!(here.heat_map.accesses.iter().sum::<u64>(), 3);
}

#[test]
fn discards_are_requests_but_touch_no_page() {
    let here = stats(&[record(0, 1, Op::Discard, 0, 800), record(5, 1, Op::Read, 0, 8)]);
    assert_eq!((here.requests, here.discards, here.accessed_pages), (2, 1, 1));
    assert!((here.seconds - 0.005).abs() < 1e-12);
}

#[test]
fn a_pair_repeats_across_processes_but_follows_one() {
    // Over all: 0-80 (once), 80-800, 800-80, 80-0, 0-80, 80-8000: of the six, the two 0-80 repeat.
    // Process 1: 0-80 twice with 80-0 between; process 2: 800-8000 once.
    let requests = [(1, 0), (1, 80), (2, 800), (1, 80), (1, 0), (1, 80), (2, 8000)];
    let records: Vec<Record> = requests
        .iter()
        .zip(0..)
        .map(|(&(process, start), time)| record(time, process, Op::Read, start, 8))
        .collect();
    let here = stats(&records);
    assert!((here.nonsequential_pct - 100.0).abs() < 1e-9);
    assert!((here.partial_determinism_pct - 200.0 / 6.0).abs() < 1e-9);
    // 0-80, 80-80, 80-0, 0-80, 800-8000.
    assert!((here.partial_determinism_per_process_pct - 40.0).abs() < 1e-9);
    assert_eq!(here.processes, 2);
}

#[test]
fn sequential_requests_are_no_pairs() {
    let here =
        stats(&[record(0, 1, Op::Read, 0, 8), record(1, 1, Op::Read, 8, 8), record(2, 1, Op::Read, 0, 8)]);
    assert!((here.nonsequential_pct - 50.0).abs() < 1e-9);
}

#[test]
fn the_top_fifth_of_pages_has_its_share() {
    // Ten pages: page 0 eight times, page 1 four times, the others once: 12 of 20 accesses.
    let pages = (0..10).flat_map(|page| std::iter::repeat_n(page, [8, 4].get(page).copied().unwrap_or(1)));
    let records: Vec<Record> = pages.map(|page| record(0, 1, Op::Read, page as u64 * 8, 8)).collect();
    let here = stats(&records);
    assert!((here.top20_share_pct - 60.0).abs() < 1e-9);
    assert!((here.top20_read_share_pct - 60.0).abs() < 1e-9);
    assert!(here.top20_write_share_pct.abs() < 1e-9);
    let curve: Vec<(u64, u64)> =
        here.read_rank_frequency.iter().map(|point| (point.rank, point.accesses)).collect();
    assert_eq!(curve[..3], [(1, 8), (2, 4), (3, 1)]);
    assert_eq!(curve.last(), Some(&(10, 1)));
    assert!(here.write_rank_frequency.is_empty());
}

#[test]
fn working_sets_overlap_with_the_first_and_with_the_one_before() {
    let starts = [0, 8, 8, 16, 0, 16];
    let records: Vec<Record> = starts.iter().map(|&start| record(0, 1, Op::Read, start, 8)).collect();
    let options = StatsOptions { intervals: Intervals::Count(3), ..StatsOptions::default() };
    let sets = characterise(&records, &names(), &Volumes::default(), &options).working_sets;
    let overlaps: Vec<(u64, f64, f64)> =
        sets.iter().map(|set| (set.pages, set.overlap_first_pct, set.overlap_previous_pct)).collect();
    assert_eq!(overlaps, [(2, 100.0, 100.0), (2, 50.0, 50.0), (2, 50.0, 50.0)]);
    assert_eq!(sets[1].top20_pages, 1);
    assert!(sets[1].top20_overlap_first_pct.abs() < 1e-9, "page 1 was not in the first top");
}

#[test]
fn kernel_threads_of_a_kind_are_one_name() {
    let records =
        [record(0, 2, Op::Write, 0, 8), record(0, 3, Op::Write, 0, 8), record(0, 1, Op::Read, 0, 16)];
    let top = stats(&records).top_processes;
    let names: Vec<(&str, u64, u64)> =
        top.iter().map(|one| (one.name.as_str(), one.reads, one.writes)).collect();
    assert_eq!(names, [("kworker", 0, 2), ("git", 1, 0)]);
}

#[test]
fn sizes_are_classed_by_powers_of_two() {
    let records: Vec<Record> =
        [1, 2, 8, 9, 16].iter().map(|&sectors| record(0, 1, Op::Read, 0, sectors)).collect();
    let classes: Vec<(u64, u64)> =
        stats(&records).request_sizes.iter().map(|bucket| (bucket.up_to_kib, bucket.reads)).collect();
    assert_eq!(classes, [(1, 2), (4, 1), (8, 2)]);
}

#[test]
fn the_summary_is_five_lines_of_the_figures() {
    let value = |stats: &Stats, name: &str| {
        stats.summary.iter().find(|line| line.name == name).map(|line| line.value.clone()).unwrap()
    };
    // Two seconds: 8 KiB read by one, 4 KiB written by another; one request goes on, one jumps back over 16 sectors.
    let here = stats(&[
        record(0, 1, Op::Read, 0, 8),
        record(1_000, 1, Op::Read, 8, 8),
        record(2_000, 2, Op::Write, 0, 8),
    ]);
    let names: Vec<&str> = here.summary.iter().map(|line| line.name).collect();
    assert_eq!(names, ["moved", "busy", "order", "reuse", "causes"]);
    assert_eq!(value(&here, "moved"), "reads 8 KiB at 4 KiB/s, writes 4 KiB at 2 KiB/s");
    assert_eq!(value(&here, "busy"), "1.5 requests a second; unknown how long they take");
    assert_eq!(value(&here, "order"), "50.0 % of requests are sequential, the others jump 8 KiB (median)");
    assert_eq!(value(&here, "reuse"), "33.3 % of accesses repeat one; 8 KiB of 8 KiB are touched (100.00 %)");
    assert!(value(&here, "causes").ends_with("of the bytes"), "{}", value(&here, "causes"));
    let unknown = stats(&[record(0, 0, Op::Read, 0, 8)]);
    assert!(value(&unknown, "order").starts_with("unknown"));
    for line in stats(&[]).summary {
        assert!(!line.value.contains("NaN"), "{line:?}");
    }
}
