//! Structures larger than the device's requests.

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError};

/// Reads an extent, in requests that the device accepts.
pub async fn read(device: &dyn BlockDevice, at: Extent) -> Result<Buffer, IoError> {
    let bytes = Buffer::zeroed(at.bytes());
    for (part, piece) in bytes.split(at, device.geometry().largest_sectors) {
        device.read(part, piece, Hints::default()).await?;
    }
    Ok(bytes)
}

/// Writes an extent, in requests that the device accepts.
pub async fn write(device: &dyn BlockDevice, at: Extent, bytes: &Buffer, how: &Hints) -> Result<(), IoError> {
    for (part, piece) in bytes.split(at, device.geometry().largest_sectors) {
        device.write(part, piece, how.clone()).await?;
    }
    Ok(())
}
