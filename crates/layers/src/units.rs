//! Sizes and times with their units, as they are written in a volume file.

use seekless_core::{Nanos, SECTOR_BYTES, Size};
use serde::{Deserialize, Deserializer};

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

/// A time.
pub fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| serde::de::Error::custom(format!("{error}")))
}
