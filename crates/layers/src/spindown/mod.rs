//! Spin-down: writes are collected on a cache device, and written to the disk all at once when it has to work anyway,
//! so that it may rest for long in between (IOLab, Table 1: write caching, after Bisson, Brandt and Long 2006).
//!
//! Two devices: the cache device is the log of BORG's write buffer over all of it, which says what is kept where, and
//! survives crashes. Below it lies the disk, which is left alone (`resting`): a flush goes there only if something was
//! written since the last one. A read of what is not cached, and a write that bypasses the cache, need the disk: once
//! that has been left alone for a while, and before it spins down, everything that is dirty is destaged in the order of
//! addresses. Otherwise that happens when the cache is nearly full, or pages reach their maximum age.
//!
//! The disk spins down by its own timer: the layer does not command it.
//!
//! Invariants and fault model: those of BORG's store. A destage that fails is repeated after the next use of the disk.

mod options;
mod resting;
mod tools;

use std::cell::Cell;
use std::rc::{Rc, Weak};

use seekless_core::device::io;
use seekless_core::runtime::{self, edge};
use seekless_core::{
    Account, BlockDevice, Class, Cost, Counters, Hints, Hits, IoError, IoFuture, Layer, LayerTraffic, Nanos,
};

pub use options::{CANARIES, EDGES, Options};
use resting::Resting;

use crate::Borg;
use crate::registry::{self, Below, Built, Entry};

/// Commands of the layer.
pub const COMMANDS: &[&str] = &["drain", "verify"];

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    transparent: true,
    readme: include_str!("README.md"),
    devices: &["cache"],
    commands: COMMANDS,
    edges: EDGES,
    canaries: CANARIES,
    sealed: true,
    holds_newer: true,
    tools: &tools::SpindownTools,
    create: Some(|below, table, replace| {
        Box::pin(async move {
            let options = registry::options("spindown", table, Options::check)?;
            Borg::format_new(below.one()?, below.device("cache")?, options.borg(), replace).await
        })
    }),
    check: |table| registry::parse_options(table, Options::check).map(drop),
    defaults: registry::defaults::<Options>,
    ..Entry::new(
        "spindown",
        "collects writes on another device, and writes them to the disk at once, so that it can rest in between",
        |below, table| {
            Box::pin(async move {
                let options = registry::options("spindown", table, Options::check)?;
                if options.older {
                    return Borg::build(&tools::as_bopt(below), options.borg()).await;
                }
                Ok(Built::new(Spindown::open(&below, &options).await?))
            })
        },
    )
};

/// Interval at which a request of the disk is waited for at least.
const SHORTEST: Nanos = Nanos(100_000);

/// The layer.
pub struct Spindown {
    borg: Rc<Borg>,
    disk: Rc<Resting>,
    /// How long the disk is not used before it is left alone.
    idle: Nanos,
    /// Whether a task waits to destage, or does.
    waiting: Cell<bool>,
    /// Destages because the disk was used.
    destages: Cell<u64>,
}

impl Spindown {
    /// Opens it; a new cache if `below` says so.
    ///
    /// # Errors
    /// As [`Borg::open`].
    pub async fn open(below: &Below, options: &Options) -> Result<Rc<Spindown>, IoError> {
        let disk = Rc::new(Resting::new(below.one()?, options.idle, options.canary()));
        let (origin, cache) = (disk.clone(), below.device("cache")?);
        let borg = if below.create {
            Borg::open_creating(origin, cache, options.borg(), below.timing_only).await?
        } else {
            Borg::open(origin, cache, options.borg(), below.timing_only).await?
        };
        let (waiting, destages) = Default::default();
        let layer = Rc::new(Spindown { borg, disk, idle: options.idle, waiting, destages });
        let me = Rc::downgrade(&layer);
        layer.disk.when_used(move || Spindown::used(&me));
        Ok(layer)
    }

    /// The disk was used: starts a task that destages once it has been left alone for a while, if there is none.
    fn used(me: &Weak<Spindown>) {
        let Some(layer) = me.upgrade().filter(|layer| !layer.waiting.replace(true)) else { return };
        let me = Rc::downgrade(&layer);
        drop(layer);
        runtime::spawn(async move {
            // Repeated after the next use.
            let _ = Spindown::destage_when_idle(&me).await;
            if let Some(layer) = me.upgrade() {
                layer.waiting.set(false);
            }
        })
        .detach();
    }

    async fn destage_when_idle(me: &Weak<Spindown>) -> Result<(), IoError> {
        loop {
            let Some(layer) = me.upgrade() else { return Ok(()) };
            let until = layer.disk.last_use() + layer.idle.max(SHORTEST);
            if runtime::now() < until {
                drop(layer);
                runtime::sleep_until(until).await;
                continue;
            }
            if layer.borg.dirty() > 0 {
                edge("the disk was used and is idle: everything is destaged");
                layer.destages.set(layer.destages.get() + 1);
                layer.borg.drain_in_order().await?;
            }
            return Ok(());
        }
    }
}

impl BlockDevice for Spindown {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.borg)
    }
}

impl Layer for Spindown {
    fn counters(&self) -> Counters {
        let counted = self.borg.counters();
        let of = |name: &str| counted.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        vec![
            ("pages_dirty", of("pages_dirty")),
            ("cache_free", of("write_buffer_free")),
            ("pages_absorbed", of("pages_absorbed")),
            ("pages_destaged", of("pages_drained")),
            ("pages_hit", of("pages_hit")),
            ("destages_after_use", self.destages.get()),
            ("disk_uses_after_idle", self.disk.wakes()),
            ("flushes_spared", self.disk.spared()),
        ]
    }

    fn identity(&self) -> Option<u128> {
        self.borg.identity()
    }

    fn generation(&self) -> Option<u64> {
        self.borg.generation()
    }

    fn drain_to_stop(&self, limit: Nanos) -> IoFuture<'_, ()> {
        self.borg.drain_to_stop(limit)
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(async move { self.borg.stop().await })
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        match name {
            "drain" | "verify" => self.borg.command(name, how),
            _ => io(std::future::ready(Err(unknown(name)))),
        }
    }

    fn boost(&self, class: Class) {
        self.borg.boost(class);
    }

    fn write_back(&self, account: Account) -> IoFuture<'_, ()> {
        self.borg.write_back(account)
    }

    fn give_up(&self) -> IoFuture<'_, ()> {
        self.borg.give_up()
    }

    fn traffic(&self, account: Account) -> Option<LayerTraffic> {
        self.borg.traffic(account)
    }

    fn hits(&self) -> Option<Hits> {
        self.borg.hits()
    }

    fn cost(&self) -> Cost {
        self.borg.cost()
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        self.borg.detach()
    }
}

fn unknown(name: &str) -> IoError {
    seekless_core::device::unknown_command("spindown", name, COMMANDS)
}

#[cfg(test)]
mod tests;
