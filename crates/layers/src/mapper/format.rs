//! How a volume's map is kept: as it always was, or in sealed sectors.

use seekless_core::{BlockDevice, Buffer, Extent, IoError};

use super::table::{self, Map};
use super::{Options, sealed};
use crate::canary::Canary;

/// How the map is kept, and where the newest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// In the first format: the copy follows from the generation.
    Old,
    /// In sealed sectors.
    Sealed {
        /// The copy that counts.
        copy: u64,
        /// The other one holds the same.
        copied: bool,
    },
}

impl Format {
    /// Reads the map that counts, and how it is kept; new ones are sealed.
    pub async fn read(
        below: &dyn BlockDevice,
        options: &Options,
        canary: &Canary,
    ) -> Result<(Format, Map), IoError> {
        let sectors = below.geometry().sectors;
        let pages = options.pages_of(sectors)?;
        if let Some(found) = sealed::read(below, pages, options.older, canary).await? {
            options.slots_of(sectors, pages, sealed::slots(sectors, pages))?;
            return Ok((Format::Sealed { copy: found.copy, copied: found.copied }, found.map));
        }
        let slots = options.slots_of(sectors, pages, table::slots(sectors, pages))?;
        Ok((Format::Old, table::read(below, pages, slots, canary).await?))
    }

    /// Both copies of a map of so many pages: slots are behind them.
    pub fn copies(self, pages: u64) -> Extent {
        if self == Format::Old { table::copies(pages) } else { sealed::copies(pages) }
    }

    /// The next map, and the copy that it goes to.
    pub fn next(self, map: &Map, canary: &Canary) -> (Extent, Buffer) {
        match self {
            Format::Old => (table::copy(map.generation, map.slots.len() as u64), table::encode(map, canary)),
            Format::Sealed { copy, .. } => Format::at(map, 1 - copy, canary),
        }
    }

    fn at(map: &Map, copy: u64, canary: &Canary) -> (Extent, Buffer) {
        (sealed::copy(copy, map.slots.len() as u64), sealed::encode(map, copy, canary))
    }

    /// The next map is durable.
    pub fn written(&mut self) {
        if let Format::Sealed { copy, copied } = self {
            (*copy, *copied) = (1 - *copy, false);
        }
    }

    /// Whether the copy that does not count holds an older map.
    pub fn lacks_copy(self) -> bool {
        matches!(self, Format::Sealed { copied: false, .. })
    }

    /// That copy holds the same now.
    pub fn copied(&mut self) {
        if let Format::Sealed { copied, .. } = self {
            *copied = true;
        }
    }
}
