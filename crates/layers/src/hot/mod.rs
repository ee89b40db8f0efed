//! Hot-data clustering (section 2.2 of the IOLab paper): the parts of a volume that are accessed most are moved next to
//! each other, into a zone of the disk. It is a volume of `placed` on one device, whose fast slots are those of the
//! zone.

mod options;

use std::rc::Rc;

use seekless_core::{BlockDevice, IoError};

use crate::contents;
use crate::placed::{self, Devices, Kind, Moves, Opening, Placed};
use crate::registry::{self, Built, Entry};
pub use options::Options;

/// Its kind of volumes.
pub(crate) const KIND: Kind = Kind {
    name: "hot",
    identity: "hot identity",
    super_page: *b"SKLHOTV1",
    map: *b"SKLHOTVM",
    label: None,
    copies: false,
    counted: ["reads_in_zone", "units_moved_in", "units_moved_out"],
    commands: &["reconfigure"],
};

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "hot-data clustering",
    readme: include_str!("README.md"),
    commands: KIND.commands,
    edges: placed::EDGES,
    canaries: placed::CANARIES_OF_ONE,
    sealed: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        Ok(registry::parse_options(table, Options::check)?.shape(below.sum())?.sectors())
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("hot", table, Options::check)?;
            contents::create(below.one()?, replace, async |over| open(over, &options, true, false).await)
                .await
        })
    }),
    ..Entry::new("hot", "moves the most accessed parts of a disk next to each other", |below, table| {
        Box::pin(async move {
            let options = registry::options("hot", table, Options::check)?;
            Ok(Built::new(open(below.one()?, &options, below.create, below.timing_only).await?))
        })
    })
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
        let (sequential, least) = (options.sequential.0, options.least);
        Ok(Some(Moves { idle, sequential, streams: true, least, pinned: Vec::new(), arranges: None }))
    };
    Placed::open(Devices { first: over, second: None }, opening, moves, options.canary()).await
}

#[cfg(test)]
mod tests;
