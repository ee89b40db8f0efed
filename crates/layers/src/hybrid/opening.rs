//! Creating a volume, and opening one.
//!
//! Faults: a creation that ends early leaves the mark of that on the fast device, and is done again. Of a sector of the map
//! the newer whole copy counts, and is written over the other one; if neither is whole, that is an error that names it.

use seekless_core::runtime::{self, edge};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS};

use super::Options;
use super::format::{self, ENTRIES, Shape};
use crate::canary::Canary;
use crate::durable::sector::Sector;
use crate::durable::{Choice, CopyState, Pair, not_created, region};

/// State of a volume, read from its devices.
pub struct Opened {
    pub shape: Shape,
    pub identity: u128,
    /// The slot of each unit.
    pub slots: Vec<u32>,
    /// The newest generation of a sector of the map.
    pub generation: u64,
}

fn failed(kind: ErrorKind, at: Option<Extent>, why: impl Into<String>) -> IoError {
    IoError::new(kind, "hybrid", at, why.into())
}

/// Reads the volume; with `create`, a fast device that has none gets a new one.
pub async fn open(
    fast: &dyn BlockDevice,
    over: &dyn BlockDevice,
    options: &Options,
    create: bool,
    timing_only: bool,
) -> Result<Opened, IoError> {
    let both = region::read(fast, Extent::of_pages(0, 2)).await?;
    let copy = |copy: u64| both.cut_sectors(copy * PAGE_SECTORS, PAGE_SECTORS);
    let state = |number| {
        copy(number).look(|bytes| CopyState::of(format::super_part(), format::super_at(number), bytes))
    };
    let pair = Pair([state(0), state(1)]);
    let which = match pair.choose() {
        Choice::Copy(which) => which as u64,
        // Or sectors of a creation that did not end, and of this one, could make up a copy that seems whole.
        Choice::Blank if create => return new(fast, over, options, timing_only, pair.newest() + 1).await,
        Choice::Blank => return Err(not_created("hybrid", format::super_at(0))),
        Choice::Refused(..) | Choice::Neither => {
            let why = "found no super page that is whole, expected one of two";
            return Err(failed(ErrorKind::Corrupt, Some(Extent::of_pages(0, 2)), why));
        }
    };
    let (shape, identity) = copy(which).look(format::decode_super).map_err(|found| {
        let why = format!("found {found}, expected one of this version");
        failed(ErrorKind::Corrupt, Some(format::super_at(which)), why)
    })?;
    let (least_fast, least_over) = shape.least_sectors();
    for (key, device, expected) in [("fast", fast, least_fast), ("over", over, least_over)] {
        let found = device.geometry().sectors;
        if found < expected {
            let why = format!("{key}: found a device of {found} sectors, expected at least {expected}");
            return Err(failed(ErrorKind::Invalid, None, why));
        }
    }
    let label = region::read(over, Extent::of_pages(0, 1)).await?;
    if !label.look(|bytes| format::is_label(bytes, identity)) {
        let why = "found a device without this volume's label, expected the one that was created with the fast device";
        return Err(failed(ErrorKind::Invalid, Some(Extent::of_pages(0, 1)), why));
    }
    let (slots, generation) = read_map(fast, &shape, identity, &options.canary()).await?;
    Ok(Opened { shape, identity, slots, generation })
}

/// Creates a volume: the label, the map in both copies, and last the super page.
async fn new(
    fast: &dyn BlockDevice,
    over: &dyn BlockDevice,
    options: &Options,
    timing_only: bool,
    super_generation: u64,
) -> Result<Opened, IoError> {
    let shape = options
        .shape(fast.geometry().sectors, over.geometry().sectors)
        .map_err(|refused| failed(ErrorKind::Invalid, None, refused.to_string()))?;
    let identity = {
        let mut rng = runtime::rng("hybrid identity");
        (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1)
    };
    let how = Hints::default();
    over.write(Extent::of_pages(0, 1), Buffer::from_vec(format::encode_label(identity)), how.clone()).await?;
    over.flush(how.clone()).await?;
    let slots: Vec<u32> = (0..shape.units()).map(|unit| shape.first_slot(unit)).collect();
    let generation = 1;
    // Runs that only measure time never open it again.
    for copy in (0..2).filter(|_| !timing_only) {
        let sectors = slots.chunks(ENTRIES).zip(0..).map(|(slots, sector)| {
            format::encode_map(slots, identity, shape.map_at(copy, sector), generation)
        });
        let bytes = Buffer::from_vec(sectors.flatten().collect());
        let at = Extent { start: shape.map_at(copy, 0), sectors: shape.map_sectors() };
        region::write(fast, at, &bytes, &how).await?;
    }
    fast.flush(how.clone()).await?;
    // The first copy is in place of the mark of an unfinished creation.
    for copy in [1, 0] {
        let page = Buffer::from_vec(format::encode_super(&shape, identity, copy, super_generation));
        fast.write(format::super_at(copy), page, how.clone()).await?;
        fast.flush(how.clone()).await?;
    }
    Ok(Opened { shape, identity, slots, generation })
}

/// Reads the slots of all units, and the newest generation.
async fn read_map(
    fast: &dyn BlockDevice,
    shape: &Shape,
    identity: u128,
    canary: &Canary,
) -> Result<(Vec<u32>, u64), IoError> {
    let (part, sectors, how) = (format::map_part(identity), shape.map_sectors(), Hints::default());
    let copy = |copy| Extent { start: shape.map_at(copy, 0), sectors };
    let bytes = [region::read(fast, copy(0)).await?, region::read(fast, copy(1)).await?];
    let (mut slots, mut newest) = (Vec::with_capacity(shape.units() as usize), 1);
    let mut used = vec![false; (shape.fast + shape.slow) as usize];
    for sector in 0..sectors {
        let copies = bytes.each_ref().map(|bytes| bytes.cut_sectors(sector, 1));
        let at = [shape.map_at(0, sector), shape.map_at(1, sector)];
        let whole = [0, 1].map(|which| match copies[which].look(|bytes| part.look(at[which], bytes)) {
            Sector::Whole(generation) => Some(generation),
            Sector::Blank | Sector::Rotten => None,
        });
        let place = Extent { start: at[0], sectors: 1 };
        let Some(generation) = whole[0].max(whole[1]) else {
            let why = "found no copy of this sector of the map that is whole, expected one of two";
            return Err(failed(ErrorKind::Corrupt, Some(place), why));
        };
        newest = newest.max(generation);
        let which = usize::from(whole[0] != Some(generation));
        let units = (shape.units() as usize - slots.len()).min(ENTRIES);
        let found = copies[which].look(|bytes| format::decode_map(bytes, units));
        for slot in &found {
            let free = used.get_mut(*slot as usize).filter(|used| !**used);
            let Some(free) = free else {
                let why = format!("found a unit in slot {slot}, expected a slot of its own");
                return Err(failed(ErrorKind::Corrupt, Some(place), why));
            };
            *free = true;
        }
        if whole[0] != whole[1] {
            edge("the copies of a sector of the map differ: the newer one counts");
            let other = at[1 - which];
            let same = Buffer::from_vec(format::encode_map(&found, identity, other, generation));
            fast.write(Extent { start: other, sectors: 1 }, same, how.clone()).await?;
        }
        slots.extend(found);
    }
    // The map may not be durable, if the process ended before it was flushed: only a durable one frees slots.
    if !canary.is("unflushed opening") {
        fast.flush(how).await?;
    }
    Ok((slots, newest))
}
