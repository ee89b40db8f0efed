//! What goes on at the begin of a shard: the state after all shards before it.

use seekless_core::ProcessId;

use super::outline::{Outline, Place};
use crate::stats::sequence::{Before, MAX_PROCESSES, Span};

/// The state at the begin of a shard. Times are in nanoseconds, from the trace's first record.
#[derive(Default)]
pub(super) struct Carry {
    /// Requests of the shards before.
    pub requests: u64,
    /// The time of the last of them.
    pub latest: Option<u64>,
    /// When all of them are completed.
    pub busy_until: u64,
    pub before: Before,
    /// The time of the last request of known latency.
    pub now: u64,
    /// Completion times of the requests in flight then.
    pub answers: Vec<u64>,
}

impl Carry {
    /// The state before shard `index`; `place_of` gives the place of a volume in the joined space: its index and its
    /// first sector.
    pub fn at(outline: &Outline, index: usize, mut place_of: impl FnMut(u32) -> (usize, u64)) -> Carry {
        let mut carry = Carry::default();
        for (shard, numbers) in outline.shards.iter().zip(outline.numbers()).take(index) {
            let offset = shard.start - outline.origin();
            let after = |time: u64| offset.saturating_add(time);
            let mut joined = |place: Place| {
                let (volume, first) = place_of(numbers.get(place.volume as usize).copied().unwrap_or(0));
                let (start, end) = (first.wrapping_add(place.start), first.wrapping_add(place.end));
                Span { volume, start, end }
            };
            if let Some(ends) = shard.ends {
                let first = joined(ends.first);
                let follows = carry.before.previous.is_some_and(|previous| previous.is_followed_by(first));
                let before = if ends.is_one_run && follows { carry.before.run } else { 0 };
                carry.before.run = before + ends.run;
                carry.before.previous = Some(joined(ends.last));
                carry.latest = Some(after(ends.latest));
                carry.busy_until = carry.busy_until.max(after(ends.busy_until));
            }
            for &(process, place) in &shard.processes {
                let (process, span, known) =
                    (ProcessId(process), joined(place), &mut carry.before.previous_of);
                if known.len() < MAX_PROCESSES || known.contains_key(&process) {
                    known.insert(process, span);
                }
            }
            carry.requests += shard.requests;
            if let Some((now, answers)) = &shard.in_flight {
                carry.now = after(*now);
                carry.answers.retain(|&answer| answer > carry.now);
                carry.answers.extend(answers.iter().map(|&answer| after(answer)));
            }
        }
        carry
    }
}
