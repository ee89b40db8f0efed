//! Charts of the report, and their figures. A chart without figures is left out.

use std::collections::{BTreeMap, BTreeSet};

use seekless_trace::Stats;
use seekless_trace::stats::{RankPoint, SizeBucket, WorkingSet};

use super::along::Along;
use super::plot::{Form, Plot, Series};
use super::sections::display_name;
use super::stack::Stack;
use super::table::Table;
use super::text::{mark, number, whole};
use crate::outcome::{Comparison, HeadTime, Variant};

/// Parts of head time, in the order of a request.
const PARTS: [&str; 4] = ["seek", "rotation", "transfer", "overhead"];

fn parts(head: &HeadTime) -> Vec<f64> {
    vec![head.seek_s, head.rotation_s, head.transfer_s, head.overhead_s]
}

/// Accesses of the k-th most accessed page.
pub fn rank_frequency(stats: &Stats) -> Option<Plot> {
    let curves = [("reads", &stats.read_rank_frequency), ("writes", &stats.write_rank_frequency)];
    let ranks: BTreeSet<u64> =
        curves.iter().flat_map(|(_, curve)| curve.iter().map(|point| point.rank)).collect();
    if ranks.is_empty() {
        return None;
    }
    let values = |curve: &[RankPoint]| {
        let known: BTreeMap<u64, u64> = curve.iter().map(|point| (point.rank, point.accesses)).collect();
        ranks.iter().map(|rank| known.get(rank).map(|&accesses| accesses as f64)).collect()
    };
    let series = curves
        .iter()
        .map(|(name, curve)| Series { name: (*name).to_owned(), values: values(curve) })
        .collect();
    Some(Plot {
        id: "rank-frequency",
        title: "How often pages are accessed",
        caption:
            "Pages by rank, the most accessed first. A steep line means that few pages take most of the \
                  accesses: copies of those are worth most."
                .to_owned(),
        along: Along::Log(ranks.iter().map(|&rank| rank as f64).collect()),
        along_label: "rank of the page",
        value_label: "accesses",
        value_log: true,
        form: Form::Lines,
        series,
        ..Plot::default()
    })
}

/// How much of each interval's working set was in earlier ones.
pub fn working_sets(stats: &Stats) -> Option<Plot> {
    let sets = &stats.working_sets;
    if sets.is_empty() {
        return None;
    }
    let series = |name: &str, value: fn(&WorkingSet) -> f64| Series {
        name: name.to_owned(),
        values: sets.iter().map(|set| Some(value(set))).collect(),
    };
    Some(Plot {
        id: "working-sets",
        title: "Persistence of the working set",
        caption: "The trace cut into intervals: the share of an interval's pages that an earlier \
                  interval accessed too. \u{201c}Top\u{201d} is the fifth of the pages that is accessed most. High \
                  lines mean that a layout learnt from one interval suits the next."
            .to_owned(),
        along: Along::names((1..=sets.len()).map(|interval| (interval as f64, interval.to_string()))),
        along_label: "interval",
        value_label: "pages seen before, %",
        form: Form::Lines,
        series: vec![
            series("as in the first", |set| set.overlap_first_pct),
            series("as in the one before", |set| set.overlap_previous_pct),
            series("top, as in the first", |set| set.top20_overlap_first_pct),
            series("top, as in the one before", |set| set.top20_overlap_previous_pct),
        ],
        ..Plot::default()
    })
}

/// Further figures of the intervals.
pub fn interval_table(stats: &Stats) -> Table {
    let mut table =
        Table::new("The intervals", &["interval", "first request", "requests", "pages", "pages in the top"]);
    for (at, set) in stats.working_sets.iter().enumerate() {
        let cells = [set.first_request, set.requests, set.pages, set.top20_pages].map(whole);
        table.row(std::iter::once((at + 1).to_string()).chain(cells));
    }
    table
}

