//! An access graph in bytes: a range takes 6 to 10, a jump 3 to 7.

use super::access::{AccessGraph, Jump, Range};
use crate::borg::code::{self, Reader, Unfit, put};

impl AccessGraph {
    /// Encodes it.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.ranges.len() as u64);
        let (mut end, mut touched) = (0, 0);
        for range in &self.ranges {
            for number in
                [range.start - end, range.end - range.start, range.requests, range.passed, range.reads]
            {
                put(bytes, u64::from(number));
            }
            code::put_step(bytes, touched, range.touched);
            (end, touched) = (range.end, range.touched);
        }
        for jumps in [&self.jumps, &self.global] {
            put(bytes, jumps.len() as u64);
            let mut from = 0;
            for Jump { way, weight } in jumps {
                put(bytes, u64::from(way.0 - from));
                code::put_step(bytes, way.0, way.1);
                put(bytes, u64::from(*weight));
                from = way.0;
            }
        }
    }

    /// The graph that was encoded, of a volume of `pages` pages.
    pub fn decode(bytes: &mut Reader<'_>, pages: u64) -> Result<AccessGraph, Unfit> {
        let mut graph = AccessGraph { ranges: ranges(bytes, pages)?, ..AccessGraph::default() };
        graph.jumps = jumps(bytes, &graph.ranges)?;
        graph.global = jumps(bytes, &graph.ranges)?;
        Ok(graph)
    }
}

fn ranges(bytes: &mut Reader<'_>, pages: u64) -> Result<Vec<Range>, Unfit> {
    let count = bytes.count(6)?;
    let mut ranges: Vec<Range> = Vec::with_capacity(count);
    let (mut end, mut touched) = (0_u64, 0);
    for _ in 0..count {
        let start = end + u64::from(bytes.word()?);
        end = start + u64::from(bytes.word()?);
        let (requests, passed, reads) = (bytes.word()?, bytes.word()?, bytes.word()?);
        touched = bytes.step(touched)?;
        bytes.ensure(start < end && end <= pages.min(u64::from(u32::MAX)), "a range of the volume")?;
        bytes.ensure(requests > 0 && passed <= requests, "requests for a range")?;
        // Requests that pass on from a range arrive in the next one.
        let arrives = |before: &Range| u64::from(before.end) == start && before.passed <= requests;
        let fits = ranges.last().is_none_or(|before| before.passed == 0 || arrives(before));
        bytes.ensure(fits, "the range that requests pass on to")?;
        ranges.push(Range { start: start as u32, end: end as u32, requests, passed, reads, touched });
    }
    bytes.ensure(ranges.last().is_none_or(|last| last.passed == 0), "the range that requests pass on to")?;
    Ok(ranges)
}

fn jumps(bytes: &mut Reader<'_>, ranges: &[Range]) -> Result<Vec<Jump>, Unfit> {
    let count = bytes.count(3)?;
    let mut jumps: Vec<Jump> = Vec::with_capacity(count);
    let mut from = 0_u32;
    for _ in 0..count {
        from = from.checked_add(bytes.word()?).ok_or(bytes.unfit("a page of the volume"))?;
        let jump = Jump { way: (from, bytes.step(from)?), weight: bytes.word()? };
        bytes.ensure(jumps.last().is_none_or(|last| last.way < jump.way), "jumps in order")?;
        let to = ranges.binary_search_by_key(&jump.way.1, |range| range.start);
        let arrives = to.is_ok_and(|to| jump.weight > 0 && jump.weight <= ranges[to].requests);
        bytes.ensure(arrives, "a jump to a range")?;
        jumps.push(jump);
    }
    Ok(jumps)
}
