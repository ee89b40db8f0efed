//! Options of the layer.

use seekless_core::PAGE_BYTES;
use serde::{Deserialize, Serialize};

use super::format::Shape;
use crate::Refused;
use crate::canary::Canary;
use crate::units::Bytes;

/// The options of deduplication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Size visible to clients, in whole pages of 4 KiB, which may be larger than the device; by default what the
    /// device holds without equal pages, but for a 32nd. Used at creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// How pages are compressed that are written from now on.
    pub compress: Compress,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// How pages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// Not at all.
    #[default]
    None,
    /// By LZ4.
    Lz4,
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a page of zeroes is not stored",
    "a page that is not stored reads as zeroes",
    "a page is stored already",
    "a page of the same request is the same",
    "what a page shared is left to others",
    "two writes of the same content meet",
    "a page changes while the map is written",
    "pieces ran out: the map is written to free some",
    "a write failed: its piece is tried last",
    "a write with FUA writes the map",
    "a flush failed: all later ones fail",
    "the copies of a sector of the map differ: the newer one counts",
    "a piece that may hold the same cannot be read",
    "compressed pages share a block",
    "a compressed page is read",
    "part of a page is read: all of it is verified",
];

/// Those that no exploration reaches: it makes no two pages with the same checksum, and not enough pages that are the
/// same.
pub const EDGES_OF_TESTS: &[&str] =
    &["another page has the same fingerprint", "a piece has as many pages as it may have", "no room is left"];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &[
        "a fingerprint is trusted",
        "early reuse",
        "one page short",
        "a discard frees what others share",
        "a map before its data",
        "a flush without the map",
        "stale read",
        "unflushed opening",
        "unforced write",
        "a neighbour is overwritten",
    ]
} else {
    &[]
};

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        match self.size {
            Some(Bytes(bytes)) if bytes == 0 || bytes % PAGE_BYTES != 0 => {
                Err(Refused::new("size", format!("{bytes} bytes"), "whole pages of 4 KiB"))
            }
            _ => Ok(()),
        }
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "dedup"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on a device of these sectors.
    pub fn shape(&self, sectors: u64) -> Result<Shape, Refused> {
        self.check()?;
        Shape::new(sectors, self.size.map(|Bytes(bytes)| bytes / PAGE_BYTES))
    }
}
