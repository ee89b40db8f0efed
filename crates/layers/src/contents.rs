//! What lies on a device that is to be initialised: zeroes, the rest of an interrupted creation, or something that may
//! be somebody's.
//!
//! Invariant: without `replace`, only zeroes and what an interrupted creation left are overwritten.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Layer, PAGE_SECTORS};

use crate::durable;

/// Pages at both ends in which file systems, partition tables and the like have their signatures.
const LOOKED_AT: u64 = 33;
/// Sectors that are compared or zeroed at once: 1 MiB.
const AT_ONCE: u64 = 2_048;

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
    ("the log of an array (raid4)", 0, b"SKLRAIDL"),
    ("a member of a mirror", 0, b"SKLMIRR1"),
    ("a member of a mirror", 4_096, b"SKLMIRR1"),
    ("a member of a mirror", 8_192, b"SKLMIRR1"),
    ("a member of a mirror", 12_288, b"SKLMIRR1"),
    ("the flash of a proximal volume", 0, b"SKLPROX1"),
    ("the disk of a proximal volume", 0, b"SKLPROXD"),
    ("the fast device of a hybrid drive", 0, b"SKLHYBR1"),
    ("the slow device of a hybrid drive", 0, b"SKLHYBRD"),
    ("the volume of a dedup", 0, b"SKLDEDU1"),
    ("the volume of a hot", 0, b"SKLHOTV1"),
    ("the volume of a defrag", 0, b"SKLDFRG1"),
    ("the volume of a replicas", 0, b"SKLREPL1"),
    ("the volume of a mapper", 0, b"SKLMAP01"),
    ("the volume of a mapper", 0, b"SKLMAP02"),
    ("the volume of an lld", 0, b"SKLLLDCP"),
    ("the volume of an lld", 0, b"SKLLLDC2"),
];

/// Contents of the beginning of a device, if more than zeroes.
fn known(begin: &[u8], end: &[u8]) -> Option<&'static str> {
    let known = SIGNATURES.iter().find(|(_, at, bytes)| begin.get(*at..*at + bytes.len()) == Some(*bytes));
    let data = begin.iter().chain(end).any(|byte| *byte != 0);
    known.map(|(name, ..)| *name).or(data.then_some("data"))
}

/// Its first and last pages, in which contents are looked for.
pub fn ends(device: &dyn BlockDevice) -> [Extent; 2] {
    let pages = device.geometry().sectors / PAGE_SECTORS;
    let some = LOOKED_AT.min(pages);
    [Extent::of_pages(0, some), Extent::of_pages(pages - some, some)]
}

/// Contents of a device by its first and last pages, if they are more than zeroes.
pub async fn found(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    let mut read = Vec::new();
    for at in ends(device) {
        read.push(device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec());
    }
    Ok(known(&read[0], &read[1]))
}

/// Whether a device holds nothing, or what a creation left that was cut short.
pub async fn is_left(device: &dyn BlockDevice) -> Result<bool, IoError> {
    let first = Extent::of_pages(0, 1);
    let page = device.read(first, Buffer::zeroed(first.bytes()), Hints::default()).await?;
    Ok(page.look(durable::is_unfinished) || found(device).await?.is_none())
}

/// A device that is to be initialised.
pub struct New<'a> {
    /// Key in the volume file.
    pub key: &'static str,
    /// The device.
    pub device: &'a dyn BlockDevice,
    /// Its metadata, besides both ends of the device.
    pub metadata: Extent,
    /// Contents, as [`found`] names them, that an unfinished creation leaves here.
    pub leaves: Option<&'static str>,
}

/// Creates a volume on one device, which `open` opens as a new one. Existing contents are refused, unless `replace`:
/// then their metadata is given up. Returns the new identity.
///
/// # Errors
/// `Invalid` for contents that are refused, those of `open`, and the device's errors.
pub async fn create<L: Layer>(
    over: Rc<dyn BlockDevice>,
    replace: bool,
    open: impl AsyncFnOnce(Rc<dyn BlockDevice>) -> Result<Rc<L>, IoError>,
) -> Result<Option<u128>, IoError> {
    let new = New { key: "over", device: &*over, metadata: Extent::new(0, 0), leaves: None };
    claim(&[new], false, replace).await?;
    let volume = open(over).await?;
    volume.stop().await?;
    Ok(volume.identity())
}

/// Begins a creation: makes devices ready to be initialised, and marks their first pages. The creation is unfinished
/// while the first device has its mark, or if `unfinished`: then the next one overwrites what it left. The layer's last
/// write of a creation has to overwrite that mark, and an earlier one those of the other devices.
///
/// Other contents are refused, unless `replace`: then they are zeroed.
///
/// # Errors
/// `Invalid` for contents, and the devices' errors.
pub async fn claim(devices: &[New<'_>], unfinished: bool, replace: bool) -> Result<(), IoError> {
    let (first, how) = (Extent::of_pages(0, 1), Hints::default());
    let (mut unfinished, mut used) = (unfinished, Vec::new());
    for (number, New { key, device, metadata, leaves }) in devices.iter().enumerate() {
        let page = device.read(first, Buffer::zeroed(first.bytes()), how.clone()).await?;
        let is_marked = page.look(durable::is_unfinished);
        unfinished |= number == 0 && is_marked;
        let mut contents = found(*device).await?;
        if contents.is_none() && !is_zero(*device, *metadata).await? {
            contents = Some("data");
        }
        let Some(contents) = contents else { continue };
        let is_left = is_marked || unfinished && *leaves == Some(contents);
        if !replace && !is_left {
            let why = format!("found {contents}, expected zeroes: --replace discards the present contents");
            return Err(IoError::new(ErrorKind::Invalid, *key, Some(first), why));
        }
        used.push((*device, *metadata));
    }
    for New { device, .. } in devices {
        let page = Buffer::zeroed(first.bytes());
        page.put(0, &durable::unfinished());
        device.write(first, page, how.clone()).await?;
        device.flush(how.clone()).await?;
    }
    for (device, metadata) in used {
        for at in ends(device).into_iter().chain([metadata]).flat_map(|at| parts(device, at)) {
            // Behind the mark.
            let skipped = first.end().0.saturating_sub(at.start.0).min(at.sectors);
            let at = Extent { start: at.start + skipped, sectors: at.sectors - skipped };
            if at.sectors > 0 {
                device.write(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
            }
        }
        device.flush(how.clone()).await?;
    }
    Ok(())
}

fn parts(device: &dyn BlockDevice, at: Extent) -> impl Iterator<Item = Extent> {
    at.split(device.geometry().largest_sectors.min(AT_ONCE))
}

async fn is_zero(device: &dyn BlockDevice, at: Extent) -> Result<bool, IoError> {
    for part in parts(device, at) {
        let read = device.read(part, Buffer::zeroed(part.bytes()), Hints::default()).await?;
        if read.look(|bytes| bytes.iter().any(|byte| *byte != 0)) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = seekless_core::PAGE_BYTES as usize;

    #[test]
    fn contents_are_named_and_zeroes_are_none() {
        let mut begin = vec![0; 16 * PAGE];
        assert_eq!(known(&begin, &[0; PAGE]), None);
        begin[5 * PAGE + 77] = 1;
        assert_eq!(known(&begin, &[]), Some("data"));
        begin[1_080..1_082].copy_from_slice(b"\x53\xef");
        assert_eq!(known(&begin, &[]), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(known(&[0; PAGE], &[1; PAGE]), Some("data"));
    }
}
