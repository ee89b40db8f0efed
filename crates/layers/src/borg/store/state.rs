//! The contents of a BOPT's metadata as values, for tools: read from an open store, written to a device.
//!
//! Written metadata is that of a clean stop, and valid only when complete: an interrupted writing leaves a BOPT without
//! a super page.

use std::collections::BTreeSet;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError};
use serde::{Deserialize, Serialize};

use super::Store;
use super::format::{Anchor, MapPage, NONE, PAGE, Super};
use super::layout::Layout;
use super::map::Slot;
use super::recovery::last_sessions;
use crate::durable::{self, region};

/// Map pages written together.
const AT_ONCE: u32 = 1_024;
/// Generation of everything that is written: both copies are, so no older one counts.
const GENERATION: u64 = 1;

/// See the file's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The layer.
    pub layer: String,
    /// Identity of the BOPT, in hexadecimal digits.
    pub identity: String,
    /// Sectors of the origin.
    pub origin_sectors: u64,
    /// Pages of the BOPT.
    pub bopt_pages: u64,
    /// Pages of a segment.
    pub segment_pages: u32,
    /// Segments of the read cache.
    pub read_cache_segments: u32,
    /// Segments of the write buffer.
    pub write_buffer_segments: u32,
    /// Number of sessions of the store so far.
    pub sessions: u64,
    /// Number of the last batch.
    pub last_batch: u64,
    /// Pages of the origin and their checksums at the last clean stop.
    pub samples: Vec<(u64, u32)>,
    /// Copies: slot, page of the origin, and whether the copy is newer than that.
    pub copies: Vec<(Slot, u64, bool)>,
    /// Checksums (CRC-32C) of the data in slots whose copies are newer than the origin, as far as it could be read.
    /// Dumps of earlier versions have none.
    #[serde(default)]
    pub sums: Vec<(Slot, u32)>,
}

pub(super) fn invalid(found: impl Into<String>, expected: impl Into<String>) -> IoError {
    let why = format!("found {}, expected {}", found.into(), expected.into());
    IoError::new(ErrorKind::Invalid, "borg", None, why)
}

impl Store {
    /// The contents of the metadata.
    pub fn state(&self) -> State {
        let (table, disk) = (self.table.borrow(), self.disk.borrow());
        let Super { identity, origin_sectors, pages, layout, sessions, ref samples, .. } = disk.super_page;
        State {
            layer: "borg".to_owned(),
            identity: format!("{identity:032x}"),
            origin_sectors,
            bopt_pages: pages,
            segment_pages: layout.segment,
            read_cache_segments: layout.read_cache,
            write_buffer_segments: layout.write_buffer,
            sessions,
            last_batch: table.log.sequence,
            samples: samples.clone(),
            copies: table.map.iter().collect(),
            sums: Vec::new(),
        }
    }

    /// The page of the BOPT that holds the current super page.
    pub fn super_page_at(&self) -> u64 {
        self.disk.borrow().supers.copy
    }

    /// The page of a segment's current map page, and of the other copy.
    pub fn map_pages_of(&self, segment: u32) -> [u64; 2] {
        let copy = self.table.borrow().segments.get(segment).copy;
        [copy, 1 - copy].map(|copy| self.layout.map_page(segment, copy))
    }
}

impl State {
    /// The layout of the BOPT.
    pub fn layout(&self) -> Layout {
        Layout {
            segment: self.segment_pages,
            read_cache: self.read_cache_segments,
            write_buffer: self.write_buffer_segments,
        }
    }

