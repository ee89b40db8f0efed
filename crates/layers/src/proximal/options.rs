//! Options of the layer.

use seekless_core::{PAGE_BYTES, PAGE_SECTORS};
use serde::{Deserialize, Serialize};

use super::format::{LABEL_PAGES, Shape, maps_of, records_of};
use crate::Refused;
use crate::borg;
use crate::canary::Canary;
use crate::units::Bytes;

/// Free blocks of a volume at least, whatever its reserve.
pub const LEAST_SPARE: u64 = 64;

/// The options of proximal I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Share of the data device kept free, above 0 and below 1, in every allocation range: the room for updates. Used
    /// at creation.
    pub reserve: f64,
    /// Size of an allocation range (section 4.3), 64KiB to 1GiB in steps of 4KiB: about a track. Over `raid4` a unit
    /// without its checksum blocks. Used at creation.
    pub range: Bytes,
    /// Ranges on either side that are tried when the range of a page's neighbours is full, before any other (section
    /// 4.3).
    pub span: u64,
    /// Writes of this size and larger go to the data device directly (section 4.3), unless one of their pages is
    /// staged.
    pub direct: Bytes,
    /// A read continues through up to this many bytes of other data, instead of being divided.
    pub read_gap: Bytes,
    /// Whether large writes to free ranges leave free blocks between pages, for updates near them; otherwise all free
    /// blocks of a range are at its end at first.
    pub spread: bool,
    /// Whether the data device gets copies of the map, so that the volume can be opened without its flash. Used at
    /// creation.
    pub copies: bool,
    /// The staging area is destaged when less than this share of it is free, 0 to 1.
    pub destage_below: f64,
    /// The canary to enable.
    #[cfg(feature = "canaries")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reserve: 0.11,
            range: Bytes(1 << 20),
            span: 50,
            direct: Bytes(168 << 10),
            read_gap: Bytes(64 << 10),
            spread: true,
            copies: false,
            destage_below: 0.05,
            #[cfg(feature = "canaries")]
            canary: None,
        }
    }
}

/// Rare code paths that an exploration has to reach.
pub const EDGES: &[&str] = &[
    "a new volume",
    "part of a block is joined with the rest of it",
    "a page that has no block",
    "the range of a page's neighbours is full: another one takes it",
    "blocks ran out: a flush frees some",
    "a page moves while the map is written",
    "a second flush waits for the first",
    "a flush failed: all later ones fail",
    "a write failed: its blocks are free again",
    "a torn copy of a map page: the other counts",
    "map pages are written to their other copies",
    "a read continues through other data",
    "a large write leaves free blocks between its pages",
];

/// Rare code paths of volumes with snapshots and clones.
pub const SNAPSHOT_EDGES: &[&str] = &[
    "a page of a commit that did not end: its other copy counts",
    "a snapshot keeps the block that a write replaces",
    "a page is destaged for a snapshot",
    "part of a page is joined with what is staged for a snapshot",
    "a deleted snapshot has pages that are staged",
    "there is no room: snapshots hold it",
    "a clone has a page of its own",
    "a page of a clone is written again",
    "a page of a deleted clone goes nowhere",
    "a deleted snapshot stays below its clones",
    "a snapshot failed: nothing is written any more",
];

/// Rare code paths of copies of the map, which explorations do not have.
pub const EDGES_OF_TESTS: &[&str] = &[
    "the map is newer than its copies: they are written before any block is",
    "regions are marked before a flush is answered",
    "another flush has marked the regions",
    "no anchor is whole: all copies are written anew",
    "flash is made from the copies on the data device",
];

/// Canaries of the layer.
pub const CANARIES: &[&str] = if cfg!(feature = "canaries") {
    &[
        "a map before its data",
        "a map page over the current one",
        "a block is free too early",
        "a failed write counts",
        "torn metadata accepted",
        "a block of a snapshot is reused",
        "a commit counts too early",
        "a staged page of a snapshot is that of the volume",
        "part of a commit counts",
        "a block below a clone is reused",
    ]
} else {
    &[]
};

