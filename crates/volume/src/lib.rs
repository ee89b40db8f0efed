//! Volumes: what a volume file describes, and the tree of devices that is built of it, for the laboratory and the
//! server alike.

pub mod component;
pub mod description;
#[cfg(feature = "live")]
pub mod edit;
pub mod file;
#[cfg(feature = "live")]
pub mod live;
mod missing;
pub mod model;
pub mod settings;
pub mod simulated;
pub mod tree;

pub use component::Component;
pub use description::{Description, VolumeError};
pub use simulated::Volume;

use seekless_core::Nanos;

/// A time with its unit.
///
/// # Errors
/// Found text, and expected text.
pub fn duration(text: &str) -> Result<Nanos, String> {
    text.parse::<Nanos>().map_err(|error| error.to_string())
}
