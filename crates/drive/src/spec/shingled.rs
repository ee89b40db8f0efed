//! The part of a description that gives a drive-managed shingled drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checked, fault, within};

/// Shingled tracks: writing one damages the next, so a band of them is rewritten as a whole, and writes wait in a media
/// cache on tracks that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// Size of the media cache, at the outer edge before the bands.
    pub media_cache_sectors: u64,
    /// Size of a band.
    pub band_sectors: u64,
    /// Idle time after which the media cache is cleaned, in milliseconds.
    pub clean_after_ms: f64,
    /// Header sectors of each write into the media cache, besides its data.
    pub header_sectors: u64,
}

impl ShingledSpec {
    pub(super) fn check(&self, sectors: u64) -> Checked {
        within("shingled.clean_after_ms", self.clean_after_ms, 0.0, 1e6)?;
        within("shingled.header_sectors", self.header_sectors as f64, 0.0, 1024.0)?;
        within("shingled.band_sectors", self.band_sectors as f64, 1.0, f64::from(1 << 24))?;
        // Room for the largest request, and as much in reserve.
        let least = 1 << 18;
        if self.media_cache_sectors < least || self.media_cache_sectors > sectors {
            let expected = format!("{least} to the capacity, {sectors}");
            return fault("shingled.media_cache_sectors", self.media_cache_sectors.to_string(), expected);
        }
        Ok(())
    }
}
