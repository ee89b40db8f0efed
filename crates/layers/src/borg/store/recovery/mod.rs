//! Opening a BOPT (section 5.1): what was mapped is mapped again.
//!
//! The newer of the two super pages that is whole counts; then the newer whole map page of each segment; then the log
//! is followed from the super page's anchor, batch by batch, up to the first that is not whole or not there. Of several
//! entries on a page the newest counts. What map or log record as dirty is dirty, and nothing else is. Where a crash
//! has left a BOPT of a program that did not keep to that, every copy passes for dirty, unless `BORG_REQUIRE` says that
//! there was none.
//!
//! Of a BOPT of version 2, one sector that has rotted is passed by where what counts does not need it, or is made whole
//! from a second copy or from parity; else it is refused, with its place and what would be lost.
//!
//! Opening writes nothing, but what was made whole: see [`super::session`]. Faults: damage that has no second copy is
//! refused, with its place.

mod batches;
mod maps;
mod supers;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, IoError, Lba};

use super::format::Super;
use super::layout::Layout;
use super::log::Log;
use super::map::{BorgMap, Slot};
use super::metadata::Supers;
use super::segments::Segments;
use super::sums::Sums;
use crate::durable::CopyState;

/// What was found.
pub(super) struct Opened {
    pub map: BorgMap,
    pub segments: Segments,
    pub log: Log,
    pub disk: Super,
    /// What else is known of pages of metadata.
    pub aside: Aside,
}

/// What is known of what was found besides what it tells.
pub(super) struct Aside {
    /// Of version 1, those that are not whole: a write over them must not make them so.
    pub torn: Vec<u64>,
    /// Where the super page is.
    pub supers: Supers,
    /// Of what was found whole in the write buffer.
    pub sums: Sums,
    /// What was made whole, to be written back.
    pub mended: Vec<(Extent, Vec<u8>)>,
}

fn error(kind: ErrorKind, at: Extent, why: String) -> IoError {
    IoError::new(kind, "borg", Some(at), why)
}

/// Opens what the BOPT holds for an origin of so many pages; `blank` is what the super page of a new one would be.
pub(super) async fn open(bopt: &dyn BlockDevice, pages: u64, blank: Super) -> Result<Opened, IoError> {
    let layout = blank.layout;
    let mut aside =
        Aside { torn: Vec::new(), supers: Supers::default(), sums: Sums::new(layout), mended: Vec::new() };
    let Some(disk) = supers::read(bopt, &blank, &mut aside).await? else {
        edge("a blank BOPT");
        let free = (layout.read_cache..layout.segments()).collect();
        let (map, segments) = (BorgMap::new(pages, layout.slots()), Segments::new(layout));
        let log = Log::new(layout, blank.version, free, 0, 0);
        return Ok(Opened { map, segments, log, disk: blank, aside });
    };
    let mut entries = DiskEntries { pages, newest: FxHashMap::default() };
    let mut segments = Segments::new(layout);
    let reaches = maps::read(bopt, &disk, &mut segments, &mut entries, &mut aside).await?;
    let last = batches::follow(bopt, &disk, &mut segments, &mut entries, &mut aside).await?;
    if let Some((reached, segment)) = reaches.filter(|(reached, _)| *reached > last) {
        return Err(log_ends_early(layout, segment, last, reached));
    }
    if disk.clean && segments.generations() < disk.generations {
        let why = "found another map than the clean stop left, expected that one: a map page is damaged";
        return Err(error(ErrorKind::Corrupt, all_maps(layout), why.to_owned()));
    }
    if disk.clean {
        edge("a clean start");
    } else {
        edge("a start after a crash");
    }
    let dirty = |was: bool| if disk.clean || disk.exact { was } else { disk.require };
    let mut map = BorgMap::new(pages, layout.slots());
    let mut held: Vec<(Slot, u64, bool)> =
        entries.newest.iter().map(|(page, entry)| (entry.slot, *page, entry.dirty)).collect();
    held.sort_unstable();
    if let Some(pair) = held.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let why = format!("found copies of pages {} and {}, expected one of them", pair[0].1, pair[1].1);
        return Err(error(ErrorKind::Corrupt, Extent::of_pages(layout.page(pair[0].0), 1), why));
    }
    for (slot, page, was) in held {
        map.insert(page, slot, dirty(was));
        let segment = segments.get(layout.segment_of(slot).0);
        segment.valid += 1;
        segment.bits += u64::from(dirty(was) != was);
    }
    let logged = layout.read_cache..layout.segments();
    let free: BTreeSet<u32> = logged.clone().filter(|segment| segments.of(*segment).valid == 0).collect();
    let mut used: Vec<u32> = logged.filter(|segment| segments.of(*segment).valid > 0).collect();
    used.sort_by_key(|segment| {
        (segments.of(*segment).covered.max(segments.of(*segment).last_batch), *segment)
    });
    for (segment, taken) in used.iter().zip(1..) {
        segments.get(*segment).taken = taken;
    }
    // A batch that failed has a number too, which map pages may tell: given to another batch, that would pass for told.
    let given = segments.covered().max(last);
    let mut log = Log::new(layout, disk.version, free, given, used.len() as u64);
    log.reached = last;
    Ok(Opened { map, segments, log, disk, aside })
}

