//! The outline of a trace, needed before its one-pass statistics: its length, and the sizes of its volumes. Their
//! addresses are laid end to end, so that a page has one number.
//!
//! Invariant: the pages of different volumes have different numbers.

use std::collections::BTreeMap;

use seekless_core::{Nanos, PAGE_SECTORS, Record};

use super::is_request;

/// The outline of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Records that cover bytes.
    pub requests: u64,
    /// All records.
    pub records: u64,
    /// The time of the last record.
    pub end: Nanos,
    /// For each volume the sector after the last accessed one.
    ends: BTreeMap<u32, u64>,
}

impl Survey {
    /// Adds a record.
    pub fn note(&mut self, record: &Record) {
        self.records += 1;
        self.requests += u64::from(is_request(record));
        self.end = self.end.max(record.time);
        let end = self.ends.entry(record.device).or_default();
        *end = record.extent.end().0.max(*end);
    }

    /// An outline that is known.
    pub(super) fn known(requests: u64, records: u64, end: Nanos, ends: BTreeMap<u32, u64>) -> Survey {
        Survey { requests, records, end, ends }
    }

    /// The outline of these records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Survey {
        let mut survey = Survey::default();
        records.into_iter().for_each(|record| survey.note(record));
        survey
    }

    /// Each volume and the sector after its last accessed one, by number.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        self.ends.iter().map(|(&device, &end)| (device, end))
    }

    /// The volumes, laid end to end; a single one is as long as its device, if that is known.
    pub(super) fn space(&self, device_sectors: Option<u64>) -> Space {
        let mut firsts = Vec::with_capacity(self.ends.len());
        let mut pages: u64 = 0;
        for (device, end) in self.volumes() {
            firsts.push((device, pages));
            let known = device_sectors.filter(|_| self.ends.len() == 1).unwrap_or(0);
            pages = pages.wrapping_add(known.max(end).div_ceil(PAGE_SECTORS));
        }
        Space { firsts, pages, latest: 0 }
    }
}

/// The joined space of all volumes' pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// Each volume and the number of its first page.
    firsts: Vec<(u32, u64)>,
    /// Number of pages.
    pub pages: u64,
    /// The index of the volume looked up last.
    latest: usize,
}

impl Space {
    /// The index of a volume, and the number of its first page.
    pub fn of(&mut self, device: u32) -> (usize, u64) {
        if self.firsts.get(self.latest).is_none_or(|&(latest, _)| latest != device) {
            self.latest = self.firsts.binary_search_by_key(&device, |&(device, _)| device).unwrap_or(0);
        }
        (self.latest, self.firsts.get(self.latest).map_or(0, |&(_, first)| first))
    }

    /// The index of the volume that has this page.
    pub fn volume_of(&self, page: u64) -> usize {
        self.firsts.partition_point(|&(_, first)| first <= page).saturating_sub(1)
    }
}