/// Sizes of requests.
pub fn request_sizes(stats: &Stats) -> Option<Plot> {
    let sizes = &stats.request_sizes;
    if sizes.is_empty() {
        return None;
    }
    let series = |name: &str, value: fn(&SizeBucket) -> u64| Series {
        name: name.to_owned(),
        values: sizes.iter().map(|size| Some(value(size) as f64)).collect(),
    };
    Some(Plot {
        id: "request-sizes",
        title: "Request sizes",
        caption: "Each bar counts the requests of up to its size, and larger than the one before.".to_owned(),
        along: Along::names(sizes.iter().map(|size| (size.up_to_kib as f64, whole(size.up_to_kib)))),
        along_label: "up to this many KiB",
        value_label: "requests",
        form: Form::Bars,
        series: vec![series("reads", |size| size.reads), series("writes", |size| size.writes)],
        ..Plot::default()
    })
}

fn is_reconfiguration(name: &str) -> bool {
    name.strip_prefix('R').is_some_and(|rest| rest.chars().all(|each| each.is_ascii_digit()))
}

/// The drive's busy time in each phase, and that of the base of this name.
pub fn busy_by_phase(variant: &Variant, base: &str) -> Option<Plot> {
    if variant.phases.is_empty() {
        return None;
    }
    let phases = &variant.phases;
    let vanilla = phases.iter().map(|phase| Some(phase.vanilla_busy_s)).collect();
    let layer = phases.iter().map(|phase| Some(phase.work.head.busy_s)).collect();
    Some(Plot {
        id: "busy-by-phase",
        title: "Busy time by phase",
        caption: "Busy time of the drive for the same requests. Shaded phases (R) contain a reconfiguration, whose \
                  copies are included; the last phase writes back dirty pages."
            .to_owned(),
        along: Along::names(phases.iter().enumerate().map(|(at, phase)| (at as f64, phase.name.clone()))),
        along_label: "phase",
        value_label: "busy, s",
        form: Form::Bars,
        series: vec![
            Series { name: base.to_owned(), values: vanilla },
            Series { name: display_name(&variant.name), values: layer },
        ],
        shaded: phases.iter().map(|phase| is_reconfiguration(&phase.name)).collect(),
        ..Plot::default()
    })
}

/// Distances of seeks.
pub fn seek_distances(comparison: &Comparison) -> Option<Plot> {
    let variants = &comparison.variants;
    let bins: BTreeSet<u64> =
        variants.iter().flat_map(|each| each.seek_histogram.iter().map(|bin| bin.0)).collect();
    if bins.is_empty() {
        return None;
    }
    let series = variants.iter().map(|variant| {
        let known: BTreeMap<u64, u64> = variant.seek_histogram.iter().copied().collect();
        let values = bins.iter().map(|bin| Some(known.get(bin).copied().unwrap_or(0) as f64)).collect();
        Series { name: display_name(&variant.name), values }
    });
    Some(Plot {
        id: "seek-distances",
        title: "Seek distances",
        caption: "Seeks by their distance: each bar counts those up to its number of cylinders, and farther than the \
                  one before. A better layout has fewer and shorter seeks."
            .to_owned(),
        along: Along::names(bins.iter().map(|&bin| (bin as f64, mark(bin as f64)))),
        along_label: "up to this many cylinders",
        value_label: "seeks",
        form: Form::Bars,
        series: series.collect(),
        ..Plot::default()
    })
}

