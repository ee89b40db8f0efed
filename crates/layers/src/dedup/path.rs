//! The path of a request: a read goes to the pieces of its pages; a write looks for pieces that hold the same, and
//! writes the others to free ones.
//!
//! Invariants: a piece is read while a page that the request holds has it, or one that is added for the time; bytes are
//! compared before a page shares them, so a fingerprint only leads to where to look.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;
use seekless_core::lock::{Guard, lock_all};
use seekless_core::runtime::edge;
use seekless_core::{
    Buffer, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, mutant,
};

use super::Dedup;
use super::content::{self, Fingerprint};
use super::format::Piece;
use super::options::Compress;

use crate::join::join_all;

/// Part of a request, as far as it is read at once.
struct Run {
    here: Extent,
    from: Source,
}

/// Where that is.
enum Source {
    /// Nowhere: zeroes.
    Nowhere,
    /// Contiguous on the device, of pages with these pieces.
    There(Extent, Vec<Piece>),
    /// In a compressed piece.
    Packed(Piece),
}

/// A content that a request writes, and the pages that have it.
#[derive(Clone)]
struct Group {
    fingerprint: Fingerprint,
    bytes: Buffer,
    pages: Vec<u64>,
}

impl Dedup {
    /// Where the parts of a request are.
    fn runs(&self, at: Extent) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        for here in at.split(PAGE_SECTORS) {
            let page = here.start.page();
            let from = match self.map.borrow().piece(page) {
                None => Source::Nowhere,
                Some(piece) if piece.is_compressed() => Source::Packed(piece),
                Some(piece) => {
                    let piece = Piece { at: self.canary.read_from(page, piece.at), ..piece };
                    let there = self.map.borrow().shape.place(&piece);
                    let start = there.start + here.start.0 % PAGE_SECTORS;
                    Source::There(Extent { start, ..here }, vec![piece])
                }
            };
            match (runs.last_mut(), from) {
                (
                    Some(Run { here: last, from: Source::There(before, pieces) }),
                    Source::There(there, more),
                ) if before.end() == there.start => {
                    last.sectors += here.sectors;
                    before.sectors += there.sectors;
                    pieces.extend(more);
                }
                (_, from) => runs.push(Run { here, from }),
            }
        }
        runs
    }

    /// Reads what a client asks for, which holds the pages.
    pub(super) async fn read_pages(&self, at: Extent, into: &Buffer, how: &Hints) -> Result<(), IoError> {
        let runs = self.runs(at);
        let reads = runs.iter().map(|run| {
            let part = into.cut_sectors(run.here.start.0 - at.start.0, run.here.sectors);
            self.read_run(run, part, how)
        });
        join_all(reads).await.into_iter().collect()
    }

    async fn read_run(&self, Run { here, from }: &Run, into: Buffer, how: &Hints) -> Result<(), IoError> {
        match from {
            Source::Nowhere => {
                edge("a page that is not stored reads as zeroes");
                into.put(0, &vec![0; into.len()]);
            }
            Source::There(there, pieces) => {
                // Only a whole page has a fingerprint.
                let parts = mutant::is("dedup: parts of pages are read without their fingerprints");
                let pages = if parts { *here } else { here.whole_pages() };
                let skip = here.start.0 - pages.start.0;
                let all = if pages == *here {
                    into.clone()
                } else {
                    edge("part of a page is read: all of it is verified");
                    Buffer::zeroed(pages.bytes())
                };
                let there = Extent::new(there.start.0 - skip, pages.sectors);
                self.below.read(there, all.clone(), how.clone()).await?;
                for ((page, bytes), piece) in all.split(pages, PAGE_SECTORS).zip(pieces) {
                    if page.sectors == PAGE_SECTORS && !piece.fingerprint.matches(&bytes) {
                        return Err(changed(page));
                    }
                }
                if pages != *here {
                    all.cut_sectors(skip, here.sectors).look(|bytes| into.put(0, bytes));
                }
            }
            Source::Packed(piece) => {
                edge("a compressed page is read");
                let page = self.load(piece, how).await?.ok_or_else(|| changed(*here))?;
                let first = here.start.0 % PAGE_SECTORS;
                page.cut_sectors(first, here.sectors).look(|bytes| into.put(0, bytes));
            }
        }
        Ok(())
    }

    /// Reads the page in a piece; `None` if it is not what was written.
    async fn load(&self, piece: &Piece, how: &Hints) -> Result<Option<Buffer>, IoError> {
        let there = self.map.borrow().shape.place(piece);
        let read = self.below.read(there, Buffer::zeroed(there.bytes()), how.clone()).await?;
        let page = if piece.is_compressed() { content::decompressed(&read) } else { Some(read) };
        Ok(page.filter(|page| piece.fingerprint.matches(page)))
    }

    /// Writes what a client asks for, which holds the pages.
    pub(super) async fn write_pages(&self, at: Extent, from: &Buffer, how: &Hints) -> Result<(), IoError> {
        let pages = from.split(at, PAGE_SECTORS).map(|(part, bytes)| self.whole(part, bytes, how));
        let pages: Vec<(u64, Buffer)> = join_all(pages).await.into_iter().collect::<Result<_, _>>()?;
        let mut groups: Vec<Group> = Vec::with_capacity(pages.len());
        let mut firsts: BTreeMap<Fingerprint, usize> = BTreeMap::new();
        for (page, bytes) in pages {
            if content::is_zero(&bytes) {
                edge("a page of zeroes is not stored");
                self.remap(page, None);
                continue;
            }
            let fingerprint = self.fingerprint(&bytes);
            let first = firsts.get(&fingerprint).copied();
            if let Some(first) = first.filter(|first| content::are_equal(&groups[*first].bytes, &bytes)) {
                groups[first].pages.push(page);
            } else {
                firsts.insert(fingerprint, groups.len());
                groups.push(Group { fingerprint, bytes, pages: vec![page] });
            }
        }
        let writes = groups.chunks(self.at_once).map(|groups| self.write_groups(groups, how));
        join_all(writes).await.into_iter().collect()
    }

    /// The page of a part that is written, joined with its old contents where the write does not cover it.
    async fn whole(&self, part: Extent, bytes: Buffer, how: &Hints) -> Result<(u64, Buffer), IoError> {
        let (page, whole) = (part.start.page(), part.whole_pages());
        if part == whole {
            return Ok((page, bytes));
        }
        let room = if bytes.is_hollow() { Buffer::hollow(PAGE_BYTES) } else { Buffer::zeroed(PAGE_BYTES) };
        if !mutant::is("dedup: part of a page is merged with zeroes") {
            Box::pin(self.read_pages(whole, &room, how)).await?;
        }
        Ok((page, room.with_sectors(part.start.0 - whole.start.0, bytes)))
    }

    fn fingerprint(&self, bytes: &Buffer) -> Fingerprint {
        let fingerprint = Fingerprint::of(bytes);
        // Or nothing would show that it is trusted.
        if self.canary.is("a fingerprint is trusted") {
            Fingerprint(1 + fingerprint.0 % 16)
        } else {
            fingerprint
        }
    }

    /// Writes contents to their pages: contents that are stored already are shared, others go to new pieces.
    async fn write_groups(&self, groups: &[Group], how: &Hints) -> Result<(), IoError> {
        let mut groups = groups.to_vec();
        while !groups.is_empty() {
            // One content is stored by one request at a time, so that the others find it.
            let _held = self.alone(&groups, how).await;
            let _room = self.room.admit(&Hints::default(), groups.len() as u64).await;
            let found = join_all(groups.iter().map(|group| self.find(group, how))).await;
            let new: Vec<&Group> = groups
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_none())
                .map(|(group, _)| group)
                .collect();
            let mut stored = self.store(&new, how).await.into_iter();
            let mut error = None;
            let mut left = Vec::new();
            for (group, found) in groups.iter().zip(found) {
                match found.map(Ok).or_else(|| stored.next()) {
                    Some(Ok(piece)) => left.extend(self.settle(group, piece)),
                    Some(Err(failed)) => error = error.or(Some(failed)),
                    None => {}
                }
            }
            if let Some(error) = error {
                return Err(error);
            }
            groups = left;
        }
        Ok(())
    }

    /// The pages of a content are in this piece from now on, which counts the first already. Returns the content with
    /// those that are too many for it.
    fn settle(&self, group: &Group, piece: Piece) -> Option<Group> {
        for (number, page) in group.pages.iter().enumerate() {
            if number > 0 {
                if !self.map.borrow_mut().space.share(piece.at) {
                    edge("a piece has as many pages as it may have");
                    return Some(Group { pages: group.pages[number..].to_vec(), ..group.clone() });
                }
                edge("a page of the same request is the same");
                self.found.set(self.found.get() + 1);
            }
            self.remap(*page, Some(piece));
        }
        None
    }

    /// Waits until no other request stores one of these contents.
    async fn alone(&self, groups: &[Group], how: &Hints) -> Vec<Guard> {
        let known = groups.iter().map(|group| group.fingerprint);
        let known: BTreeSet<Fingerprint> = known.filter(|one| *one != Fingerprint::UNKNOWN).collect();
        let storing: Vec<_> = known
            .into_iter()
            .map(|one| self.storing.exclusive(Extent::new(u64::from(one.0), 1), how))
            .collect();
        let mut all = Box::pin(lock_all(storing.into_iter()));
        if let Some(held) = (&mut all).now_or_never() {
            return held;
        }
        edge("two writes of the same content meet");
        all.await
    }

    /// A piece with this content, counted as having one page more, if there is one.
    async fn find(&self, group: &Group, how: &Hints) -> Option<Piece> {
        let Group { fingerprint, bytes, .. } = group;
        let alike = self.map.borrow().alike(*fingerprint);
        for piece in alike {
            let late = mutant::is("dedup: a piece is compared that may be given up meanwhile");
            if late && !self.holds(&piece, bytes, how).await {
                continue;
            }
            if !self.map.borrow_mut().space.share(piece.at) {
                edge("a piece has as many pages as it may have");
                continue;
            }
            if late || self.canary.is("a fingerprint is trusted") || self.holds(&piece, bytes, how).await {
                edge("a page is stored already");
                self.found.set(self.found.get() + 1);
                let is_short =
                    self.canary.is("one page short") && self.map.borrow().space.pages(piece.at) > 1;
                if is_short {
                    self.map.borrow_mut().leave(&piece, false);
                }
                return Some(piece);
            }
            self.map.borrow_mut().leave(&piece, false);
        }
        None
    }

    /// Whether a piece holds these bytes; not, if it cannot be read.
    async fn holds(&self, piece: &Piece, bytes: &Buffer, how: &Hints) -> bool {
        match self.load(piece, how).await {
            Ok(Some(page)) if content::are_equal(&page, bytes) => return true,
            Ok(_) => {
                edge("another page has the same fingerprint");
                self.differed.set(self.differed.get() + 1);
            }
            Err(_) => edge("a piece that may hold the same cannot be read"),
        }
        false
    }

    /// Stores contents in new pieces, each counted as having one page; contiguous ones are written at once.
    async fn store(&self, new: &[&Group], how: &Hints) -> Vec<Result<Piece, IoError>> {
        let (mut stored, mut writes) = (Vec::with_capacity(new.len()), Vec::with_capacity(new.len()));
        for Group { fingerprint, bytes, .. } in new {
            let packed = match self.compress {
                Compress::Lz4 => content::compressed(bytes),
                Compress::None => None,
            };
            let data = packed.unwrap_or_else(|| bytes.clone());
            let sectors = (data.len() as u64 / SECTOR_BYTES) as u32;
            let taken = self.take(sectors, how).await;
            if let Ok(at) = taken {
                if u64::from(at) % PAGE_SECTORS > 0 {
                    edge("compressed pages share a block");
                }
                writes.push((at, stored.len(), data));
            }
            stored.push(taken.map(|at| Piece { at, sectors, fingerprint: *fingerprint }));
        }
        writes.sort_unstable_by_key(|(at, ..)| *at);
        let most = self.below.geometry().largest_sectors;
        let mut runs: Vec<(Extent, Vec<usize>, Vec<Buffer>)> = Vec::new();
        for (at, number, data) in writes {
            let there = self.map.borrow().shape.there(at, data.len() as u64 / SECTOR_BYTES);
            match runs.last_mut() {
                Some((run, numbers, all))
                    if run.end() == there.start && run.sectors + there.sectors <= most =>
                {
                    run.sectors += there.sectors;
                    numbers.push(number);
                    all.push(data);
                }
                _ => runs.push((there, vec![number], vec![data])),
            }
        }
        let written = join_all(runs.into_iter().map(|(run, numbers, all)| async move {
            let (run, data) = self.whole_blocks(run, Buffer::join(all));
            (numbers, self.below.write(run, data, how.clone()).await)
        }));
        for (numbers, done) in written.await {
            for number in numbers {
                self.written(&mut stored[number], &done);
            }
        }
        stored
    }

    /// A canary's: a write of part of a block that is one of all the rest of it.
    fn whole_blocks(&self, run: Extent, data: Buffer) -> (Extent, Buffer) {
        if !self.canary.is("a neighbour is overwritten") {
            return (run, data);
        }
        let sectors = run.end().0.next_multiple_of(PAGE_SECTORS) - run.end().0;
        let more = Buffer::zeroed(sectors * SECTOR_BYTES);
        (Extent { sectors: run.sectors + sectors, ..run }, Buffer::join([data, more]))
    }

    /// A new piece was written, or not.
    fn written(&self, stored: &mut Result<Piece, IoError>, done: &Result<(), IoError>) {
        let Ok(piece) = &*stored else { return };
        match done {
            Err(error) if !mutant::is("dedup: a write that failed counts") => {
                edge("a write failed: its piece is tried last");
                self.map.borrow_mut().avoid(piece.at);
                *stored = Err(error.clone());
            }
            _ => self.map.borrow_mut().begin(piece),
        }
    }

    /// Takes free sectors for a piece; if there are none, the map is written to free some.
    async fn take(&self, sectors: u32, how: &Hints) -> Result<u32, IoError> {
        loop {
            let taken = self.map.borrow_mut().take(sectors);
            if let Some(at) = taken {
                return Ok(at);
            }
            if self.map.borrow().gains() {
                edge("pieces ran out: the map is written to free some");
                Box::pin(self.commit(how)).await?;
            } else if !self.map.borrow_mut().try_avoided() {
                edge("no room is left");
                let why = "found no free space for what is written, expected some: a discard of what is not needed frees it";
                return Err(IoError::new(ErrorKind::NoSpace, "dedup", None, why));
            }
        }
    }

    /// A page is stored in this piece now, in which it is counted already; or in none.
    pub(super) fn remap(&self, page: u64, piece: Option<Piece>) {
        let mut map = self.map.borrow_mut();
        let Some(before) = map.change(page, piece) else { return };
        if !self.committing.is_empty() {
            edge("a page changes while the map is written");
        }
        self.canary.moved(page, before.at);
        map.leave(&before, self.canary.is("early reuse"));
    }
}

/// A page differs from what was written.
fn changed(part: Extent) -> IoError {
    let why =
        "found a page that does not match its fingerprint, expected what was written: restore it from a copy";
    IoError::new(ErrorKind::Corrupt, "dedup", Some(part), why)
}
