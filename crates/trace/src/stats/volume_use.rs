//! Use of each volume of a trace.

use std::cmp::Reverse;

use schemars::JsonSchema;
use seekless_core::{PAGE_BYTES, Record};
use serde::{Deserialize, Serialize};

use super::pages::Pages;
use super::processes::Sums;
use super::survey::{Space, Survey};
use super::{gib, percent};
use crate::volumes::Volumes;

/// Most volumes listed.
const TOP: usize = 50;

/// Use of a volume.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct VolumeUse {
    /// Name.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Data read.
    pub read_gib: f64,
    /// Data written.
    pub write_gib: f64,
    /// Different pages accessed.
    pub unique_gib: f64,
    /// End of the last access: a lower bound of its size.
    pub end_gib: f64,
    /// Share of all requests.
    pub share_pct: f64,
}

/// Counts requests by volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeUses(Vec<Sums>);

impl VolumeUses {
    /// For the volumes of a survey.
    pub fn new(survey: &Survey) -> VolumeUses {
        VolumeUses(vec![Sums::default(); survey.volumes().count().max(1)])
    }

    /// Adds the next request, to the volume of this index.
    pub fn follow(&mut self, place: usize, record: &Record) {
        self.0[place].add(record);
    }

    /// Adds the counts of the same volumes of another part of the trace.
    pub fn merge(&mut self, other: &VolumeUses) {
        self.0.iter_mut().zip(&other.0).for_each(|(here, other)| *here = here.and(other));
    }

    /// Whether it has a count for each volume of a survey.
    pub fn is_sound(&self, survey: &Survey) -> bool {
        self.0.len() == survey.volumes().count().max(1)
    }

    /// The volumes with the most requests, the most first; equals by number.
    pub fn top(&self, survey: &Survey, space: &Space, pages: &Pages, names: &Volumes) -> Vec<VolumeUse> {
        let mut unique = vec![0; self.0.len()];
        for &page in pages.sample.table.keys() {
            unique[space.volume_of(page)] += 1;
        }
        let all = self.0.iter().map(|sums| sums.requests).sum();
        let each = survey.volumes().zip(&self.0).zip(unique).filter(|((_, sums), _)| sums.requests > 0);
        let row = |(((device, end), sums), unique): (((u32, u64), &Sums), u64)| VolumeUse {
            name: names.name(device),
            requests: sums.requests,
            reads: sums.reads,
            writes: sums.writes,
            read_gib: gib(sums.read_bytes),
            write_gib: gib(sums.written_bytes),
            unique_gib: gib(pages.sample.scaled(unique).saturating_mul(PAGE_BYTES)),
            end_gib: end as f64 * 512.0 / f64::from(1 << 30),
            share_pct: percent(sums.requests, all),
        };
        let mut uses: Vec<VolumeUse> = each.map(row).collect();
        uses.sort_by_key(|volume| Reverse(volume.requests));
        uses.truncate(TOP);
        uses
    }
}
