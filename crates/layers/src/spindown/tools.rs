//! BORG's tools for the cache: the same format.

use std::future::ready;
use std::rc::Rc;

use seekless_core::BlockDevice;

use super::Options;
use crate::borg::BorgTools;
use crate::registry::{Below, Work, options};
use crate::tools::{Repaired, Tools};

/// See the file's header; all but the damage for exercises.
pub(super) struct SpindownTools;

/// The devices as BORG calls them.
pub(super) fn as_bopt(mut below: Below) -> Below {
    if let Some(cache) = below.devices.remove("cache") {
        below.devices.insert("bopt".to_owned(), cache);
    }
    below
}

/// A tool of BORG, with its options.
fn with_options<T: 'static>(table: toml::Table, tool: impl FnOnce(toml::Table) -> Work<T>) -> Work<T> {
    match options("spindown", table, Options::check) {
        Ok(options) => tool(toml::Table::try_from(options.borg()).unwrap_or_default()),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

impl Tools for SpindownTools {
    fn dump(&self, below: Below, table: toml::Table) -> Work<toml::Table> {
        with_options(table, |all| BorgTools.dump(as_bopt(below), all))
    }

    fn restore(&self, below: Below, table: toml::Table, dump: toml::Table, replace: bool) -> Work<u64> {
        with_options(table, |all| BorgTools.restore(as_bopt(below), all, dump, replace))
    }

    fn repair(&self, below: Below, table: toml::Table, to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        with_options(table, |all| BorgTools.repair(as_bopt(below), all, to))
    }
}
