//! Charts specific to a trace's report, in addition to those of [`crate::report::charts`].

use seekless_core::PAGE_BYTES;
use seekless_trace::Stats;
use seekless_trace::stats::{Doubling, Slice};

use super::accesses_figure::span;
use super::still::time_unit;
use crate::report::along::Along;
use crate::report::plot::{Form, Plot, Series};
use crate::report::text::{percent, whole};

/// Miss ratio of a cache of each size.
pub fn miss_ratio(stats: &Stats) -> Option<Plot> {
    let curve = &stats.miss_ratio_curve;
    // A line has two points.
    if curve.points.len() < 2 {
        return None;
    }
    let mib = |pages: u64| pages as f64 * PAGE_BYTES as f64 / f64::from(1 << 20);
    let note = if curve.exact {
        String::new()
    } else {
        format!(
            "From a sample of the pages: the standard deviation is at most {}.",
            percent(100.0 * curve.error)
        )
    };
    Some(Plot {
        id: "miss-ratio",
        title: "What a cache would miss",
        caption: "An LRU cache of 4 KiB pages by its size: the share of page accesses that miss. Where the line \
                  falls, more memory helps; where it is level, it does not. The line ends at the misses that no \
                  cache can avoid: each page\u{2019}s first."
            .to_owned(),
        along: Along::Log(curve.points.iter().map(|point| mib(point.pages)).collect()),
        along_label: "size of the cache, MiB",
        value_label: "misses, %",
        form: Form::Lines,
        series: vec![Series {
            name: "misses".to_owned(),
            values: curve.points.iter().map(|point| Some(100.0 * point.miss_ratio)).collect(),
        }],
        note,
        ..Plot::default()
    })
}

/// A histogram of times in microseconds as bars.
fn times(classes: &[Doubling], name: &str) -> Option<Plot> {
    if classes.iter().all(|class| class.count == 0) {
        return None;
    }
    Some(Plot {
        along: Along::names(classes.iter().map(|class| (class.up_to, span(class.up_to / 1e6)))),
        value_label: "requests",
        form: Form::Bars,
        series: vec![Series {
            name: name.to_owned(),
            values: classes.iter().map(|class| Some(class.count as f64)).collect(),
        }],
        ..Plot::default()
    })
}

/// Times between two requests.
pub fn inter_arrivals(stats: &Stats) -> Option<Plot> {
    Some(Plot {
        id: "inter-arrivals",
        title: "Time between two requests",
        caption: "Each bar counts the requests that arrived at most its time after the one before, and later than \
                  the bar before it. Short times are bursts; in long ones background work would not delay any request."
            .to_owned(),
        along_label: "up to this long after the request before",
        ..times(&stats.arrivals.histogram, "requests")?
    })
}

/// Response times.
pub fn latencies(stats: &Stats) -> Option<Plot> {
    Some(Plot {
        id: "latencies",
        title: "Response times",
        caption: "From arrival to answer, on the recorded machine.".to_owned(),
        along_label: "up to this long",
        ..times(&stats.latencies.as_ref()?.histogram, "requests")?
    })
}

/// Requests per second; `longest` is the duration of the longest trace of the page.
pub fn over_time(stats: &Stats, longest: f64) -> Option<Plot> {
    let slices = &stats.over_time;
    let width = slices.get(1)?.from_s - slices[0].from_s;
    let (unit, name) = time_unit(longest);
    let series = |name: &str, value: fn(&Slice) -> u64| Series {
        name: name.to_owned(),
        values: slices.iter().map(|slice| Some(value(slice) as f64 / width)).collect(),
    };
    Some(Plot {
        id: "over-time",
        title: "Requests over time",
        caption: "Requests a second, on average over each of its points.".to_owned(),
        along: Along::Linear(slices.iter().map(|slice| slice.from_s / unit).collect()),
        along_label: match name {
            "days" => "time, days",
            "h" => "time, h",
            "min" => "time, min",
            _ => "time, s",
        },
        value_label: "requests/s",
        form: Form::Lines,
        series: vec![series("reads", |slice| slice.reads), series("writes", |slice| slice.writes)],
        note: format!("{} points, one every {}.", whole(slices.len() as u64), span(width)),
        ..Plot::default()
    })
}
