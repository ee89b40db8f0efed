//! The statistics of a shard, as a part of the whole trace.

use rustc_hash::FxHashMap;
use seekless_core::{NameId, Names, Nanos, ProcessId, Record};

use super::carry::Carry;
use super::error::ShardError;
use super::outline::{Outline, Whole, hashed};
use super::partial::{How, Partial};
use crate::stats::arrivals::Clock;
use crate::stats::depth::Depth;
use crate::stats::pages::Pages;
use crate::stats::processes::Sums;
use crate::stats::sequence::Sequences;
use crate::stats::survey::Survey;
use crate::stats::working_sets::{MAX_INTERVALS, TooManyIntervals, WorkingSets};
use crate::stats::{Analysis, StatsOptions, is_request};
use crate::volumes::{Naming, Volumes};

/// The largest number of halvings: one page of four billion.
pub(super) const MOST_HALVINGS: u32 = 32;

/// Statistics of a shard in progress.
pub struct PartAnalysis {
    analysis: Analysis,
    whole: Whole,
    index: usize,
    how: How,
    /// The time of the shard's first record, from that of the trace.
    offset: u64,
    volumes: Volumes,
    /// The number in the whole trace of each volume seen.
    numbers: FxHashMap<u32, u32>,
    /// The shard as it is read, and as its outline has it.
    survey: Survey,
    expected: (u64, u64, u64),
    /// The hash of its records so far, and that of its outline.
    hash: (u64, u64),
    /// A volume that the outline does not have.
    stranger: Option<String>,
    /// Names that earlier shards gave, and the requests that they are of.
    named_before: FxHashMap<ProcessId, String>,
    renamed: FxHashMap<ProcessId, Sums>,
}

impl PartAnalysis {
    /// For the shard whose first record has the time `start`; of several, that of this `name`. `volumes` are those of
    /// its reader. Of the pages, and of pairs of requests, one of `2^halvings` is kept.
    pub fn new(
        outline: &Outline,
        (name, start): (&str, Nanos),
        volumes: &Volumes,
        options: &StatsOptions,
        halvings: u32,
    ) -> Result<PartAnalysis, ShardError> {
        let begin = |shard: &&super::outline::Shard| shard.start == start.0;
        let named = outline.shards.iter().position(|shard| begin(&shard) && shard.name == name);
        let index = named.or_else(|| outline.shards.iter().position(|shard| begin(&shard)));
        let Some((index, shard)) = index.and_then(|index| Some((index, outline.shards.get(index)?))) else {
            let (found, expected) =
                (format!("a trace that begins at {} ns", start.0), "one of its shards".into());
            return Err(ShardError::Changed { shard: name.to_owned(), found, expected });
        };
        let whole = outline.whole();
        check(options, &whole, halvings)?;
        let survey = whole.survey();
        let mut analysis = Analysis::new(survey.clone(), options);
        let memory = options.memory.max(1 << 20);
        let carry = Carry::at(outline, index, |volume| {
            let (place, page) = analysis.space.of(volume);
            (place, page.wrapping_mul(seekless_core::PAGE_SECTORS))
        });
        analysis.clock = Clock::resume(carry.latest, carry.busy_until);
        analysis.depth = Depth::resume(carry.now, &carry.answers);
        analysis.pages = Pages::part(memory / 2, halvings);
        analysis.sequences = Sequences::resume(memory / 4, halvings, carry.before);
        analysis.working_sets = WorkingSets::part(options.intervals, whole.requests, carry.requests);
        Ok(PartAnalysis {
            analysis,
            index,
            how: How::of(options, halvings),
            offset: shard.start - outline.origin(),
            volumes: volumes.clone(),
            numbers: FxHashMap::default(),
            survey: Survey::default(),
            expected: (shard.records, shard.requests, shard.end),
            hash: (0, shard.hash),
            stranger: None,
            named_before: outline.names_before(index),
            renamed: FxHashMap::default(),
            whole,
        })
    }

    /// Adds the next record of the shard.
    pub fn follow(&mut self, record: &Record) {
        self.survey.note(record);
        self.hash.0 = hashed(self.hash.0, record);
        let time = Nanos(record.time.0.saturating_add(self.offset));
        let device = match self.numbers.get(&record.device) {
            Some(&device) => device,
            None => self.number(record.device),
        };
        // A shard that is longer than its outline is an error at the end.
        if self.survey.records <= self.expected.0 {
            self.analysis.follow(&Record { time, device, ..*record });
            let process = record.origin.process;
            let unnamed = is_request(record) && record.origin.name == NameId::default();
            if unnamed && self.named_before.contains_key(&process) {
                self.renamed.entry(process).or_default().add(record);
            }
        }
    }

    /// The number of a volume in the whole trace.
    fn number(&mut self, device: u32) -> u32 {
        let name = self.volumes.name(device);
        let is_it = |volume: &&super::outline::ShardVolume| match self.whole.naming {
            Naming::Named => volume.name == name,
            Naming::Linux | Naming::Numbered => volume.number == device,
        };
        let known = self.whole.volumes.iter().find(is_it).map(|volume| volume.number);
        if known.is_none() {
            self.stranger.get_or_insert(name);
        }
        let number = known.unwrap_or(0);
        self.numbers.insert(device, number);
        number
    }

    /// The partial, after all records; `names` are those of their processes.
    pub fn finish(self, names: &Names) -> Result<Partial, ShardError> {
        let shard = self.whole.shards.get(self.index).cloned().unwrap_or_default();
        let text = |(records, requests, end): (u64, u64, u64)| {
            format!("{records} records, {requests} of them requests, in {end} ns")
        };
        let found = (self.survey.records, self.survey.requests, self.survey.end.0);
        if found != self.expected {
            let (found, expected) = (text(found), text(self.expected));
            return Err(ShardError::Changed { shard, found, expected });
        }
        if let Some(name) = self.stranger {
            let (found, expected) = (format!("the volume {name}"), "those".into());
            return Err(ShardError::Changed { shard, found, expected });
        }
        if self.hash.0 != self.hash.1 {
            let (found, expected) = ("other requests".to_owned(), "those".to_owned());
            return Err(ShardError::Changed { shard, found, expected });
        }
        let mut processes = self.analysis.processes.by_name(names);
        for (process, sums) in &self.renamed {
            processes.rename(&self.named_before[process], sums);
        }
        Partial::of(self.analysis, self.whole, self.index, self.how, processes)
    }
}

fn check(options: &StatsOptions, whole: &Whole, halvings: u32) -> Result<(), ShardError> {
    if halvings > MOST_HALVINGS {
        let (found, expected) = (format!("1/2^{halvings}"), format!("at least 1/2^{MOST_HALVINGS}"));
        return Err(ShardError::Setting { option: "--sample", found, expected });
    }
    options.check(Nanos(whole.end)).map_err(|TooManyIntervals { found }| {
        let (found, expected) = (format!("{found} intervals"), format!("at most {MAX_INTERVALS}"));
        ShardError::Setting { option: "--interval", found, expected }
    })
}
