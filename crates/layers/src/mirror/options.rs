//! Options of the layer.

use seekless_core::{Nanos, PAGE_BYTES, PAGE_SECTORS, Size};
use serde::{Deserialize, Serialize};

use super::label::{HEAD, REGIONS};
use crate::Refused;
use crate::canary::Canary;
use crate::registry::Sizes;
use crate::units::{Bytes, time, time_in_ns};

/// The layer's name in errors.
pub const NAME: &str = "mirror";
/// Members at most.
pub const MOST: usize = 4;

/// The options of mirror.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Least size of a region: what is compared after a crash if something of it was being written.
    pub region: Bytes,
    /// A region that was not written for so long need not be compared after a crash.
    #[serde(deserialize_with = "time", serialize_with = "time_in_ns")]
    pub clean_after: Nanos,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            region: Bytes(4 << 20),
            clean_after: Nanos::from_millis(5_000),
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a mirror whose creation was cut short is created again",
    "zeroes where no label was written: a new mirror",
    "the member being rebuilt fails",
    "the last member in service fails",
    "a member fails: it is out of service",
    "a region is written that was clean",
    "a region is written while it is being cleaned",
    "a region is clean again",
    "copies that a crash left different are made the same",
    "a page of which a write failed is written anew",
    "a copy differs: it is written anew",
    "a read fails: another member has the data",
    "no member can verify a page: one is read without",
    "a page is repaired",
    "a repair fails: its member is out of service",
    "a verifying read finds a difference or a page that cannot be read",
    "a member is rebuilt",
    "a member is in service again",
    "a member that was gone catches up",
];

/// Those that only the layer's tests reach.
pub const EDGES_OF_TESTS: &[&str] = &[
    "a member is rebuilt of which nothing is known",
    "a member is replaced",
    "a member with old contents is out of service",
    "members have different data",
    "two members were used apart",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["a member is not flushed", "a failure is not recorded", "no resync"]
} else {
    &[]
};

/// Division of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Pages of data.
    pub pages: u64,
    /// Pages of a region.
    pub region: u64,
}

impl Options {
    /// Checks options that are invalid on any devices.
    pub fn check(&self) -> Result<(), Refused> {
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        let Bytes(region) = self.region;
        if region % PAGE_BYTES != 0 || !(PAGE_BYTES..=1 << 40).contains(&region) {
            let expected = "4KiB to 1TiB in steps of 4KiB";
            return Err(Refused::new("region", Size(region).to_string(), expected));
        }
        let Nanos(clean_after) = self.clean_after;
        if !(100_000..=3_600_000_000_000).contains(&clean_after) {
            return Err(Refused::new("clean_after", self.clean_after.to_string(), "100us to 1h"));
        }
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), NAME), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// The mirror on members of these sizes: the smallest one counts.
    pub fn layout(&self, sizes: &[u64]) -> Result<Layout, Refused> {
        self.check()?;
        if !(2..=MOST).contains(&sizes.len()) {
            let found = format!("{} devices", sizes.len());
            return Err(Refused::new("over", found, format!("2 to {MOST}, each of which has everything")));
        }
        let least = sizes.iter().min().copied().unwrap_or(0);
        let pages = (least / PAGE_SECTORS).saturating_sub(HEAD);
        if pages == 0 {
            let found = format!("a member of {least} sectors");
            return Err(Refused::new("over", found, format!("{} at least", (HEAD + 1) * PAGE_SECTORS)));
        }
        let Bytes(region) = self.region;
        Ok(Layout { pages, region: (region / PAGE_BYTES).max(pages.div_ceil(REGIONS)) })
    }

    /// Sectors visible to clients on members of these sizes.
    pub fn sectors(&self, below: &Sizes) -> Result<u64, Refused> {
        Ok(self.layout(&below.over)?.pages * PAGE_SECTORS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(options: &str, over: &[u64]) -> Result<Layout, String> {
        let options: Options = toml::from_str(options).unwrap();
        options.layout(over).map_err(|refused| refused.to_string())
    }

    #[test]
    fn the_smaller_member_counts_and_what_is_no_mirror_is_refused() {
        assert_eq!(layout("", &[2_000, 1_600]).unwrap(), Layout { pages: 196, region: 1_024 });
        let large = layout("region = '4KiB'", &[1 << 32, 1 << 31]).unwrap();
        assert!(large.pages.div_ceil(large.region) <= REGIONS && large.region == 95_326, "{large:?}");
        for (options, over, words) in [
            ("", &[2_000; 1][..], "1 devices, expected 2 to 4"),
            ("", &[2_000; 5], "5 devices"),
            ("", &[2_000, 39], "a member of 39 sectors, expected 40 at least"),
            ("region = '5KiB'", &[2_000; 2], "region"),
            ("clean_after = '1us'", &[2_000; 2], "clean_after"),
        ] {
            let error = layout(options, over).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
