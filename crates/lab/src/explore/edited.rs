//! An origin that its owner writes while the volume is not served: its file is mounted, checked, or restored.
//!
//! A layer that can be detached, and keeps copies of pages, but no dirty one, promises that the origin is right,
//! whatever was written to it since. Some states are opened once more with sectors of the origin changed, half of the
//! time without a trace in the time of the last write. Each page has to be read as the origin has it; then, after a
//! write of one of them and a clean stop, once more. Most states hold dirty pages, or no copy: before that, some of
//! them make copies and are drained.
//!
//! Not judged while pages are dirty: after a crash nothing distinguishes their old version on the origin from an edit.

use std::collections::BTreeSet;

use seekless_core::runtime::{Rng, Runtime};
use seekless_core::{Buffer, Extent, Hints, PAGE_SECTORS, SECTOR_BYTES};
use seekless_layers::topmost;

use super::image::{Content, Image, mixed};
use super::named::Known;
use super::power::Crash;
use super::restart::{Failure, Opened, Opener, open};
use super::{Explorer, Finding};
use crate::check::{self, SectorContent, Stamp};

/// One in this many states is checked once more.
const ONE_IN: u64 = 8;
/// Of those with dirty pages or without copies, one in this many makes copies, and is drained, before.
const PREPARED: u64 = 8;
/// Of the others without copies, one in this many is checked as it is.
const WITHOUT_COPIES: u64 = 16;
/// Pages of which copies are made, at most.
const COPIED: u64 = 64;
/// Pages that are changed besides those with copies, at most.
const PAGES: u64 = 6;

/// The origin below the topmost layer: a component, and the first sector of the layer's part of it.
#[derive(Clone, Copy)]
struct Origin {
    component: u32,
    first: u64,
}

impl Origin {
    /// The origin, if the topmost layer can be detached, keeps data of its own, and lies on a component or a slice of
    /// one.
    fn of(opener: &Opener) -> Option<Origin> {
        let description = &opener.description;
        let layer = description
            .layers
            .get(&description.top)
            .filter(|layer| layer.entry.transparent && layer.entry.holds_newer)?;
        let [over] = &layer.over[..] else { return None };
        let window = description.slices.get(over);
        let (name, first) = window.map_or((over, 0), |window| (&window.of, window.extent.start.0));
        let component = description.components.keys().position(|component| component == name)?;
        Some(Origin { component: component as u32, first })
    }

    /// Its content in this image of its component.
    fn read(self, image: &Image, at: Extent) -> Buffer {
        let into = Buffer::zeroed(at.bytes());
        image.read(Extent::new(self.first + at.start.0, at.sectors), &into);
        into
    }
}

/// A counter of the topmost layer, if it has it.
fn counter(opened: &Opened, name: &str) -> Option<u64> {
    let layer = opened.topmost.as_ref().and_then(|topmost| topmost.layer())?;
    layer.counters().iter().find(|(counter, _)| *counter == name).map(|(_, value)| *value)
}

/// Whether the topmost layer has no dirty pages.
fn is_clean(opened: &Opened) -> bool {
    counter(opened, "pages_dirty") == Some(0)
}

/// Has the topmost layer copy pages that are read, if it does that, drain and stop; false if that fails.
async fn prepared(opened: &Opened, rng: &mut Rng) -> bool {
    let Some(topmost) = &opened.topmost else { return false };
    let pages = opened.top.geometry().sectors / PAGE_SECTORS;
    let first = rng.below(pages);
    for page in first..(first + 1 + rng.below(COPIED)).min(pages) {
        let at = Extent::of_pages(page, 1);
        let read = opened.top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
        if read.is_err() {
            return false;
        }
    }
    let known = topmost::commands(topmost.entry());
    for command in ["reconfigure", "drain", "stop"].into_iter().filter(|command| known.contains(command)) {
        if topmost.command(command, Hints::default()).await.is_err() {
            return false;
        }
    }
    true
}

