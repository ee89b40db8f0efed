//! The statistics against slow reference implementations, and samples against the exact figures.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::record::Flags;
use seekless_core::{Extent, Latency, Names, Nanos, Op, Origin, Record};
use seekless_trace::{MissRatio, Stats, StatsOptions, Volumes, characterise};

fn record(time: u64, op: Op, start: u64, sectors: u64, latency: Option<u64>) -> Record {
    Record {
        time: Nanos(time),
        device: 0,
        op,
        extent: Extent::new(start, sectors),
        flags: Flags::default(),
        origin: Origin::default(),
        latency: latency.map_or(Latency::UNKNOWN, |nanos| Latency::of(Nanos(nanos))),
    }
}

fn stats(records: &[Record], memory: u64) -> Stats {
    let options = StatsOptions { memory, ..StatsOptions::default() };
    characterise(records, &Names::default(), &Volumes::default(), &options)
}

const PLENTY: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

/// Requests at ascending times, on few pages; some of known latency.
fn requests() -> impl Strategy<Value = Vec<Record>> {
    let gap = prop_oneof![Just(0), 0..2_000_000_u64, 0..4 * SECOND];
    let latency = prop_oneof![Just(None), (0..20_000_000_u64).prop_map(Some)];
    let one = (gap, any::<bool>(), 0..60_u64, 1..4_u64, latency);
    vec(one, 1..120).prop_map(|all| {
        let mut now = 0;
        let make =
            |(number, (gap, write, page, pages, latency)): (usize, (u64, bool, u64, u64, Option<u64>))| {
                now += if number == 0 { 0 } else { gap };
                record(now, if write { Op::Write } else { Op::Read }, page * 8, pages * 8, latency)
            };
        all.into_iter().enumerate().map(make).collect()
    })
}

/// Every access: its page, whether it writes, when.
fn accesses(records: &[Record]) -> Vec<(u64, bool, u64)> {
    let of = |record: &Record| {
        let (write, time) = (record.op == Op::Write, record.time.0);
        record.extent.pages().map(move |page| (page, write, time)).collect::<Vec<_>>()
    };
    records.iter().flat_map(of).collect()
}

