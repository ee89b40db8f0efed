//! Structures larger than the device's requests.

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, SECTOR_BYTES};

/// Reads an extent, in requests that the device accepts.
pub async fn read(device: &dyn BlockDevice, at: Extent) -> Result<Buffer, IoError> {
    let bytes = Buffer::zeroed(at.bytes());
    for (part, piece) in bytes.split(at, device.geometry().largest_sectors) {
        device.read(part, piece, Hints::default()).await?;
    }
    Ok(bytes)
}

/// As [`read`]; `None` if some of it cannot be read.
pub async fn readable(device: &dyn BlockDevice, at: Extent) -> Result<Option<Buffer>, IoError> {
    match read(device, at).await {
        Err(error) if error.is_medium_error() => Ok(None),
        read => read.map(Some),
    }
}

/// What sectors that cannot be read are taken to hold: no structure begins so, and no checksum matches.
const UNREADABLE: u8 = 0xdb;

/// Whether more than one of these sectors could not be read.
pub fn are_lost(bytes: &[u8]) -> bool {
    let sectors = bytes.chunks(SECTOR_BYTES as usize);
    sectors.filter(|sector| sector.iter().all(|byte| *byte == UNREADABLE)).count() > 1
}

/// As [`read`], but sectors that cannot be read count as rotten: a structure with two copies, or with parity, is
/// repaired from what is left, and a drive replaces such a sector when it is written. Also returns the first error.
pub async fn read_damaged(
    device: &dyn BlockDevice,
    at: Extent,
) -> Result<(Buffer, Option<IoError>), IoError> {
    let (bytes, mut first) = (Buffer::zeroed(at.bytes()), None);
    let mut left: Vec<Extent> = at.split(device.geometry().largest_sectors).collect();
    left.reverse();
    while let Some(part) = left.pop() {
        let piece = bytes.cut_sectors(part.start.0 - at.start.0, part.sectors);
        match device.read(part, piece.clone(), Hints::default()).await {
            Ok(_) => {}
            Err(error) if !error.is_medium_error() => return Err(error),
            Err(error) if part.sectors == 1 => {
                piece.put(0, &[UNREADABLE; SECTOR_BYTES as usize]);
                first.get_or_insert(error);
            }
            Err(_) => {
                let half = part.sectors / 2;
                left.push(Extent { start: part.start + half, sectors: part.sectors - half });
                left.push(Extent { sectors: half, ..part });
            }
        }
    }
    Ok((bytes, first))
}

/// Writes an extent, in requests that the device accepts.
pub async fn write(device: &dyn BlockDevice, at: Extent, bytes: &Buffer, how: &Hints) -> Result<(), IoError> {
    for (part, piece) in bytes.split(at, device.geometry().largest_sectors) {
        device.write(part, piece, how.clone()).await?;
    }
    Ok(())
}
