//! Opening a volume, and creating one.
//!
//! Faults: a creation that ends early leaves the mark of that on flash, or a blank super page, and is done again; the
//! map is read whole, and a page of which both copies are unusable is an error that names the sector.

use std::rc::Rc;

use seekless_core::runtime::{self, edge, first_number};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, SECTOR_BYTES, Zeroes,
};

use super::Options;
use super::anchor::{Anchor, CurrentAnchor};
use super::format::{self, ENTRIES, LABEL_PAGES, NONE, Shape};
use super::map::Map;
use super::pairs::counted;
use super::ranges::Ranges;
use super::super_page::{self, Snapshots, Super};
use crate::canary::Canary;
use crate::durable::session::{self, FIRST, Number, Side};
use crate::durable::{Choice, CopyState, Pair, region};

/// Pages of the map that are read at once: 4 MiB.
const READ_AT_ONCE: u64 = 512;

/// State of a volume, read from its devices.
pub struct Opened {
    pub page: Super,
    /// The current copy of the super page, its generation, and whether the other copy holds it too.
    pub current: (usize, u64, bool),
    /// The newest generation of any of its sectors: a torn copy has a newer one than the current copy.
    pub newest: u64,
    pub map: Map,
    pub ranges: Ranges,
    /// The anchor of copies on the data device, if there are any.
    pub anchor: Option<CurrentAnchor>,
    /// Whether the volume is new.
    pub is_new: bool,
    /// The newest number of a session on either device.
    pub session: u64,
    /// Whether both copies of the super page were written.
    pub super_written: bool,
}

fn failed(kind: ErrorKind, at: Option<Extent>, why: String) -> IoError {
    IoError::new(kind, "proximal", at, why)
}

/// Reads the volume; with `create`, flash that has none gets a new one.
pub async fn open(
    data: &Rc<dyn BlockDevice>,
    flash: &Rc<dyn BlockDevice>,
    options: &Options,
    create: bool,
    timing_only: bool,
) -> Result<Opened, IoError> {
    let (both, _) = region::read_damaged(&**flash, Extent::of_pages(0, 2)).await?;
    let pair = both.look(|bytes| {
        let (one, other) = bytes.split_at(PAGE_BYTES as usize);
        Pair::of(super_page::part(), [(format::super_at(0), one), (format::super_at(1), other)])
    });
    let copy = match pair.choose() {
        Choice::Copy(copy) => copy,
        Choice::Blank if create => return new(data, flash, options, timing_only).await,
        Choice::Blank => {
            let why = "found a flash device without a volume, expected the one that was created with the data device; \
                       if there never was one: seekless volume create";
            let lost =
                "; if it is lost: seekless volume repair makes another from the copies on the data device";
            let has_copies = anchor_of(&**data).await.is_ok_and(|found| found.is_ok());
            let why = format!("{why}{}", if has_copies { lost } else { "" });
            return Err(failed(ErrorKind::Invalid, Some(format::super_at(0)), why));
        }
        Choice::Refused(sector, _) => {
            let why = "found a sector of the super page that is not as it was written, expected it whole";
            return Err(failed(
                ErrorKind::Corrupt,
                Some(Extent { start: sector, sectors: 1 }),
                why.to_owned(),
            ));
        }
        Choice::Neither => {
            let why = "found no super page that is whole, expected one of two".to_owned();
            return Err(failed(ErrorKind::Corrupt, Some(Extent::of_pages(0, 2)), why));
        }
    };
    let at = format::super_at(copy);
    let found = both.cut_sectors(at.start.0, at.sectors).look(Super::decode);
    let page = found.map_err(|found| {
        let why = format!("found {found}, expected a volume of this version");
        failed(ErrorKind::Corrupt, Some(at), why)
    })?;
    fits(&**data, &**flash, &page.shape)?;
    let session = check_session(&**data, &page, &pair).await?;
    let (mut map, ranges) = read_map(&**flash, &page, options).await?;
    let anchor = if page.shape.copies {
        let found = read_anchor(&**data, &page, map.pages.newest()).await?;
        // Commits without a page may have had this generation.
        map.pages.counted_up_to(found.2.covers[found.2.area]);
        Some(found)
    } else {
        None
    };
    let newest = pair.newest();
    let current = (copy, pair.copies[copy].newest().unwrap_or(newest), pair.copies[0] == pair.copies[1]);
    let super_written = pair.is_written;
    Ok(Opened { page, current, newest, map, ranges, anchor, is_new: false, session, super_written })
}