/// Misses of an LRU cache of `size` pages, by simulating one.
fn lru_misses(pages: impl Iterator<Item = u64>, size: usize) -> u64 {
    let mut cache: Vec<u64> = Vec::new();
    let mut misses = 0;
    for page in pages {
        if let Some(at) = cache.iter().position(|&cached| cached == page) {
            cache.remove(at);
        } else {
            misses += 1;
            cache.truncate(size - 1);
        }
        cache.insert(0, page);
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn an_lru_cache_misses_as_the_curve_predicts(records in requests()) {
        let curve = stats(&records, PLENTY).miss_ratio_curve;
        let all = accesses(&records);
        prop_assert!(curve.exact && curve.error == 0.0);
        prop_assert_eq!(curve.points.is_empty(), all.is_empty());
        for point in curve.points {
            let misses = lru_misses(all.iter().map(|&(page, ..)| page), point.pages as usize);
            let ratio = misses as f64 / all.len() as f64;
            prop_assert!((point.miss_ratio - ratio).abs() < 1e-12, "{point:?}, not {ratio}");
        }
    }

    #[test]
    fn reuse_and_overwrites_are_those_of_each_page(records in requests()) {
        let stats = stats(&records, PLENTY);
        let all = accesses(&records);
        let again = all.len() - all.iter().map(|access| access.0).collect::<BTreeSet<_>>().len();
        prop_assert_eq!(stats.reuse_distances.iter().map(|class| class.count).sum::<u64>(), again as u64);
        let mut written: BTreeMap<u64, u64> = BTreeMap::new();
        let mut between = Vec::new();
        for (page, _, time) in all.into_iter().filter(|access| access.1) {
            between.extend(written.insert(page, time).map(|before| time - before));
        }
        let mut below = 0;
        for class in &stats.overwrite_intervals {
            below += class.count;
            let least = (class.up_to * 1e9).round() as u64;
            // Buckets are 1/16 wide and begin at powers of two: none reaches over the end of its class.
            prop_assert_eq!(between.iter().filter(|&&time| time < least).count() as u64, below);
        }
        prop_assert_eq!(below, between.len() as u64);
    }

    #[test]
    fn the_queue_is_as_deep_as_requests_overlap(records in requests()) {
        let spans = records.iter().filter_map(|record| {
            record.latency.known().map(|latency| (record.time.0, record.time.0 + latency.0))
        });
        let spans: Vec<(u64, u64)> = spans.collect();
        let reported = stats(&records, PLENTY).queue_depth;
        prop_assert_eq!(reported.is_none(), spans.is_empty());
        let Some(reported) = reported else { return Ok(()) };
        let mut times: Vec<u64> = spans.iter().flat_map(|&(from, to)| [from, to]).collect();
        times.sort_unstable();
        let depth = |at: u64| spans.iter().filter(|&&(from, to)| from <= at && at < to).count() as u64;
        let parts = || times.windows(2).map(|part| (part[1] - part[0], depth(part[0])));
        let area: u64 = parts().map(|(time, depth)| time * depth).sum();
        let busy: u64 = parts().filter(|part| part.1 > 0).map(|part| part.0).sum();
        let close = |reported: f64, part: u64, whole: u64| {
            let right = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
            (reported - right).abs() <= 1e-9 * (1.0 + right)
        };
        prop_assert!(close(reported.mean_busy, area, busy), "{reported:?}: {area} of {busy}");
        for (class, share) in reported.shares.iter().enumerate() {
            let least = if class == 0 { 1 } else { (1 << (class - 1)) + 1 };
            let within = parts().filter(|part| (least..=share.up_to).contains(&part.1));
            prop_assert!(close(share.share_pct / 100.0, within.map(|part| part.0).sum(), busy), "{share:?}");
        }
    }

    #[test]
    fn idle_is_when_nothing_is_under_way(records in requests()) {
        let reported = stats(&records, PLENTY).idle_periods;
        let mut busy_until = records[0].time.0;
        let mut idle = Vec::new();
        for record in &records {
            idle.push(record.time.0.saturating_sub(busy_until));
            busy_until = busy_until.max(record.time.0 + record.latency.known().unwrap_or_default().0);
        }
        for at_least_ms in [1, 10, 100, 1_000, 10_000] {
            let those = idle.iter().filter(|&&time| time >= at_least_ms * 1_000_000);
            let class = reported.iter().find(|class| class.at_least_ms == at_least_ms);
            prop_assert_eq!(class.map_or(0, |class| class.periods), those.clone().count() as u64);
            let seconds = those.sum::<u64>() as f64 / 1e9;
            prop_assert!((class.map_or(0.0, |class| class.seconds) - seconds).abs() < 1e-9);
        }
    }

    #[test]
    fn arrivals_are_those_of_the_list(records in requests()) {
        let reported = stats(&records, PLENTY).arrivals;
        let mut gaps: Vec<u64> = records.windows(2).map(|pair| pair[1].time.0 - pair[0].time.0).collect();
        gaps.sort_unstable();
        let last = records.last().map_or(0, |record| record.time.0);
        let in_second = |second: u64| records.iter().filter(|r| r.time.0 / SECOND == second).count() as f64;
        let seconds: Vec<f64> = (0..=last / SECOND).map(in_second).collect();
        prop_assert!((reported.peak_per_s as f64 - seconds.iter().copied().fold(0.0, f64::max)).abs() < 0.5);
        if gaps.is_empty() {
            return Ok(());
        }
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        prop_assert!((reported.mean_us * 1e3 - mean).abs() < 1e-3);
        for (reported, share) in [(reported.median_us, 0.5), (reported.p90_us, 0.9), (reported.p99_us, 0.99)] {
            let at = (share * gaps.len() as f64).ceil() as usize - 1;
            let right = gaps[at] as f64;
            prop_assert!(reported * 1e3 <= right + 0.5 && reported * 1e3 >= right * (1.0 - 1.0 / 128.0) - 0.5);
        }
        let first = records.first().map_or(0, |record| record.time.0);
        let time = (last - first) as f64 / SECOND as f64;
        if time > 0.0 {
            let expected = records.len() as f64 / time;
            prop_assert!((reported.mean_per_s - expected).abs() <= 1e-9 * expected);
        }
        let per_s = records.len() as f64 / seconds.len() as f64;
        let variance = seconds.iter().map(|n| (n - per_s).powi(2)).sum::<f64>() / seconds.len() as f64;
        prop_assert!((reported.burstiness - variance / per_s).abs() < 1e-6);
    }

    #[test]
    fn slices_add_up(records in requests()) {
        let stats = stats(&records, PLENTY);
        let sums = stats.over_time.iter().fold((0, 0, 0.0), |sum, slice| {
            (sum.0 + slice.reads, sum.1 + slice.writes, sum.2 + slice.read_gib)
        });
        prop_assert_eq!((sums.0, sums.1), (stats.reads, stats.writes));
        prop_assert!((sums.2 - stats.read_gib_total).abs() < 1e-12);
        let grows = stats.over_time.windows(2).all(|two| two[0].footprint_gib <= two[1].footprint_gib);
        prop_assert!(grows);
        prop_assert_eq!(stats.over_time.last().map(|slice| slice.footprint_gib), Some(stats.total_gib_unique));
    }
}

/// Reproducible pseudo-random numbers.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 7_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Half of the requests on a tenth of 400,000 pages, every fifth jump one of a thousand.
fn many() -> Vec<Record> {
    let mut random = numbers();
    let mut make = |number: u64| {
        let page = match random(10) {
            0..2 => {
                return record(number * 50_000, Op::Read, (number % 1_000) * 7_919 * 8 % 3_200_000, 8, None);
            }
            2..6 => random(40_000),
            _ => random(400_000),
        };
        record(number * 50_000, if random(3) == 0 { Op::Write } else { Op::Read }, page * 8, 8, None)
    };
    (0..1_200_000).map(&mut make).collect()
}

#[test]
fn a_sample_is_as_exact_as_stated() {
    let records = many();
    let whole = stats(&records, PLENTY);
    let sampled = stats(&records, 4 << 20);
    assert!(whole.page_sampling.kept > 0.999 && whole.pair_sampling.kept > 0.999);
    assert!(
        sampled.page_sampling.kept < 0.3 && sampled.pair_sampling.kept < 0.3,
        "{:?}",
        sampled.page_sampling
    );
    // Three times the deviation, which is given as 1.96 of them.
    let within = |reported: f64, right: f64, error_pct: f64| {
        assert!(
            (reported - right).abs() <= right * error_pct / 100.0 * 3.0 / 1.96,
            "{reported}, not {right} to {error_pct} %"
        );
    };
    let error_pct = sampled.page_sampling.error_pct;
    within(sampled.accessed_pages as f64, whole.accessed_pages as f64, error_pct);
    within(sampled.write_gib_unique, whole.write_gib_unique, error_pct * 1.5);
    let pairs = |stats: &Stats| stats.pair_repeats.iter().map(|class| class.pairs).sum::<u64>() as f64;
    within(pairs(&sampled), pairs(&whole), sampled.pair_sampling.error_pct);
    let (curve, sample) = (&whole.miss_ratio_curve, &sampled.miss_ratio_curve);
    assert!(!sample.exact && sample.error > 0.0 && sample.error < 0.03, "{}", sample.error);
    for point in &sample.points {
        // The exact curve at the next smaller and the next larger size.
        let at = curve.points.partition_point(|exact| exact.pages < point.pages);
        let above = curve.points[at.saturating_sub(1)].miss_ratio;
        let below = curve.points.get(at).map_or(0.0, |exact| exact.miss_ratio);
        let slack = 4.0 * sample.error;
        assert!(
            point.miss_ratio <= above + slack && point.miss_ratio >= below - slack,
            "{point:?}: {above} to {below}"
        );
    }
    // Statistics that do not concern single pages or pairs are exact.
    assert_eq!((sampled.reads, &sampled.arrivals), (whole.reads, &whole.arrivals));
    assert_eq!(sampled.heat_map, whole.heat_map);
}

#[test]
fn a_curve_has_a_point_where_any_cache_is_as_good() {
    let read = |(at, page): (u64, u64)| record(at, Op::Read, page * 8, 8, None);
    let of = |pages: &[u64]| {
        let records: Vec<Record> = (0..).zip(pages.iter().copied()).map(read).collect();
        let stats = stats(&records, PLENTY);
        let line = stats.summary.into_iter().find(|line| line.name == "reuse").unwrap().value;
        (stats.miss_ratio_curve.points.iter().map(|point| (point.pages, point.miss_ratio)).collect(), line)
    };
    let near = |(points, line): (Vec<(u64, f64)>, String), ratio: f64, words: &str| {
        assert!(matches!(points[..], [(1, found)] if (found - ratio).abs() < 1e-12), "{points:?}");
        assert!(line.starts_with(words), "{line}");
    };
    near(of(&[7, 7, 7, 7, 9, 9, 9, 9]), 0.25, "75.0 % of accesses repeat one");
    near(of(&[7, 9]), 1.0, "0.0 % of accesses repeat one");
    assert_eq!(of(&[]), (Vec::new(), "no page is accessed".to_owned()));
}

#[test]
fn the_curve_alone_is_the_curve_of_all() {
    let records = many();
    let mut alone = MissRatio::new(PLENTY);
    for (page, ..) in accesses(&records) {
        alone.access(page);
    }
    assert_eq!(alone.finish(), stats(&records, PLENTY).miss_ratio_curve);
}
