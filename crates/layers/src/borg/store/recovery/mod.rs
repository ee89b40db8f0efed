//! Opening a BOPT (section 5.1): restores the map.
//!
//! The newer whole super page is current; then the newer whole map page of each segment; then the log is followed from
//! the super page's anchor, batch by batch, up to the first that is missing or not whole. Of several entries of a page
//! the newest is valid. A copy is dirty if map or log record it as dirty. After a crash of a program that did not
//! maintain that, every copy is taken for dirty, unless `BORG_REQUIRE` is not set.
//!
//! In version 2, a rotten sector is ignored where it is not needed, or repaired from a second copy or from parity;
//! otherwise opening is refused with its place and what would be lost.
//!
//! Opening writes nothing except repairs: see [`super::session`]. Faults: damage without a second copy is refused, with
//! its place.

mod batches;
mod guess;
pub(super) use guess::last_sessions;
mod maps;
mod scan;
mod supers;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, IoError, Lba, PAGE_BYTES, mutant};

use super::area::Area;
use super::format::{OLD, Super};
use super::layout::Layout;
use super::log::Log;
use super::map::{BorgMap, Slot};
use super::metadata::Supers;
use super::segments::Segments;
use super::sums::Sums;
use crate::durable::CopyState;

/// Result of recovery.
pub(super) struct Opened {
    pub map: BorgMap,
    pub segments: Segments,
    pub log: Log,
    pub disk: Super,
    /// State of pages of metadata.
    pub extras: Extras,
}

/// Results besides the entries.
pub(super) struct Extras {
    /// Torn pages of version 1: a write over them must not make them whole.
    pub torn: Vec<u64>,
    /// State of the super page's copies.
    pub supers: Supers,
    /// Whether both copies of all map pages have been written.
    pub maps_written: bool,
    /// Checksums found in the write buffer.
    pub sums: Sums,
    /// Repaired extents, to be written back.
    pub repaired: Vec<(Extent, Vec<u8>)>,
    /// Errors in spite of which opening goes on, if it is lenient.
    pub forgiven: Option<Vec<String>>,
    /// Whether the current super page is lost, so that nothing tells where the log begins.
    pub anchor_lost: bool,
}

impl Extras {
    /// Fails with this error, unless opening is lenient.
    fn forgive(&mut self, error: IoError) -> Result<(), IoError> {
        let Some(forgiven) = &mut self.forgiven else { return Err(error) };
        forgiven.push(error.to_string());
        Ok(())
    }
}

fn error(kind: ErrorKind, at: Extent, why: String) -> IoError {
    IoError::new(kind, "borg", Some(at), why)
}