/// The label of the data device is this volume's, and neither device has old contents. Returns the newest number of a
/// session.
async fn check_session(data: &dyn BlockDevice, page: &Super, pair: &Pair) -> Result<u64, IoError> {
    let on_data = label_session(data, page.identity).await?;
    let is_rotten = |copy: &CopyState| matches!(copy, CopyState::Rotten(..));
    let on_flash = Number::of(page.session, pair.copies.iter().any(is_rotten));
    // Programs that know no sessions do not keep the number on flash.
    let side = if page.session == 0 { None } else { session::old(on_flash, on_data) };
    let key = match side {
        None => return Ok(on_flash.most.max(on_data.most)),
        Some(Side::First) => "flash",
        Some(Side::Second) => "over",
    };
    let why = format!(
        "{key}: found old contents, from before the last time that the volume was written, expected those that belong to \
         the other device"
    );
    Err(failed(ErrorKind::Invalid, None, why))
}

/// The number of the last session in the label of the data device.
///
/// # Errors
/// It is not that of this volume.
pub async fn label_session(data: &dyn BlockDevice, identity: u128) -> Result<Number, IoError> {
    let at = Extent::of_pages(0, LABEL_PAGES);
    let (label, _) = region::read_damaged(data, at).await?;
    if label.look(|bytes| format::is_label(bytes, identity)) {
        return Ok(label.look(|bytes| format::session(bytes, identity)));
    }
    let why = "over: found a data device without this volume's label, expected the one that was created with the \
               flash device";
    Err(failed(ErrorKind::Invalid, Some(at), why.to_owned()))
}

/// Whether the devices are as large as the volume.
pub fn fits(data: &dyn BlockDevice, flash: &dyn BlockDevice, shape: &Shape) -> Result<(), IoError> {
    for (key, device, pages) in [("over", data, shape.blocks()), ("flash", flash, shape.staging() + 1)] {
        let (found, expected) = (device.geometry().sectors, Extent::of_pages(0, pages).sectors);
        if found < expected {
            let why = format!("{key}: found a device of {found} sectors, expected at least {expected}");
            return Err(failed(ErrorKind::Invalid, None, why));
        }
    }
    Ok(())
}

/// Begins to create a volume: an empty map, and the label. There is none before its super page ([`write_super`]).
async fn new(
    data: &Rc<dyn BlockDevice>,
    flash: &Rc<dyn BlockDevice>,
    options: &Options,
    timing_only: bool,
) -> Result<Opened, IoError> {
    let shape = options
        .shape(data.geometry().sectors)
        .map_err(|refused| failed(ErrorKind::Invalid, None, refused.to_string()))?;
    fits(&**data, &**flash, &shape)?;
    edge("a new volume");
    if !timing_only {
        // The super page of another volume would count. The first page is blank, or marks the creation as unfinished.
        flash.write_zeroes(format::super_at(1), Hints::default(), Zeroes::default()).await?;
        flash.flush(Hints::default()).await?;
    }
    let identity = {
        let mut rng = runtime::rng("proximal identity");
        (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1)
    };
    let how = Hints::default();
    let label = Buffer::from_vec(format::encode_label(identity, FIRST));
    data.write(Extent::of_pages(0, LABEL_PAGES), label, how.clone()).await?;
    data.flush(how.clone()).await?;
    let ranges = Ranges::new(shape.range, shape.ranges, options.span, shape.reserved());
    let page = Super { shape, identity, committed: 0, session: FIRST, snapshots: Snapshots::default() };
    let (mut map, newest) = (Map::new(&shape), first_number());
    if !timing_only {
        // In a generation of a commit that counts by itself.
        write_map(&**flash, &map, &page, newest / 2 * 2).await?;
    }
    let anchor = if shape.copies { Some(new_anchor(&**data, &page, timing_only).await?) } else { None };
    if let Some((.., anchor)) = &anchor {
        map.pages.counted_up_to(anchor.covers[anchor.area]);
    }
    Ok(Opened {
        page,
        current: (0, newest, true),
        newest,
        map,
        ranges,
        anchor,
        is_new: true,
        session: FIRST,
        super_written: true,
    })
}

