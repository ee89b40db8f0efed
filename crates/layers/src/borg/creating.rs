//! Creation of a BOPT, where existing contents are not needed.
//!
//! Invariants: only zeroes and the rest of an interrupted creation are overwritten, unless replacing is requested; a
//! BOPT is valid only when complete. Faults: an interrupted creation is restarted.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Layer, PAGE_SECTORS};

use super::store::PAGE;
use super::{Borg, Options};

/// Pages at both ends in which file systems, partition tables and the like have their signatures.
const LOOKED_AT: u64 = 33;

/// A signature: its name, offset and bytes.
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

/// Contents of the beginning of a device, if more than zeroes and pages of an unfinished BOPT.
fn found(begin: &[u8], end: &[u8]) -> Option<&'static str> {
    let known = SIGNATURES.iter().find(|(_, at, bytes)| begin.get(*at..*at + bytes.len()) == Some(*bytes));
    let ours = |page: &[u8]| {
        [b"SKLBORGM", b"SKLBORG3"].iter().any(|magic| page.starts_with(*magic))
            || page.iter().all(|byte| *byte == 0)
    };
    let data = !begin.chunks(PAGE).chain(end.chunks(PAGE)).all(ours);
    known.map(|(name, ..)| *name).or(data.then_some("data"))
}

/// Both ends of a BOPT, where something would be found.
fn ends(bopt: &dyn BlockDevice) -> [Extent; 2] {
    let pages = bopt.geometry().sectors / PAGE_SECTORS;
    let looked_at = LOOKED_AT.min(pages);
    [Extent::of_pages(0, looked_at), Extent::of_pages(pages - looked_at, looked_at)]
}

async fn blank(bopt: &dyn BlockDevice, ends: [Extent; 2]) -> Result<(), IoError> {
    for at in ends {
        bopt.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
    }
    bopt.flush(Hints::default()).await
}

impl Borg {
    /// Overwrites both ends of a BOPT that was given up, so that nothing is found there.
    pub(super) async fn blank_ends(&self) -> Result<(), IoError> {
        blank(&*self.bopt, ends(&*self.bopt)).await
    }

    /// Upgrades a BOPT from version 1 to version 2, which older programs do not open. One of version 2 is unchanged.
    /// Fails as opening does, or with its devices' errors: then it is of either version, and can be opened and upgraded
    /// again.
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

    /// Creates an empty BOPT for `origin` in `bopt`, and stops clean. Existing contents are refused, unless `replace`:
    /// then they are given up, even a BOPT with dirty pages. Returns the new identity.
    pub async fn format_new(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        replace: bool,
    ) -> Result<Option<u128>, IoError> {
        let [begin, end] = ends(&*bopt);
        let how = Hints::default();
        let read = async |at: Extent| {
            Ok::<_, IoError>(bopt.read(at, Buffer::zeroed(at.bytes()), how.clone()).await?.to_vec())
        };
        if let Some(found) = found(&read(begin).await?, &read(end).await?) {
            if !replace {
                let why = format!("found {found}, expected zeroes: --replace discards the present contents");
                return Err(IoError::new(ErrorKind::Invalid, "bopt", Some(begin), why));
            }
            blank(&*bopt, [begin, end]).await?;
        }
        let borg = Borg::open_creating(origin, bopt, options, false).await?;
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
