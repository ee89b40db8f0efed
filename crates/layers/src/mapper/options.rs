//! Options of the layer.

use seekless_core::{ErrorKind, IoError, PAGE_BYTES, PAGE_SECTORS};
use serde::{Deserialize, Serialize};

use super::table;
use crate::Refused;
use crate::canary::Canary;
use crate::units::Bytes;

/// The options of the mapper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Size visible to clients; by default all but one slot in seventeen.
    pub size: Option<Bytes>,
    /// Opens the map before the newest, read-only, if a sector of the newest has rotted. Pages written since may read
    /// as older data.
    pub older: bool,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    pub canary: Option<String>,
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a torn copy of the map: the other counts",
    "zeroes where no map was written: a volume of zeroes",
    "a page that has no slot",
    "slots ran out: a flush frees some",
    "a page moves while the map is written",
    "a second flush waits for the first",
    "a write failed: its slot is the last to be tried again",
    "a flush failed: all later ones fail",
    "the map is written to its other copy too",
    "nothing has changed since the last map: a flush writes none",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &[
        "missing flush",
        "early reuse",
        "double reply",
        "stale read",
        "torn metadata accepted",
        "lost map entry",
        "unflushed opening",
    ]
} else {
    &[]
};

impl Options {
    /// A mapper of `pages` pages.
    // There are more options with canaries.
    #[allow(clippy::needless_update)]
    pub fn of_pages(pages: u64) -> Options {
        Options { size: Some(Bytes(pages * PAGE_BYTES)), ..Options::default() }
    }

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
        return Canary::new(crate::canary::of(self.canary.as_deref(), "mapper"), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Pages visible to clients, on a device of `sectors` sectors.
    pub fn pages(&self, sectors: u64) -> Result<u64, Refused> {
        self.check()?;
        let there = sectors / PAGE_SECTORS;
        let maps = |pages| table::copies(pages).sectors / PAGE_SECTORS;
        let fits = |pages: u64| maps(pages) + pages < there && pages < u64::from(table::NONE);
        let wanted = match self.size {
            Some(Bytes(bytes)) => bytes / PAGE_BYTES,
            // An entry of the map takes a thousandth of a page.
            None => (there * 16 / 17).saturating_sub(maps(there)),
        };
        if wanted > 0 && fits(wanted) {
            return Ok(wanted);
        }
        let found = format!("{wanted} pages of 4 KiB");
        Err(Refused::new("size", found, format!("less than the device's {there}, with room for two maps")))
    }

    /// As `pages`, with the layer's error.
    pub fn pages_of(&self, sectors: u64) -> Result<u64, IoError> {
        let refused = |why: Refused| IoError::new(ErrorKind::Invalid, "mapper", None, why.to_string());
        self.pages(sectors).map_err(refused)
    }

    /// Number of slots, if there are more slots than pages.
    pub fn slots_of(&self, sectors: u64, pages: u64, slots: u64) -> Result<u64, IoError> {
        if slots > pages {
            return Ok(slots);
        }
        let why = format!(
            "found {pages} pages and room for {slots} beside their map in {} of the device, expected more room than \
             pages: a smaller `size` fits",
            sectors / PAGE_SECTORS
        );
        Err(IoError::new(ErrorKind::Invalid, "mapper", None, why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sealed;
    use super::*;

    #[test]
    fn what_is_left_free_is_a_seventeenth_and_the_maps() {
        for there in (1..5_000).chain([1 << 20, 61_000_000, 1 << 30]) {
            let Ok(pages) = Options::default().pages(there * PAGE_SECTORS) else {
                assert!(there < 4, "{there} pages are enough");
                continue;
            };
            for (copies, slots) in [
                (table::copies(pages), table::slots(there * PAGE_SECTORS, pages)),
                (sealed::copies(pages), sealed::slots(there * PAGE_SECTORS, pages)),
            ] {
                assert!(slots > pages, "{there} pages: {pages} in {slots} slots");
                assert!(copies.sectors + slots * PAGE_SECTORS <= there * PAGE_SECTORS);
            }
            assert!(there < 100 || pages * 100 > 90 * there, "{there} pages: {pages} are few");
        }
        let of = |size: &str| toml::from_str::<Options>(&format!("size = '{size}'")).unwrap().pages(8_000);
        assert_eq!((of("3600KiB"), Options::of_pages(900).pages(8_000)), (Ok(900), Ok(900)));
        assert!(of("4000KiB").is_err() && of("0").is_err() && of("512").is_err());
    }
}
