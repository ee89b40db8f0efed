//! Baselines: other published layers, to compare BORG with. Each is BORG's store, mover and planner with options that
//! are fixed, so that a comparison shows the difference of the methods, not of two programs.
//!
//! Invariants: a baseline takes some of BORG's options, which mean the same; its devices are those of BORG, in the same
//! format. Fault model: that of BORG.

use std::future::ready;
use std::marker::PhantomData;
use std::rc::Rc;

use seekless_core::{BlockDevice, ErrorKind, IoError};

use crate::Refused;
use crate::borg::{Borg, BorgTools, Options, Overwrite, PlannerName};
use crate::registry::{Below, Entry, Work, parse_options};
use crate::tools::{Repaired, Tools};

/// BORG's options that every baseline takes: those of its devices, and of moving and draining.
const COMMON: [&str; 11] = [
    "segment",
    "move_rate",
    "move_idle",
    "idle_after",
    "dirty_max_age",
    "reconfigure_class",
    "free_deadline",
    "at_stop",
    "trust_origin",
    "origin_changed",
    "older",
];

/// A baseline.
pub trait Baseline: 'static {
    /// Its name in volume files.
    const NAME: &'static str;
    /// Further options of BORG that it takes.
    const OPTIONS: &'static [&'static str];

    /// BORG's options that make it what it is: fixed ones, and the default values of the others.
    fn options() -> Options;
}

/// The options of a baseline that copies what `planner` chooses, all planned pages at each reconfiguration, and absorbs
/// no writes.
pub fn copying(planner: PlannerName) -> Options {
    Options {
        planner,
        write_buffer: 0.0,
        overwrite: Overwrite::InPlace,
        rehearse: false,
        ..Options::default()
    }
}

/// The entry of a baseline in the registry, without its page, title and commands.
pub const fn entry<B: Baseline>(does: &'static str) -> Entry {
    Entry {
        transparent: true,
        devices: &["bopt"],
        sealed: true,
        holds_newer: true,
        check: |table| parsed::<B>(table).map(drop),
        defaults: defaults::<B>,
        tools: &BaselineTools::<B>(PhantomData),
        create: Some(|below, table, replace| {
            Box::pin(async move {
                let options = options::<B>(table)?;
                Borg::format_new(below.one()?, below.device("bopt")?, options, replace).await
            })
        }),
        ..Entry::new(B::NAME, does, |below, table| {
            Box::pin(async move { Borg::build(&below, options::<B>(table)?).await })
        })
    }
}

/// Whether a baseline takes this option.
fn takes<B: Baseline>(key: &str) -> bool {
    COMMON.contains(&key) || B::OPTIONS.contains(&key)
}

/// All options of BORG, as a baseline sets them.
fn fixed<B: Baseline>() -> toml::Table {
    toml::Table::try_from(B::options()).unwrap_or_default()
}

/// The options that a baseline takes, with their default values.
fn defaults<B: Baseline>() -> toml::Table {
    fixed::<B>().into_iter().filter(|(key, _)| takes::<B>(key)).collect()
}

/// All options of BORG, as a baseline with these options has them.
fn completed<B: Baseline>(table: toml::Table) -> Result<toml::Table, Refused> {
    if let Some(key) = table.keys().find(|key| !takes::<B>(key)) {
        let taken = COMMON.iter().chain(B::OPTIONS).map(|key| format!("`{key}`"));
        let expected = format!("one of {}", taken.collect::<Vec<_>>().join(", "));
        return Err(Refused::new("", format!("unknown field `{key}`"), expected));
    }
    let mut all = fixed::<B>();
    all.extend(table);
    Ok(all)
}

fn parsed<B: Baseline>(table: toml::Table) -> Result<Options, Refused> {
    parse_options(completed::<B>(table)?, Options::check)
}

fn invalid<B: Baseline>(refused: &Refused) -> IoError {
    IoError::new(ErrorKind::Invalid, B::NAME, None, refused.to_string())
}

fn options<B: Baseline>(table: toml::Table) -> Result<Options, IoError> {
    parsed::<B>(table).map_err(|refused| invalid::<B>(&refused))
}

/// BORG's tools for the devices of a baseline; all but the damage for exercises.
struct BaselineTools<B>(PhantomData<fn() -> B>);

/// A tool of BORG, with the options of a baseline.
fn with_options<B: Baseline, T: 'static>(
    table: toml::Table,
    tool: impl FnOnce(toml::Table) -> Work<T>,
) -> Work<T> {
    match completed::<B>(table) {
        Ok(all) => tool(all),
        Err(refused) => Box::pin(ready(Err(invalid::<B>(&refused)))),
    }
}

impl<B: Baseline> Tools for BaselineTools<B> {
    fn can_repair(&self) -> bool {
        true
    }

    fn dump(&self, below: Below, table: toml::Table) -> Work<toml::Table> {
        with_options::<B, _>(table, |all| BorgTools.dump(below, all))
    }

    fn restore(&self, below: Below, table: toml::Table, dump: toml::Table, replace: bool) -> Work<u64> {
        with_options::<B, _>(table, |all| BorgTools.restore(below, all, dump, replace))
    }

    fn repair(&self, below: Below, table: toml::Table, to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        with_options::<B, _>(table, |all| BorgTools.repair(below, all, to))
    }
}

#[cfg(test)]
mod tests;
