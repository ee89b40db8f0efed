//! Sequences kept over restarts, in an area that the volume file names: two copies, written in turn
//! ([`blob`]).
//!
//! A copy: features, the sectors of the volume, and up to 16 pages that belong to sequences with their checksums; then
//! the sequences (see [`crate::pattern`]). Sequences are guesses: nothing but time depends on them.
//!
//! Fault model: a copy that is torn, rotten or cannot be read is ignored, and the other one, which may be older, is
//! used; without one, learning begins anew. The same if none of the pages is as it was: then the area belongs to
//! another volume of this size, or every program was replaced. An area of a volume of another size, or with other
//! contents at either end, is refused. A write of the area that fails is repeated with the next ones.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES,
    checksum,
};

use crate::bytes::{put, u32_at, u64_at};
use crate::contents;
use crate::durable;
use crate::durable::blob::{self, Head};
use crate::durable::region;
use crate::durable::sector::Part;
use crate::pattern::{Bounds, Sequences};

const MAGIC: [u8; 8] = *b"SKLSEQS1";
/// Pages that show which volume it is.
pub const WITNESSES: usize = 16;
/// Bytes before the sequences: features, number of witnesses, sectors, and the witnesses.
const HEADER: usize = FIRST_WITNESS + WITNESSES * 16;
const SECTORS_AT: usize = 8;
const FIRST_WITNESS: usize = 16;

/// The area.
pub struct Kept {
    area: Rc<dyn BlockDevice>,
    /// Sectors of a copy.
    copy_sectors: u64,
    /// Copy and generation of the last write.
    last: (u64, u64),
    /// Whether nothing there shows that the area is one of sequences.
    is_blank: bool,
}

fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, "sequences", Some(Extent::new(0, 1)), why)
}

fn part() -> Part {
    Part::of(MAGIC, 0)
}

impl Kept {
    /// The area, and the sequences of the volume `of` that it holds; the second is `None` if it holds none that can be
    /// used.
    ///
    /// # Errors
    /// `Invalid` for an area of another volume or of something else, and the devices' errors.
    pub async fn open(
        area: Rc<dyn BlockDevice>,
        of: &dyn BlockDevice,
        bounds: Bounds,
        timing_only: bool,
    ) -> Result<(Kept, Option<Sequences>), IoError> {
        let copy_sectors = area.geometry().sectors / 2 / PAGE_SECTORS * PAGE_SECTORS;
        if copy_sectors < PAGE_SECTORS {
            let found = area.geometry().sectors;
            return Err(refused(format!("found an area of {found} sectors, expected 16 or more")));
        }
        let mut kept = Kept { area, copy_sectors, last: (1, 0), is_blank: true };
        let Some(bytes) = kept.newest().await? else { return Ok((kept, None)) };
        if bytes.len() < HEADER || u32_at(&bytes, 0) != 0 {
            return Err(refused("found sequences of a later version, expected those of this one".to_owned()));
        }
        let (theirs, sectors) = (u64_at(&bytes, SECTORS_AT), of.geometry().sectors);
        if theirs != sectors {
            return Err(refused(format!(
                "found the sequences of another volume, of {theirs} sectors, expected those of this one, of {sectors}: an \
                 area of zeroes begins anew"
            )));
        }
        if !timing_only && !is_of(&bytes, of).await? {
            edge("the sequences are of another volume");
            return Ok((kept, None));
        }
        let sequences = bytes.get(HEADER..).unwrap_or_default();
        Ok((kept, Sequences::decode(sequences, bounds, sectors / PAGE_SECTORS).ok()))
    }

    /// The bytes of the newest whole copy; `None` if there is none, in an area of sequences or of zeroes.
    async fn newest(&mut self) -> Result<Option<Vec<u8>>, IoError> {
        let (mut found, mut ours, mut other) = (Vec::new(), false, false);
        for copy in 0..2 {
            let at = self.copy(copy, 1);
            let Some(first) = region::readable(&*self.area, at).await? else {
                other = true;
                continue;
            };
            let first = first.to_vec();
            let head = blob::head(MAGIC, part(), at.start, &first);
            ours |= head != Head::Other || durable::is_unfinished(&first);
            other |= first.iter().any(|byte| *byte != 0);
            let Head::Whole { generation, length } = head else { continue };
            self.last.1 = self.last.1.max(generation);
            if length > blob::room(self.copy_sectors) {
                continue;
            }
            let all = region::readable(&*self.area, self.copy(copy, blob::sectors(length))).await?;
            let open = |all: Buffer| all.look(|all| blob::open(part(), at.start, generation, all));
            found.extend(all.and_then(open).map(|bytes| (generation, copy, bytes)));
        }
        let other = !ours && (other || contents::found(&*self.area).await?.is_some());
        self.is_blank = !ours;
        if other {
            let why = "found other data in the area of sequences, expected sequences or zeroes";
            return Err(refused(why.to_owned()));
        }
        if ours && found.len() < 2 {
            edge("a copy of the sequences is not whole");
        }
        let newest = found.into_iter().max_by_key(|(generation, ..)| *generation);
        Ok(newest.map(|(_, copy, bytes)| {
            self.last.0 = copy;
            bytes
        }))
    }