impl Explorer<'_> {
    /// Checks some states once more, with an origin that was edited.
    pub(super) fn edited(
        &mut self,
        crash: &Crash,
        images: &dyn Fn() -> Vec<Image>,
        registers: &Known,
    ) -> Result<(), Finding> {
        let Some(seed) = self.edits.as_mut().and_then(|rng| rng.chance(1, ONE_IN).then(|| rng.bits())) else {
            return Ok(());
        };
        let judged = judge(&self.opener, &images(), seed, registers);
        let clean = judged
            .map_err(|failure| self.finding(&failure, Some(Crash { edited: Some(seed), ..crash.clone() })))?;
        self.tally.edited += u64::from(clean);
        Ok(())
    }

    /// Whether states of this volume are checked with an edited origin.
    pub(super) fn can_be_edited(opener: &Opener) -> bool {
        Origin::of(opener).is_some()
    }
}

/// Edits the origin as this seed says, and checks what is read; returns whether no page was dirty.
pub fn judge(opener: &Opener, images: &[Image], seed: u64, registers: &Known) -> Result<bool, Failure> {
    let Some(origin) = Origin::of(opener) else { return Ok(false) };
    // Nothing was created yet, or a sector cannot be read.
    if !registers.has_succeeded() || images.iter().any(Image::has_unreadable) {
        return Ok(false);
    }
    // Another seed than that of the run before, from which layers draw what tells their volumes apart.
    let judged = Runtime::new(mixed(0, seed)).run(look(opener, images, origin, Rng::seeded(seed)));
    judged.map_err(|stalled| Failure::Stalled(stalled.to_string()))?
}

async fn look(opener: &Opener<'_>, images: &[Image], origin: Origin, mut rng: Rng) -> Result<bool, Failure> {
    let mut images = images.to_vec();
    let mut opened = open(opener, &images, None).await?;
    let Some(mapped) = counter(&opened, "pages_mapped") else { return Ok(false) };
    let is_ready = is_clean(&opened) && mapped > 0;
    if !is_ready && rng.chance(1, PREPARED) {
        if !prepared(&opened, &mut rng).await {
            return Ok(false);
        }
        images = opened.images();
        opened = open(opener, &images, None).await?;
    } else if !is_ready && !rng.chance(1, WITHOUT_COPIES) {
        return Ok(false);
    }
    if !is_clean(&opened) {
        return Ok(false);
    }
    let sectors = opened.top.geometry().sectors;
    let copied = copied(&images, origin, sectors);
    edit(&mut images, &copied, (origin, sectors), &mut rng);
    drop(opened);
    let component = origin.component as usize;
    let opened = open(opener, &images, None).await?;
    // Copies that were read have been compared with the origin; the others have not, and a stop has to know.
    if rng.chance(1, 2) {
        read_all(&opened, &images[component], origin).await?;
    }
    let mut expected = images[component].clone();
    if rng.chance(2, 3) {
        write_a_page(&opened, &mut expected, origin, &mut rng).await?;
    }
    if let Some(topmost) = &opened.topmost {
        let stopped = topmost.command("stop", Hints::default()).await;
        stopped.map_err(|error| Failure::Command { name: "stop", error })?;
    }
    let after = opened.images();
    // The layer's own area may be on the same component.
    let kept = |sector: &u64| {
        let [before, now, then] = [&images[component], &after[component], &expected]
            .map(|image| image.content(origin.first + *sector).unwrap_or(&Content::Zero));
        now == before || now == then
    };
    if let Some(sector) = (0..opened.top.geometry().sectors).find(|sector| !kept(sector)) {
        return Err(Failure::Edited(format!("sector {sector} of it was overwritten")));
    }
    read_all(&open(opener, &after, None).await?, &expected, origin).await?;
    Ok(true)
}

/// Writes a page as a client.
async fn write_a_page(
    opened: &Opened,
    expected: &mut Image,
    origin: Origin,
    rng: &mut Rng,
) -> Result<(), Failure> {
    let sectors = opened.top.geometry().sectors;
    let first = rng.below(sectors.div_ceil(PAGE_SECTORS)) * PAGE_SECTORS;
    let at = Extent::new(first, PAGE_SECTORS.min(sectors - first));
    let contents: Vec<Content> = (0..at.sectors).map(|_| stamp(rng)).collect();
    expected.put(origin.first + first, &contents, |_| true);
    let buffer = origin.read(expected, at);
    let written = opened.top.write(at, buffer, Hints::default()).await;
    written.map_err(|error| Failure::Edited(format!("writing {at}: {error}")))
}