/// Opens the BOPT of an origin of `pages` pages; `blank` is the super page of a new one. If `lenient`, what is damaged
/// is left out, and the rest is opened.
pub(super) async fn open(
    bopt: &dyn BlockDevice,
    pages: u64,
    blank: Super,
    lenient: bool,
) -> Result<Opened, IoError> {
    let layout = blank.layout;
    let mut extras = Extras {
        torn: Vec::new(),
        supers: Supers::default(),
        maps_written: false,
        sums: Sums::new(layout),
        repaired: Vec::new(),
        forgiven: lenient.then(Vec::new),
        anchor_lost: false,
    };
    let Some(mut disk) = supers::read(bopt, &blank, &mut extras).await? else {
        edge("a blank BOPT");
        let free = (layout.read_cache..layout.segments()).collect();
        let (map, segments) = (BorgMap::new(pages, layout.slots()), Segments::new(layout));
        let log = Log::new(layout, blank.version, free, 0, 0);
        return Ok(Opened { map, segments, log, disk: blank, extras });
    };
    let mut entries = DiskEntries { pages, newest: FxHashMap::default() };
    let mut segments = Segments::new(layout);
    extras.maps_written = disk.version != OLD && !disk.is_upgrading();
    let reaches = maps::read(bopt, &disk, &mut segments, &mut entries, &mut extras).await?;
    disk.both_written &= extras.maps_written;
    let reached = reaches.map_or(0, |(reached, _)| reached);
    // In version 1, a batch is only known from the one before it.
    let last = if lenient && disk.version != OLD {
        scan::scan_log(bopt, &mut disk, reached, (&mut segments, &mut entries, &mut extras)).await?
    } else {
        batches::walk_log(bopt, &disk, &mut segments, &mut entries, &mut extras).await?
    };
    if let Some((reached, segment)) = reaches.filter(|(reached, _)| *reached > last) {
        extras.forgive(log_ends_early(layout, segment, last, reached))?;
    }
    if disk.clean && segments.generations() < disk.generations {
        let why = "found another map than the clean stop left, expected that one: a map page is damaged";
        extras.forgive(error(ErrorKind::Corrupt, all_maps(layout), why.to_owned()))?;
    }
    if disk.clean {
        edge("a clean start");
    } else {
        edge("a start after a crash");
    }
    let dirty = |was: bool| if disk.clean || disk.exact { was } else { disk.require };
    let mut map = BorgMap::new(pages, layout.slots());
    let held = held_by_slot(layout, &entries, &mut extras)?;
    // No program leaves a copy there.
    let is_taken = |area: Area| held.iter().any(|(slot, ..)| area.has(layout, layout.segment_of(*slot).0));
    disk.learned = disk.learned.filter(|area| !is_taken(*area));
    for (slot, page, was) in held {
        map.insert(page, slot, dirty(was));
        let segment = segments.get_mut(layout.segment_of(slot).0);
        segment.valid += 1;
        segment.flag_changes += u64::from(dirty(was) != was);
    }
    for number in segments.which(|segment| segment.first == Some(u64::MAX)) {
        segments.get_mut(number).first = None;
    }
    let log = log_after(&disk, &mut segments, last);
    Ok(Opened { map, segments, log, disk, extras })
}

/// The log after its last batch `last`: segments without entries are free, and the others keep their order.
fn log_after(disk: &Super, segments: &mut Segments, last: u64) -> Log {
    let layout = disk.layout;
    let logged = layout.read_cache..disk.learned.map_or(layout.segments(), |area| area.first_segment(layout));
    let free: BTreeSet<u32> = logged.clone().filter(|segment| segments.get(*segment).valid == 0).collect();
    let mut used: Vec<u32> =
        (layout.read_cache..layout.segments()).filter(|segment| segments.get(*segment).valid > 0).collect();
    used.sort_by_key(|segment| {
        (segments.get(*segment).covered.max(segments.get(*segment).last_batch), *segment)
    });
    for (segment, taken) in used.iter().zip(1..) {
        segments.get_mut(*segment).taken = taken;
    }
    // Failed batches have numbers too, which map pages may cover: they must not be reused for other batches.
    let given = if mutant::is("borg: the number of a failed batch is given again") {
        last
    } else {
        segments.covered().max(last)
    };
    let mut log = Log::new(layout, disk.version, free, given, used.len() as u64);
    log.last_committed = last;
    log
}

/// The valid entries in the order of their slots, one for each slot.
fn held_by_slot(
    layout: Layout,
    entries: &DiskEntries,
    extras: &mut Extras,
) -> Result<Vec<(Slot, u64, bool)>, IoError> {
    let mut held: Vec<(Slot, u64, bool)> =
        entries.newest.iter().map(|(page, entry)| (entry.slot, *page, entry.dirty)).collect();
    held.sort_unstable();
    // Of two copies in a slot neither is known to be right.
    let mut double = BTreeSet::new();
    for pair in held.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let why = format!("found copies of pages {} and {}, expected one of them", pair[0].1, pair[1].1);
        extras.forgive(error(ErrorKind::Corrupt, Extent::of_pages(layout.page(pair[0].0), 1), why))?;
        double.insert(pair[0].0);
    }
    held.retain(|(slot, ..)| !double.contains(slot));
    Ok(held)
}

