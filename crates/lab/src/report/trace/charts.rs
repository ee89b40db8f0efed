//! Charts specific to a trace's report, in addition to those of [`crate::report::charts`].

use seekless_core::PAGE_BYTES;
use seekless_trace::Stats;
use seekless_trace::stats::{Doubling, Slice};

use super::accesses_figure::span;
use super::still::time_unit;
use super::timeline::{BANDS, Slice as Moment, Timeline};
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
    let series = |name: &str, value: fn(&Slice) -> u64| Series {
        name: name.to_owned(),
        values: slices.iter().map(|slice| Some(value(slice) as f64 / width)).collect(),
    };
    Some(Plot {
        id: "over-time",
        title: "Requests over time",
        caption: "Requests a second, on average over each of its points.".to_owned(),
        value_label: "requests/s",
        series: vec![series("reads", |slice| slice.reads), series("writes", |slice| slice.writes)],
        ..along_time(slices.iter().map(|slice| slice.from_s), width, longest)
    })
}

/// A chart along time, whose points begin at these seconds. Charts of a page have the same axis, and zoom together.
fn along_time(from_s: impl ExactSizeIterator<Item = f64>, width: f64, longest: f64) -> Plot {
    let (unit, name) = time_unit(longest);
    let points = from_s.len() as u64;
    Plot {
        along: Along::Linear(from_s.map(|second| second / unit).collect()),
        along_label: match name {
            "days" => "time, days",
            "h" => "time, h",
            "min" => "time, min",
            _ => "time, s",
        },
        form: Form::Lines,
        time_unit_s: Some(unit),
        note: format!("{} points, one every {}.", whole(points), span(width)),
        ..Plot::default()
    }
}

/// A line over time: its name, and its value in a slice.
type Line<'a> = (&'a str, &'a dyn Fn(&Moment) -> Option<f64>);

/// A chart of a timeline.
fn of(line: &Timeline, longest: f64, lines: &[Line]) -> Option<Plot> {
    let (slices, width) = (line.slices(), line.slice_s());
    if slices.len() < 2 {
        return None;
    }
    let series = lines
        .iter()
        .map(|(name, value)| Series { name: (*name).to_owned(), values: slices.iter().map(value).collect() });
    Some(Plot {
        series: series.collect(),
        ..along_time((0..slices.len()).map(|at| at as f64 * width), width, longest)
    })
}

/// Data read and written a second.
pub fn throughput(line: &Timeline, longest: f64) -> Option<Plot> {
    let rate = |bytes: u64| Some(bytes as f64 / 1e6 / line.slice_s());
    let lines: [Line; 2] =
        [("reads", &|slice| rate(slice.bytes[0])), ("writes", &|slice| rate(slice.bytes[1]))];
    Some(Plot {
        id: "throughput",
        title: "Data over time",
        caption:
            "Data read and written a second, on average over each of its points. 1 MB is 1,000,000 bytes."
                .to_owned(),
        value_label: "MB/s",
        ..of(line, longest, &lines)?
    })
}

/// Jumps a second.
pub fn jumps(line: &Timeline, longest: f64) -> Option<Plot> {
    let lines: [Line; 1] = [("jumps", &|slice| Some(slice.jumps as f64 / line.slice_s()))];
    Some(Plot {
        id: "jumps",
        title: "Seeks over time",
        caption: "Requests a second that do not begin where the one before them on their volume ended: for each, a \
                  disk without a queue or a cache moves its head."
            .to_owned(),
        value_label: "seeks/s",
        ..of(line, longest, &lines)?
    })
}

/// Requests that wait; only of traces with latencies.
pub fn queue_depth(line: &Timeline, longest: f64) -> Option<Plot> {
    let lines: [Line; 1] = [("requests", &|slice| Some(line.depth(slice)))];
    Some(Plot {
        id: "queue-depth",
        title: "Queue depth over time",
        caption: "Requests that had come and were not answered, on average over each of its points, on the recorded \
                  machine."
            .to_owned(),
        value_label: "requests waiting",
        ..of(line, longest, &lines).filter(|_| line.knows_latencies)?
    })
}

/// Response times; only of traces with latencies.
pub fn latency_bands(line: &Timeline, longest: f64) -> Option<Plot> {
    let [half, most, nearly_all] = BANDS.map(|(part, _)| move |slice: &Moment| slice.within_ms(part));
    let names = BANDS.map(|(_, name)| name);
    let lines: [Line; 3] = [(names[0], &half), (names[1], &most), (names[2], &nearly_all)];
    Some(Plot {
        id: "latency-bands",
        title: "Response times over time",
        caption: "The time within which half, 90 % and 99 % of the requests were answered that came at each of its \
                  points, to a sixteenth, on the recorded machine."
            .to_owned(),
        value_label: "ms",
        value_log: true,
        ..of(line, longest, &lines).filter(|_| line.knows_latencies)?
    })
}
