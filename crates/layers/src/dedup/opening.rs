//! Creating a volume, and opening one.
//!
//! Faults: a creation that ends early leaves the mark of that on the device, and is done again.

use std::rc::Rc;

use seekless_core::runtime;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS};

use super::format::{self, NOWHERE, Shape};
use super::map::Map;
use super::options::Options;
use crate::canary::Canary;
use crate::durable::table::Table;
use crate::durable::{Choice, Pair, not_created, region};

/// State of a volume, read from its device.
pub struct Opened {
    pub identity: u128,
    pub map: Map,
}

fn failed(kind: ErrorKind, at: Option<Extent>, why: impl Into<String>) -> IoError {
    IoError::new(kind, "dedup", at, why.into())
}

/// Reads the volume; with `create`, a device that has none gets a new one.
///
/// # Errors
/// `Invalid` for a device that is too small or was not initialised, `Corrupt` for damaged metadata, and the device's.
pub async fn open(
    below: &Rc<dyn BlockDevice>,
    options: &Options,
    (create, timing_only): (bool, bool),
    canary: &Canary,
) -> Result<Opened, IoError> {
    let below = &**below;
    let (both, _) = region::read_damaged(below, Extent::of_pages(0, 2)).await?;
    let copy = |copy: u64| both.cut_sectors(copy * PAGE_SECTORS, PAGE_SECTORS);
    let pair = copy(0).look(|one| {
        let one = (format::super_at(0), one);
        copy(1).look(|other| Pair::of(format::super_part(), [one, (format::super_at(1), other)]))
    });
    let which = match pair.choose() {
        // Both super pages hold the same: they are written once.
        Choice::Copy(which) | Choice::Refused(_, Some(which)) => which as u64,
        // Or sectors of a creation that did not end, and of this one, could make up a copy that seems whole.
        Choice::Blank if create => {
            return new_volume(below, options, timing_only, pair.newest() + 1).await;
        }
        Choice::Blank => return Err(not_created("dedup", format::super_at(0))),
        Choice::Refused(_, None) | Choice::Neither => {
            let why = "found no super page that is whole, expected one of two";
            return Err(failed(ErrorKind::Corrupt, Some(Extent::of_pages(0, 2)), why));
        }
    };
    let (shape, identity) = copy(which).look(format::decode_super).map_err(|found| {
        let why = format!("found {found}, expected one of this version");
        failed(ErrorKind::Corrupt, Some(format::super_at(which)), why)
    })?;
    let (found, expected) = (below.geometry().sectors, shape.least_sectors());
    if found < expected {
        let why = format!("over: found a device of {found} sectors, expected at least {expected}");
        return Err(failed(ErrorKind::Invalid, None, why));
    }
    check_size(options, &shape)?;
    let table = Table::open(below, shape.site(identity)).await?;
    let map = Map::of(shape, table)?;
    // The map may not be durable, if the process ended before it was flushed: only a durable one frees pieces.
    if !canary.is("unflushed opening") {
        below.flush(Hints::default()).await?;
    }
    Ok(Opened { identity, map })
}

/// A size in the volume file is that of the volume: clients would miss a part of it, or see more.
fn check_size(options: &Options, shape: &Shape) -> Result<(), IoError> {
    let Some(size) = options.size else { return Ok(()) };
    let (found, there) = (size.0, shape.pages * seekless_core::PAGE_BYTES);
    if found == there {
        return Ok(());
    }
    let why = format!("size: found {found} bytes, expected those of the volume's creation, {there}");
    Err(failed(ErrorKind::Invalid, None, why))
}

/// Creates a volume: the map in both copies, and then the super page.
async fn new_volume(
    below: &dyn BlockDevice,
    options: &Options,
    timing_only: bool,
    super_generation: u64,
) -> Result<Opened, IoError> {
    let shape = options.shape(below.geometry().sectors);
    let shape = shape.map_err(|refused| failed(ErrorKind::Invalid, None, refused.to_string()))?;
    let identity = {
        let mut rng = runtime::rng("dedup identity");
        (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1)
    };
    let numbers = NOWHERE.repeat(shape.pages as usize);
    // Runs that only measure time never open it again.
    let table = Table::create(below, shape.site(identity), numbers, timing_only).await?;
    let how = Hints::default();
    below.flush(how.clone()).await?;
    // The first copy is in place of the mark of an unfinished creation.
    for copy in [1, 0] {
        let page = format::encode_super(&shape, identity, copy, super_generation);
        below.write(format::super_at(copy), Buffer::from_vec(page), how.clone()).await?;
        below.flush(how.clone()).await?;
    }
    Ok(Opened { identity, map: Map::of(shape, table)? })
}
