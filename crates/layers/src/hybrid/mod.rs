//! The hybrid drive (section 6.4 of the IOLab paper): one volume on a fast device and another one, each part of it on
//! one of them, by its address or by how often it is accessed. It is a volume of `placed`, whose fast slots are on the
//! fast device.

mod options;

use std::rc::Rc;

use seekless_core::{BlockDevice, Extent, IoError, Layer};

use crate::contents::{self, New};
use crate::placed::{self, Devices, Kind, Moves, Opening, Placed};
use crate::registry::{self, Built, Entry};
pub use options::{Options, Pinned, Placement};

/// Its kind of volumes.
pub(crate) const KIND: Kind = Kind {
    name: "hybrid",
    identity: "hybrid identity",
    super_page: *b"SKLHYBR1",
    map: *b"SKLHYBRM",
    label: Some(*b"SKLHYBRD"),
    copies: false,
    counted: ["reads_fast", "units_promoted", "units_demoted"],
    commands: &[],
};

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "hybrid drive",
    readme: include_str!("README.md"),
    devices: &["fast"],
    edges: placed::EDGES,
    canaries: placed::CANARIES,
    sealed: true,
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        let options = registry::parse_options(table, Options::check)?;
        let shape = options.shape_on(below)?;
        options.pinned(&shape)?;
        Ok(shape.sectors())
    }),
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("hybrid", table, Options::check)?;
            create(below.device("fast")?, below.one()?, &options, replace).await
        })
    }),
    ..Entry::new(
        "hybrid",
        "keeps the most accessed parts of a volume on a fast device, and the others on another one",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("hybrid", table, Options::check)?;
                let (fast, over) = (below.device("fast")?, below.one()?);
                Ok(Built::new(open(fast, over, &options, below.create, below.timing_only).await?))
            })
        },
    )
};

/// Opens the volume; with `create`, on devices of zeroes a new one. With `timing_only`, data is hollow.
///
/// # Errors
/// Devices that are too small or do not belong together, damaged metadata, and the devices' errors.
pub async fn open(
    fast: Rc<dyn BlockDevice>,
    over: Rc<dyn BlockDevice>,
    options: &Options,
    create: bool,
    timing_only: bool,
) -> Result<Rc<Placed>, IoError> {
    let sectors = [&fast, &over].map(|device| device.geometry().sectors);
    let shape = || options.shape(sectors[0], sectors[1]);
    let opening = Opening { kind: &KIND, create: create.then_some(&shape), timing_only };
    let moves = |shape: &_| {
        let pinned = options.pinned(shape)?;
        let (idle, sequential) = (Some(options.idle), options.sequential.0);
        Ok((options.placement == Placement::Heat).then_some(Moves {
            idle,
            sequential,
            streams: false,
            least: 1,
            pinned,
            arranges: None,
        }))
    };
    Placed::open(Devices { first: fast, second: Some(over) }, opening, moves, options.canary()).await
}

/// Creates a volume. Existing contents of either device are refused, unless `replace`: then their metadata is given up.
/// Returns the new identity.
///
/// # Errors
/// `Invalid` for contents that are refused and devices that do not suit, and the devices' errors.
async fn create(
    fast: Rc<dyn BlockDevice>,
    over: Rc<dyn BlockDevice>,
    options: &Options,
    replace: bool,
) -> Result<Option<u128>, IoError> {
    let nothing = Extent::new(0, 0);
    let new = |key, device, leaves| New { key, device, metadata: nothing, leaves };
    let slow = new("over", &*over, Some("the slow device of a hybrid drive"));
    contents::claim(&[new("fast", &*fast, None), slow], false, replace).await?;
    let volume = open(fast, over, options, true, false).await?;
    Layer::stop(&*volume).await?;
    Ok(volume.identity())
}

#[cfg(test)]
mod tests;
