//! Layering: counts a request once though it was traced on several devices of a stack.
//!
//! A request to a volume on a partition is queued at the volume, remapped to the partition, remapped to the disk, and
//! queued again at the disk. Where only the disk was traced that is one queue event; where volume and disk were traced
//! it is two, of the same I/O.
//!
//! The rule: **a request counts at the topmost traced device that it passes.** A queue event is a repetition if remaps
//! lead to it from another device that is itself in the trace (has queue events of its own). At the top the issuing
//! process is known, and the request has not been split over stripes or written twice by a mirror. Requests that enter
//! the stack lower down (another partition of the disk, a volume's own metadata) have no such remap, and count where
//! they enter.
//!
//! Not detected: layers that remap without an event (a loop device reads its file through the page cache). Their
//! devices stay apart in [`Record::device`](seekless_core::Record).
//!
//! Faults: a remap without a later queue event is forgotten after [`TIMEOUT`], and there are never more than
//! [`MAX_EXPECTED`] of them, so that it cannot hide a later, unrelated request.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use seekless_core::{Extent, Nanos};

use crate::format::{Remapped, TracedRequest};

/// A remap and its queue event are microseconds apart, unless the process is preempted between.
const TIMEOUT: Nanos = Nanos(1_000_000_000);
/// A CPU, or a preempted process, is between the two with one request at a time.
const MAX_EXPECTED: usize = 1024;
/// More devices than any machine has; a bound for hostile input.
const MAX_DEVICES: usize = 1 << 16;

/// A queue event expected to repeat a counted request.
struct Expected {
    since: Nanos,
    device: u32,
    /// The destination of the remap, if that is a partition of `device`: the next remap comes from there.
    to_device: u32,
    extent: Extent,
}

/// Follows remaps down the stack.
#[derive(Default)]
pub struct Layering {
    /// The devices that have had queue events: their requests have been counted.
    traced: FxHashSet<u32>,
    /// The device noted last, which mostly is next.
    latest: Option<u32>,
    expected: VecDeque<Expected>,
    repeated: u64,
}

impl Layering {
    /// Follows a remap.
    pub fn remapped(&mut self, time: Nanos, remap: &Remapped) {
        self.forget(time);
        let continues = self.expected.iter().position(|earlier| {
            let flush = remap.extent.sectors == 0 && earlier.extent.sectors == 0;
            earlier.to_device == remap.from_device && (flush || earlier.extent.start.0 == remap.from_start)
        });
        if let Some(index) = continues {
            self.expected.remove(index);
        } else if remap.from_device == remap.device || !self.traced.contains(&remap.from_device) {
            // From a partition of the traced device itself, or from an untraced one.
            return;
        }
        if self.expected.len() == MAX_EXPECTED {
            self.expected.pop_front();
        }
        let Remapped { device, to_device, extent, .. } = *remap;
        self.expected.push_back(Expected { since: time, device, to_device, extent });
    }

    /// Whether a queued request repeats a counted one.
    pub fn repeats(&mut self, time: Nanos, request: &TracedRequest) -> bool {
        self.forget(time);
        let known = self.expected.iter().position(|expected| {
            expected.extent == request.extent
                && (expected.device == request.device || expected.to_device == request.device)
        });
        if let Some(index) = known {
            self.expected.remove(index);
            self.repeated += 1;
            // A device in the middle of a stack: remapped requests from it have been counted above.
            self.note_traced(request.device);
            return true;
        }
        self.note_traced(request.device);
        false
    }

    /// Number of repetitions.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    fn note_traced(&mut self, device: u32) {
        if self.latest == Some(device) {
            return;
        }
        self.latest = Some(device);
        if self.traced.len() < MAX_DEVICES {
            self.traced.insert(device);
        }
    }

    fn forget(&mut self, now: Nanos) {
        while self.expected.front().is_some_and(|oldest| now.since(oldest.since) > TIMEOUT) {
            self.expected.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_core::{Latency, Op, ProcessId, StreamId, record::Flags};

    const VOLUME: u32 = 253 << 20;
    const PARTITION: u32 = 8 << 20 | 2;
    const DISK: u32 = 8 << 20;

    fn queued(device: u32, start: u64, sectors: u64) -> TracedRequest {
        let extent = Extent::new(start, sectors);
        let (flags, latency) = (Flags::default(), Latency::UNKNOWN);
        TracedRequest {
            device,
            op: Op::Read,
            extent,
            flags,
            process: ProcessId(1),
            stream: StreamId(0),
            latency,
        }
    }

    fn remap(from: (u32, u64), to: (u32, u64), seen_at: u32) -> Remapped {
        let extent = Extent::new(to.1, 8);
        Remapped { device: seen_at, to_device: to.0, extent, from_device: from.0, from_start: from.1 }
    }

    fn down_the_stack(layering: &mut Layering, time: Nanos) {
        layering.remapped(time, &remap((VOLUME, 100), (PARTITION, 2100), DISK));
        layering.remapped(time, &remap((PARTITION, 2100), (DISK, 9100), DISK));
    }

    #[test]
    fn a_request_counts_at_the_top_if_the_top_was_traced() {
        let mut layering = Layering::default();
        assert!(!layering.repeats(Nanos(1), &queued(VOLUME, 100, 8)));
        down_the_stack(&mut layering, Nanos(2));
        assert!(layering.repeats(Nanos(3), &queued(DISK, 9100, 8)));
        assert!(!layering.repeats(Nanos(4), &queued(DISK, 9100, 8)), "a second one is another request");
        assert_eq!(layering.repeated(), 1);
    }

    #[test]
    fn a_request_counts_at_the_disk_if_only_the_disk_was_traced() {
        let mut layering = Layering::default();
        for time in 0..3 {
            down_the_stack(&mut layering, Nanos(time));
            assert!(!layering.repeats(Nanos(time), &queued(DISK, 9100, 8)));
        }
    }

    #[test]
    fn requests_entering_below_the_top_count_there() {
        let mut layering = Layering::default();
        assert!(!layering.repeats(Nanos(1), &queued(VOLUME, 100, 8)));
        layering.remapped(Nanos(2), &remap((PARTITION, 2500), (DISK, 9500), DISK));
        assert!(!layering.repeats(Nanos(3), &queued(DISK, 9500, 8)));
    }

    #[test]
    fn a_partition_traced_by_itself_is_one_device() {
        let mut layering = Layering::default();
        for time in 0..3 {
            layering.remapped(Nanos(time), &remap((PARTITION, 100), (DISK, 9100), PARTITION));
            assert!(!layering.repeats(Nanos(time), &queued(PARTITION, 9100, 8)));
        }
    }

    #[test]
    fn a_mirrored_write_counts_once() {
        let (left, right) = (8 << 20 | 16, 8 << 20 | 32);
        let mut layering = Layering::default();
        assert!(!layering.repeats(Nanos(1), &queued(VOLUME, 100, 8)));
        layering.remapped(Nanos(2), &remap((VOLUME, 100), (left, 100), left));
        layering.remapped(Nanos(2), &remap((VOLUME, 100), (right, 100), right));
        assert!(layering.repeats(Nanos(3), &queued(right, 100, 8)));
        assert!(layering.repeats(Nanos(3), &queued(left, 100, 8)));
    }

    #[test]
    fn a_remap_without_its_request_is_forgotten() {
        let mut layering = Layering::default();
        assert!(!layering.repeats(Nanos(1), &queued(VOLUME, 100, 8)));
        down_the_stack(&mut layering, Nanos(2));
        assert!(!layering.repeats(Nanos(2) + TIMEOUT + Nanos(1), &queued(DISK, 9100, 8)));
    }
}
