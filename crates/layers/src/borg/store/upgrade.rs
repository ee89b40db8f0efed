//! Upgrade of a BOPT from version 1 to version 2. No data moves.
//!
//! First it is stopped clean, so that its map is complete and its log empty. Then its map pages are written in version
//! 2 over the copies that are not current, and flushed; then a super page that records this replaces the older one.
//! From then on it is of version 2, and copies of version 1 are not valid; they are overwritten, and a last super page
//! records that.
//!
//! Faults: a power failure leaves either version. An upgrade interrupted before the new super page is restarted by the
//! next upgrade; one interrupted after it is completed by the next opening.

use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError};

use super::Store;
use super::format::{OLD, SEALED, UPGRADING};

/// Segments whose map pages are written together.
const AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

impl Store {
    /// Whether the BOPT is of version 1.
    pub fn is_old(&self) -> bool {
        self.disk.borrow().super_page.version == OLD
    }

    /// Upgrades a store of version 1 that was stopped clean.
    pub async fn upgrade(&self, how: &Hints) -> Result<(), IoError> {
        let _metadata = self.lock_metadata(how).await;
        self.write_all_sealed(how).await?;
        self.end_upgrade(how).await
    }

    /// Writes all map pages in version 2, and a super page that makes them current.
    async fn write_all_sealed(&self, how: &Hints) -> Result<(), IoError> {
        self.clear_older_super(how).await?;
        self.disk.borrow_mut().super_page.version = SEALED;
        let segments: Vec<u32> = (0..self.layout.segments()).collect();
        for some in segments.chunks(AT_ONCE) {
            let pages = self.encode_map_pages(some);
            self.write_map_pages(&pages, how).await?;
            let table = &mut *self.table.borrow_mut();
            for page in &pages {
                table.record_persisted(page);
            }
        }
        let generations = self.table.borrow().segments.generations();
        self.write_super(|page| (page.features, page.generations) = (UPGRADING, generations), how).await
    }

    /// Overwrites the remaining copies of version 1; the caller holds the metadata lock, or is opening the BOPT.
    pub(super) async fn end_upgrade(&self, how: &Hints) -> Result<(), IoError> {
        while self.table.borrow().segments.not_duplicated() > 0 {
            if !self.duplicate(false, how).await? {
                let why = "found a map page that has rotted meanwhile, expected it as it was written";
                return Err(IoError::new(ErrorKind::Corrupt, "borg", None, why));
            }
        }
        self.clear_older_super(how).await?;
        self.write_super(|page| page.features = 0, how).await?;
        self.duplicate_all(how).await
    }

    /// Clears the other copy of the super page, so that no rest of it is taken for part of the next one.
    async fn clear_older_super(&self, how: &Hints) -> Result<(), IoError> {
        let older = Extent::of_pages(1 - self.disk.borrow().supers.copy, 1);
        self.bopt.write(older, Buffer::zeroed(older.bytes()), how.clone()).await?;
        self.flush_bopt(how).await
    }
}
