//! A BOPT of version 1 becomes one of version 2. No data moves.
//!
//! First it stops clean, so that its map tells all and its log is empty. Then its map pages are written in version 2,
//! in the copies that do not count, and are durable; then a super page that says so takes the place of the older one.
//! From then on it is of version 2, and copies of version 1 do not count; they are written over, and a last super page
//! says that all are.
//!
//! Faults: whenever power goes, it opens as one or the other. What was begun before the new super page is done again by
//! the next upgrade; what was left behind it, by whoever opens it next.

use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError};

use super::Store;
use super::format::{OLD, SEALED, UPGRADING};

/// Segments whose map pages are written together.
const AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

impl Store {
    /// Whether it is of version 1.
    pub fn is_old(&self) -> bool {
        self.disk.borrow().page.version == OLD
    }

    /// Makes a store of version 1, which was stopped clean, one of version 2.
    pub async fn upgrade(&self, how: &Hints) -> Result<(), IoError> {
        let _metadata = self.lock_metadata(how).await;
        self.write_all_sealed(how).await?;
        self.end_upgrade(how).await
    }

    /// All map pages in version 2, and a super page that makes them count.
    async fn write_all_sealed(&self, how: &Hints) -> Result<(), IoError> {
        self.clear_older_super(how).await?;
        self.disk.borrow_mut().page.version = SEALED;
        let segments: Vec<u32> = (0..self.layout.segments()).collect();
        for some in segments.chunks(AT_ONCE) {
            let pages = self.map_writes(some);
            self.write_maps(&pages, how).await?;
            let table = &mut *self.table.borrow_mut();
            for page in &pages {
                table.persisted(page);
            }
        }
        let generations = self.table.borrow().segments.generations();
        self.write_super(|page| (page.features, page.generations) = (UPGRADING, generations), how).await
    }

    /// What is left of version 1 is written over; for who holds the metadata lock, or opens it.
    pub(super) async fn end_upgrade(&self, how: &Hints) -> Result<(), IoError> {
        while self.table.borrow().segments.once() > 0 {
            if !self.duplicate(false, how).await? {
                let why = "found a map page that has rotted meanwhile, expected it as it was written";
                return Err(IoError::new(ErrorKind::Corrupt, "borg", None, why));
            }
        }
        self.clear_older_super(how).await?;
        self.write_super(|page| page.features = 0, how).await?;
        self.duplicate_all(how).await
    }

    /// What is in the other copy of the super page must not be mistaken for a part of what comes there.
    async fn clear_older_super(&self, how: &Hints) -> Result<(), IoError> {
        let older = Extent::of_pages(1 - self.disk.borrow().supers.copy, 1);
        self.bopt.write(older, Buffer::zeroed(older.bytes()), how.clone()).await?;
        self.flush_bopt(how).await
    }
}
