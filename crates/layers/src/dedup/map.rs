//! The map in memory, with what follows from it: the pages of each piece, and pieces by the fingerprint of their
//! content; and when it becomes durable.
//!
//! Invariants: a sector of the map is written after the pieces that it names are durable; a piece is free after a map
//! that does not name it is durable; a piece that has no pages is found by no fingerprint. After a failed flush or
//! write of the map all later flushes fail, and no piece is freed any more.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{Class, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::Dedup;
use super::content::Fingerprint;
use super::format::{self, Piece, Shape};
use super::space::Space;
use crate::durable::table::Table;
use crate::join::join_all;

/// The map.
pub struct Map {
    pub shape: Shape,
    table: Table,
    pub space: Space,
    /// Pieces with pages, by fingerprint.
    known: BTreeSet<(Fingerprint, u32)>,
    /// Pieces without pages that the durable map may still name.
    released: Vec<u32>,
    /// Those to which a write has failed: they are taken last, since it may be carried out late.
    avoided: Vec<u32>,
    /// Whether the map being written frees some.
    freeing: bool,
    failed: Option<IoError>,
    pub counts: Counts,
}

/// What is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that are stored, those that share a piece counted each.
    pub pages: u64,
    /// Pieces that have pages.
    pub pieces: u64,
    /// Their sectors.
    pub sectors: u64,
}

impl Map {
    /// The map that was read.
    ///
    /// # Errors
    /// `Corrupt` if pieces overlap, or are none: the sector of the map.
    pub fn of(shape: Shape, table: Table) -> Result<Map, IoError> {
        let mut map = Map {
            shape,
            table,
            space: Space::new(shape.blocks),
            known: BTreeSet::new(),
            released: Vec::new(),
            avoided: Vec::new(),
            freeing: false,
            failed: None,
            counts: Counts::default(),
        };
        for page in 0..shape.pages {
            let corrupt = |found: String| {
                let why = format!("found {found}, expected a piece of its own or one of a page like it");
                map.table.site().corrupt(format::entry(page) as usize, why)
            };
            let piece = format::decode(map.numbers(page), shape.blocks).map_err(corrupt)?;
            let Some(piece) = piece else { continue };
            let overlaps = || corrupt(format!("page {page} in sectors {} + {}", piece.at, piece.sectors));
            let is_first = map.space.found(&piece).map_err(|()| overlaps())?;
            if !is_first && piece.fingerprint != Fingerprint::UNKNOWN && !map.is_known(&piece) {
                return Err(overlaps());
            }
            map.counts.pages += 1;
            if is_first {
                map.know(&piece);
            }
        }
        Ok(map)
    }

    fn numbers(&self, page: u64) -> [u32; 2] {
        let first = format::entry(page) as usize;
        [self.table.values()[first], self.table.values()[first + 1]]
    }

    /// The piece of a page, if it is stored.
    pub fn piece(&self, page: u64) -> Option<Piece> {
        format::decode(self.numbers(page), self.shape.blocks).unwrap_or_default()
    }

    fn is_known(&self, piece: &Piece) -> bool {
        self.known.contains(&(piece.fingerprint, piece.at))
    }

    /// A piece has its first page.
    fn know(&mut self, piece: &Piece) {
        self.counts.pieces += 1;
        self.counts.sectors += u64::from(piece.sectors);
        if piece.fingerprint != Fingerprint::UNKNOWN {
            self.known.insert((piece.fingerprint, piece.at));
        }
    }

    /// Pieces whose pages may be like one with this fingerprint, a few at most.
    pub fn alike(&self, fingerprint: Fingerprint) -> Vec<Piece> {
        /// Many pages with one fingerprint are rare, and each is read to be compared.
        const MOST: usize = 4;
        let alike = self.known.range((fingerprint, 0)..=(fingerprint, u32::MAX)).take(MOST);
        alike.map(|(_, at)| Piece { at: *at, sectors: self.space.sectors(*at), fingerprint }).collect()
    }

    /// Takes sectors for a piece; it has no pages yet.
    pub fn take(&mut self, sectors: u32) -> Option<u32> {
        self.space.take(sectors)
    }

