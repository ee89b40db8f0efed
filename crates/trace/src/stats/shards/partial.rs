//! The statistics of some shards that follow each other, to be merged with those of others.

use seekless_core::{Nanos, SECTOR_BYTES, Size};
use serde::{Deserialize, Serialize};

use super::error::ShardError;
use super::outline::{Whole, damaged};
use super::pages::{Columns, union};
use super::part::MOST_HALVINGS;
use crate::stats::analysis::Counts;
use crate::stats::arrivals::Clock;
use crate::stats::buckets::counted;
use crate::stats::depth::Depth;
use crate::stats::processes::ByName;
use crate::stats::sequence::SequenceSums;
use crate::stats::sizes::Sizes;
use crate::stats::slices::{self, Part, Slices};
use crate::stats::volume_use::VolumeUses;
use crate::stats::working_sets::{MAX_INTERVALS, SetUse, WorkingSets};
use crate::stats::{Analysis, Intervals, Stats, StatsOptions};

/// Statistics of the shards `from` up to `to`, exclusive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partial {
    whole: Whole,
    from: usize,
    to: usize,
    how: How,
    counts: Counts,
    clock: Clock,
    depth: Depth,
    sequences: SequenceSums,
    sizes: Sizes,
    processes: ByName,
    volumes: VolumeUses,
    #[serde(deserialize_with = "counted::list")]
    heat: Vec<u64>,
    slices: Vec<Part>,
    pages: Columns,
    sets: Vec<SetUse>,
}

/// Options that all partials of a trace share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct How {
    halvings: u32,
    device_sectors: Option<u64>,
    heat_columns: u32,
    heat_rows: u32,
    /// Number of intervals.
    intervals: u32,
    /// The length of an interval in nanoseconds, instead.
    interval: Option<u64>,
}

impl How {
    pub fn of(options: &StatsOptions, halvings: u32) -> How {
        let (intervals, interval) = match options.intervals {
            Intervals::Count(count) => (count, None),
            Intervals::Every(length) => (0, Some(length.0)),
        };
        let &StatsOptions { device_sectors, heat_columns, heat_rows, .. } = options;
        How { halvings, device_sectors, heat_columns, heat_rows, intervals, interval }
    }

    fn options(&self) -> StatsOptions {
        let &How { device_sectors, heat_columns, heat_rows, .. } = self;
        let intervals =
            self.interval.map_or(Intervals::Count(self.intervals), |length| Intervals::Every(Nanos(length)));
        StatsOptions { device_sectors, heat_columns, heat_rows, intervals, memory: 0 }
    }

    /// The error of partials made in different ways.
    fn differs(&self, other: &How) -> ShardError {
        let rate = |how: &How| format!("1/{}", 1_u64 << how.halvings.min(63));
        let (found, expected) = (rate(other), rate(self));
        if found != expected {
            return ShardError::Differs { what: "the sampling rate", found, expected };
        }
        let none = || "none".to_owned();
        let shown = |how: &How| {
            let size = |sectors: u64| Size(sectors.saturating_mul(SECTOR_BYTES)).to_string();
            [
                ("--device-size", how.device_sectors.map_or_else(none, size)),
                ("--interval", how.interval.map_or_else(none, |length| Nanos(length).to_string())),
                ("--intervals", how.intervals.to_string()),
                ("a heat map of", format!("{} x {} regions", how.heat_columns, how.heat_rows)),
            ]
        };
        let differs = shown(other).into_iter().zip(shown(self)).find(|(found, expected)| found != expected);
        let ((what, found), (_, expected)) = differs.unwrap_or_default();
        ShardError::Differs { what, found, expected }
    }
}

impl Partial {
    /// Of a shard whose records have all been analysed.
    pub(super) fn of(
        mut analysis: Analysis,
        whole: Whole,
        index: usize,
        how: How,
        processes: ByName,
    ) -> Result<Partial, ShardError> {
        let is_last = index + 1 == whole.shards.len();
        let memory = |what| ShardError::Memory { what, rate: 4 << how.halvings };
        analysis.pages.settle();
        analysis.working_sets.end(&mut analysis.pages);
        if is_last {
            analysis.depth.settle();
        }
        let pages = Columns::of(analysis.pages.into_known()).ok_or_else(|| memory("pages"))?;
        let sequences = analysis.sequences.sums(is_last).ok_or_else(|| memory("pairs of requests"))?;
        Ok(Partial {
            whole,
            from: index,
            to: index + 1,
            how,
            counts: analysis.counts,
            clock: analysis.clock,
            depth: analysis.depth,
            sequences,
            sizes: analysis.sizes,
            processes,
            volumes: analysis.volumes,
            heat: analysis.heat.accesses,
            slices: analysis.slices.parts((pages.len() as u64) << how.halvings),
            sets: analysis.working_sets.into_uses(),
            pages,
        })
    }

    /// Merges partials, in whatever order: each shard once, without gaps between them.
    pub fn merge(all: Vec<Partial>) -> Result<Partial, ShardError> {
        let mut all = all;
        all.sort_by_key(|partial| partial.from);
        let mut rest = all.into_iter();
        let Some(mut sum) = rest.next() else {
            return Err(ShardError::File { found: "no partials".into(), expected: "some".into() });
        };
        for next in rest {
            sum.add(next)?;
        }
        Ok(sum)
    }

    /// Checks that another one follows this one.
    fn is_followed_by(&self, next: &Partial) -> Result<(), ShardError> {
        if self.whole != next.whole {
            let text = |whole: &Whole| format!("{:016x}", whole.id);
            let (found, expected) = (text(&next.whole), text(&self.whole));
            return Err(ShardError::Differs { what: "the outline", found, expected });
        }
        if self.how != next.how {
            return Err(self.how.differs(&next.how));
        }
        if next.from < self.to {
            let shard = self.whole.shards.get(next.from).cloned().unwrap_or_default();
            return Err(ShardError::Twice { shard });
        }
        if next.from > self.to { Err(self.missing(self.to..next.from)) } else { Ok(()) }
    }

