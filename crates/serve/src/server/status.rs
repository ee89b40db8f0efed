//! Block status: the states of extents in each context.
//!
//! `seekless:place` says on which component a read of the bytes goes: the component's index in the lowest eight bits
//! (components sorted by name, from 0; 255 for the 256th and later), and [`MOVED`], [`NOWHERE`] or [`UNKNOWN`]. So 0 is
//! the origin, on the first component. `seekless:heat` says how often the bytes were accessed, on a logarithmic scale:
//! 0 is never, 1 is once, 2 is two or three times, 3 is four to seven times, and so on. `seekless:unreadable` is 1 for
//! bytes that a scrub could not read and that were not written since.

use seekless_core::device::{Content, Place};
use seekless_core::{Extent, IoError, Lba, SECTOR_BYTES};

use super::byte_adapter::{ByteAdapter, ByteRange};
use crate::nbd::Context;
use crate::nbd::constants::{STATE_HOLE, STATE_ZERO};

/// Not at its origin, where it would be without layers.
pub const MOVED: u32 = 0x100;
/// On no component: it reads as zeroes.
pub const NOWHERE: u32 = 0x200;
/// The layers cannot tell.
pub const UNKNOWN: u32 = 0x400;

/// Bytes covered by one reply. Holes are found by the extent; places and heat by the page, which keeps other tasks
/// waiting.
const STATUS_BYTES: u64 = 1 << 30;
const PAGED_STATUS_BYTES: u64 = 128 << 20;
/// Extents in a reply, at most.
const PARTS: usize = 1 << 14;

/// Where the bytes of an export would be without layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginPlace {
    /// Index of the component.
    pub component: u32,
    /// Location of the first byte on it.
    pub start: Lba,
}

/// Block status of a range in a context, as lengths and values; only the first extent if `first_only`.
pub async fn block_status(
    device: &ByteAdapter,
    origin: Option<OriginPlace>,
    context: Context,
    at: ByteRange,
    first_only: bool,
) -> Result<Vec<(u64, u32)>, IoError> {
    let most = if context == Context::Allocation { STATUS_BYTES } else { PAGED_STATUS_BYTES };
    let blocks = ByteRange { end: at.end.min(at.start.saturating_add(most)), ..at }.touched(device.block());
    let mut parts = Parts { at, runs: Vec::new(), most: if first_only { 1 } else { PARTS }, full: false };
    match context {
        Context::Allocation => {
            for state in device.extents(blocks).await? {
                parts.add(state.extent, allocation(state.content));
            }
        }
        Context::Place => {
            device.device().places(blocks, &mut |part, place| parts.add_place(part, place, origin));
        }
        Context::Heat => {
            if !device.device().heat(blocks, &mut |part, count| parts.add(part, doublings(count))) {
                parts.add(blocks, 0);
            }
        }
        Context::Unreadable => {
            if !device.device().unreadable(blocks, &mut |part, bad| parts.add(part, u32::from(bad))) {
                parts.add(blocks, 0);
            }
        }
    }
    Ok(parts.runs)
}

fn allocation(content: Content) -> u32 {
    match content {
        Content::Hole => STATE_HOLE | STATE_ZERO,
        Content::Zero => STATE_ZERO,
        Content::Data | Content::Unknown => 0,
    }
}

fn doublings(count: u32) -> u32 {
    u32::BITS - count.leading_zeros()
}

/// Collects consecutive extents, merging equal neighbours.
struct Parts {
    /// The range not covered yet.
    at: ByteRange,
    runs: Vec<(u64, u32)>,
    most: usize,
    full: bool,
}

impl Parts {
    /// Adds the next extent.
    fn add(&mut self, extent: Extent, value: u32) {
        let end = (extent.end().0 * SECTOR_BYTES).min(self.at.end);
        let length = end.saturating_sub(self.at.start);
        if length == 0 || self.full {
            return;
        }
        let fits = self.runs.len() < self.most;
        match self.runs.last_mut() {
            Some((before, same)) if *same == value => *before += length,
            _ if fits => self.runs.push((length, value)),
            _ => self.full = true,
        }
        self.at.start = end;
    }

    /// As `add`, for a place: data at its origin and moved data may be in one extent.
    fn add_place(&mut self, extent: Extent, place: Place, origin: Option<OriginPlace>) {
        let value = match place {
            Place::Nowhere => NOWHERE,
            Place::Unknown => UNKNOWN,
            Place::On { component, at } => {
                let is_at_origin = origin.is_some_and(|origin| {
                    origin.component == component && origin.start + extent.start.0 == at
                });
                component.min(0xff) | if is_at_origin { 0 } else { MOVED }
            }
        };
        self.add(extent, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(start: u64, end: u64, most: usize) -> Parts {
        Parts { at: ByteRange { start, end }, runs: Vec::new(), most, full: false }
    }

    #[test]
    fn equal_neighbours_are_one_and_the_ends_are_those_that_were_asked_for() {
        let mut all = parts(100, 4000, 9);
        for (start, sectors, value) in [(0, 1, 7), (1, 2, 7), (3, 1, 0), (4, 4, 7)] {
            all.add(Extent::new(start, sectors), value);
        }
        assert_eq!(all.runs, [(1436, 7), (512, 0), (1952, 7)]);
        let mut few = parts(0, 4096, 1);
        for (start, value) in [(0, 1), (1, 1), (2, 0), (3, 1)] {
            few.add(Extent::new(start, 1), value);
        }
        assert_eq!(few.runs, [(1024, 1)], "a run after a gap is not merged with its neighbour");
    }

    #[test]
    fn places_say_which_component_and_whether_it_is_home() {
        let origin = OriginPlace { component: 2, start: Lba(1000) };
        let mut parts = parts(0, 1 << 20, 9);
        let on = |component, at| Place::On { component, at: Lba(at) };
        let places = [on(2, 1000), on(2, 1008), on(2, 1000), on(300, 1024), Place::Nowhere, Place::Unknown];
        for (number, place) in (0_u64..).zip(places) {
            parts.add_place(Extent::new(number * 8, 8), place, Some(origin));
        }
        let values = [(8192, 2), (4096, MOVED | 2), (4096, MOVED | 0xff), (4096, NOWHERE), (4096, UNKNOWN)];
        assert_eq!(parts.runs, values);
    }

    #[test]
    fn heat_is_in_doublings() {
        let runs: Vec<u32> = [0, 1, 2, 3, 4, 7, 8, u32::MAX].into_iter().map(doublings).collect();
        assert_eq!(runs, [0, 1, 2, 2, 3, 3, 4, 32]);
    }
}