    /// Whether pieces become free when the map is durable.
    pub fn gains(&self) -> bool {
        self.freeing || !self.released.is_empty()
    }

    /// Frees pieces to which a write has failed; whether there were any.
    pub fn try_avoided(&mut self) -> bool {
        let avoided = std::mem::take(&mut self.avoided);
        for at in &avoided {
            self.space.free_piece(*at);
        }
        !avoided.is_empty()
    }

    /// A piece that was taken was not written.
    pub fn avoid(&mut self, at: u32) {
        self.avoided.push(at);
    }

    /// A piece that was taken was written, and has a page.
    pub fn begin(&mut self, piece: &Piece) {
        self.space.begin(piece.at);
        self.know(piece);
    }

    /// One page less has this piece; `reuses` is a canary's.
    pub fn leave(&mut self, piece: &Piece, reuses: bool) {
        if !self.space.leave(piece.at) {
            edge("what a page shared is left to others");
            return;
        }
        self.known.remove(&(piece.fingerprint, piece.at));
        self.counts.pieces -= 1;
        self.counts.sectors -= u64::from(piece.sectors);
        if reuses {
            self.space.free_piece(piece.at);
        } else {
            self.released.push(piece.at);
        }
    }

    /// A page is stored in this piece now, or in none; returns the piece before.
    pub fn change(&mut self, page: u64, piece: Option<Piece>) -> Option<Piece> {
        let before = self.piece(page);
        if before == piece {
            return before;
        }
        for (number, entry) in format::encode(piece).into_iter().zip(format::entry(page)..) {
            self.table.set(entry, number);
        }
        self.counts.pages += u64::from(piece.is_some());
        self.counts.pages -= u64::from(before.is_some());
        before
    }

    /// Sectors of the map written, of both copies.
    pub fn sectors_written(&self) -> u64 {
        self.table.sectors_written()
    }
}

impl Dedup {
    /// Makes earlier writes durable: the pieces, then changes of the map; then pieces released before are free.
    pub(super) async fn commit(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.committing.exclusive(Extent::new(0, 1), how).await;
        let (writes, released) = {
            let mut map = self.map.borrow_mut();
            if let Some(error) = &map.failed {
                edge("a flush failed: all later ones fail");
                return Err(error.clone());
            }
            let writes =
                if self.canary.is("a flush without the map") { Vec::new() } else { map.table.take_changed() };
            let released = std::mem::take(&mut map.released);
            map.freeing = !released.is_empty();
            (writes, released)
        };
        // Others may wait for this: not delayed, and not aborted with the request that started it.
        let how = Hints { class: how.class.min(Class::Foreground), ticket: None, ..how.clone() };
        let late = self.canary.is("a map before its data") && !writes.is_empty();
        let done = async {
            if !late {
                self.below.flush(how.clone()).await?;
            }
            if writes.is_empty() {
                return Ok(());
            }
            let most = self.below.geometry().largest_sectors;
            let writes = writes.into_iter().flat_map(|(at, bytes)| {
                let parts = bytes.split(at, most).collect::<Vec<_>>();
                parts.into_iter().map(|(part, piece)| self.below.write(part, piece, how.clone()))
            });
            join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
            self.below.flush(how.clone()).await
        };
        let done = done.await;
        let map = &mut *self.map.borrow_mut();
        map.freeing = false;
        match &done {
            Ok(()) => {
                let late = mutant::is("dedup: pieces released while the map is written are free with it");
                let more = if late { std::mem::take(&mut map.released) } else { Vec::new() };
                released.into_iter().chain(more).for_each(|at| map.space.free_piece(at));
            }
            Err(_) if mutant::is("dedup: a failed flush is forgotten") => {}
            Err(error) => map.failed = Some(error.clone()),
        }
        done
    }

    /// Where a part of a page lies in its piece, which is not compressed.
    pub(super) fn place(&self, piece: &Piece, part: Extent) -> Extent {
        let all = self.map.borrow().shape.place(piece);
        Extent { start: all.start + part.start.0 % PAGE_SECTORS, ..part }
    }
}
