//! The part of a description that says what a drive-managed shingled drive does.

use serde::{Deserialize, Serialize};

use super::check::{Checked, within, wrong};

/// Tracks that overlap: what is written over one harms the next, so a band of them is rewritten as one, and
/// writes wait in a media cache on tracks that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// The media cache, at the outer edge before the bands.
    pub media_cache_sectors: u64,
    /// A band.
    pub band_sectors: u64,
    /// Writes that wait are cleaned into their bands when nothing came for so long, in milliseconds.
    pub clean_after_ms: f64,
    /// Beside the data, sectors that tell of each write into the media cache.
    pub header_sectors: u64,
}

impl ShingledSpec {
    pub(super) fn check(&self, sectors: u64) -> Checked {
        within("shingled.clean_after_ms", self.clean_after_ms, 0.0, 1e6)?;
        within("shingled.header_sectors", self.header_sectors as f64, 0.0, 1024.0)?;
        within("shingled.band_sectors", self.band_sectors as f64, 1.0, f64::from(1 << 24))?;
        // Room for the largest request, with as much to spare.
        let least = 1 << 18;
        if self.media_cache_sectors < least || self.media_cache_sectors > sectors {
            let expected = format!("{least} to the capacity, {sectors}");
            return wrong("shingled.media_cache_sectors", self.media_cache_sectors.to_string(), expected);
        }
        Ok(())
    }
}