/// The log ends although a map page says that it went on.
fn log_ends_early(layout: Layout, segment: u32, last: u64, reached: u64) -> IoError {
    let why = format!(
        "found batch {last} as the last of the log, expected batch {reached} at least, which was durable when the map page of \
         segment {segment} was written: the log is damaged, and what was written from batch {} on would be lost",
        last + 1
    );
    let logged =
        Extent::of_pages(layout.page(layout.cached_slots()), u64::from(layout.write_buffer * layout.segment));
    error(ErrorKind::Corrupt, logged, why)
}

/// A sector has rotted, of a page of which the newest generation may be lost with it.
fn rotten(what: &str, sector: Lba, older: Option<&CopyState>, lost: &str) -> IoError {
    let other = match older.and_then(CopyState::newest) {
        Some(generation) => {
            format!("its other copy is of generation {generation}, and {lost} flushed since would be lost")
        }
        None => format!("its other copy is not whole either, and {lost} would be lost"),
    };
    let why = format!("found a sector of {what} that is not as it was written, expected it whole: {other}");
    error(ErrorKind::Corrupt, Extent { start: sector, sectors: 1 }, why)
}

fn all_maps(layout: Layout) -> Extent {
    Extent::of_pages(layout.map_page(0, 0), 2 * u64::from(layout.segments()))
}

/// Whether a BOPT is that of this origin, and divided as the options say.
fn check(found: &Super, expected: &Super) -> Result<(), IoError> {
    let refuse = |why: String| Err(error(ErrorKind::Invalid, Extent::of_pages(0, 2), why));
    if found.origin_sectors != expected.origin_sectors {
        return refuse(format!(
            "found the BOPT of a volume of {} sectors, expected one of {} sectors: it belongs to another volume",
            found.origin_sectors, expected.origin_sectors
        ));
    }
    if (found.layout, found.pages) != (expected.layout, expected.pages) {
        let told = |page: &Super| {
            let Layout { segment, read_cache, write_buffer } = page.layout;
            format!("{read_cache} + {write_buffer} segments of {segment} pages in {} pages", page.pages)
        };
        return refuse(format!(
            "found a BOPT of {} (read cache + write buffer), expected {} as the options say: \
             take the layer away first to divide it anew",
            told(found),
            told(expected)
        ));
    }
    Ok(())
}

/// Where the copy of a page is.
struct DiskEntry {
    slot: Slot,
    dirty: bool,
    /// Newer entries have higher ones: the batch, or the batch up to which a map page tells and its generation.
    age: (u64, u64),
}

struct DiskEntries {
    /// Of the origin.
    pages: u64,
    newest: FxHashMap<u64, DiskEntry>,
}

impl DiskEntries {
    /// A slot is said to hold a page. The segment whose entry does not count is changed by that.
    fn add(
        &mut self,
        segments: &mut Segments,
        layout: Layout,
        page: u64,
        entry: DiskEntry,
    ) -> Result<(), IoError> {
        if page >= self.pages {
            let why = format!(
                "found a copy of page {page}, expected one of the {} pages of the origin",
                self.pages
            );
            return Err(error(ErrorKind::Corrupt, Extent::of_pages(layout.page(entry.slot), 1), why));
        }
        let known = self.newest.get(&page).map(|known| (known.age, known.slot));
        let loser = match known {
            Some((age, _)) if age > entry.age => Some(entry.slot),
            Some((_, slot)) => Some(slot),
            None => None,
        };
        if known.is_none_or(|(age, _)| age < entry.age) {
            self.newest.insert(page, entry);
        }
        if let Some(slot) = loser {
            let segment = segments.get(layout.segment_of(slot).0);
            (segment.changes, segment.stale) = (segment.changes + 1, true);
        }
        Ok(())
    }
}