/// Writes both copies of all pages of the map and of records, and flushes: from now on none of their sectors is blank.
pub async fn write_map(
    flash: &dyn BlockDevice,
    map: &Map,
    page: &Super,
    generation: u64,
) -> Result<(), IoError> {
    let pairs = page.shape.pairs();
    for first in (0..pairs).step_by(READ_AT_ONCE as usize / 2) {
        let last = (first + READ_AT_ONCE / 2).min(pairs) - 1;
        let (start, end) = (format::map_pair(first).start, format::map_pair(last).end());
        let bytes = Buffer::zeroed((end.0 - start.0) * SECTOR_BYTES);
        for number in first..=last {
            for copy in 0..2 {
                let at = format::map_at(number, copy);
                let encoded = map.encode_at(number, at.start, generation, page.identity);
                encoded.look(|encoded| bytes.put(((at.start.0 - start.0) * SECTOR_BYTES) as usize, encoded));
            }
        }
        let at = Extent { start, sectors: end.0 - start.0 };
        region::write(flash, at, &bytes, &Hints::default()).await?;
    }
    flash.flush(Hints::default()).await
}

/// Reads the anchor of copies. Without one that is whole, all copies are written anew.
async fn read_anchor(data: &dyn BlockDevice, page: &Super, newest: u64) -> Result<CurrentAnchor, IoError> {
    match anchor_of(data).await? {
        Ok(found) if (found.2.page.identity, found.2.page.shape) == (page.identity, page.shape) => Ok(found),
        Ok(_) => {
            let why =
                "found the anchor of another volume, expected the one that was created with the flash device";
            Err(failed(ErrorKind::Corrupt, Some(anchors()), why.to_owned()))
        }
        Err((_, generation)) => {
            edge("no anchor is whole: all copies are written anew");
            Ok((0, generation, Anchor::unknown(page.clone(), newest)))
        }
    }
}

/// Both slots of the anchor.
fn anchors() -> Extent {
    Extent { sectors: 2 * format::anchor_at(0).sectors, ..format::anchor_at(0) }
}

/// The anchor of a data device, or what was found instead and the newest generation of any sector of it.
pub async fn anchor_of(data: &dyn BlockDevice) -> Result<Result<CurrentAnchor, (String, u64)>, IoError> {
    if data.geometry().sectors < anchors().end().0 {
        return Ok(Err((format!("a device of {} sectors", data.geometry().sectors), 0)));
    }
    let (both, _) = region::read_damaged(data, anchors()).await?;
    Ok(both.look(|bytes| {
        let (one, other) = bytes.split_at(PAGE_BYTES as usize);
        Anchor::find([one, other])
    }))
}

/// Prepares both areas of copies of a new volume, and writes the anchor in both slots.
async fn new_anchor(
    data: &dyn BlockDevice,
    page: &Super,
    timing_only: bool,
) -> Result<CurrentAnchor, IoError> {
    let how = Hints::default();
    if !timing_only {
        // Copies of another volume would be taken for rotten ones of this.
        let areas = Extent::of_pages(LABEL_PAGES, page.shape.reserved() - LABEL_PAGES);
        for part in areas.split(data.geometry().largest_sectors) {
            data.write_zeroes(part, how.clone(), Zeroes::default()).await?;
        }
        data.flush(how.clone()).await?;
    }
    let anchor = Anchor::new(page.clone(), first_number());
    for slot in [1, 0] {
        let bytes = Buffer::from_vec(anchor.encode(slot, first_number()));
        data.write(format::anchor_at(slot), bytes, how.clone()).await?;
    }
    data.flush(how).await?;
    Ok((0, first_number(), anchor))
}