/// Those that only show when the flash is lost.
#[cfg(feature = "canaries")]
pub const COPY_CANARIES: &[&str] = &[
    "an anchor before its copies",
    "a mark after the flush is answered",
    "a block that a copy names is free",
];

/// Those of volumes with snapshots and clones.
#[cfg(all(test, feature = "canaries"))]
pub const SNAPSHOT_CANARIES: &[&str] = &[
    "a block of a snapshot is reused",
    "a commit counts too early",
    "a staged page of a snapshot is that of the volume",
    "part of a commit counts",
    "a block below a clone is reused",
];

#[cfg(feature = "canaries")]
fn all_canaries() -> Vec<&'static str> {
    [CANARIES, COPY_CANARIES].concat()
}

impl Options {
    /// Checks options that are invalid on any device.
    pub fn check(&self) -> Result<(), Refused> {
        let share = |key, value: f64, most: f64| {
            let fits = value > 0.0 && value < most;
            let refused =
                || Refused::new(key, value.to_string(), format!("more than 0 and less than {most}"));
            fits.then_some(()).ok_or_else(refused)
        };
        share("reserve", self.reserve, 1.0)?;
        share("destage_below", self.destage_below, 0.9)?;
        let Bytes(range) = self.range;
        if range % PAGE_BYTES != 0 || !(64 << 10..=1 << 30).contains(&range) {
            return Err(Refused::new("range", format!("{range} bytes"), "64KiB to 1GiB in steps of 4KiB"));
        }
        #[cfg(feature = "canaries")]
        crate::canary::check(self.canary.as_deref(), &all_canaries())?;
        Ok(())
    }

    /// The enabled canary: none, except in a build with canaries.
    pub fn canary(&self) -> Canary {
        #[cfg(feature = "canaries")]
        return Canary::new(crate::canary::of(self.canary.as_deref(), "proximal"), &all_canaries());
        #[cfg(not(feature = "canaries"))]
        Canary::default()
    }

    /// Shape of a new volume on a data device of this many sectors.
    ///
    /// # Errors
    /// The device is too small, or larger than 16 TiB.
    pub fn shape(&self, sectors: u64) -> Result<Shape, Refused> {
        self.check()?;
        let range = self.range.0 / PAGE_BYTES;
        let ranges = sectors / PAGE_SECTORS / range;
        let blocks = ranges * range;
        let spare = ((blocks as f64 * self.reserve).ceil() as u64).max(LEAST_SPARE);
        let pages = blocks.saturating_sub(LABEL_PAGES + spare);
        // Copies leave fewer pages, of which there are fewer pages of the map.
        let records = |pages| records_of(maps_of(pages), spare);
        let most = Shape {
            range,
            ranges,
            pages,
            maps: maps_of(pages),
            records: records(pages),
            copies: self.copies,
        };
        let pages = pages.saturating_sub(most.reserved() - LABEL_PAGES);
        if pages == 0 || blocks >= u64::from(u32::MAX) {
            let found = format!("a data device of {sectors} sectors");
            let expected = format!("a range of {} KiB or more, and less than 16 TiB", self.range.0 >> 10);
            return Err(Refused::new("over", found, expected));
        }
        Ok(Shape { pages, maps: maps_of(pages), records: records(pages), ..most })
    }

    /// Options of the staging area: BORG's write buffer over all of it, which is the home of what it holds.
    pub(super) fn staging(&self) -> borg::Options {
        borg::Options {
            write_buffer: 1.0,
            absorb: true,
            absorb_below: self.direct,
            drain_below: self.destage_below,
            drain: borg::Drain::All,
            idle_after: seekless_core::Nanos::ZERO,
            dirty_max_age: seekless_core::Nanos::ZERO,
            eager: false,
            rehearse: false,
            at_stop: borg::AtStop::Keep,
            trust_origin: true,
            ..borg::Options::default()
        }
    }
}
