//! The pass over a trace that computes its statistics.

use seekless_core::{Names, Nanos, Op, PAGE_BYTES, PAGE_SECTORS, Record};

use super::arrivals::Clock;
use super::depth::Depth;
use super::heat_map::HeatMap;
use super::pages::Pages;
use super::processes::Processes;
use super::sequence::Sequences;
use super::sizes::Sizes;
use super::slices::Slices;
use super::survey::{Space, Survey};
use super::volume_use::VolumeUses;
use super::working_sets::WorkingSets;
use super::{Stats, StatsOptions, gib, is_request, moves_data, percent};
use crate::volumes::Volumes;

/// Statistics in progress.
pub struct Analysis {
    survey: Survey,
    space: Space,
    stats: Stats,
    read_bytes: u64,
    written_bytes: u64,
    first: Option<Nanos>,
    latest: Nanos,
    pages: Pages,
    sequences: Sequences,
    working_sets: WorkingSets,
    heat: HeatMap,
    clock: Clock,
    depth: Depth,
    slices: Slices,
    sizes: Sizes,
    processes: Processes,
    volumes: VolumeUses,
}

impl Analysis {
    /// Statistics of the surveyed trace.
    pub fn new(survey: Survey, options: &StatsOptions) -> Analysis {
        let space = survey.space(options.device_sectors);
        // Half for pages, a quarter for pairs; the rest is for sorting, at the end and between intervals.
        let memory = options.memory.max(1 << 20);
        Analysis {
            stats: Stats::default(),
            read_bytes: 0,
            written_bytes: 0,
            first: None,
            latest: Nanos::ZERO,
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
        self.slices.pass(record.time, || gib(pages.distinct().saturating_mul(PAGE_BYTES)));
        self.slices.follow(record);
        if !is_request(record) {
            self.stats.flushes += 1;
            return;
        }
        if self.working_sets.begins(record.time) {
            self.working_sets.end(&mut self.pages);
        }
        self.working_sets.follow(record.time);
        self.first.get_or_insert(record.time);
        self.latest = record.time;
        self.stats.requests += 1;
        match record.op {
            Op::Read => {
                self.stats.reads += 1;
                self.read_bytes += record.extent.bytes();
            }
            Op::Write | Op::WriteZeroes => {
                self.stats.writes += 1;
                self.written_bytes += record.extent.bytes();
            }
            Op::Discard => self.stats.discards += 1,
            Op::Flush => {}
        }
        self.clock.follow(record);
        self.depth.follow(record);
        self.sizes.follow(record);
        self.processes.follow(record);
        let (place, first_page) = self.space.of(record.device);
        self.volumes.follow(place, record);
        let first_sector = first_page.wrapping_mul(PAGE_SECTORS);
        let at = record.extent;
        let span = (at.start.0.wrapping_add(first_sector), at.end().0.wrapping_add(first_sector));
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
        let mut stats = self.stats;
        (stats.read_gib_total, stats.write_gib_total) = (gib(self.read_bytes), gib(self.written_bytes));
        stats.seconds = self.first.map_or(0.0, |first| self.latest.since(first).seconds());
        self.sequences.summarise(&mut stats);
        self.pages.summarise(&mut stats);
        stats.device_gib = gib(self.space.pages.saturating_mul(PAGE_BYTES));
        stats.device_accessed_pct = percent(stats.accessed_pages.min(self.space.pages), self.space.pages);
        stats.volumes = self.volumes.top(&self.survey, &self.space, &self.pages, volumes);
        stats.over_time =
            if self.survey.records == 0 { Vec::new() } else { self.slices.finish(stats.total_gib_unique) };
        stats.heat_map = self.heat.finish();
        stats.working_sets = self.working_sets.finish();
        stats.top_processes = self.processes.top(names);
        stats.request_sizes = self.sizes.buckets();
        stats.arrivals = self.clock.arrivals();
        stats.idle_periods = self.clock.idle();
        stats.latencies = self.depth.latencies();
        stats.queue_depth = self.depth.queue();
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
