//! Defragmentation (section 2.2 of the IOLab paper): the pieces of each file are moved next to each other, in the order
//! of the file, by a map of files that is given. It is a volume of `placed` on one device; its fast slots are those of
//! a zone, in which the files that were in pieces lie one behind the other.

pub mod extents;
mod options;

use std::rc::Rc;
use std::sync::Arc;

use seekless_core::{BlockDevice, IoError};

use crate::contents;
use crate::placed::{self, Arranges, Devices, Kind, Moves, Opening, Placed, Shape};
use crate::registry::{self, Built, Entry};
pub use options::Options;

/// Its kind of volumes.
pub(crate) const KIND: Kind = Kind {
    name: "defrag",
    identity: "defrag identity",
    super_page: *b"SKLDFRG1",
    map: *b"SKLDFRGM",
    label: None,
    copies: false,
    counted: ["reads_in_zone", "units_moved_in", "units_moved_out"],
    commands: &["reconfigure", placed::UNDO],
};

/// Its known bugs: those of `placed` but for those of slots that another unit takes. An exploration has one map of
/// files, so each slot of the zone has the same unit all the time.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["a move without its lock", "a map before its data", "stale read", "unforced write"]
} else {
    &[]
};

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "defragmentation",
    readme: include_str!("README.md"),
    commands: KIND.commands,
    files: &["extents"],
    edges: placed::EDGES,
    canaries: CANARIES,
    sealed: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        Ok(registry::parse_options(table, Options::check)?.shape(below.sum())?.sectors())
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("defrag", table, Options::check)?;
            contents::create(below.one()?, replace, async |over| open(over, &options, true, false).await)
                .await
        })
    }),
    ..Entry::new(
        "defrag",
        "moves the pieces of files next to each other, by a map of files",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("defrag", table, Options::check)?;
                Ok(Built::new(open(below.one()?, &options, below.create, below.timing_only).await?))
            })
        },
    )
};

/// Opens the volume; with `create`, on a device of zeroes a new one. With `timing_only`, data is hollow.
///
/// # Errors
/// A device that is too small, damaged metadata, and the device's errors.
pub async fn open(
    over: Rc<dyn BlockDevice>,
    options: &Options,
    create: bool,
    timing_only: bool,
) -> Result<Rc<Placed>, IoError> {
    let sectors = over.geometry().sectors;
    let shape = || options.shape(sectors);
    let opening = Opening { kind: &KIND, create: create.then_some(&shape), timing_only };
    let moves = |_: &_| {
        let idle = options.when.pause(options.idle);
        let options = options.clone();
        let arranges = Arc::new(move |shape: &Shape| options.arranged(shape));
        // No unit becomes hot.
        let (least, pinned, arranges) = (u8::MAX, Vec::new(), Some(arranges as Arranges));
        Ok(Some(Moves { idle, sequential: u64::MAX, streams: false, least, pinned, arranges }))
    };
    Placed::open(Devices { first: over, second: None }, opening, moves, options.canary()).await
}

#[cfg(test)]
mod tests;
