//! On-disk formats of the map: the first one, and sealed sectors.

use seekless_core::{BlockDevice, Buffer, Extent, IoError};

use super::Options;
use super::sealed::{self, StoredMap};
use super::table::{self, Map};
use crate::canary::Canary;

/// Format of the map, and state of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// In the first format: the copy follows from the generation.
    Old,
    /// In sealed sectors.
    Sealed {
        /// The current copy.
        copy: u64,
        /// Whether the other copy is the same.
        copied: bool,
        /// Whether neither copy was ever whole: a volume of zeroes.
        is_new: bool,
        /// Whether both copies were written before.
        both_written: bool,
    },
}

impl Format {
    /// Reads the current map, and its format; new ones are sealed. Last, whether the map is on disk as it is: one that
    /// is not has to be written in a later generation before anything else.
    pub async fn read(
        below: &dyn BlockDevice,
        options: &Options,
        canary: &Canary,
    ) -> Result<(Format, Map, bool), IoError> {
        let sectors = below.geometry().sectors;
        let pages = options.pages_of(sectors)?;
        if let Some(found) = sealed::read(below, pages, options.older, canary).await? {
            options.slots_of(sectors, pages, sealed::slots(sectors, pages))?;
            let StoredMap { map, format, is_later } = found;
            return Ok((format, map, !is_later));
        }
        let slots = options.slots_of(sectors, pages, table::slots(sectors, pages))?;
        // The first format does not tell.
        Ok((Format::Old, table::read(below, pages, slots, canary).await?, false))
    }

    /// Whether no map was ever written.
    pub fn is_new(self) -> bool {
        matches!(self, Format::Sealed { is_new: true, .. })
    }

    /// Whether sectors of a copy may be blank, or are not as they were written.
    pub fn lacks_sectors(self) -> bool {
        matches!(self, Format::Sealed { both_written: false, .. })
    }

    /// Extent of both copies of a map of `pages` pages: slots follow.
    pub fn copies(self, pages: u64) -> Extent {
        if self == Format::Old { table::copies(pages) } else { sealed::copies(pages) }
    }

    /// Encodes the next map; returns the extent of its copy.
    pub fn next(self, map: &Map, canary: &Canary) -> (Extent, Buffer) {
        match self {
            Format::Old => (table::copy(map.generation, map.slots.len() as u64), table::encode(map, canary)),
            Format::Sealed { copy, both_written, .. } => {
                let at = sealed::copy(1 - copy, map.slots.len() as u64);
                (at, sealed::encode(map, 1 - copy, both_written, canary))
            }
        }
    }

    /// Encodes the current map for its other copy, after it was written to the first.
    pub fn again(self, map: &Map, canary: &Canary) -> (Extent, Buffer) {
        match self {
            Format::Old => self.next(map, canary),
            // If it is torn, the first one counts, whatever was there before.
            Format::Sealed { copy, copied, is_new, .. } => {
                Format::Sealed { copy, copied, is_new, both_written: true }.next(map, canary)
            }
        }
    }

    /// Records that the next map is durable.
    pub fn written(&mut self) {
        if let Format::Sealed { copy, copied, is_new, .. } = self {
            (*copy, *copied, *is_new) = (1 - *copy, false, false);
        }
    }

    /// Whether the other copy holds an older map.
    pub fn lacks_copy(self) -> bool {
        matches!(self, Format::Sealed { copied: false, .. })
    }

    /// Records that the other copy is the same.
    pub fn copied(&mut self) {
        if let Format::Sealed { copied, both_written, .. } = self {
            (*copied, *both_written) = (true, true);
        }
    }
}
