//! What was learned, in bytes: for the area of the BOPT in which it survives a stop and a crash.
//!
//! Numbers as in [`super::code`]: the version; what is done with writes; counts; the analyzer; the requests that it
//! does not have yet; the last plan.
//!
//! Invariants: a layer with what was decoded plans as the one that it was encoded from; bytes that no layer encodes are
//! an error. If there is too little room, the requests become part of the graph, and its weights are halved.

use seekless_core::Nanos;

use super::analyzer::{Analyzer, Vertex};
use super::budget::Budget;
use super::choice::Prediction;
use super::code::{self, Reader, Unfit, put};
use super::course::Writes;
use super::planner::{Plan, Planned};
use super::profiler::Window;
use super::store::Slot;

/// Version of the encoding. The first had no budget.
const VERSION: u64 = 2;
/// More requests or plans than there ever are.
const MOST: u64 = 1 << 60;

/// See the file's header.
#[derive(Clone)]
pub(super) struct Saved {
    /// What a rehearsal chose to do with writes; `None` if rehearsals do not choose.
    pub writes: Option<Writes>,
    /// Requests since the last decision, and after how many the next one is due.
    pub watch: (u64, u64),
    /// Sum of the pauses before requests.
    pub paused: Nanos,
    /// Requests in total.
    pub requests: u64,
    /// Plans in total.
    pub plans: u32,
    /// The last rehearsal, and the number of plans declined.
    pub rehearsal: (Prediction, u64),
    pub budget: Budget,
    pub analyzer: Analyzer,
    /// Requests since the last plan.
    pub window: Window,
    pub last_plan: Plan,
}

/// Where it is decoded.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Units of the volume.
    pub units: u64,
    /// A unit is two to this power pages.
    pub granularity: u32,
    /// Slots of the read cache.
    pub cached_slots: u32,
}

impl Saved {
    /// Encodes it in at most `room` bytes; `None` if there is too little for anything.
    pub fn encode_within(mut self, room: u64) -> Option<Vec<u8>> {
        let mut bytes = self.encode();
        if bytes.len() as u64 > room && !self.window.is_empty() {
            self.analyzer.add(std::mem::take(&mut self.window).iter());
            bytes = self.encode();
        }
        while bytes.len() as u64 > room && !self.analyzer.is_empty() {
            self.analyzer.age();
            self.last_plan = Plan::default();
            bytes = self.encode();
        }
        (bytes.len() as u64 <= room).then_some(bytes)
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Prediction { present, chosen, moves, requests } = self.rehearsal.0;
        let numbers = [
            VERSION,
            self.writes.map_or(0, |writes| 1 + u64::from(writes.absorbs) + 2 * u64::from(writes.drains)),
            self.watch.0,
            self.watch.1,
            self.paused.0,
            self.requests,
            u64::from(self.plans),
            present.0,
            chosen.0,
            moves.0,
            requests,
            self.rehearsal.1,
            self.budget.requests.0,
            self.budget.moves.0,
            self.budget.saved.unsigned_abs(),
            u64::from(self.budget.saved < 0),
        ];
        for number in numbers {
            put(&mut bytes, number);
        }
        self.analyzer.encode(&mut bytes);
        self.window.encode(&mut bytes);
        put(&mut bytes, self.last_plan.ranges.len() as u64);
        let mut before = 0;
        for Planned { range, slot } in &self.last_plan.ranges {
            code::put_step(&mut bytes, before, range.start);
            for number in [range.pages, range.reads, range.writes, range.touched] {
                put(&mut bytes, u64::from(number));
            }
            put(&mut bytes, slot.map_or(0, |slot| u64::from(slot) + 1));
            before = range.start + range.pages;
        }
        bytes
    }

    /// Decodes it; `empty` is an analyzer without requests.
    ///
    /// # Errors
    /// The place at which something else was found.
    pub fn decode(bytes: &[u8], empty: &Analyzer, bounds: &Bounds) -> Result<Saved, Unfit> {
        let code = &mut Reader::new(bytes);
        let version = code.number()?;
        code.ensure((1..=VERSION).contains(&version), "version 1 or 2")?;
        let writes = code.number()?;
        code.ensure(writes <= 4, "what is done with writes")?;
        let watch = (code.number()?, code.number()?);
        let (paused, requests, plans) = (Nanos(code.number()?), code.number()?, code.word()?);
        let [present, chosen, moves] = [Nanos(code.number()?), Nanos(code.number()?), Nanos(code.number()?)];
        let prediction = Prediction { present, chosen, moves, requests: code.number()? };
        let declined = code.number()?;
        let budget = if version > 1 { budget(code)? } else { Budget::default() };
        let counts = [watch.0, watch.1, requests, paused.0, u64::from(plans), declined];
        code.ensure(counts.iter().all(|count| *count < MOST), "fewer requests and plans")?;
        let analyzer = empty.decode(code, bounds.units)?;
        let window = Window::decode(code, bounds.units)?;
        let last_plan = plan(code, bounds)?;
        code.ensure(code.is_at_end(), "the end")?;
        Ok(Saved {
            writes: writes
                .checked_sub(1)
                .map(|writes| Writes { absorbs: writes & 1 != 0, drains: writes & 2 != 0 }),
            watch,
            paused,
            requests,
            plans,
            rehearsal: (prediction, declined),
            budget,
            analyzer,
            window,
            last_plan,
        })
    }
}

fn budget(code: &mut Reader<'_>) -> Result<Budget, Unfit> {
    let (requests, moves) = (Nanos(code.number()?), Nanos(code.number()?));
    let (saved, negative) = (code.number()?, code.number()?);
    code.ensure([requests.0, moves.0, saved].iter().all(|nanos| *nanos < MOST), "less disk time")?;
    code.ensure(negative < 2, "a sign")?;
    let saved = i64::try_from(saved).unwrap_or(i64::MAX);
    Ok(Budget { requests, moves, saved: if negative == 1 { -saved } else { saved } })
}

/// A plan that can be carried out: no page twice, no slot twice.
fn plan(code: &mut Reader<'_>, bounds: &Bounds) -> Result<Plan, Unfit> {
    let count = code.count(6)?;
    let mut plan = Plan { ranges: Vec::with_capacity(count) };
    let mut before = 0;
    for _ in 0..count {
        let (start, pages) = (code.step(before)?, code.word()?);
        let (reads, writes, touched) = (code.word()?, code.word()?, code.word()?);
        let slot = code.number()?.checked_sub(1);
        let end = u64::from(start) + u64::from(pages);
        code.ensure(pages > 0 && end <= bounds.units && u32::try_from(end).is_ok(), "a range of the volume")?;
        let ends = slot.unwrap_or(0).checked_add(u64::from(pages) << bounds.granularity);
        code.ensure(
            ends.is_some_and(|ends| ends <= u64::from(bounds.cached_slots)),
            "slots of the read cache",
        )?;
        let range = Vertex { start, pages, reads, writes, touched };
        plan.ranges.push(Planned { range, slot: slot.map(|slot| slot as Slot) });
        before = end as u32;
    }
    let pages = plan.ranges.iter().map(|Planned { range, .. }| (range.start, range.start + range.pages));
    let slots = plan.ranges.iter().filter_map(|Planned { range, slot }| {
        slot.map(|slot| (slot, slot + (range.pages << bounds.granularity)))
    });
    for mut extents in [pages.collect::<Vec<_>>(), slots.collect()] {
        extents.sort_unstable();
        let disjoint = extents.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        code.ensure(disjoint, "each page and slot once")?;
    }
    Ok(plan)
}

#[cfg(test)]
mod tests;
