//! Opening a BOPT (section 5.1): what was mapped is mapped again.
//!
//! The newer of the two super pages that is whole counts; then the newer whole map page of each segment; then the log
//! is followed from the super page's anchor, run by run, up to the first that is not whole or not there. Of several
//! claims on a page the newest counts. What map or log record as dirty is dirty, and nothing else is. Where a crash has left
//! a BOPT of a program that did not keep to that, every copy passes for dirty, unless `BORG_REQUIRE` says that there was
//! none.
//!
//! Opening writes nothing: see [`super::table`]. Faults: damage that has no second copy is refused, with its place.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;
use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, mutant};

use super::layout::Layout;
use super::log::Log;
use super::map::{BorgMap, Slot};
use super::page::{Found, Head, MapPage, NONE, PAGE, RunPage, Super};
use super::segments::Segments;

/// Map pages of each home that are read together: 16 MiB.
const MAPS_AT_ONCE: u32 = if cfg!(test) { 3 } else { 4_096 };

/// What was found.
pub(super) struct Opened {
    pub map: BorgMap,
    pub segments: Segments,
    pub log: Log,
    pub disk: Super,
    /// Pages of metadata that are not whole.
    pub torn: Vec<u64>,
}

fn error(kind: ErrorKind, at: Extent, why: String) -> IoError {
    IoError::new(kind, "borg", Some(at), why)
}

/// Reads `at`, in requests that the device takes.
async fn read(device: &dyn BlockDevice, at: Extent) -> Result<Buffer, IoError> {
    let bytes = Buffer::zeroed(at.bytes());
    for (part, piece) in bytes.split(at, device.geometry().largest_sectors) {
        device.read(part, piece, Hints::default()).await?;
    }
    Ok(bytes)
}

/// Opens what the BOPT holds for a home of so many pages; `blank` is what the super page of a new one would be.
pub(super) async fn open(bopt: &dyn BlockDevice, pages: u64, blank: Super) -> Result<Opened, IoError> {
    let layout = blank.layout;
    let mut torn = Vec::new();
    let Some(disk) = read_super(bopt, &blank, &mut torn).await? else {
        edge("a blank BOPT");
        let free = (layout.read_cache..layout.segments()).collect();
        let (map, segments) = (BorgMap::new(pages, layout.slots()), Segments::new(layout));
        return Ok(Opened { map, segments, log: Log::new(layout, free, 0, 0), disk: blank, torn });
    };
    let mut claims = Claims { pages, newest: FxHashMap::default() };
    let mut segments = Segments::new(layout);
    read_map(bopt, &disk, &mut segments, &mut claims, &mut torn).await?;
    let last = follow(bopt, &disk, &mut segments, &mut claims).await?;
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
        claims.newest.iter().map(|(page, claim)| (claim.slot, *page, claim.dirty)).collect();
    held.sort_unstable();
    if let Some(pair) = held.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let why = format!("found copies of pages {} and {}, expected one of them", pair[0].1, pair[1].1);
        return Err(error(ErrorKind::Corrupt, Extent::of_pages(layout.page(pair[0].0), 1), why));
    }
    for (slot, page, was) in held {
        map.insert(page, slot, dirty(was));
        let segment = segments.get(layout.segment_of(slot).0);
        segment.valid += 1;
        segment.bits |= dirty(was) != was;
    }
    let logged = layout.read_cache..layout.segments();
    let free: BTreeSet<u32> = logged.clone().filter(|segment| segments.of(*segment).valid == 0).collect();
    let mut used: Vec<u32> = logged.filter(|segment| segments.of(*segment).valid > 0).collect();
    used.sort_by_key(|segment| (segments.of(*segment).covered.max(segments.of(*segment).last_run), *segment));
    for (segment, taken) in used.iter().zip(1..) {
        segments.get(*segment).taken = taken;
    }
    let log = Log::new(layout, free, last, used.len() as u64);
    Ok(Opened { map, segments, log, disk, torn })
}

fn all_maps(layout: Layout) -> Extent {
    Extent::of_pages(layout.map_page(0, 0), 2 * u64::from(layout.segments()))
}

