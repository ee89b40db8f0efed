//! The header of the log: which array it is of, and the last session in which that was written
//! ([`session`](crate::durable::session)), so that an old copy of the log is not replayed, nor this one over old
//! members.
//!
//! Two pages, each with the identity in its first sector and the numbers of sessions behind it. A log that a repair
//! made in the place of a lost one has another magic number until the array is clean: its rows may be inconsistent, and
//! follow from no record.
//!
//! Invariant: a session's number is durable here before it is in a superblock. Fault model: of each page any sector may
//! be torn or rot; either page may be unreadable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, PAGE_BYTES, SECTOR_BYTES};

use super::geometry::sectors;
use crate::bytes::{put, u128_at};
use crate::durable::sector::{Part, Sector};
use crate::durable::session::{self, Number};

const MAGIC: [u8; 8] = *b"SKLRAIDJ";
/// Of a log in the place of one that was lost with records.
const REPLACED: [u8; 8] = *b"SKLRAIDL";
/// Of the numbers of sessions.
const SESSION: [u8; 8] = *b"SKLRAIDS";
/// Pages of the header.
pub const PAGES: u64 = 2;
const SECTOR: usize = SECTOR_BYTES as usize;

/// The header of a log.
pub struct Head {
    device: RefCell<Rc<dyn BlockDevice>>,
    identity: u128,
    /// Whether records were lost that the array may need.
    records_lost: Cell<bool>,
}

/// What lies at the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    Blank,
    /// The log of this array, last written in this session.
    Log(Number),
    /// Something else, in words.
    Other(String),
}

impl Head {
    /// The header of the log of an array on this device.
    pub fn new(device: Rc<dyn BlockDevice>, identity: u128) -> Head {
        Head { device: RefCell::new(device), identity, records_lost: Cell::new(false) }
    }

    /// The log.
    pub fn device(&self) -> Rc<dyn BlockDevice> {
        self.device.borrow().clone()
    }

    /// Another log, of which the header was written.
    pub fn set_device(&self, device: Rc<dyn BlockDevice>) {
        self.device.replace(device);
    }

    /// Whether records were lost that the array may need: then its rows may be inconsistent.
    pub fn has_lost_records(&self) -> bool {
        self.records_lost.get()
    }

    /// The array is clean: it needs no record.
    pub fn needs_no_records(&self) {
        self.records_lost.set(false);
    }

    /// Writes the header of the log of an array that was written last in this session; 0 for a new one.
    pub async fn create(&self, session: u64, records_lost: bool) -> Result<(), IoError> {
        self.records_lost.set(records_lost);
        self.write_session(session).await
    }

    /// Records that a session begins, durably.
    pub async fn write_session(&self, session: u64) -> Result<(), IoError> {
        let mut bytes = vec![0; (PAGES * PAGE_BYTES) as usize];
        for (page, copy) in bytes.chunks_mut(PAGE_BYTES as usize).zip(0..) {
            let magic = if self.has_lost_records() { REPLACED } else { MAGIC };
            put(page, 0, &magic);
            put(page, 8, &self.identity.to_le_bytes());
            Part::of(magic, 0).seal(sectors(copy).start, 1, &mut page[..SECTOR]);
            if session >= session::FIRST {
                session::put(self.sessions(), page, session);
            }
        }
        let device = self.device();
        let how = Hints::default();
        device.write(Extent::of_pages(0, PAGES), Buffer::from_vec(bytes), how.clone()).await?;
        device.flush(how).await
    }

    fn sessions(&self) -> Part {
        Part::of(SESSION, self.identity)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Neither page can be read.
    pub async fn find(&self) -> Result<Probed, IoError> {
        let (mut found, mut known, mut error) = (Probed::Blank, Vec::new(), None);
        for copy in 0..PAGES {
            let at = sectors(copy);
            let page = match self.device().read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
                Ok(read) => read.to_vec(),
                Err(failed) => {
                    error = Some(failed);
                    continue;
                }
            };
            let sector = &page[..SECTOR];
            let states = [MAGIC, REPLACED].map(|magic| Part::of(magic, 0).look(at.start, sector));
            match states {
                [Sector::Blank, _] => {}
                [Sector::Whole(_), _] | [_, Sector::Whole(_)] if u128_at(sector, 8) == self.identity => {
                    self.records_lost.set(matches!(states[1], Sector::Whole(_)));
                    known.push(Number::in_page(self.sessions(), &page));
                }
                [Sector::Whole(_), _] | [_, Sector::Whole(_)] => {
                    found = Probed::Other(format!("the log of array {:032x}", u128_at(sector, 8)));
                }
                _ => found = Probed::Other("data that is no log".to_owned()),
            }
        }
        let lost = known.iter().all(|found| found.most > found.number);
        match (known.iter().map(|found| found.number).max(), found, error) {
            (Some(number), ..) => Ok(Probed::Log(Number::of(number, lost))),
            (None, Probed::Blank, Some(error)) => Err(error),
            (None, found, _) => Ok(found),
        }
    }
}
