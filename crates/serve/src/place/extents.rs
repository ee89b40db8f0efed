//! Extents of a file on its block device (`FIEMAP`).

use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use seekless_core::SECTOR_BYTES;

use super::Piece;

/// Most extents of a file: a model of more would be slow, and such a file moves soon.
const MOST: usize = 65_536;
/// Extents in one call.
const EACH: usize = 256;

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;
/// Flags of extents without a place of their own: its place is unknown, not chosen yet, compressed or encrypted there,
/// not of whole blocks, within metadata, or shared with another file and left at the next write.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x2000;

/// `struct fiemap` of the kernel without its extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

/// `struct fiemap_extent` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FileExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    header: Header,
    extents: [FileExtent; EACH],
}

/// `FS_IOC_FIEMAP`: its number has the size of the header alone.
const FIEMAP: Opcode = opcode::read_write::<Header>(b'f', 11);

/// Extents of a file from this byte on.
#[allow(unsafe_code)]
fn some(file: &File, from: u64, bytes: u64) -> Result<Vec<FileExtent>, Errno> {
    let header = Header { start: from, length: bytes - from, room: EACH as u32, ..Header::default() };
    let mut map = Box::new(Fiemap { header, extents: [FileExtent::default(); EACH] });
    // SAFETY: this number takes a `struct fiemap` with room for as many extents behind it as `fm_extent_count` (`room`)
    // says; `Fiemap` has that layout and room, and every bit pattern is a valid value of its fields.
    unsafe { ioctl(file, Updater::<FIEMAP, Fiemap>::new(&mut map)) }?;
    Ok(map.extents[..EACH.min(map.header.mapped as usize)].to_vec())
}

/// The extents of the first `sectors` sectors of a file on its block device, in the order of the file.
///
/// # Errors
/// Why they are not known, in words.
pub fn of_file(file: &File, sectors: u64) -> Result<Vec<Piece>, String> {
    let bytes = sectors * SECTOR_BYTES;
    let mut placed = Placed::new(bytes);
    while placed.next < bytes {
        let found = some(file, placed.next, bytes)
            .map_err(|error| format!("a file whose file system lists no extents ({error})"))?;
        let before = placed.next;
        let all = found.iter().try_fold(false, |_, extent| {
            placed.put(extent)?;
            Ok::<bool, String>(extent.flags & LAST != 0)
        })?;
        if all || found.is_empty() || placed.next == before {
            break;
        }
    }
    placed.all()
}

/// Extents found so far.
struct Placed {
    pieces: Vec<Piece>,
    /// Bytes to find.
    bytes: u64,
    /// The first byte after the extents found.
    next: u64,
    /// Bytes that have a place.
    with: u64,
}

impl Placed {
    fn new(bytes: u64) -> Placed {
        Placed { pieces: Vec::new(), bytes, next: 0, with: 0 }
    }

    /// Takes the next extent.
    fn put(&mut self, found: &FileExtent) -> Result<(), String> {
        let odd = || "a file with extents that overlap or are no whole sectors".to_owned();
        let whole = [found.logical, found.physical, found.length].iter().all(|byte| byte % SECTOR_BYTES == 0);
        let end = found.logical.checked_add(found.length).ok_or_else(odd)?;
        if found.flags & NO_PLACE != 0 {
            self.next = self.next.max(end);
            return Ok(());
        }
        // The first of a call may begin before what was asked for.
        let skipped = self.next.saturating_sub(found.logical);
        if !whole || skipped >= found.length {
            return Err(odd());
        }
        let bytes = (found.length - skipped).min(self.bytes.saturating_sub(found.logical + skipped));
        let start = found.physical.checked_add(skipped).ok_or_else(odd)? / SECTOR_BYTES;
        let sectors = bytes / SECTOR_BYTES;
        (self.next, self.with) = (end, self.with + bytes);
        let full = self.pieces.len() == MOST;
        match self.pieces.last_mut() {
            _ if sectors == 0 => {}
            Some(last) if last.start + last.sectors == start => last.sectors += sectors,
            _ if full => {
                return Err(format!("a file in more than {MOST} pieces"));
            }
            _ => self.pieces.push(Piece { start, sectors }),
        }
        Ok(())
    }

