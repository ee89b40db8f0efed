//! The status of a server as metrics, in the text format of Prometheus (version 0.0.4).

use std::fmt::Write;

use super::control::{QueuedStatus, Status};
use super::stats::{IoStats, KindStats};

/// Upper ends of the buckets of response times: powers of two in nanoseconds, 16 µs to 17 s. There a bucket of a meter
/// ends, too.
const ENDS: std::ops::RangeInclusive<u32> = 14..=34;

/// Metrics of a family, a line each.
struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
}

impl<'a> Family<'a> {
    /// A family of this type, with a line that says what it is.
    fn new(out: &'a mut String, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { out, name }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.add_as("", labels, value);
    }

    fn add_as(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(self.out, "{}{suffix}{labels} {value}", self.name);
    }
}

/// A label's value as the format demands it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The metrics of a server.
pub fn metrics(status: &Status) -> String {
    let mut text = String::new();
    let out = &mut text;
    Family::new(out, "seekless_uptime_seconds", "gauge", "Time since the server started.")
        .add(&[], status.up_s);
    Family::new(out, "seekless_clients", "gauge", "Connected clients.").add(&[], status.clients);
    Family::new(out, "seekless_connections_total", "counter", "Clients that connected so far.")
        .add(&[], status.clients_so_far);
    requests(out, &measured(status));
    let mut family = Family::new(out, "seekless_export_size_bytes", "gauge", "Size of an export.");
    for export in &status.exports {
        family.add(&[("name", &export.name)], export.bytes);
    }
    layers(out, status);
    queues(out, status);
    let mut family = Family::new(
        out,
        "seekless_doing_seconds",
        "gauge",
        "Time since a command or change of layers began.",
    );
    for doing in &status.doing {
        family.add(&[("what", &doing.what), ("layer", &doing.layer)], doing.for_s);
    }
    text
}

/// What is measured: its kind, its name, and its figures.
fn measured(status: &Status) -> Vec<(&'static str, &str, &IoStats)> {
    let exports =
        status.exports.iter().filter_map(|export| Some(("export", &*export.name, export.stats.as_ref()?)));
    let layers =
        status.layers.iter().filter_map(|layer| Some(("layer", &*layer.name, layer.stats.as_ref()?)));
    let devices = status.devices.iter().map(|device| ("device", &*device.name, &device.stats));
    exports.chain(layers).chain(devices).collect()
}

fn requests(out: &mut String, measured: &[(&str, &str, &IoStats)]) {
    let help = "Requests in flight.";
    let mut family = Family::new(out, "seekless_requests_in_flight", "gauge", help);
    for (at, name, stats) in measured {
        family.add(&[("at", at), ("name", name)], stats.in_flight);
    }
    let each = |out: &mut String, name: &str, help: &str, value: fn(&KindStats) -> u64| {
        let mut family = Family::new(out, name, "counter", help);
        for (at, name, stats) in measured {
            for (op, kind) in stats.kinds() {
                family.add(&[("at", at), ("name", name), ("op", op)], value(kind));
            }
        }
    };
    each(out, "seekless_request_failures_total", "Requests answered with an error.", |kind| kind.failed);
    each(out, "seekless_request_bytes_total", "Bytes of requests answered without an error.", |kind| {
        kind.bytes
    });
    let help = "Response times of requests.";
    let mut family = Family::new(out, "seekless_request_duration_seconds", "histogram", help);
    for (at, name, stats) in measured {
        for (op, kind) in stats.kinds() {
            let labels = [("at", *at), ("name", *name), ("op", op)];
            for power in ENDS {
                let end = 1_u64 << power;
                let below = kind.histogram.iter().take_while(|(start, _)| *start < end);
                let below: u64 = below.map(|(_, count)| count).sum();
                let le = (end as f64 / 1e9).to_string();
                family.add_as("_bucket", &[&labels[..], &[("le", &*le)]].concat(), below);
            }
            family.add_as("_bucket", &[&labels[..], &[("le", "+Inf")]].concat(), kind.requests);
            family.add_as("_sum", &labels, kind.sum_ms / 1e3);
            family.add_as("_count", &labels, kind.requests);
        }
    }
}

fn queues(out: &mut String, status: &Status) {
    let each = |out: &mut String, name: &str, kind: &str, help: &str, value: fn(&QueuedStatus) -> f64| {
        let mut family = Family::new(out, name, kind, help);
        for device in &status.devices {
            for (class, queued) in device.queue.iter().flat_map(|queue| &queue.classes) {
                family.add(&[("name", &device.name), ("class", class)], value(queued));
            }
        }
    };
    each(out, "seekless_queue_waiting", "gauge", "Requests that wait in front of a device.", |queued| {
        queued.waiting as f64
    });
    let help = "Requests issued to a device from its queue.";
    each(out, "seekless_queue_issued_total", "counter", help, |queued| queued.issued as f64);
    let help = "Time that these waited in the queue.";
    each(out, "seekless_queue_wait_seconds_total", "counter", help, |queued| queued.waited_ms / 1e3);
}

fn layers(out: &mut String, status: &Status) {
    let help = "Bytes whose only current version a layer holds.";
    let mut family = Family::new(out, "seekless_layer_dirty_bytes", "gauge", help);
    for layer in &status.layers {
        family.add(&[("name", &layer.name)], layer.dirty_bytes);
    }
    let with_hits = || status.layers.iter().filter_map(|layer| Some((&*layer.name, layer.hits.as_ref()?)));
    let help = "Pages or reads that a layer's own copies could have served.";
    let mut family = Family::new(out, "seekless_layer_lookups_total", "counter", help);
    with_hits().for_each(|(name, hits)| family.add(&[("name", name)], hits.lookups));
    let help = "Pages or reads that a layer's own copies served.";
    let mut family = Family::new(out, "seekless_layer_hits_total", "counter", help);
    with_hits().for_each(|(name, hits)| family.add(&[("name", name)], hits.hit));
    let help = "Bytes read and written by a layer's background work.";
    let mut family = Family::new(out, "seekless_layer_background_bytes_total", "counter", help);
    for layer in &status.layers {
        if let Some(bytes) = layer.background_bytes {
            family.add(&[("name", &layer.name)], bytes);
        }
    }
    let help = "A layer's counters, as its page describes them.";
    let mut family = Family::new(out, "seekless_layer_counter", "untyped", help);
    for layer in &status.layers {
        for (counter, value) in &layer.counters {
            family.add(&[("name", &layer.name), ("counter", counter)], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use seekless_core::runtime::{Runtime, sleep};
    use seekless_core::{Meter, Nanos, Op};

    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let run = async {
            let meter = Rc::new(Meter::default());
            for micros in [0, 10, 30, 100, 20_000_000] {
                let timed = meter.begin(Op::Read, 512);
                sleep(Nanos(micros * 1_000)).await;
                timed.end(false);
            }
            let (mut text, stats) = (String::new(), IoStats::of(&meter));
            requests(&mut text, &[("export", "a\"b\\", &stats)]);
            text
        };
        let text = Runtime::new(1).run(run).unwrap();
        let bucket = |le: &str, count: u64| {
            let labels = r#"at="export",name="a\"b\\",op="read""#;
            let line = format!("seekless_request_duration_seconds_bucket{{{labels},le=\"{le}\"}} {count}\n");
            assert!(text.contains(&line), "no {line} in {text}");
        };
        for (le, count) in [("0.000016384", 2), ("0.000032768", 3), ("0.000131072", 4), ("+Inf", 5)] {
            bucket(le, count);
        }
        assert!(text.contains("op=\"read\"} 2560\n") && text.contains("_count{"));
    }
}
