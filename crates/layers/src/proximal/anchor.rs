//! The anchor, on the data device behind the label: which copies of the map and of records count, and the regions whose
//! newest contents may be in flash alone.
//!
//! It has two slots, which are written in turn, each a page of sealed sectors: the super page as of the copies, and in
//! the first sector the fields of this file, in place of the session. Copies are in two areas, of which the anchor
//! names the current one, and the other is written next. Every page that has changed since an area was written is
//! written there, so that the current area is whole.
//!
//! Invariants: an anchor is written after the copies that it names are durable.

use seekless_core::Extent;

use super::format::{self, Shape};
use super::regions::{self, Regions};
use super::super_page::Super;
use crate::bytes::{put, u32_at, u64_at};
use crate::durable::sector::{self, Part};
use crate::durable::{Choice, Pair};

/// The anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The volume as of the copies: its generation is theirs.
    pub page: Super,
    /// The current area.
    pub area: usize,
    /// For each area, the generation on flash up to which commits are in it.
    pub covers: [u64; 2],
    /// Regions with contents that may be in flash alone.
    pub marks: Regions,
}

/// The current slot, the newest generation of any sector of both, and its contents.
pub type CurrentAnchor = (usize, u64, Anchor);

/// Structure of the anchor.
fn part() -> Part {
    Part::of(*b"SKLPROXC", 0)
}

impl Anchor {
    /// The anchor of a new volume, in which nothing was written.
    pub fn new(page: Super, generation: u64) -> Anchor {
        let marks = Regions::new(&page.shape);
        // What a copy that is cut short leaves in the other area is older than what a repair writes.
        let covers = [generation + 2, generation];
        Anchor { page: Super { committed: generation, session: 0, ..page }, area: 0, covers, marks }
    }

    /// The anchor of a volume whose copies are unknown: everything may be in flash alone. `newest` is the newest
    /// generation on flash, which no copy had: each came after a commit.
    pub fn unknown(page: Super, newest: u64) -> Anchor {
        let mut marks = Regions::new(&page.shape);
        marks.add_all(Extent::of_pages(0, page.shape.pages));
        Anchor { page: Super { committed: newest, session: 0, ..page }, area: 0, covers: [0; 2], marks }
    }

    /// Encodes it for a slot.
    pub fn encode(&self, slot: usize, generation: u64) -> Vec<u8> {
        let mut bytes = self.page.bytes();
        put(&mut bytes, 88, &self.covers[0].to_le_bytes());
        put(&mut bytes, 96, &self.covers[1].to_le_bytes());
        put(&mut bytes, 104, &(self.area as u32).to_le_bytes());
        put(&mut bytes, 112, &self.marks.bytes());
        part().seal(format::anchor_at(slot).start, generation, &mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Anchor, String> {
        let page = Super { session: 0, ..Super::decode(bytes)? };
        let (covers, area) = ([u64_at(bytes, 88), u64_at(bytes, 96)], u32_at(bytes, 104) as usize);
        if !page.shape.copies || area > 1 || covers.iter().any(|covers| *covers >= sector::LAST) {
            return Err(format!("area {area}, of generations {covers:?}"));
        }
        let marks = Regions::of_bytes(&page.shape, &bytes[112..112 + regions::BYTES]);
        Ok(Anchor { page, area, covers, marks })
    }

    /// Finds the current one in the bytes of both slots, or says what was found, with the newest generation of any
    /// sector.
    pub fn find(slots: [&[u8]; 2]) -> Result<CurrentAnchor, (String, u64)> {
        let at = |slot: usize| (format::anchor_at(slot), slots[slot]);
        let pair = Pair::of(part(), [at(0), at(1)]);
        let found = match pair.choose() {
            Choice::Copy(slot) => Anchor::decode(slots[slot]).map(|anchor| (slot, pair.newest(), anchor)),
            Choice::Blank => Err("no anchor".to_owned()),
            Choice::Refused(sector, _) => Err(format!("sector {} not as it was written", sector.0)),
            Choice::Neither => Err("no slot of the anchor that is whole".to_owned()),
        };
        found.map_err(|found| (found, pair.newest()))
    }

    /// The volume's shape.
    pub fn shape(&self) -> &Shape {
        &self.page.shape
    }
}