    /// Checks it for a BOPT and an origin of these sizes, with the layout of the options.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn check(&self, layout: Layout, bopt_pages: u64, origin_sectors: u64) -> Result<(), IoError> {
        if self.layer != "borg" {
            return Err(invalid(format!("metadata of a layer '{}'", self.layer), "that of borg"));
        }
        if (self.layout(), self.bopt_pages) != (layout, bopt_pages) {
            let found = format!("a BOPT of {} pages, {:?}", self.bopt_pages, self.layout());
            return Err(invalid(
                found,
                format!("one of {bopt_pages} pages, {layout:?}, as device and options say"),
            ));
        }
        if self.origin_sectors != origin_sectors {
            let found = format!("an origin of {} sectors", self.origin_sectors);
            return Err(invalid(found, format!("one of {origin_sectors}")));
        }
        let pages = origin_sectors.div_ceil(seekless_core::PAGE_SECTORS);
        let (mut slots, mut held) = (Vec::new(), Vec::new());
        for (slot, page, _) in &self.copies {
            if *slot >= layout.slots() || *page >= pages {
                let expected = format!("a slot below {} and a page below {pages}", layout.slots());
                return Err(invalid(format!("a copy of page {page} in slot {slot}"), expected));
            }
            slots.push(u64::from(*slot));
            held.push(*page);
        }
        for (mut all, what) in [(slots, "slot"), (held, "page")] {
            all.sort_unstable();
            if let Some([twice, _]) = all.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(invalid(format!("two copies with {what} {twice}"), "one"));
            }
        }
        let dirty: BTreeSet<Slot> =
            self.copies.iter().filter(|(.., dirty)| *dirty).map(|(slot, ..)| *slot).collect();
        let mut summed = BTreeSet::new();
        if let Some((slot, _)) =
            self.sums.iter().find(|(slot, _)| !dirty.contains(slot) || !summed.insert(*slot))
        {
            return Err(invalid(format!("a checksum of slot {slot}"), "one for each dirty copy"));
        }
        if self.samples.len() > super::SAMPLES {
            let found = format!("{} samples", self.samples.len());
            return Err(invalid(found, format!("at most {}", super::SAMPLES)));
        }
        let page = self.super_page()?.ensure_sensible(self.samples.len());
        page.map(drop).map_err(|found| invalid(found, "numbers of which a super page can be"))
    }

    pub(super) fn identity(&self) -> Result<u128, IoError> {
        let identity = u128::from_str_radix(&self.identity, 16).ok().filter(|identity| *identity != 0);
        identity.ok_or_else(|| invalid(format!("the identity '{}'", self.identity), "32 hexadecimal digits"))
    }

    /// The super page.
    fn super_page(&self) -> Result<Super, IoError> {
        let layout = self.layout();
        let used = |segment: u32| self.copies.iter().any(|(slot, ..)| layout.segment_of(*slot).0 == segment);
        let free = (layout.read_cache..layout.segments()).find(|segment| !used(*segment));
        let anchor = Anchor { segment: free.unwrap_or(NONE), offset: 0, sequence: self.last_batch + 1 };
        Ok(Super {
            generation: GENERATION,
            identity: self.identity()?,
            require: self.copies.iter().any(|(.., dirty)| *dirty),
            clean: true,
            firsts: true,
            sessions: self.sessions,
            anchor,
            generations: GENERATION * u64::from(layout.segments()),
            samples: self.samples.clone(),
            ..Super::blank(layout, self.bopt_pages, self.origin_sectors)
        })
    }

    /// Writes it, durably; the super pages last.
    pub async fn write(&self, bopt: &dyn BlockDevice) -> Result<(), IoError> {
        let (layout, mut page, how) = (self.layout(), self.super_page()?, Hints::default());
        // Batches that are still in the log must not be taken for those of a later session.
        let found = last_sessions(bopt, layout).await?.get(&page.identity).copied();
        page.sessions = page.sessions.max(found.unwrap_or(0));
        let supers = Extent::of_pages(0, 2);
        let marked = Buffer::zeroed(supers.bytes());
        marked.put(0, &durable::unfinished());
        bopt.write(supers, marked, how.clone()).await?;
        bopt.flush(how.clone()).await?;
        let mut entries = vec![None; layout.slots() as usize];
        for (slot, page, dirty) in &self.copies {
            entries[*slot as usize] = Some((*page, *dirty));
        }
        for copy in 0..2 {
            for first in (0..layout.segments()).step_by(AT_ONCE as usize) {
                let some = first..layout.segments().min(first + AT_ONCE);
                let at = Extent::of_pages(layout.map_page(first, copy), u64::from(some.end - some.start));
                let bytes = some.flat_map(|segment| self.map_page(&page, segment, copy, &entries)).collect();
                region::write(bopt, at, &Buffer::from_vec(bytes), &how).await?;
            }
        }
        bopt.flush(how.clone()).await?;
        // The mark goes last: until then the area counts as unfinished.
        for copy in [1, 0] {
            bopt.write(Extent::of_pages(copy, 1), Buffer::from_vec(page.encode(copy)), how.clone()).await?;
            bopt.flush(how.clone()).await?;
        }
        Ok(())
    }

    fn map_page(&self, page: &Super, segment: u32, copy: u64, entries: &[Option<(u64, bool)>]) -> Vec<u8> {
        let (layout, covered) = (self.layout(), self.last_batch);
        let slots = layout.slots_of(segment);
        let entries = entries[slots.start as usize..slots.end as usize].to_vec();
        let map = MapPage { segment, covered, log_reaches: covered, first: None, entries };
        let bytes = map.encode(page, layout.map_page(segment, copy), GENERATION);
        debug_assert_eq!(bytes.len(), PAGE);
        bytes
    }
}
