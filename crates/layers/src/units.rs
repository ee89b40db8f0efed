//! Sizes and times with their units, as they are written in a volume file.

use seekless_core::{Nanos, SECTOR_BYTES, Size};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A size of whole sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.parse::<Size>() {
            Ok(Size(bytes)) if bytes % SECTOR_BYTES == 0 => Ok(Bytes(bytes)),
            _ => Err(serde::de::Error::custom(format!(
                "found '{text}', expected a size of whole sectors such as 4GiB"
            ))),
        }
    }
}

impl Serialize for Bytes {
    /// In bytes, so that nothing is rounded.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// A time.
pub fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| serde::de::Error::custom(format!("{error}")))
}

/// A time in nanoseconds, so that nothing is rounded.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
pub fn time_in_ns<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{}ns", time.0))
}