    fn missing(&self, indices: std::ops::Range<usize>) -> ShardError {
        let names = self.whole.shards.get(indices).unwrap_or_default();
        let rest =
            if names.len() > FEW { format!(", and {} more", names.len() - FEW) } else { String::new() };
        let missing = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ") + &rest;
        ShardError::Missing { missing, shards: self.whole.shards.len() }
    }

    fn add(&mut self, next: Partial) -> Result<(), ShardError> {
        self.is_followed_by(&next)?;
        self.to = next.to;
        self.counts.merge(&next.counts);
        self.clock.merge(&next.clock);
        self.depth.merge(&next.depth);
        self.sequences.merge(next.sequences);
        self.sizes.merge(&next.sizes);
        self.processes.merge(&next.processes);
        self.volumes.merge(&next.volumes);
        self.heat.iter_mut().zip(&next.heat).for_each(|(here, other)| *here += other);
        let (halvings, pages) = (self.how.halvings, self.pages.len() as u64);
        let memory = || ShardError::Memory { what: "pages", rate: 4 << halvings };
        let (merged, fresh) = self.pages.merge(&next.pages, halvings).ok_or_else(memory)?;
        self.pages = merged;
        // The part before has all its pages in later slices.
        self.slices.resize(self.slices.len().max(next.slices.len()), Part::empty(pages << halvings));
        for (here, other) in self.slices.iter_mut().zip(&next.slices) {
            here.add(other);
            let seen = (other.pages >> halvings) as usize;
            here.pages += u64::from(fresh.get(seen).copied().unwrap_or(0)) << halvings;
        }
        for set in next.sets {
            match self.sets.last_mut() {
                Some(last) if last.number == set.number => last.merge(&set),
                _ => self.sets.push(set),
            }
        }
        Ok(())
    }

    /// The statistics; an error if shards are missing.
    pub fn finish(mut self) -> Result<Stats, ShardError> {
        for range in [0..self.from, self.to..self.whole.shards.len()] {
            if !range.is_empty() {
                return Err(self.missing(range));
            }
        }
        let (survey, volumes, options) = (self.whole.survey(), self.whole.names(), self.how.options());
        let mut stats = Stats::default();
        self.counts.summarise(&mut stats);
        self.sequences.summarise(&mut stats, self.how.halvings);
        let mut pages = self.pages.into_pages(self.how.halvings);
        let mut sets = WorkingSets::new(options.intervals, self.whole.requests);
        self.sets.iter().for_each(|set| sets.add(set, &mut pages));
        let end = survey.end;
        let mut analysis = Analysis::new(survey, &options);
        analysis.pages = pages;
        analysis.working_sets = sets;
        analysis.heat.accesses = std::mem::take(&mut self.heat);
        analysis.clock = self.clock;
        analysis.depth = self.depth;
        analysis.slices = Slices::of(end, self.slices);
        analysis.sizes = self.sizes;
        analysis.volumes = self.volumes;
        Ok(analysis.complete(stats, &self.processes, &volumes))
    }

    /// Whether `next` has the shards that follow.
    pub fn is_before(&self, next: &Partial) -> bool {
        self.to == next.from
    }

    /// The number of the first of its shards, from one.
    pub fn first_shard(&self) -> usize {
        self.from + 1
    }

    /// Number of shards that it is of.
    pub fn shards(&self) -> usize {
        self.to - self.from
    }

    /// Number of shards of the whole trace.
    pub fn all_shards(&self) -> usize {
        self.whole.shards.len()
    }

    /// Requests.
    pub fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// Sampled pages.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Checks what a file has.
    pub(super) fn check(&self) -> Result<(), ShardError> {
        let survey = self.whole.survey();
        let regions = u64::from(self.how.heat_columns) * u64::from(self.how.heat_rows);
        let is_sound = self.from < self.to
            && self.to <= self.whole.shards.len()
            && self.how.halvings <= MOST_HALVINGS
            && self.how.intervals <= MAX_INTERVALS
            && self.whole.volumes.is_sorted_by(|a, b| a.number < b.number)
            && !self.whole.volumes.is_empty()
            && self.heat.len() as u64 == regions
            && self.sequences.is_sound()
            && self.sizes.is_sound()
            && self.volumes.is_sound(&survey)
            && slices::are_sound(&self.slices)
            && self.pages.is_sound()
            && self.sets.len() <= MAX_INTERVALS as usize
            && self.sets.iter().all(SetUse::is_sound)
            && self.clock.is_sound();
        if is_sound { Ok(()) } else { Err(damaged()) }
    }
}

/// Most shards named in an error.
const FEW: usize = 4;

impl SetUse {
    /// Adds the part of the same interval that follows.
    fn merge(&mut self, next: &SetUse) {
        self.requests += next.requests;
        let pages = union(&self.pages, &next.pages);
        let mut accesses = vec![0_u32; pages.len()];
        for set in [&*self, next] {
            let mut place = 0;
            for (page, count) in set.pages.iter().zip(&set.accesses) {
                while pages[place] != *page {
                    place += 1;
                }
                accesses[place] = accesses[place].saturating_add(*count);
            }
        }
        (self.pages, self.accesses) = (pages, accesses);
    }

    fn is_sound(&self) -> bool {
        self.pages.len() == self.accesses.len() && self.pages.is_sorted_by(|a, b| a < b)
    }
}
