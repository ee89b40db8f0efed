//! How a volume's map is kept: as it always was, or in sealed sectors.

use seekless_core::{BlockDevice, Buffer, Extent, IoError};

use super::table::{self, Map};
use super::{Options, sealed};
use crate::canary::Canary;

/// How the map is kept, and where the newest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the first format: the home follows from the generation.
    Old,
    /// In sealed sectors.
    Sealed {
        /// The home that counts.
        home: u64,
        /// The other one holds the same.
        copied: bool,
    },
}

impl Kept {
    /// Reads the map that counts, and how it is kept; new ones are sealed.
    pub async fn read(
        below: &dyn BlockDevice,
        options: &Options,
        canary: &Canary,
    ) -> Result<(Kept, Map), IoError> {
        let sectors = below.geometry().sectors;
        let pages = options.pages_of(sectors)?;
        if let Some(found) = sealed::read(below, pages, options.older, canary).await? {
            options.slots_of(sectors, pages, sealed::slots(sectors, pages))?;
            return Ok((Kept::Sealed { home: found.home, copied: found.copied }, found.map));
        }
        let slots = options.slots_of(sectors, pages, table::slots(sectors, pages))?;
        Ok((Kept::Old, table::read(below, pages, slots, canary).await?))
    }

    /// Both homes of a map of so many pages: slots are behind them.
    pub fn homes(self, pages: u64) -> Extent {
        if self == Kept::Old { table::homes(pages) } else { sealed::homes(pages) }
    }

    /// The next map, and the home that it goes to.
    pub fn next(self, map: &Map, canary: &Canary) -> (Extent, Buffer) {
        match self {
            Kept::Old => (table::home(map.generation, map.slots.len() as u64), table::encode(map, canary)),
            Kept::Sealed { home, .. } => Kept::at(map, 1 - home, canary),
        }
    }

    fn at(map: &Map, home: u64, canary: &Canary) -> (Extent, Buffer) {
        (sealed::home(home, map.slots.len() as u64), sealed::encode(map, home, canary))
    }

    /// The next map is durable.
    pub fn written(&mut self) {
        if let Kept::Sealed { home, copied } = self {
            (*home, *copied) = (1 - *home, false);
        }
    }

    /// Whether the home that does not count holds an older map.
    pub fn lacks_copy(self) -> bool {
        matches!(self, Kept::Sealed { copied: false, .. })
    }

    /// That home holds the same now.
    pub fn copied(&mut self) {
        if let Kept::Sealed { copied, .. } = self {
            *copied = true;
        }
    }
}