    /// The first sectors of a copy.
    fn copy(&self, copy: u64, sectors: u64) -> Extent {
        Extent::new(copy * self.copy_sectors, sectors)
    }

    /// Most bytes of sequences.
    pub fn room(&self) -> u64 {
        blob::room(self.copy_sectors) - HEADER as u64
    }

    /// Writes the sequences, encoded, of the volume `of` over the older copy. `witnesses` are pages that belong to
    /// them.
    ///
    /// # Errors
    /// Those of the devices.
    pub async fn write(
        &mut self,
        encoded: &[u8],
        witnesses: &[u64],
        of: &dyn BlockDevice,
    ) -> Result<(), IoError> {
        let how = Hints { class: Class::Background, ..Hints::default() };
        let mut bytes = vec![0; HEADER];
        put(&mut bytes, 4, &(witnesses.len().min(WITNESSES) as u32).to_le_bytes());
        put(&mut bytes, SECTORS_AT, &of.geometry().sectors.to_le_bytes());
        for (page, at) in witnesses.iter().take(WITNESSES).zip((FIRST_WITNESS..).step_by(16)) {
            put(&mut bytes, at, &page.to_le_bytes());
            put(&mut bytes, at + 8, &sum_of(of, *page, &how).await?.to_le_bytes());
        }
        bytes.extend(encoded);
        let (copy, generation) = (1 - self.last.0, self.last.1 + 1);
        if self.is_blank {
            // A crash may leave any part of a copy, without its head: this shows that the area is not another's.
            let mark = Buffer::from_vec(durable::unfinished());
            self.area.write(self.copy(1 - copy, 1), mark, how.clone()).await?;
            self.area.flush(how.clone()).await?;
            self.is_blank = false;
        }
        let at = self.copy(copy, blob::sectors(bytes.len() as u64));
        let sectors = blob::seal(MAGIC, part(), at.start, generation, &bytes);
        // Its sectors are not reused, whether it succeeds or not.
        self.last.1 = generation;
        region::write(&*self.area, at, &Buffer::from_vec(sectors), &how).await?;
        self.area.flush(how).await?;
        self.last.0 = copy;
        Ok(())
    }

    /// Gives the area up: nothing in it is found any more, but that it is one of sequences.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn give_up(&self) -> Result<(), IoError> {
        for (copy, sector) in
            [Buffer::from_vec(durable::unfinished()), Buffer::zeroed(SECTOR_BYTES)].into_iter().enumerate()
        {
            self.area.write(self.copy(copy as u64, 1), sector, Hints::default()).await?;
        }
        self.area.flush(Hints::default()).await
    }
}

async fn sum_of(of: &dyn BlockDevice, page: u64, how: &Hints) -> Result<u32, IoError> {
    let read = of.read(Extent::of_pages(page, 1), Buffer::zeroed(PAGE_BYTES), how.clone()).await?;
    Ok(read.look(checksum::crc32c))
}

/// Whether one of the witnesses is as it was, or there are none.
async fn is_of(bytes: &[u8], of: &dyn BlockDevice) -> Result<bool, IoError> {
    let many = u32_at(bytes, 4) as usize;
    for at in (FIRST_WITNESS..).step_by(16).take(many.min(WITNESSES)) {
        let page = u64_at(bytes, at);
        if page >= of.geometry().sectors / PAGE_SECTORS {
            continue;
        }
        let read = region::readable(of, Extent::of_pages(page, 1)).await?;
        if read.is_some_and(|read| read.look(checksum::crc32c) == u32_at(bytes, at + 8)) {
            return Ok(true);
        }
    }
    Ok(many == 0)
}