/// Error: the log ends although a map page records that it continued.
fn log_ends_early(layout: Layout, segment: u32, last: u64, reached: u64) -> IoError {
    let why = format!(
        "found batch {last} as the last of the log, expected batch {reached} at least, which was durable when the \
         map page of \
         segment {segment} was written: the log is damaged, and writes from batch {} on would be lost",
        last + 1
    );
    let logged =
        Extent::of_pages(layout.page(layout.cached_slots()), u64::from(layout.write_buffer * layout.segment));
    error(ErrorKind::Corrupt, logged, why)
}

/// Error: a rotten sector in a page whose newest generation may be lost with it.
fn rotten(what: &str, sector: Lba, older: Option<&CopyState>, lost: &str) -> IoError {
    let other = match older.and_then(CopyState::newest) {
        Some(generation) => {
            format!("its other copy is of generation {generation}, and {lost} flushed since would be lost")
        }
        None => format!("its other copy is not whole either, and {lost} would be lost"),
    };
    let why = format!(
        "found a sector of {what} that is not as it was written, expected it whole: {other}; `older = true` opens what is \
         readable, read-only"
    );
    error(ErrorKind::Corrupt, Extent { start: sector, sectors: 1 }, why)
}

fn all_maps(layout: Layout) -> Extent {
    Extent::of_pages(layout.map_page(0, 0), 2 * u64::from(layout.segments()))
}

/// Checks that a BOPT belongs to this origin, and has the layout of the options.
fn check(found: &Super, expected: &Super) -> Result<(), IoError> {
    let refuse = |why: String| Err(error(ErrorKind::Invalid, Extent::of_pages(0, 2), why));
    if found.origin_sectors != expected.origin_sectors {
        return refuse(format!(
            "found the BOPT of a volume of {} sectors, expected one of {} sectors: it belongs to another volume, or the \
             device below changed its size: then give it that of before again",
            found.origin_sectors, expected.origin_sectors
        ));
    }
    if found.pages != expected.pages {
        return refuse(format!(
            "found a BOPT of {} pages, expected one of {} pages: its area changed its size; give it {} bytes again, at its \
             end",
            found.pages,
            expected.pages,
            found.pages * PAGE_BYTES
        ));
    }
    if (found.layout, found.pages) != (expected.layout, expected.pages) {
        let decoded = |page: &Super| {
            let Layout { segment, read_cache, write_buffer } = page.layout;
            format!("{read_cache} + {write_buffer} segments of {segment} pages in {} pages", page.pages)
        };
        return refuse(format!(
            "found a BOPT of {} (read cache + write buffer), expected {} as the options say: \
             detach the layer first to change the layout",
            decoded(found),
            decoded(expected)
        ));
    }
    Ok(())
}

/// The entry of a page.
struct DiskEntry {
    slot: Slot,
    dirty: bool,
    /// Order of entries, newer ones higher: the batch, or the batch that a map page covers and its generation.
    age: (u64, u64),
}

struct DiskEntries {
    /// Page of the origin.
    pages: u64,
    newest: FxHashMap<u64, DiskEntry>,
}

impl DiskEntries {
    /// Records an entry. The segment whose entry is superseded becomes stale.
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
            Some((age, _))
                if age > entry.age && mutant::is("borg: an entry that is superseded is not stale") =>
            {
                None
            }
            Some((age, _)) if age > entry.age => Some(entry.slot),
            Some((_, slot)) => Some(slot),
            None => None,
        };
        if known.is_none_or(|(age, _)| age < entry.age) {
            self.newest.insert(page, entry);
        }
        if let Some(slot) = loser {
            let segment = segments.get_mut(layout.segment_of(slot).0);
            (segment.changes, segment.stale) = (segment.changes + 1, true);
        }
        Ok(())
    }
}
