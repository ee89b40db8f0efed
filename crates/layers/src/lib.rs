//! Layers: block devices made of block devices, one folder each.

pub mod borg;
pub mod registry;

pub use borg::Borg;
