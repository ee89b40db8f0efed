//! The area of a BOPT for what was learned of the workload: two copies, written in turn, the newer whole one counts.
//!
//! It takes the last segments of the write buffer out of the log, at the beginning of a session in which they are free:
//! so nothing else moves, and a BOPT of before gets an area too. A program that knows none takes these segments for
//! free, and writes a super page without an area.
//!
//! A copy has bytes that only the layer understands ([`blob`]). It is written outside of sessions, under a lock of its
//! own.
//!
//! Invariant: the copy that counts is not overwritten. The log has no batch in the area, and nothing is written once
//! the BOPT was given up. Faults: if no copy is whole, nothing was learned.

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, Mode, mutant};

use super::area::Area;
use super::format::OLD;
use super::session::Session;
use super::{Store, did};
use crate::durable::blob::{self, Head};
use crate::durable::region;
use crate::durable::sector::Part;

/// Magic of a copy.
const MAGIC: [u8; 8] = *b"SKLBORG5";
/// Sectors written under the lock at once: giving the BOPT up waits for them.
const AT_ONCE: u64 = 1_024;

/// State of the area.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copies {
    /// The one that counts.
    copy: u64,
    /// The newest generation of a head.
    newest: u64,
    /// Whether the heads were read.
    known: bool,
    /// Bytes in the copy that counts.
    pub bytes: u64,
}

/// What was found in the area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnedState {
    /// There is no area, or nothing was written yet.
    Nothing,
    /// No copy is whole.
    Damaged,
    /// These bytes.
    Bytes(Vec<u8>),
}

fn part(identity: u128) -> Part {
    Part::of(MAGIC, identity)
}

impl Store {
    /// The bytes that there is room for; 0 without an area, or before formatting.
    pub fn learned_room(&self) -> u64 {
        self.area_and_identity().0.map_or(0, Area::room)
    }

    /// The bytes in the copy that counts.
    pub fn learned_bytes(&self) -> u64 {
        self.disk.borrow().learned.bytes
    }

    /// The copies with a whole head, the newest first: generation, copy, and length; and whether a copy is there that
    /// has none.
    async fn heads(&self, area: Area, identity: u128) -> Result<(Vec<(u64, u64, u64)>, bool), IoError> {
        let (mut heads, mut damaged) = (Vec::new(), false);
        for copy in 0..2 {
            let at = area.sectors(copy, 0);
            let Some(head) = region::readable(&*self.bopt, at).await? else {
                damaged = true;
                continue;
            };
            match head.look(|head| blob::head(MAGIC, part(identity), at.start, head)) {
                Head::Whole { generation, length } if length <= area.room() => {
                    heads.push((generation, copy, length));
                }
                Head::Whole { .. } | Head::Damaged => damaged = true,
                Head::Other => {}
            }
        }
        heads.sort_unstable_by_key(|(generation, ..)| std::cmp::Reverse(*generation));
        Ok((heads, damaged))
    }

    /// Reads the area.
    pub async fn read_learned(&self) -> Result<LearnedState, IoError> {
        let (area, identity) = self.area_and_identity();
        let Some(area) = area else { return Ok(LearnedState::Nothing) };
        let (heads, damaged) = self.heads(area, identity).await?;
        // If none counts, either may be overwritten.
        let newest = heads.first().map_or(0, |(generation, ..)| *generation);
        self.disk.borrow_mut().learned = Copies { newest, known: true, ..Copies::default() };
        for &(generation, copy, length) in &heads {
            let at = area.sectors(copy, length);
            let sectors = region::readable(&*self.bopt, at).await?;
            let open = |sectors: &[u8]| blob::open(part(identity), at.start, generation, sectors);
            let bytes = sectors.and_then(|sectors| sectors.look(open));
            if let Some(found) = bytes {
                edge("what was learned is read after a restart");
                self.disk.borrow_mut().learned = Copies { copy, newest, known: true, bytes: length };
                return Ok(LearnedState::Bytes(found));
            }
        }
        Ok(if damaged || !heads.is_empty() { LearnedState::Damaged } else { LearnedState::Nothing })
    }

    fn area_and_identity(&self) -> (Option<Area>, u128) {
        let page = &self.disk.borrow().super_page;
        (page.learned.filter(|_| page.identity != 0), page.identity)
    }

    /// Writes these bytes over the copy that does not count, durably; they fit ([`Store::learned_room`]). One task does
    /// at a time.
    pub async fn write_learned(&self, bytes: &[u8], how: &Hints) -> Result<(), IoError> {
        let (area, identity) = self.area_and_identity();
        let Some(area) = area else { return Ok(()) };
        let known = self.disk.borrow().learned;
        if !known.known {
            // An area that was taken now may hold copies of an earlier one.
            let (heads, _) = self.heads(area, identity).await?;
            let (newest, copy, _) = heads.first().copied().unwrap_or_default();
            self.disk.borrow_mut().learned = Copies { copy, newest, known: true, bytes: 0 };
        }
        let (copy, generation) = {
            let learned = &mut self.disk.borrow_mut().learned;
            learned.newest += 1;
            (1 - learned.copy, learned.newest)
        };
        let mut at = area.sectors(copy, bytes.len() as u64);
        if mutant::is("borg: what was learned lies over the log") {
            // Behind the header of the first batch.
            at.start = Extent::of_pages(self.layout.page(self.layout.cached_slots() + 1), 1).start;
        }
        let sectors = Buffer::from_vec(blob::seal(MAGIC, part(identity), at.start, generation, bytes));
        did("what was learned", at, at.start.0);
        for (part, piece) in sectors.split(at, AT_ONCE) {
            let _writing = self.lock_learned(how).await;
            if self.disk.borrow().session == Session::GivenUp {
                return Ok(());
            }
            region::write(&*self.bopt, part, &piece, how).await?;
        }
        self.flush_bopt(how).await?;
        edge("what was learned is written");
        let learned = &mut self.disk.borrow_mut().learned;
        (learned.copy, learned.bytes) = (copy, bytes.len() as u64);
        Ok(())
    }

    /// Held while a part of the area is written.
    pub(super) async fn lock_learned(&self, how: &Hints) -> seekless_core::lock::Guard {
        self.learned.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone()).await
    }

    /// The area that there is, or that can be made in free segments of the log, which it takes. The caller begins a
    /// session, which writes where it is, or else gives it back ([`Store::give_back`]).
    pub(super) fn take_area(&self) -> Option<Area> {
        let (version, learned) = {
            let page = &self.disk.borrow().super_page;
            (page.version, page.learned)
        };
        if learned.is_some() || version == OLD {
            return learned;
        }
        let new = Area::of(self.layout)?;
        self.table.borrow_mut().log.take_out(new.segments(self.layout)).then_some(new)
    }

    /// Gives an area back to the log, unless the super page in force names it.
    pub(super) fn give_back(&self, area: Option<Area>) {
        let named = self.disk.borrow().super_page.learned;
        if let Some(area) = area.filter(|_| named.is_none()) {
            self.table.borrow_mut().log.put_back(area.segments(self.layout));
        }
    }
}