/// The newer super page that is whole; `None` where there never was one.
async fn read_super(
    bopt: &dyn BlockDevice,
    blank: &Super,
    torn: &mut Vec<u64>,
) -> Result<Option<Super>, IoError> {
    let both = Extent::of_pages(0, 2);
    let bytes = read(bopt, both).await?.to_vec();
    let mut found = Vec::new();
    for at in 0..2 {
        let page = &bytes[at as usize * PAGE..][..PAGE];
        let decoded = Super::decode(at, page).map_err(|found| {
            let why = format!("found a super page of {found}, expected one that this version knows");
            error(ErrorKind::Unsupported, Extent::of_pages(at, 1), why)
        })?;
        if decoded == Found::Torn {
            torn.push(at);
        }
        found.push(decoded);
    }
    let newest = found.iter().filter_map(|found| match found {
        Found::Whole(page) => Some(page),
        _ => None,
    });
    if let Some(newest) = newest.max_by_key(|page| page.generation) {
        if !torn.is_empty() {
            edge("a torn super page: the other counts");
        }
        return check(newest, blank).map(|()| Some(newest.clone()));
    }
    match (&found[0], &found[1]) {
        // The second home is written first: it was never finished. Or what was there was given up.
        (Found::Blank, Found::Torn) | (Found::Blank | Found::Void, Found::Blank | Found::Void) => {
            torn.extend((0..2).filter(|&at| found[at as usize] == Found::Void));
            Ok(None)
        }
        (Found::Foreign, _) | (_, Found::Foreign) => {
            let why =
                "found data that is no BOPT, expected zeroes or a BOPT: clear this area if nobody needs it";
            Err(error(ErrorKind::Invalid, both, why.to_owned()))
        }
        _ => {
            let why = "found no super page that is whole, expected one of the two to be";
            Err(error(ErrorKind::Corrupt, both, why.to_owned()))
        }
    }
}

