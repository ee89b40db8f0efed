//! Layers: block devices made of block devices, one folder each.

pub mod borg;
pub mod fault;
mod refused;
pub mod registry;

pub use borg::Borg;
pub use refused::Refused;
