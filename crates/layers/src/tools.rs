//! Tools for the metadata of a layer that is not in use: what a kind of layer offers besides opening.
//!
//! Fault model: devices may hold anything; a tool may be interrupted at any time, and is given again. Only `restore`
//! and `damage` write to the metadata that they are given.

use std::rc::Rc;

use seekless_core::{BlockDevice, ErrorKind, IoError};

use crate::registry::{Below, Work};

/// Tools of a kind of layer. Those that it does not have are refused.
pub trait Tools: Sync {
    /// Decodes its metadata: [`Tools::restore`] writes the same metadata from it.
    fn dump(&self, _below: Below, _options: toml::Table) -> Work<toml::Table> {
        unsupported("dump")
    }

    /// Writes metadata as [`Tools::dump`] decoded it. Existing metadata is an error, unless it is to be replaced; so is
    /// that of another volume, or other data than at the dump. Returns the number of pages that only this layer has and
    /// of whose data the dump has no checksum.
    fn restore(&self, _below: Below, _options: toml::Table, _dump: toml::Table, _replace: bool) -> Work<u64> {
        unsupported("restore")
    }

    /// Writes what can be read of damaged metadata, and the data that only this layer holds, to another device.
    fn repair(&self, _below: Below, _options: toml::Table, _to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        unsupported("repair")
    }

    /// Whether [`Tools::repair`] is there.
    fn can_repair(&self) -> bool {
        false
    }

    /// Kinds of damage, by name, each with its description.
    fn damages(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Damages its metadata or data, for tests and exercises; returns the place in words.
    fn damage(&self, _below: Below, _options: toml::Table, _kind: String) -> Work<String> {
        unsupported("damage")
    }
}

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Pages that the layer alone holds and that were copied.
    pub pages: u64,
    /// What is given up, each in words.
    pub given_up: Vec<String>,
}

/// A layer without tools.
pub struct NoTools;

impl Tools for NoTools {}

fn unsupported<T: 'static>(tool: &'static str) -> Work<T> {
    let why = format!("{tool} is not supported by this layer");
    Box::pin(async move { Err(IoError::new(ErrorKind::Unsupported, "tool", None, why)) })
}