/// Whether a BOPT is that of this home, and divided as the options say.
fn check(found: &Super, expected: &Super) -> Result<(), IoError> {
    let refuse = |why: String| Err(error(ErrorKind::Invalid, Extent::of_pages(0, 2), why));
    if found.home_sectors != expected.home_sectors {
        return refuse(format!(
            "found the BOPT of a volume of {} sectors, expected one of {} sectors: it belongs to another volume",
            found.home_sectors, expected.home_sectors
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
struct Claim {
    slot: Slot,
    dirty: bool,
    /// Newer claims have higher ones: the run, or the run up to which a map page tells and its generation.
    age: (u64, u64),
}

struct Claims {
    /// Of home.
    pages: u64,
    newest: FxHashMap<u64, Claim>,
}

impl Claims {
    /// A slot is said to hold a page. The segment whose claim does not count is changed by that.
    fn claim(
        &mut self,
        segments: &mut Segments,
        layout: Layout,
        page: u64,
        claim: Claim,
    ) -> Result<(), IoError> {
        if page >= self.pages {
            let why =
                format!("found a copy of page {page}, expected one of the {} pages of home", self.pages);
            return Err(error(ErrorKind::Corrupt, Extent::of_pages(layout.page(claim.slot), 1), why));
        }
        let known = self.newest.get(&page).map(|known| (known.age, known.slot));
        let loser = match known {
            Some((age, _)) if age > claim.age => Some(claim.slot),
            Some((_, slot)) => Some(slot),
            None => None,
        };
        if known.is_none_or(|(age, _)| age < claim.age) {
            self.newest.insert(page, claim);
        }
        if let Some(slot) = loser {
            let segment = segments.get(layout.segment_of(slot).0);
            (segment.changes, segment.stale) = (segment.changes + 1, true);
        }
        Ok(())
    }
}

/// Reads the map pages: of each segment the newer one that is whole.
async fn read_map(
    bopt: &dyn BlockDevice,
    disk: &Super,
    segments: &mut Segments,
    claims: &mut Claims,
    torn: &mut Vec<u64>,
) -> Result<(), IoError> {
    let mut first = 0;
    while first < disk.layout.segments() {
        let some = first..disk.layout.segments().min(first + MAPS_AT_ONCE);
        let part = |home| Extent::of_pages(disk.layout.map_page(first, home), u64::from(some.end - first));
        let homes = [read(bopt, part(0)).await?, read(bopt, part(1)).await?];
        first = some.end;
        homes[0].look(|one| {
            homes[1].look(|other| decode_map([one, other], disk, some, segments, claims, torn))
        })?;
    }
    Ok(())
}

/// The map pages of some segments, in their first home and in the other.
fn decode_map(
    bytes: [&[u8]; 2],
    disk: &Super,
    some: Range<u32>,
    segments: &mut Segments,
    claims: &mut Claims,
    torn: &mut Vec<u64>,
) -> Result<(), IoError> {
    let layout = disk.layout;
    let pages = bytes[0].chunks_exact(PAGE).zip(bytes[1].chunks_exact(PAGE));
    for (segment, (one, other)) in some.zip(pages) {
        let home = |home, bytes| (MapPage::claims(bytes), home, layout.map_page(segment, home), bytes);
        let homes = [home(0, one), home(1, other)];
        let narrow = mutant::is("borg: generations are compared in 8 bits");
        let compared = |generation: u64| if narrow { generation & 0xff } else { generation };
        let decode = |&(_, home, at, bytes): &(u64, u64, u64, &[u8])| {
            let (generation, page) = MapPage::decode(at, disk.identity, segment, layout.segment, bytes)?;
            Some((generation, home, page))
        };
        let (older, newer) = if compared(homes[0].0) < compared(homes[1].0) {
            (&homes[0], &homes[1])
        } else {
            (&homes[1], &homes[0])
        };
        let mut found = decode(newer);
        if found.is_none() {
            edge("a torn map page: its other home counts");
            torn.push(newer.2);
            found = decode(older);
        }
        let (generation, home, page) = found.ok_or_else(|| {
            let why =
                format!("found no whole map page of segment {segment}, expected one of its two homes to be");
            error(ErrorKind::Corrupt, Extent::of_pages(homes[0].2, 1), why)
        })?;
        let entry = segments.get(segment);
        (entry.generation, entry.home, entry.covered, entry.confirmed) =
            (generation, home, page.settled, layout.segment);
        segments.generation = segments.generation.max(generation);
        for (slot, held) in layout.slots_of(segment).zip(page.entries) {
            if let Some((page, dirty)) = held {
                let claim = Claim { slot, dirty, age: (segments.of(segment).covered, generation) };
                claims.claim(segments, layout, page, claim)?;
            }
        }
    }
    Ok(())
}

/// A run that was found.
struct FoundRun {
    sequence: u64,
    at: Slot,
    page: RunPage,
    /// The checksums of its pages, as they are.
    sums: Vec<u32>,
}

/// Finds the runs of a segment from a place on; where the log goes on, and how far into this segment they reach.
fn find_runs(
    bytes: &[u8],
    disk: &Super,
    (segment, mut offset): (u32, u32),
    runs: &mut Vec<FoundRun>,
) -> (u32, u32) {
    let (slots, mut next) = (disk.layout.slots_of(segment), NONE);
    while offset + 2 <= disk.layout.segment {
        let (at, sequence) = (slots.start + offset, disk.anchor.sequence + runs.len() as u64);
        let head = Head { at: disk.layout.page(at), generation: sequence, identity: disk.identity };
        let page = RunPage::decode(&head, &bytes[offset as usize * PAGE..][..PAGE]);
        let Some(page) = page.filter(|page| page.opening == disk.opening) else { break };
        let from = (offset as usize + 1) * PAGE;
        let Some(held) = bytes.get(from..from + page.entries.len() * PAGE) else { break };
        let sums = held.chunks_exact(PAGE).map(crc32c::crc32c).collect();
        offset += 1 + page.entries.len() as u32;
        next = page.next;
        runs.push(FoundRun { sequence, at, page, sums });
    }
    (next, offset)
}

/// Follows the log from its anchor, and returns the number of the last run that counts.
async fn follow(
    bopt: &dyn BlockDevice,
    disk: &Super,
    segments: &mut Segments,
    claims: &mut Claims,
) -> Result<u64, IoError> {
    let layout = disk.layout;
    let mut runs: Vec<FoundRun> = Vec::new();
    let (mut segment, mut offset) = (disk.anchor.segment, disk.anchor.offset);
    let logged = layout.read_cache..layout.segments();
    let mut seen = BTreeSet::new();
    while logged.contains(&segment) && seen.insert(segment) {
        let whole = Extent::of_pages(layout.page(layout.slots_of(segment).start), u64::from(layout.segment));
        let bytes = read(bopt, whole).await?;
        let next;
        (next, offset) = bytes.look(|bytes| find_runs(bytes, disk, (segment, offset), &mut runs));
        if offset + 2 <= layout.segment {
            break;
        }
        (segment, offset) = (next, 0);
    }
    let before = disk.anchor.sequence.saturating_sub(1);
    let confirmed = runs.iter().map(|run| run.page.confirmed).max().unwrap_or(0);
    // What is confirmed, or told by its segment's map page, may have been overwritten in place since.
    let whole = |run: &FoundRun| {
        run.sequence <= confirmed
            || run.sequence <= segments.of(layout.segment_of(run.at).0).covered
            || run.page.entries.iter().zip(&run.sums).all(|((_, told), sum)| told == sum)
    };
    let count = runs.iter().take_while(|run| whole(run)).count();
    if count < runs.len() {
        edge("the log ends with a run that is not whole");
    }
    runs.truncate(count + usize::from(mutant::is("borg: one run more than the log has is replayed")));
    for run in &runs {
        replay(layout, run, segments, claims)?;
    }
    Ok(runs.last().map_or(before, |run| run.sequence))
}

/// What a run says is so, as far as no map page has told it since.
fn replay(
    layout: Layout,
    run: &FoundRun,
    segments: &mut Segments,
    claims: &mut Claims,
) -> Result<(), IoError> {
    let (number, offset) = layout.segment_of(run.at);
    let segment = segments.get(number);
    segment.last_run = run.sequence;
    segment.changes += 1;
    let told = run.sequence <= segment.covered;
    segment.confirmed = if told { segment.confirmed } else { segment.confirmed.min(offset) };
    if told {
        return Ok(());
    }
    edge("a run of the log is replayed");
    for (slot, (page, _)) in (run.at + 1..).zip(&run.page.entries) {
        claims.claim(segments, layout, *page, Claim { slot, dirty: true, age: (run.sequence, 0) })?;
    }
    Ok(())
}