/// Writes the super page of a new volume in both copies, the one in place of the mark last: from now on there is a
/// volume.
pub async fn write_super(flash: &dyn BlockDevice, page: &Super) -> Result<(), IoError> {
    let how = Hints::default();
    for copy in [1, 0] {
        let bytes = page.encode(copy, first_number(), false);
        flash.write(format::super_at(copy), Buffer::from_vec(bytes), how.clone()).await?;
        flash.flush(how.clone()).await?;
    }
    Ok(())
}

/// Reads the map and the records, and derives the free blocks from them.
async fn read_map(
    flash: &dyn BlockDevice,
    page: &Super,
    options: &Options,
) -> Result<(Map, Ranges), IoError> {
    let Super { shape, .. } = page;
    let (mut map, ranges) =
        (Map::new(shape), Ranges::new(shape.range, shape.ranges, options.span, shape.reserved()));
    if shape.records > 0 {
        map.pages.counted_up_to(page.committed);
    }
    let mut reading = Reading { page, map, ranges, canary: options.canary() };
    for first in (0..shape.pairs()).step_by(READ_AT_ONCE as usize / 2) {
        let last = (first + READ_AT_ONCE / 2).min(shape.pairs()) - 1;
        let (start, end) = (format::map_pair(first).start, format::map_pair(last).end());
        let (bytes, _) = region::read_damaged(flash, Extent { start, sectors: end.0 - start.0 }).await?;
        bytes.look(|bytes| {
            let mut pairs = bytes.chunks(2 * PAGE_BYTES as usize).zip(first..);
            pairs.try_for_each(|(pair, number)| reading.read_pair(number, pair))
        })?;
    }
    Ok((reading.map, reading.ranges))
}

/// Reads the map and the records from the current area of copies.
pub async fn read_copies(
    data: &dyn BlockDevice,
    anchor: &Anchor,
    options: &Options,
) -> Result<(Map, Ranges), IoError> {
    let page = &anchor.page;
    let shape = &page.shape;
    let ranges = Ranges::new(shape.range, shape.ranges, options.span, shape.reserved());
    let mut reading = Reading { page, map: Map::new(shape), ranges, canary: options.canary() };
    for first in (0..shape.pairs()).step_by(READ_AT_ONCE as usize) {
        let pages = READ_AT_ONCE.min(shape.pairs() - first);
        let at = Extent {
            sectors: Extent::of_pages(0, pages).sectors,
            ..format::copy_at(shape, anchor.area, first)
        };
        let (bytes, _) = region::read_damaged(data, at).await?;
        bytes.look(|bytes| {
            let mut pages = bytes.chunks(PAGE_BYTES as usize).zip(first..);
            pages.try_for_each(|(bytes, number)| reading.read_copy((anchor.area, number), bytes))
        })?;
    }
    Ok((reading.map, reading.ranges))
}

/// The map as far as it has been read.
struct Reading<'a> {
    page: &'a Super,
    map: Map,
    ranges: Ranges,
    canary: Canary,
}

