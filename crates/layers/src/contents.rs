//! What lies on a device that is to be initialised: zeroes, the rest of an interrupted creation, or something that may
//! be somebody's.

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, PAGE_BYTES, PAGE_SECTORS};

const PAGE: usize = PAGE_BYTES as usize;
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
    ("a member of an array (raid4)", 0, b"SKLRAID1"),
    ("a member of an array (raid4)", 4_096, b"SKLRAID1"),
    ("the log of an array (raid4)", 0, b"SKLRAIDJ"),
    ("the flash of a proximal volume", 0, b"SKLPROX1"),
    ("the disk of a proximal volume", 0, b"SKLPROXD"),
];

/// Contents of the beginning of a device, if more than zeroes and pages of an unfinished BOPT.
fn known(begin: &[u8], end: &[u8]) -> Option<&'static str> {
    let known = SIGNATURES.iter().find(|(_, at, bytes)| begin.get(*at..*at + bytes.len()) == Some(*bytes));
    let ours = |page: &[u8]| {
        [b"SKLBORGM", b"SKLBORG3"].iter().any(|magic| page.starts_with(*magic))
            || page.iter().all(|byte| *byte == 0)
    };
    let data = !begin.chunks(PAGE).chain(end.chunks(PAGE)).all(ours);
    known.map(|(name, ..)| *name).or(data.then_some("data"))
}

/// Its first and last pages, in which contents are looked for.
pub fn ends(device: &dyn BlockDevice) -> [Extent; 2] {
    let pages = device.geometry().sectors / PAGE_SECTORS;
    let some = LOOKED_AT.min(pages);
    [Extent::of_pages(0, some), Extent::of_pages(pages - some, some)]
}

/// Contents of a device by its first and last pages, if they are more than zeroes and pages of an unfinished BOPT.
pub async fn found(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    let mut read = Vec::new();
    for at in ends(device) {
        read.push(device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec());
    }
    Ok(known(&read[0], &read[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_and_what_was_not_finished_are_nothing() {
        let mut begin = vec![0; 16 * PAGE];
        assert_eq!(known(&begin, &[0; PAGE]), None);
        begin[3 * PAGE..][..8].copy_from_slice(b"SKLBORGM");
        assert_eq!(known(&begin, &[]), None);
        begin[5 * PAGE + 77] = 1;
        assert_eq!(known(&begin, &[]), Some("data"));
        begin[1_080..1_082].copy_from_slice(b"\x53\xef");
        assert_eq!(known(&begin, &[]), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(known(&[0; PAGE], &[1; PAGE]), Some("data"));
    }
}
