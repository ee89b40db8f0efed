//! A new BOPT, where nobody needs what is there.
//!
//! Invariants: nothing is overwritten but zeroes and what a creation that did not end has left, unless it is told to
//! be; a BOPT passes for one only when all of it is there. Faults: whoever is interrupted begins anew.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Layer, PAGE_SECTORS};

use super::store::PAGE;
use super::{Borg, Options};

/// Pages at both ends in which file systems, partition tables and the like have their signatures.
const LOOKED_AT: u64 = 33;

/// What is known by some bytes at a place.
const SIGNATURES: &[(&str, usize, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 1_080, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 65_600, b"_BHRfS_M"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an encrypted device (LUKS)", 0, b"LUKS\xba\xbe"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an LVM volume", 512, b"LABELONE"),
    ("a member of an array (md)", 0, b"\xfc\x4e\x2b\xa9"),
    ("a member of an array (md)", 4_096, b"\xfc\x4e\x2b\xa9"),
    ("a swap area", 4_086, b"SWAPSPACE2"),
    ("an MBR partition table or a FAT file system", 510, b"\x55\xaa"),
    ("a BOPT", 0, b"SKLBORGS"),
    ("a BOPT", 4_096, b"SKLBORGS"),
    ("a BOPT", 0, b"SKLBORG2"),
    ("a BOPT", 4_096, b"SKLBORG2"),
];

/// What bytes at the beginning of a device are, if they are more than zeroes and pages of a BOPT that was not finished.
fn found(begin: &[u8], end: &[u8]) -> Option<&'static str> {
    let known = SIGNATURES.iter().find(|(_, at, bytes)| begin.get(*at..*at + bytes.len()) == Some(*bytes));
    let ours = |page: &[u8]| {
        [b"SKLBORGM", b"SKLBORG3"].iter().any(|magic| page.starts_with(*magic))
            || page.iter().all(|byte| *byte == 0)
    };
    let data = !begin.chunks(PAGE).chain(end.chunks(PAGE)).all(ours);
    known.map(|(name, ..)| *name).or(data.then_some("data"))
}

impl Borg {
    /// Makes a BOPT of version 1 one of version 2, which programs of before do not open any more. One of version 2
    /// stays as it is. Fails as opening does, or as its devices do: then it is of one version or the other, and can be
    /// opened and upgraded again.
    pub async fn upgrade(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
    ) -> Result<(), IoError> {
        let borg = Borg::open(origin, bopt, options, false).await?;
        if !borg.store.is_old() {
            return Ok(());
        }
        let how = Hints::default();
        borg.store.begin_mapping(&how).await?;
        Layer::stop(&*borg).await?;
        borg.store.upgrade(&how).await
    }

    /// Creates a BOPT for `origin` in `bopt`, empty, and stops clean. What is there is refused, unless `replace`: then
    /// it is given up, a BOPT with newer pages too. Returns the identity of the new one.
    pub async fn create_anew(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        replace: bool,
    ) -> Result<Option<u128>, IoError> {
        let pages = bopt.geometry().sectors / PAGE_SECTORS;
        let begin = Extent::of_pages(0, LOOKED_AT.min(pages));
        let end = Extent::of_pages(pages - LOOKED_AT.min(pages), LOOKED_AT.min(pages));
        let how = Hints::default();
        let read = async |at: Extent| {
            Ok::<_, IoError>(bopt.read(at, Buffer::zeroed(at.bytes()), how.clone()).await?.to_vec())
        };
        if let Some(found) = found(&read(begin).await?, &read(end).await?) {
            if !replace {
                let why = format!("found {found}, expected zeroes: --replace gives up what is there");
                return Err(IoError::new(ErrorKind::Invalid, "bopt", Some(begin), why));
            }
            for at in [begin, end] {
                bopt.write(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
            }
            bopt.flush(how.clone()).await?;
        }
        let borg = Borg::create(origin, bopt, options, false).await?;
        borg.store.begin_mapping(&how).await?;
        Layer::stop(&*borg).await?;
        Ok(borg.identity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_and_what_was_not_finished_are_nothing() {
        let mut begin = vec![0; 16 * PAGE];
        assert_eq!(found(&begin, &[0; PAGE]), None);
        begin[3 * PAGE..][..8].copy_from_slice(b"SKLBORGM");
        assert_eq!(found(&begin, &[]), None);
        begin[5 * PAGE + 77] = 1;
        assert_eq!(found(&begin, &[]), Some("data"));
        begin[1_080..1_082].copy_from_slice(b"\x53\xef");
        assert_eq!(found(&begin, &[]), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(found(&[0; PAGE], &[1; PAGE]), Some("data"));
    }
}