impl Reading<'_> {
    /// Reads both copies of a page of the map, or of records.
    fn read_pair(&mut self, number: u64, bytes: &[u8]) -> Result<(), IoError> {
        let corrupt = |at: Extent, why: &str| Err(failed(ErrorKind::Corrupt, Some(at), why.to_owned()));
        let copies: Vec<&[u8]> = bytes.chunks(PAGE_BYTES as usize).collect();
        let Super { shape, identity, committed, .. } = self.page;
        let is_map = number < shape.maps;
        let part = if is_map { format::map_part(*identity) } else { format::records_part(*identity) };
        let committed = if self.canary.is("part of a commit counts") { u64::MAX } else { *committed };
        let at = |copy: usize| (format::map_at(number, copy), copies[copy]);
        let mut pair = Pair::of(part, [at(0), at(1)]);
        let mut outdone = false;
        for copy in &mut pair.copies {
            let (state, is_outdone) = counted(copy.clone(), committed);
            outdone |= is_outdone;
            *copy = state;
        }
        if outdone {
            edge("a page of a commit that did not end: its other copy counts");
            // It has to be overwritten before the next such commit ends.
            self.map.pages.change(number);
        }
        let copy = match pair.choose() {
            Choice::Copy(copy) => copy,
            Choice::Blank => {
                self.map.pages.found(number, &pair, None);
                return Ok(());
            }
            Choice::Refused(sector, _) => {
                let why = "found a sector of the map that is not as it was written, expected it whole: what was flushed \
                           last may be lost";
                return corrupt(Extent { start: sector, sectors: 1 }, why);
            }
            Choice::Neither => {
                let why = "found no copy of this map page that is whole, expected one of two";
                return corrupt(format::map_pair(number), why);
            }
        };
        let torn = matches!(pair.copies[1 - copy], CopyState::Torn(_) | CopyState::Rotten(..)) && !outdone;
        if torn {
            edge("a torn copy of a map page: the other counts");
        }
        let copy = if torn && self.canary.is("torn metadata accepted") { 1 - copy } else { copy };
        let at = format::map_at(number, copy);
        self.map.pages.found(number, &pair, Some(copy));
        if is_map {
            self.read_map_page(number, copies[copy], at)
        } else {
            self.read_records(number, copies[copy], at)
        }
    }

    /// Reads the copy of a page of the map, or of records, in an area of the data device.
    fn read_copy(&mut self, (area, number): (usize, u64), bytes: &[u8]) -> Result<(), IoError> {
        let Super { shape, identity, committed, .. } = self.page;
        let is_map = number < shape.maps;
        let part = if is_map { format::map_part(*identity) } else { format::records_part(*identity) };
        let at = format::copy_at(shape, area, number);
        let state = CopyState::of(part, at, bytes);
        match state {
            CopyState::Blank => Ok(()),
            CopyState::Whole(generation) if generation <= *committed && is_map => {
                self.read_map_page(number, bytes, at)
            }
            CopyState::Whole(generation) if generation <= *committed => self.read_records(number, bytes, at),
            _ => {
                let why = "found a copy of a map page that is not as it was written, expected it whole";
                Err(failed(ErrorKind::Corrupt, Some(at), why.to_owned()))
            }
        }
    }

    fn read_map_page(&mut self, number: u64, bytes: &[u8], at: Extent) -> Result<(), IoError> {
        let leaf = format::decode_map(bytes);
        let pages = number * ENTRIES as u64..self.page.shape.pages;
        for (page, &block) in pages.zip(leaf.iter()).filter(|(_, block)| **block != NONE) {
            self.take(page, block, at)?;
        }
        self.map.set(number, leaf);
        Ok(())
    }

    fn read_records(&mut self, number: u64, bytes: &[u8], at: Extent) -> Result<(), IoError> {
        let Super { shape, snapshots, .. } = self.page;
        for record in format::decode_records(bytes) {
            let ends = snapshots.all.iter().any(|snapshot| snapshot.number == record.last);
            let known = ends || snapshots.base(record.last).is_some();
            let fits = known && u64::from(record.page) < shape.pages;
            if !fits || !self.map.records.found(record, (number - shape.maps) as u32) {
                let why = format!(
                    "found {record:?}, expected one of a page and a snapshot or clone, and no other of both"
                );
                return Err(failed(ErrorKind::Corrupt, Some(at), why));
            }
            if record.block != NONE {
                self.take(u64::from(record.page), record.block, at)?;
            }
        }
        Ok(())
    }

    /// Takes the block of a page.
    fn take(&mut self, page: u64, block: u32, at: Extent) -> Result<(), IoError> {
        let block = u64::from(block);
        if block >= self.page.shape.blocks() || !self.ranges.is_free(block) {
            let why = format!("found page {page} in block {block}, expected a block of its own");
            return Err(failed(ErrorKind::Corrupt, Some(at), why));
        }
        self.ranges.take(block);
        Ok(())
    }
}
