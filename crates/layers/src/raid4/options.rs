//! Options of the layer.

use seekless_core::{PAGE_BYTES, PAGE_SECTORS, Size};
use serde::{Deserialize, Serialize};

use super::geometry::{GROUP, HEAD, Layout};
use super::sums::MOST_DATA;
use crate::Refused;
use crate::canary::Canary;
use crate::registry::Sizes;
use crate::units::Bytes;

/// The layer's name in errors.
pub const NAME: &str = "raid4";
/// Key of the device with parity.
pub const PARITY: &str = "parity";
/// Key of the device with the journal.
pub const LOG: &str = "log";

/// Where parity lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// On the device `parity` (RAID-4).
    #[default]
    None,
    /// On each member in turn, from the last one down (RAID-5).
    Left,
}

/// The options of raid4.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Stripe unit, with its checksum blocks: about a track.
    pub unit: Bytes,
    /// Where parity lies.
    pub rotation: Rotation,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            unit: Bytes(1 << 20),
            rotation: Rotation::None,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "zeroes where no superblock was written: a new array",
    "an array whose creation was cut short is created again",
    "writes of an instant to one group go together",
    "a row is updated by subtraction",
    "a row is updated by addition",
    "a write finds a damaged block",
    "a damaged block is repaired",
    "a repair fails: its member is out of service",
    "a verifying read finds a damaged block",
    "a row with several weak blocks is read without verifying",
    "of a run that cannot be read, each block is",
    "a checksum block cannot be read: it follows from the other members",
    "a checksum block cannot be read in a replay: it follows from the other members",
    "a block of a missing member follows from the others",
    "a member fails: it is out of service",
    "a member fails that the array cannot do without",
    "a member fails while a row is read",
    "a write fails: its member is out of service",
    "a member is rebuilt",
    "a member is in service again",
    "the member being rebuilt fails",
    "the journal is replayed",
    "records of both halves are replayed",
    "records that come together are written together",
    "the journal goes on in its other half",
    "the journal waits for writes in place",
    "the journal begins anew",
    "the log fails: the array refuses writes",
    "a group of a dirty array is made consistent",
    "a group of which a write failed is made consistent",
    "nothing is being written: the array is clean",
];

/// Those that only the layer's tests reach.
pub const EDGES_OF_TESTS: &[&str] = &[
    "a member is replaced",
    "a member with old contents is out of service",
    "the log is replaced",
    "a blank log of a clean array",
    "an old log of a clean array",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &["hole in parity", "stale checksum", "missing flush of the journal", "unflushed opening"]
} else {
    &[]
};

/// Bytes of a whole group.
const GROUP_BYTES: u64 = GROUP * PAGE_BYTES;

impl Options {
    /// Checks options that are invalid on any devices.
    pub fn check(&self) -> Result<(), Refused> {
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), CANARIES)?;
        let Bytes(unit) = self.unit;
        let small = unit % PAGE_BYTES == 0 && (2 * PAGE_BYTES..=GROUP_BYTES).contains(&unit);
        let large = unit % GROUP_BYTES == 0 && (GROUP_BYTES..=1 << 30).contains(&unit);
        if small || large {
            return Ok(());
        }
        let expected = "8KiB to 256KiB in steps of 4KiB, or a multiple of 256KiB up to 1GiB";
        Err(Refused::new("unit", Size(unit).to_string(), expected))
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), NAME), CANARIES);
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// The array on members of these sizes: those of `over`, and the one of `parity`.
    pub fn layout(&self, below: &Sizes) -> Result<Layout, Refused> {
        self.check()?;
        let data = below.over.len();
        if !(2..=MOST_DATA).contains(&data) {
            return Err(Refused::new(
                "over",
                format!("{data} devices"),
                format!("2 to {MOST_DATA} for data"),
            ));
        }
        let parity: u64 = below.devices.get(PARITY).into_iter().flatten().sum();
        let sizes = || below.over.iter().copied().chain([parity]);
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        let text = |sectors: u64| Size(sectors.saturating_mul(512)).to_string();
        if least != most {
            let found = format!("members of {least} sectors and of {most}");
            return Err(Refused::new("over", found, "members of one size: slices make them equal"));
        }
        let Bytes(unit) = self.unit;
        let layout = Layout::of(data, self.rotation == Rotation::Left, unit / PAGE_BYTES, least);
        if layout.stripes == 0 {
            let room = format!("at least {}, for one unit", text(HEAD * PAGE_SECTORS + unit / 512));
            return Err(Refused::new("over", format!("members of {}", text(least)), room));
        }
        Ok(layout)
    }

    /// Sectors visible to clients on members of these sizes.
    pub fn sectors(&self, below: &Sizes) -> Result<u64, Refused> {
        Ok(self.layout(below)?.pages() * PAGE_SECTORS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn layout(options: &str, over: &[u64], parity: u64) -> Result<Layout, String> {
        let devices = BTreeMap::from([(PARITY.to_owned(), vec![parity])]);
        let options: Options = toml::from_str(options).unwrap();
        options.layout(&Sizes { over: over.to_vec(), devices }).map_err(|refused| refused.to_string())
    }

    #[test]
    fn sizes_that_are_no_array_are_refused_with_what_was_found() {
        assert_eq!(layout("", &[20_000; 4], 20_000).unwrap().stripes, 9);
        assert_eq!(layout("unit = '32KiB'", &[80; 2], 80).unwrap().pages(), 14);
        for (options, over, parity, words) in [
            ("", &[20_000; 1][..], 20_000, "1 devices, expected 2 to 10"),
            ("", &[20_000; 11], 20_000, "11 devices"),
            ("", &[20_000, 20_008], 20_000, "members of 20000 sectors and of 20008"),
            ("", &[20_000, 20_000], 19_992, "members of 19992 sectors"),
            ("", &[2_000, 2_000], 2_000, "for one unit"),
            ("unit = '300KiB'", &[20_000; 2], 20_000, "unit"),
            ("unit = '4KiB'", &[20_000; 2], 20_000, "unit"),
            ("unit = '9KiB'", &[20_000; 2], 20_000, "unit"),
        ] {
            let error = layout(options, over, parity).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