/// Shares of requests that were answered within a time.
pub fn response_times(comparison: &Comparison) -> Option<Plot> {
    let variants = &comparison.variants;
    let histograms = || variants.iter().map(|variant| &variant.response_ms.all.histogram);
    // Times are above 0: their bits are in the same order.
    let bins: BTreeSet<u64> = histograms().flatten().map(|(longest, _)| longest.to_bits()).collect();
    if bins.is_empty() {
        return None;
    }
    let series = variants.iter().zip(histograms()).map(|(variant, histogram)| {
        let known: BTreeMap<u64, u64> =
            histogram.iter().map(|&(longest, count)| (longest.to_bits(), count)).collect();
        let all = variant.response_ms.all.requests.max(1) as f64;
        let mut answered = 0;
        let values = bins.iter().map(|bin| {
            answered += known.get(bin).copied().unwrap_or(0);
            Some(100.0 * answered as f64 / all)
        });
        Series { name: display_name(&variant.name), values: values.collect() }
    });
    Some(Plot {
        id: "response-times",
        title: "Response times",
        caption: "The share of all requests that were answered within a time, from issue to answer. A line farther to the \
                  left is a faster disk."
            .to_owned(),
        series: series.collect(),
        along: Along::Log(bins.iter().map(|&bin| f64::from_bits(bin)).collect()),
        along_label: "time, ms",
        value_label: "requests answered, %",
        form: Form::Lines,
        ..Plot::default()
    })
}

/// Head time of a whole run, by part.
pub fn head_time(comparison: &Comparison) -> Stack {
    let bars = comparison.variants.iter();
    Stack {
        id: "head-time",
        title: "Where the head\u{2019}s time goes",
        caption: "The whole run, the final write-back included.".to_owned(),
        bar_label: "variant",
        value_label: "seconds",
        parts: PARTS.map(str::to_owned).to_vec(),
        bars: bars.map(|variant| (display_name(&variant.name), parts(&variant.work.head))).collect(),
    }
}

/// Head time of each phase, by part.
pub fn head_time_by_phase(variant: &Variant) -> Option<Stack> {
    if variant.phases.is_empty() {
        return None;
    }
    Some(Stack {
        id: "head-time-by-phase",
        title: "Where it goes, by phase",
        caption: format!("With {}.", display_name(&variant.name)),
        bar_label: "phase",
        value_label: "seconds",
        parts: PARTS.map(str::to_owned).to_vec(),
        bars: variant.phases.iter().map(|phase| (phase.name.clone(), parts(&phase.work.head))).collect(),
    })
}

/// Time of each reconfiguration, by stage.
pub fn stages(variant: &Variant) -> Option<Stack> {
    let mut names: Vec<String> = Vec::new();
    for stage in variant.reconfigurations.iter().flat_map(|each| &each.stages) {
        if !names.contains(&stage.name) {
            names.push(stage.name.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    let bars = variant.reconfigurations.iter().map(|each| {
        let spent = |name: &String| {
            each.stages.iter().filter(|stage| stage.name == *name).map(|stage| stage.seconds).sum::<f64>()
        };
        (each.name.clone(), names.iter().map(spent).collect())
    });
    Some(Stack {
        id: "stages",
        title: "Reconfigurations by stage",
        caption: "From start to end in virtual time, including the clients\u{2019} requests in between: background \
                  work waits for them."
            .to_owned(),
        bar_label: "reconfiguration",
        value_label: "seconds",
        parts: names.clone(),
        bars: bars.collect(),
    })
}

/// Pages moved and planned by the reconfigurations.
pub fn reconfiguration_table(variant: &Variant) -> Table {
    let mut table = Table::new(
        "The reconfigurations",
        &["reconfiguration", "start, s", "vertices", "edges", "pages planned"],
    );
    let stages = variant.reconfigurations.first().map_or(&[][..], |first| &first.stages);
    table.head.extend(stages.iter().map(|stage| format!("{}: pages", stage.name)));
    for each in &variant.reconfigurations {
        let counts = [each.vertices, each.edges, each.planned_pages].map(whole);
        let pages = stages.iter().map(|stage| {
            let same = each.stages.iter().filter(|other| other.name == stage.name);
            whole(same.map(|other| other.pages).sum())
        });
        table.row([each.name.clone(), number(each.start_s)].into_iter().chain(counts).chain(pages));
    }
    table
}
