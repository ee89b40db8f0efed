//! Proximal I/O: small writes are collected in flash, and go to the data device in strands, several per revolution,
//! next to the data that they belong to (Schindler et al., FAST 2011).
//!
//! Two devices, one over the other: `placed` puts pages into blocks near their neighbours, with a map on flash; over it
//! a log of BORG's write buffer is the staging area (section 4.2), in the rest of the flash. Writes of 168 KB and more
//! go past it. When it is nearly full, all of it is destaged in the order of addresses (section 4.3). Over both are the
//! `versions`: the volume, its snapshots and clones (section 3.2).
//!
//! Invariants and fault model: as of `placed`, and of BORG's store.

mod anchor;
mod clones;
mod commit;
mod copies;
mod flash;
mod format;
mod map;
mod opening;
mod options;
mod pairs;
mod placed;
mod ranges;
mod read;
mod records;
mod regions;
mod repair;
mod session;
mod snapshots;
mod super_page;
mod versions;

use std::future::ready;
use std::rc::Rc;

use seekless_core::device::{View, io, unknown_command};
use seekless_core::slice::Slice;
use seekless_core::{
    Account, BlockDevice, Cost, Counters, ErrorKind, Extent, Hints, IoError, IoFuture, Layer, LayerTraffic,
    PAGE_SECTORS, SnapshotSpace,
};

pub use clones::NOW;
use flash::Flash;
pub use options::{CANARIES, EDGES, EDGES_OF_TESTS, Options, SNAPSHOT_EDGES};
use placed::Placed;
use versions::Versions;

use crate::Borg;
use crate::contents::{self, New};
use crate::registry::{self, Built, Entry};

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["destage", "rebuild"];

/// Key of its flash devices.
const KEY: &str = "flash";

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    readme: include_str!("README.md"),
    devices: &[KEY],
    spares: &[KEY],
    alone: Some((
        KEY,
        "the flash device is the only home of what is staged, and of the map, unless the volume has copies of that: \
         without it the volume is lost, or with copies what is staged; with two, as in flash = [\"f0\", \"f1\"], either may \
         fail",
    )),
    commands: COMMANDS,
    edges: EDGES,
    edges_of_tests: EDGES_OF_TESTS,
    edges_of_snapshots: SNAPSHOT_EDGES,
    canaries: CANARIES,
    sealed: true,
    tools: &repair::ProximalTools,
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("proximal", table, Options::check)?;
            let flash = Flash::create(&below, replace).await?;
            Proximal::create(below.one()?, flash, &options, replace).await
        })
    }),
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    sectors: Some(|table, below| {
        let options = registry::parse_options(table, Options::check)?;
        Ok(options.shape(below.sum())?.pages * PAGE_SECTORS)
    }),
    ..Entry::new(
        "proximal",
        "collects small writes in flash, and writes them to free blocks near their neighbours, several per revolution",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("proximal", table, Options::check)?;
                let (over, flash) = (below.one()?, Flash::open(&below).await?);
                let (create, timing_only) = (below.create, below.timing_only);
                Ok(Built::new(Proximal::open_on(over, flash, &options, create, timing_only).await?))
            })
        },
    )
};

/// A volume of proximal I/O.
pub struct Proximal {
    versions: Rc<Versions>,
    flash: Flash,
}

impl Proximal {
    /// As [`Proximal::open_on`], with one flash device.
    ///
    /// # Errors
    /// As there.
    pub async fn open(
        data: Rc<dyn BlockDevice>,
        flash: Rc<dyn BlockDevice>,
        options: &Options,
        create: bool,
        timing_only: bool,
    ) -> Result<Rc<Proximal>, IoError> {
        Proximal::open_on(data, Flash::of(flash), options, create, timing_only).await
    }

    /// Opens the volume on `data` with its `flash`. With `create`, flash of zeroes gets a new volume; otherwise it is
    /// refused. With `timing_only`, data is hollow.
    ///
    /// # Errors
    /// Devices that are too small or do not belong together, damaged metadata, and the devices' errors.
    async fn open_on(
        data: Rc<dyn BlockDevice>,
        below: Flash,
        options: &Options,
        create: bool,
        timing_only: bool,
    ) -> Result<Rc<Proximal>, IoError> {
        let flash = below.device.clone();
        let opened = opening::open(&data, &flash, options, create, timing_only).await?;
        let page = opened.page.clone();
        let start = page.shape.staging() * PAGE_SECTORS;
        let staging = Extent::new(start, flash.geometry().sectors.saturating_sub(start));
        let too_small = || {
            let why =
                format!("flash: found {} sectors, expected more than {start}", flash.geometry().sectors);
            IoError::new(ErrorKind::Invalid, "proximal", None, why)
        };
        let staging = Rc::new(Slice::new(flash.clone(), staging).ok_or_else(too_small)?);
        let new = opened.is_new;
        let placed = Placed::open(data, flash.clone(), opened, options, timing_only).await?;
        if new && !timing_only {
            // Flash without a super page has no staging area that holds anything.
            Borg::format_new(placed.clone(), staging.clone(), options.staging(), true).await?;
        }
        if new {
            opening::write_super(&*flash, &page).await?;
        }
        // In runs that only measure time the staging area is formatted before its first change.
        let staging = if timing_only {
            Borg::open_creating(placed.clone(), staging, options.staging(), true).await?
        } else {
            Borg::open(placed.clone(), staging, options.staging(), false).await?
        };
        let versions = Versions::open(placed, staging, options.canary()).await?;
        Ok(Rc::new(Proximal { versions, flash: below }))
    }

