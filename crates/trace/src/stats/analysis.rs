//! The pass over a trace that computes its statistics.

use seekless_core::{Names, Nanos, Op, PAGE_BYTES, PAGE_SECTORS, Record};
use serde::{Deserialize, Serialize};

use super::arrivals::Clock;
use super::buckets::counted;
use super::depth::Depth;
use super::heat_map::HeatMap;
use super::pages::Pages;
use super::processes::{ByName, Processes};
use super::sequence::{Sequences, Span};
use super::sizes::Sizes;
use super::slices::Slices;
use super::survey::{Space, Survey};
use super::volume_use::VolumeUses;
use super::working_sets::WorkingSets;
use super::{Stats, StatsOptions, gib, is_request, moves_data, percent, summary};
use crate::volumes::Volumes;

/// Statistics in progress.
pub struct Analysis {
    survey: Survey,
    pub(super) space: Space,
    pub(super) counts: Counts,
    pub(super) pages: Pages,
    pub(super) sequences: Sequences,
    pub(super) working_sets: WorkingSets,
    pub(super) heat: HeatMap,
    pub(super) clock: Clock,
    pub(super) depth: Depth,
    pub(super) slices: Slices,
    pub(super) sizes: Sizes,
    pub(super) processes: Processes,
    pub(super) volumes: VolumeUses,
}

/// Counts and sums of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    #[serde(deserialize_with = "counted::one")]
    pub requests: u64,
    #[serde(deserialize_with = "counted::one")]
    reads: u64,
    #[serde(deserialize_with = "counted::one")]
    writes: u64,
    #[serde(deserialize_with = "counted::one")]
    flushes: u64,
    #[serde(deserialize_with = "counted::one")]
    discards: u64,
    #[serde(deserialize_with = "counted::one")]
    read_bytes: u64,
    #[serde(deserialize_with = "counted::one")]
    written_bytes: u64,
    /// Times of the first request and of the last, in nanoseconds.
    pub times: Option<(u64, u64)>,
}

impl Counts {
    /// Adds the next record.
    pub fn add(&mut self, record: &Record) {
        if !is_request(record) {
            self.flushes += 1;
            return;
        }
        let now = record.time.0;
        self.times = Some((self.times.map_or(now, |(first, _)| first), now));
        self.requests += 1;
        match record.op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                self.writes += 1;
                self.written_bytes += record.extent.bytes();
            }
            Op::Discard => self.discards += 1,
            Op::Flush => {}
        }
    }

    /// Adds those of the part that follows.
    pub fn merge(&mut self, next: &Counts) {
        self.requests += next.requests;
        self.reads += next.reads;
        self.writes += next.writes;
        self.flushes += next.flushes;
        self.discards += next.discards;
        self.read_bytes += next.read_bytes;
        self.written_bytes += next.written_bytes;
        let first = self.times.or(next.times).map(|times| times.0);
        let last = next.times.or(self.times).map(|times| times.1);
        self.times = first.zip(last);
    }

    /// Fills in the numbers of requests and bytes.
    pub fn summarise(&self, stats: &mut Stats) {
        stats.requests = self.requests;
        stats.reads = self.reads;
        stats.writes = self.writes;
        stats.flushes = self.flushes;
        stats.discards = self.discards;
        (stats.read_gib_total, stats.write_gib_total) = (gib(self.read_bytes), gib(self.written_bytes));
        stats.seconds = self.times.map_or(0.0, |(first, last)| Nanos(last).since(Nanos(first)).seconds());
    }
}

impl Analysis {
    /// Statistics of the surveyed trace.
    pub fn new(survey: Survey, options: &StatsOptions) -> Analysis {
        let space = survey.space(options.device_sectors);
        // Half for pages, a quarter for pairs; the rest is for sorting, at the end and between intervals.
        let memory = options.memory.max(1 << 20);
        Analysis {
            counts: Counts::default(),
            pages: Pages::new(memory / 2),
            sequences: Sequences::new(memory / 4),
            working_sets: WorkingSets::new(options.intervals, survey.requests),
            heat: HeatMap::new(space.pages, options.heat_columns, options.heat_rows),
            clock: Clock::default(),
            depth: Depth::default(),
            slices: Slices::new(survey.end),
            sizes: Sizes::default(),
            processes: Processes::default(),
            volumes: VolumeUses::new(&survey),
            space,
            survey,
        }
    }

    /// Adds the next record, which was surveyed.
    pub fn follow(&mut self, record: &Record) {
        let pages = &mut self.pages;
        self.slices.pass(record.time, || pages.distinct());
        self.slices.follow(record);
        self.counts.add(record);
        if !is_request(record) {
            return;
        }
        if self.working_sets.begins(record.time) {
            self.working_sets.end(&mut self.pages);
        }
        self.working_sets.follow(record.time);
        self.clock.follow(record);
        self.depth.follow(record);
        self.sizes.follow(record);
        self.processes.follow(record);
        let (volume, first_page) = self.space.of(record.device);
        self.volumes.follow(volume, record);
        let first_sector = first_page.wrapping_mul(PAGE_SECTORS);
        let at = record.extent;
        let start = at.start.0.wrapping_add(first_sector);
        let span = Span { volume, start, end: at.end().0.wrapping_add(first_sector) };
        self.sequences.follow(record.origin.process, span);
        if moves_data(record) {
            let numbers = at.pages();
            self.heat.access(numbers.start + first_page..numbers.end + first_page);
            let write = record.op != Op::Read;
            for page in numbers {
                self.pages.access(page + first_page, write, record.time);
            }
        }
    }

    /// The statistics, after all records; `names` and `volumes` are theirs.
    pub fn finish(mut self, names: &Names, volumes: &Volumes) -> Stats {
        self.pages.settle();
        self.working_sets.end(&mut self.pages);
        let mut stats = Stats::default();
        self.counts.summarise(&mut stats);
        let sequences = std::mem::replace(&mut self.sequences, Sequences::new(0));
        sequences.summarise(&mut stats);
        let processes = self.processes.by_name(names);
        self.complete(stats, &processes, volumes)
    }

    /// Fills in the statistics but for those of counts and sequences, after the last interval has ended.
    pub(super) fn complete(mut self, mut stats: Stats, processes: &ByName, volumes: &Volumes) -> Stats {
        self.pages.summarise(&mut stats);
        stats.device_gib = gib(self.space.pages.saturating_mul(PAGE_BYTES));
        stats.device_accessed_pct = percent(stats.accessed_pages.min(self.space.pages), self.space.pages);
        stats.volumes = self.volumes.top(&self.survey, &self.space, &self.pages, volumes);
        stats.over_time =
            if self.survey.records == 0 { Vec::new() } else { self.slices.finish(stats.accessed_pages) };
        stats.heat_map = self.heat.finish();
        stats.working_sets = self.working_sets.finish();
        stats.top_processes = processes.top();
        stats.request_sizes = self.sizes.buckets();
        stats.arrivals = self.clock.arrivals(stats.seconds);
        stats.idle_periods = self.clock.idle();
        stats.latencies = self.depth.latencies();
        stats.queue_depth = self.depth.queue();
        stats.summary = summary::lines(&stats, processes);
        stats
    }
}

/// Computes the statistics of `records`, in order of time; `names` and `volumes` are theirs.
pub fn characterise(records: &[Record], names: &Names, volumes: &Volumes, options: &StatsOptions) -> Stats {
    let mut analysis = Analysis::new(Survey::of(records), options);
    for record in records {
        analysis.follow(record);
    }
    analysis.finish(names, volumes)
}
