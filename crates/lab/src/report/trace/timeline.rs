//! What a disk did in each slice of a trace's time: data, jumps, waiting requests, and answers by how long they took.
//!
//! Invariant: bounded memory, whatever the trace: [`SLICES`] slices. A request counts in the slice in which it came;
//! that it waits counts in each slice as far as it waits there.

use std::collections::BTreeMap;

use seekless_core::{Nanos, Op, Record};

/// Slices of the time.
const SLICES: u64 = 120;
/// Classes of times for each doubling, as a power of two: each is at most 1/16 longer than the one before.
const STEPS: u32 = 4;
/// The bands that are shown, as parts of the answers.
pub const BANDS: [(f64, &str); 3] = [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %")];

/// Follows the records of a trace of known length.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Length of a slice, in nanoseconds; not zero once there are slices.
    length: u64,
    slices: Vec<Slice>,
    /// The sector after the latest request of each volume.
    ends: BTreeMap<u32, u64>,
    /// Whether any record has its latency.
    pub knows_latencies: bool,
}

/// A slice of the time.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Bytes read, and written.
    pub bytes: [u64; 2],
    /// Requests that did not begin where the one before on their volume ended.
    pub jumps: u64,
    /// Time that requests waited in it, all together, in nanoseconds.
    waited: u128,
    /// Answers by the class of their time.
    answers: BTreeMap<u32, u32>,
}

impl Timeline {
    /// For a trace that ends at `end`.
    pub fn new(end: Nanos) -> Timeline {
        let length = (end.0 / SLICES + 1).max(1);
        let slices = vec![Slice::default(); (end.0 / length + 1) as usize];
        Timeline { length, slices, ..Timeline::default() }
    }

    /// Adds a record.
    pub fn follow(&mut self, record: &Record) {
        let Some(last) = self.slices.len().checked_sub(1) else { return };
        let at = ((record.time.0 / self.length) as usize).min(last);
        let slice = &mut self.slices[at];
        match record.op {
            Op::Read => slice.bytes[0] += record.extent.bytes(),
            Op::Write | Op::WriteZeroes => slice.bytes[1] += record.extent.bytes(),
            Op::Flush | Op::Discard => (),
        }
        if record.op != Op::Flush && record.extent.sectors > 0 {
            let before = self.ends.insert(record.device, record.extent.end().0);
            slice.jumps += u64::from(before.is_some_and(|end| end != record.extent.start.0));
        }
        if let Some(took) = record.latency.known() {
            self.knows_latencies = true;
            *slice.answers.entry(class(took)).or_default() += 1;
            self.wait(at, record.time, took);
        }
    }

    /// A request waits from `since` on, in the slice `at` and perhaps later ones.
    fn wait(&mut self, at: usize, since: Nanos, took: Nanos) {
        let (mut from, end) = (since.0, since.0.saturating_add(took.0));
        for (number, slice) in self.slices.iter_mut().enumerate().skip(at) {
            let until = (number as u64 + 1).saturating_mul(self.length).min(end).max(from);
            slice.waited += u128::from(until - from);
            from = until;
            if from == end {
                return;
            }
        }
    }

    /// Length of a slice in seconds.
    pub fn slice_s(&self) -> f64 {
        self.length as f64 / 1e9
    }

    /// All slices.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Requests that waited in a slice, on average over its time.
    pub fn depth(&self, slice: &Slice) -> f64 {
        slice.waited as f64 / self.length as f64
    }
}

impl Slice {
    /// The time in milliseconds within which this part of the requests was answered, to 1/16; `None` without answers.
    pub fn within_ms(&self, part: f64) -> Option<f64> {
        let all: u32 = self.answers.values().sum();
        let rank = (part * f64::from(all)).ceil().max(1.0) as u32;
        let mut seen = 0;
        let found = self.answers.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map(|(class, _)| longest(*class) as f64 / 1e6)
    }
}

/// The class of a time.
fn class(took: Nanos) -> u32 {
    let time = took.0.max(1);
    let doublings = time.ilog2();
    let step = (time << (63 - doublings) >> (63 - STEPS)) as u32 & ((1 << STEPS) - 1);
    (doublings << STEPS) | step
}

/// The longest time of a class, in nanoseconds.
fn longest(class: u32) -> u64 {
    let (doublings, step) = (class >> STEPS, u128::from(class & ((1 << STEPS) - 1)));
    // The whole number before the next class begins, which may be between two.
    let next = (((1 << STEPS) + step + 1) << doublings).div_ceil(1 << STEPS);
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use seekless_core::{Extent, Flags, Latency, Origin};

    use super::*;

    fn record(seconds: u64, op: Op, start: u64, sectors: u64, took_ms: Option<u64>) -> Record {
        Record {
            time: Nanos::from_millis(seconds * 1_000),
            device: 0,
            op,
            extent: Extent::new(start, sectors),
            flags: Flags::default(),
            origin: Origin::default(),
            latency: took_ms.map_or(Latency::UNKNOWN, |ms| Latency::of(Nanos::from_millis(ms))),
        }
    }

    #[test]
    fn a_slice_has_what_came_in_it() {
        // Slices of a second.
        let mut line = Timeline::new(Nanos::from_millis(119_000));
        let records = [
            record(0, Op::Read, 0, 8, Some(10)),
            record(0, Op::Write, 8, 16, Some(2_500)),
            record(2, Op::Read, 99, 1, None),
            record(119, Op::Flush, 0, 0, None),
        ];
        for record in &records {
            line.follow(record);
        }
        let slices = line.slices();
        assert_eq!((slices[0].bytes, slices[2].bytes), ([8 * 512, 16 * 512], [512, 0]));
        assert_eq!((slices[0].jumps, slices[2].jumps), (0, 1), "the write follows the read");
        // A request of 2.5 s is one waiting request in two slices, and a part of one in the third.
        let depths: Vec<f64> = slices[..4].iter().map(|slice| line.depth(slice)).collect();
        for (found, expected) in depths.iter().zip([1.01, 1.0, 0.5, 0.0]) {
            assert!((found - expected).abs() < 0.03, "{depths:?}");
        }
        assert_eq!(slices[2].within_ms(0.5), None);
        let within = |part| slices[0].within_ms(part).unwrap();
        assert!((10.0..10.7).contains(&within(0.5)) && (2_500.0..2_670.0).contains(&within(0.99)));
    }

    #[test]
    fn classes_hold_their_times() {
        let mut before = 0;
        for time in (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3, u64::MAX >> bit]) {
            let class = class(Nanos(time));
            assert!(longest(class) >= time, "{time}");
            assert!(longest(class) as f64 <= time as f64 * 1.07, "{time}");
            before = before.max(class);
        }
        assert!(before < 64 << STEPS);
    }

    #[test]
    fn odd_traces_do_no_harm() {
        Timeline::default().follow(&record(1, Op::Read, 0, 8, Some(1)));
        for end in [0, 1, u64::MAX] {
            let mut line = Timeline::new(Nanos(end));
            let late = Record {
                time: Nanos(end),
                latency: Latency::of(Nanos(u64::MAX)),
                ..record(0, Op::Read, 0, 8, None)
            };
            line.follow(&late);
            assert!(line.slices().len() as u64 <= SLICES && line.knows_latencies);
        }
    }
}