    /// Creates a volume, and stops it. Existing contents of either device are refused, unless `replace`: then they are
    /// given up. Returns the new identity.
    ///
    /// # Errors
    /// `Invalid` for contents that are refused and devices that do not suit, and the devices' errors.
    async fn create(
        data: Rc<dyn BlockDevice>,
        flash: Flash,
        options: &Options,
        replace: bool,
    ) -> Result<Option<u128>, IoError> {
        let nothing = Extent::new(0, 0);
        let new = |key, device, leaves| New { key, device, metadata: nothing, leaves };
        let disk = new("over", &*data, Some("the disk of a proximal volume"));
        contents::claim(&[new(KEY, &*flash.device, None), disk], false, replace).await?;
        let volume = Proximal::open_on(data, flash, options, true, false).await?;
        Layer::stop(&*volume).await?;
        Ok(volume.identity())
    }
}

impl BlockDevice for Proximal {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.versions)
    }

    fn views(&self) -> Vec<View> {
        self.versions.views()
    }
}

impl Layer for Proximal {
    fn counters(&self) -> Counters {
        let Versions { placed, staging, .. } = &*self.versions;
        let (free, counts) = placed.counts();
        let counted = staging.counters();
        let of = |name: &str| counted.iter().find(|(known, _)| *known == name);
        let staging = ["pages_dirty", "write_buffer_free", "pages_absorbed", "pages_drained"];
        let names = ["pages_staged", "staging_free", "pages_staged_in_all", "pages_destaged"];
        let staged = staging.iter().zip(names).filter_map(|(name, ours)| Some((ours, of(name)?.1)));
        let placed = [
            ("blocks_free", free),
            ("snapshots", placed.snapshots().len() as u64),
            ("clones", placed.clones().len() as u64),
            ("blocks_of_snapshots", placed.blocks_kept()),
            ("pages_placed", counts.pages_placed),
            ("pages_displaced", counts.pages_displaced),
            ("data_writes", counts.data_writes),
            ("map_pages_written", counts.map_pages_written),
        ];
        let mirror = self.flash.mirror.iter().flat_map(|mirror| mirror.counters());
        // Those of its own requests would look like requests of clients.
        let of_mirror = mirror.filter(|(name, _)| !["reads", "writes"].contains(name));
        staged.chain(placed).chain(of_mirror).collect()
    }

    /// Identity of the volume, on both devices.
    fn identity(&self) -> Option<u128> {
        Some(self.versions.placed.identity)
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move {
            self.versions.staging.stop().await?;
            self.versions.copy(&Hints::default()).await?;
            self.versions.placed.stop().await?;
            self.flash.stop().await
        })
    }

    fn trouble(&self) -> Option<String> {
        self.flash.mirror.as_ref()?.trouble().map(|why| format!("flash: {why}"))
    }

    fn on_trouble(&self, tell: Box<dyn Fn(&str)>) {
        if let Some(mirror) = &self.flash.mirror {
            mirror.on_trouble(Box::new(move |why| tell(&format!("flash: {why}"))));
        }
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "destage" => self.write_back(how.account),
            "rebuild" => match &self.flash.mirror {
                Some(mirror) => mirror.command("rebuild", how),
                // Nothing is out of service.
                None => io(ready(Ok(()))),
            },
            _ => io(ready(Err(unknown_command("proximal", name, COMMANDS)))),
        }
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        io(self.versions.destage(account))
    }

    /// A member of mirrored flash can be replaced.
    fn replace_device<'a>(
        &'a self,
        (key, number): (&'a str, usize),
        with: Rc<dyn BlockDevice>,
        overwrites: bool,
        commit: IoFuture<'a, ()>,
    ) -> IoFuture<'a, ()> {
        match &self.flash.mirror {
            Some(mirror) if key == KEY => mirror.replace_device(("over", number), with, overwrites, commit),
            _ => {
                let why = format!(
                    "it needs what {key} holds, expected a member of mirrored flash: flash = [\"f0\", \"f1\"]"
                );
                io(ready(Err(IoError::new(ErrorKind::Unsupported, "proximal", None, why))))
            }
        }
    }

    fn snapshots(&self) -> Option<Vec<SnapshotSpace>> {
        Some(self.versions.placed.space())
    }

    fn create_snapshot(&self, name: &str) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move { self.versions.create(&name, &Hints::default()).await })
    }

    fn create_clone(&self, name: &str, from: Option<&str>) -> IoFuture<'_, ()> {
        let (name, from) = (name.to_owned(), from.map(str::to_owned));
        io(async move { self.versions.clone_of(&name, from.as_deref(), &Hints::default()).await })
    }

    fn delete_snapshot(&self, name: &str) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move { self.versions.delete(&name, &Hints::default()).await })
    }

    fn traffic(&self, account: Account) -> Option<LayerTraffic> {
        self.versions.staging.traffic(account)
    }

    fn cost(&self) -> Cost {
        self.versions.staging.cost()
    }
}

#[cfg(test)]
mod tests;