    /// The pieces, if all bytes have a place.
    fn all(self) -> Result<Vec<Piece>, String> {
        let without = self.bytes - self.with.min(self.bytes);
        if without == 0 {
            return Ok(self.pieces);
        }
        let pct = without as f64 * 100.0 / self.bytes as f64;
        Err(format!("a file of which {pct:.1}% have no place on its disk yet (fallocate gives it one)"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes near block borders, and any.
    fn byte() -> impl Strategy<Value = u64> {
        prop_oneof![(0..64_u64).prop_map(|block| block * 4_096), 0..300_000_u64, any::<u64>()]
    }

    proptest! {
        /// Whatever a file system lists: either there is a reason, or each sector has one place.
        #[test]
        fn any_extents_are_a_place_for_all_sectors_or_a_reason(
            sectors in 1..512_u64,
            all in prop::collection::vec(
                (byte(), byte(), byte(), prop_oneof![3 => Just(0_u32), 1 => any::<u32>()]),
                0..8,
            ),
        ) {
            let all: Vec<FileExtent> =
                all.into_iter().map(|(logical, physical, length, flags)| found(logical, physical, length, flags)).collect();
            if let Ok(pieces) = placed(sectors * SECTOR_BYTES, &all) {
                prop_assert_eq!(pieces.iter().map(|piece| piece.sectors).sum::<u64>(), sectors);
                prop_assert!(pieces.iter().all(|piece| piece.sectors > 0));
            }
        }
    }

    fn found(logical: u64, physical: u64, length: u64, flags: u32) -> FileExtent {
        FileExtent { logical, physical, length, flags, ..FileExtent::default() }
    }

    fn placed(bytes: u64, all: &[FileExtent]) -> Result<Vec<Piece>, String> {
        let mut placed = Placed::new(bytes);
        all.iter().try_for_each(|extent| placed.put(extent))?;
        placed.all()
    }

    #[test]
    fn adjacent_extents_are_one_piece_and_what_lies_behind_the_end_is_left_out() {
        let pieces = placed(
            20_480,
            &[
                found(0, 40_960, 4_096, 0),
                found(4_096, 45_056, 4_096, 0x800),
                found(8_192, 4_096, 16_384, LAST),
            ],
        );
        assert_eq!(pieces, Ok(vec![Piece { start: 80, sectors: 16 }, Piece { start: 8, sectors: 24 }]));
    }

    #[test]
    fn a_hole_and_an_extent_without_a_place_are_no_place() {
        let hole = placed(16_384, &[found(0, 40_960, 4_096, 0), found(8_192, 8_192, 8_192, LAST)]);
        assert_eq!(
            hole,
            Err("a file of which 25.0% have no place on its disk yet (fallocate gives it one)".to_owned())
        );
        for flag in [0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x2000] {
            let delayed = placed(8_192, &[found(0, 40_960, 4_096, 0), found(4_096, 0, 4_096, flag | LAST)]);
            assert!(delayed.is_err_and(|why| why.contains("50.0%")), "{flag:#x}");
        }
        assert!(placed(4_096, &[]).is_err());
    }

    #[test]
    fn extents_that_no_file_system_has_are_refused() {
        for all in [
            vec![found(0, 40_961, 4_096, 0)],
            vec![found(0, 40_960, 4_096, 0), found(0, 8_192, 4_096, 0)],
            vec![found(512, u64::MAX - 511, u64::MAX - 511, 0)],
        ] {
            let refused = placed(1 << 20, &all).unwrap_err();
            assert!(refused.contains("overlap"), "{refused}");
        }
    }

    #[test]
    fn a_file_in_too_many_pieces_has_no_place() {
        let all: Vec<FileExtent> =
            (0..=MOST as u64).map(|n| found(n * 4_096, n * 16_384, 4_096, 0)).collect();
        assert_eq!(placed(MOST as u64 * 4_096, &all[..MOST]).map(|pieces| pieces.len()), Ok(MOST));
        assert!(placed(all.len() as u64 * 4_096, &all).unwrap_err().contains("more than 65536 pieces"));
    }
}