/// Content that no client has written.
fn stamp(rng: &mut Rng) -> Content {
    Content::Stamp((u128::from(rng.bits()) << 64 | 1).to_be_bytes())
}

/// The pages of which some sector has the same content elsewhere: a copy, or what is left of one.
fn copied(images: &[Image], origin: Origin, sectors: u64) -> Vec<u64> {
    let home = origin.first..origin.first + sectors;
    let mut pages = BTreeSet::new();
    for (component, image) in (0..).zip(images) {
        let elsewhere = |sector: &u64| component != origin.component || !home.contains(sector);
        for content in
            image.used_sectors(true).into_iter().filter(elsewhere).filter_map(|at| image.content(at))
        {
            let Content::Stamp(bytes) = content else { continue };
            let SectorContent::Stamp(Stamp { sector, .. }) = SectorContent::of(bytes) else { continue };
            let at_home = images[origin.component as usize].content(origin.first + sector);
            if sector < sectors && at_home == Some(content) {
                pages.insert(sector / PAGE_SECTORS);
            }
        }
    }
    pages.into_iter().collect()
}

/// Changes half of the pages of the origin that have a copy, and a few others.
fn edit(images: &mut [Image], copied: &[u64], (origin, sectors): (Origin, u64), rng: &mut Rng) {
    let keeps_time = rng.chance(1, 2);
    let mut pages: Vec<u64> = copied.iter().copied().filter(|_| rng.chance(1, 2)).collect();
    pages.extend((0..=rng.below(PAGES)).map(|_| rng.below(sectors.div_ceil(PAGE_SECTORS))));
    for page in pages {
        let page = page * PAGE_SECTORS;
        let first = page + rng.below(PAGE_SECTORS.min(sectors - page));
        let end = first + 1 + rng.below((page + PAGE_SECTORS).min(sectors) - first);
        let contents: Vec<Content> = (first..end).map(|_| stamp(rng)).collect();
        images[origin.component as usize].edit(origin.first + first, &contents, keeps_time);
    }
}

/// What is in a sector.
fn named(sector: &Buffer) -> String {
    let mut name = String::new();
    check::classify(sector, |_, content| {
        name = match content {
            SectorContent::Zeroes => "zeroes".to_owned(),
            SectorContent::Stamp(stamp) => format!("write {}", stamp.write),
            SectorContent::Foreign => "what its owner wrote".to_owned(),
        }
    });
    name
}

/// The first sector in which buffers of the same length differ.
fn first_difference(one: &Buffer, other: &Buffer) -> Option<usize> {
    const SECTOR: usize = SECTOR_BYTES as usize;
    one.look(|one| {
        other.look(|other| one.chunks(SECTOR).zip(other.chunks(SECTOR)).position(|(one, other)| one != other))
    })
}

/// Reads every page, which has to be as the origin has it.
async fn read_all(opened: &Opened, expected: &Image, origin: Origin) -> Result<(), Failure> {
    /// Sectors of a read.
    const AT_ONCE: u64 = 256;
    let sectors = opened.top.geometry().sectors;
    for start in (0..sectors).step_by(AT_ONCE as usize) {
        let at = Extent::new(start, AT_ONCE.min(sectors - start));
        let read = opened.top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
        let read = read.map_err(|error| Failure::Edited(format!("reading {at}: {error}")))?;
        let expected = origin.read(expected, at);
        if let Some(index) = first_difference(&read, &expected) {
            let (found, expected) =
                (read.cut_sectors(index as u64, 1), expected.cut_sectors(index as u64, 1));
            let (found, expected) = (named(&found), named(&expected));
            let sector = start + index as u64;
            return Err(Failure::Edited(format!("sector {sector}: found {found}, expected {expected}")));
        }
    }
    Ok(())
}
